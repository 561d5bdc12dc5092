// A race: leaderboard, film, picture, learning curve, and what to type next.

const data = JSON.parse(document.getElementById('data').textContent);

function heading() {
  const facts = `${Math.round(data.length).toLocaleString('en')} m, car ${data.car}, reference lap ${lapTime(data.reference)}`;
  return html('header', { class: 'top' }, html('div', {}, html('h1', {}, data.title), html('p', { class: 'soft' }, facts)),
    html('div', { class: 'tools' }, themeButton(), data.share ? html('a', { class: 'button', href: data.share, download: 'replay.html' }, 'Share replay') : null, html('button', { type: 'button', onclick: () => print() }, 'Print')));
}
function leaderboard() {
  const columns = [{ name: '', class: 'num' }, { name: 'Driver' }, { name: 'Kind' }, { name: 'Best lap', class: 'num' },
    { name: 'To reference', class: 'num' }, { name: 'Ratio', class: 'num' }, { name: 'Mean lap', class: 'num' },
    { name: 'Finished', class: 'num' }, { name: 'Off track', class: 'num' }];
  const rows = data.standings.map((one, place) => {
    const times = one.lap_time === null ? ['no lap', '', '', ''] : [html('b', {}, lapTime(one.lap_time)),
      `${delta(one.lap_time - data.reference)} s`, (one.lap_time / data.reference).toFixed(4), lapTime(one.mean_lap)];
    return [place + 1, one.driver, one.kind, ...times, `${one.finished}/${one.starts}`, `${one.off_track.toFixed(1)} s`];
  });
  return section('Leaderboard', '', table(columns, rows));
}
function film() {
  return data.film ? section('The lap', '', html('video', { controls: true, autoplay: true, muted: true, loop: true, src: data.film })) : null;
}
function picture() {
  return section('Lines and deltas', '', html('img', { alt: 'The lines coloured by speed, and the time lost along the lap', src: data.picture }));
}
function learning() {
  const { seconds, ratios } = data.learning ?? { seconds: [] };
  if (seconds.length < 2) return null;
  return section('Learning', 'Best flying lap / reference lap over seconds of training.',
    lineChart({ title: '', width: 1080, xName: 'wall clock of training', xFormat: clock, levels: [{ value: 1, label: 'reference' }],
      series: [{ label: 'best ratio', index: 0, x: seconds, value: ratios }] }));
}
function next() {
  return data.next.length ? section('Next', '', html('pre', {}, data.next.join('\n'))) : null;
}

document.getElementById('page').append(...[heading(), leaderboard(), film(), picture(), learning(), next()].filter(Boolean),
  html('footer', {}, `Written by Paddock ${data.version}.`));

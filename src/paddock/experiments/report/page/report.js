// The comparison of groups of runs: reads the data in the page and writes its sections.

const data = JSON.parse(document.getElementById('data').textContent);
const indexOf = new Map(data.groups.map((group, index) => [group.label, index]));
const swatch = (label) => html('span', { class: 'swatch', style: `background:${colour(indexOf.get(label))}` });
const AGGREGATES = { iqm: 'Interquartile mean', median: 'Median', mean: 'Mean', optimality_gap: 'Optimality gap' };
const unit = data.is_normalised ? 'normalised score' : data.metric;

function legend() {
  const toggle = (event) => {
    const button = event.currentTarget, isShown = button.getAttribute('aria-pressed') === 'true';
    const label = button.dataset.label;
    for (const other of document.querySelectorAll(`.legend button[data-label="${CSS.escape(label)}"]`)) other.setAttribute('aria-pressed', String(!isShown));
    for (const part of document.querySelectorAll(`g[data-group="${CSS.escape(label)}"]`)) {
      part.toggleAttribute('hidden', isShown);
      part.style.display = isShown ? 'none' : '';
    }
  };
  return html('div', { class: 'legend' }, data.groups.map((group) =>
    html('button', { 'aria-pressed': 'true', 'data-label': group.label, onclick: toggle }, swatch(group.label), group.label)));
}

function heading() {
  const runs = data.groups.reduce((total, group) => total + group.runs.length, 0);
  const facts = `${runs} runs in ${data.groups.length} group${data.groups.length > 1 ? 's' : ''} · ${data.tasks.join(', ')} · ${data.which} evaluation of ${data.metric}` +
    ` (${data.is_lower_better ? 'lower' : 'higher'} is better)`;
  return html('header', { class: 'top' }, html('div', {}, html('h1', {}, data.title), html('p', { class: 'soft' }, facts)),
    html('div', { class: 'tools' }, themeButton(), html('button', { onclick: () => print() }, 'Print')));
}
function cautions() {
  return data.warnings.length ? html('ul', { class: 'warnings' }, data.warnings.map((text) => html('li', {}, text))) : null;
}
function certainty(estimate) {
  return estimate.low === null ? 'n = 1, no interval' : `95 % interval ${format(estimate.low)} to ${format(estimate.high)}`;
}
function summaryCards() {
  return html('div', { class: 'cards' }, data.groups.map((group, index) => {
    const iqm = data.aggregates[group.label].iqm, lack = group.is_scored ? 'not comparable' : 'no final score';
    return html('section', { style: `--mark:${colour(index)}` }, html('h3', {}, group.label),
      html('div', { class: 'big' }, iqm ? format(iqm.value) : '–'),
      html('p', { class: 'soft small' }, iqm ? `IQM of ${unit}, ${certainty(iqm)}` : lack),
      html('p', { class: 'soft small' }, `${group.runs.length} run${group.runs.length > 1 ? 's' : ''}, seeds ${group.runs.map((run) => run.seed).join(', ')}`));
  }));
}
function curves() {
  const holder = html('div', { class: 'panels' });
  let axis = 'steps';
  const draw = () => {
    holder.replaceChildren(...data.metrics.map((metric) => lineChart({
      title: metric, xName: axis === 'steps' ? 'agent steps' : 'wall clock of training', xFormat: axis === 'steps' ? compact : clock,
      series: data.groups.filter((group) => group.curves[metric][axis]).map((group) => ({
        label: group.label, index: indexOf.get(group.label), ...group.curves[metric][axis],
        lines: group.curves[metric].lines.map((line) => ({ x: line[axis], value: line.value })) })) })));
  };
  const choose = (wanted) => html('button', { 'aria-pressed': String(axis === wanted), onclick: (event) => {
    axis = wanted;
    for (const button of event.currentTarget.parentNode.children) button.setAttribute('aria-pressed', String(button === event.currentTarget));
    draw();
  } }, wanted === 'steps' ? 'against steps' : 'against wall clock');
  draw();
  return section('Learning curves', 'Interquartile mean over runs; the band is its 95 % bootstrap interval, thin lines are single runs. A group of one run has no band.',
    html('div', { class: 'tools', style: 'margin-bottom:.5rem' }, choose('steps'), choose('seconds')), legend(), holder);
}
function scores() {
  const charts = Object.entries(AGGREGATES).map(([name, title]) => intervalChart({
    title, note: name === 'optimality_gap' ? 'normalised, lower is better' : unit,
    rows: data.groups.map((group) => ({ label: group.label, index: indexOf.get(group.label), ...(data.aggregates[group.label][name] || { value: NaN }),
      points: name === 'optimality_gap' || data.is_normalised ? [] : finite(group.runs.map((run) => run.score ?? NaN)) })) }));
  const ranges = Object.entries(data.ranges).map(([task, [low, high]]) => `${task}: ${format(low)} counts as 0, ${format(high)} as 1`).join('; ');
  return section('Final scores', `Bars are 95 % intervals of a stratified bootstrap over runs, small dots are single runs; a single run has no interval.${ranges ? ` Normalised scores: ${ranges}.` : ''}`, html('div', { class: 'panels' }, charts));
}
function comparisons() {
  const profile = lineChart({ title: 'Performance profile: share of runs above a normalised score', xName: 'normalised score', xFormat: format,
    yFormat: (value) => `${Math.round(100 * value)} %`, yRange: [0, 1.02],
    series: Object.entries(data.profiles.groups).map(([label, one]) => ({ label, index: indexOf.get(label), x: data.profiles.thresholds, ...one })) });
  const pairs = data.improvements.length ? intervalChart({ title: 'Probability of improvement', note: 'of a run of the first over one of the second', line: 0.5, range: [-0.02, 1.02],
    rows: data.improvements.slice(0, 28).map((pair) => ({ ...pair, label: `${pair.ours} > ${pair.theirs}`, index: indexOf.get(pair.ours) })) }) : null;
  return section('Against each other', 'A profile further to the upper right is better. An interval that does not touch one half is evidence of a difference; there is no interval against a single run.', html('div', { class: 'panels' }, profile, pairs));
}
function perRun() {
  const others = data.metrics.slice(1);
  const columns = [{ name: 'Group' }, { name: 'Run', class: 'key' }, { name: 'Task' }, { name: 'Seed', class: 'num' }, { name: `${data.which} ${data.metric}`, class: 'num' },
    ...others.map((name) => ({ name: `last ${name}`, class: 'num' })), { name: 'Steps', class: 'num' }, { name: 'Time', class: 'num' }, { name: 'Status' }, { name: 'Commit', class: 'key' }];
  const scoresOn = (task) => finite(data.groups.flatMap((group) => group.runs.filter((run) => run.task === task).map((run) => run.score ?? NaN)));
  const bestOn = (scores) => (scores.length > 1 ? (data.is_lower_better ? Math.min : Math.max)(...scores) : NaN);
  const best = new Map(data.tasks.map((task) => [task, bestOn(scoresOn(task))]));
  const rows = data.groups.flatMap((group) => group.runs.map((run) => [html('span', {}, swatch(group.label), ' ', group.label), run.run, run.task, run.seed,
    run.score === best.get(run.task) ? html('span', { class: 'best' }, format(run.score)) : format(run.score), ...others.map((name) => format(run.final[name])),
    run.steps === null || run.steps === undefined ? '–' : run.steps.toLocaleString('en'), run.time,
    html('span', { class: ['failed', 'crashed'].includes(run.status) ? 'bad' : '' }, run.status), run.commit]));
  const part = section('Every run', 'A click on a heading sorts.', table(columns, rows, { sortable: true }));
  part.classList.add('long');
  return part;
}
function configuration() {
  const show = (values) => (values || []).map((value) => (value === null ? '–' : JSON.stringify(value).replaceAll('"', ''))).join(' | ');
  const part = data.config.length
    ? section('Configuration, where it differs', '', table([{ name: 'Option', class: 'key' }, ...data.groups.map((group) => ({ name: group.label, class: 'key' }))],
      data.config.map((row) => [row.key, ...data.groups.map((group) => show(row.values[group.label]))])))
    : section('Configuration', 'All runs have the same configuration, but for their seeds.');
  part.classList.add('long');
  return part;
}
function protocol() {
  const rows = data.protocol.map((fact) => [fact.name, fact.values.length === 1 ? fact.values[0][0]
    : fact.values.map(([value, count]) => `${value} (${count} run${count > 1 ? 's' : ''})`).join(' · ')]);
  return section('Protocol and machine', '', table([{ name: '' }, { name: '' }], rows));
}
function laps(track) {
  const mark = (label) => swatch(label), groups = track.groups;
  const speeds = [track.reference, ...groups.map((group) => group.lap).filter(Boolean)].flatMap((lap) => lap.samples.speed);
  const range = extent(speeds), sectors = track.reference.sectors;
  const signed = (value) => html('span', { class: value <= 0 ? 'good' : '' }, `${value >= 0 ? '+' : '−'}${Math.abs(value).toFixed(3)}`);
  const columns = [{ name: 'Driver' }, { name: 'Best lap', class: 'num' }, { name: 'To reference', class: 'num' }, { name: 'Ratio', class: 'num' },
    ...sectors.map((_, k) => ({ name: `Sector ${k + 1}`, class: 'num' })), { name: 'Runs with a lap', class: 'num' }];
  const rows = groups.map((group) => (group.lap ? [html('span', {}, mark(group.label), ' ', group.label), lapTime(group.lap.lap_time),
    signed(group.lap.lap_time - track.reference.lap_time), (group.lap.lap_time / track.reference.lap_time).toFixed(4), ...group.sector_deltas.map(signed),
    `${group.lap_times.length} of ${group.runs}`] : [html('span', {}, mark(group.label), ' ', group.label), 'no lap', '', '', ...sectors.map(() => ''), `0 of ${group.runs}`]));
  rows.push(['Reference lap', lapTime(track.reference.lap_time), '', '1.0000', ...sectors.map((time) => time.toFixed(3)), '']);
  const driven = groups.filter((group) => group.losses);
  const along = (title, key, yFormat, extra = []) => lineChart({ title, xName: 'metres along the lap', xFormat: format, yFormat, height: 240,
    series: [...extra, ...driven.map((group) => ({ label: group.label, index: indexOf.get(group.label), x: group.losses.s, value: group.losses[key] }))] });
  const reference = driven.length ? [{ label: 'reference', index: 0, stroke: 'var(--faint)', x: driven[0].losses.s, value: driven[0].losses.reference_speed }] : [];
  return section(`Laps on ${track.name}`, `${Math.round(track.length).toLocaleString('en')} m. The best lap of each group's best evaluations, against the reference lap. Sectors in seconds lost to it.`,
    table(columns, rows),
    html('div', { class: 'scale', style: 'margin-top:1rem' }, `${Math.round(3.6 * range[0])} km/h`, html('i', { style: ramp(SPEED) }), `${Math.round(3.6 * range[1])} km/h`),
    html('div', { class: 'panels three' }, speedMap(track, 'Reference', track.reference, range, ''), groups.map((group) => speedMap(track, group.label, group.lap, range, mark(group.label)))),
    driven.length ? html('div', { class: 'panels', style: 'margin-top:1.2rem' }, along('Seconds behind the reference (up is slower)', 'behind', format), along('Speed, km/h (grey: reference)', 'speed', format, reference)) : null,
    html('h3', { style: 'margin-top:1.3rem' }, 'Where cars were, all starts of all runs'),
    html('div', { class: 'scale' }, 'rarely', html('i', { style: ramp(HEAT) }), 'often', html('i', { style: 'background:#e5484d;width:.55rem' }), 'off the road'),
    html('div', { class: 'panels three' }, groups.filter((group) => group.heat).map((group) => heatMap(track, group.label, group.heat, mark(group.label)))));
}

document.getElementById('page').append(...[heading(), cautions(), summaryCards()].filter(Boolean), curves(), scores(), comparisons(), ...data.laps.map(laps), perRun(), configuration(), protocol(),
  html('footer', {}, `Written by Paddock ${data.version} on ${data.written}. Statistics after Agarwal et al., arXiv:2108.13264. Curves of very long runs are drawn from evenly spread points.`));

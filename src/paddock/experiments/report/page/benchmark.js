// The page about a benchmark: shares of published values, default beside tuned settings, and every task with its command and source.

const data = JSON.parse(document.getElementById('data').textContent);

function heading() {
  const done = data.tasks.reduce((sum, task) => sum + task.finished, 0);
  const facts = `${data.tasks.length} tasks · ${done} of ${data.tasks.length * data.seeds.length} runs finished · seeds ${data.seeds.join(', ')}`;
  return html('header', { class: 'top' }, html('div', {}, html('h1', {}, `Benchmark: ${data.name}`),
    html('p', { class: 'soft' }, facts), data.description ? html('p', {}, data.description) : null),
  html('div', { class: 'tools' }, themeButton(), html('button', { onclick: () => print() }, 'Print')));
}
function shares() {
  const share = (task, value) => (value === null ? null : (value - task.random) / (task.published - task.random));
  const compared = data.tasks.filter((task) => task.published !== null && task.value !== null);
  if (!compared.length) return section('Against published values', 'No task with a published value has finished yet.');
  const chart = (settings) => intervalChart({ title: `${settings} settings`, line: 1,
    rows: compared.filter((task) => task.settings === settings).map((task, index) => ({ label: task.short, index, value: share(task, task.value),
      low: share(task, task.low ?? task.value), high: share(task, task.high ?? task.value) })) });
  const shown = ['default', 'tuned'].filter((settings) => compared.some((task) => task.settings === settings));
  return section('Against published values', '1 is the published value, 0 the score of random actions. A band is the 95 % interval over seeds.',
    html('div', { class: 'panels' }, shown.map(chart)));
}
function bothSettings() {
  const columns = data.both.headings.map((name, k) => ({ name, class: k < 2 ? '' : 'num' }));
  return section('Default and tuned settings', 'The last evaluation, as below.', table(columns, data.both.rows, { sortable: true }));
}
function everyTask() {
  const columns = data.headings.map((name, k) => ({ name, class: k < data.numbers ? '' : 'num' }));
  const part = section('Every task', data.explanation, table(columns, data.tasks.map((task) => task.cells), { sortable: true }));
  part.classList.add('long');
  return part;
}
function commands() {
  return section('Commands and sources', '', html('ul', {}, data.tasks.map((task) => html('li', {}, html('b', {}, task.name), ' ',
    html('code', {}, task.command), task.about ? html('span', { class: 'soft small' }, ` ${task.about}`) : null))));
}

document.getElementById('page').append(heading(), shares(), bothSettings(), everyTask(), commands(),
  html('footer', {}, `Written by Paddock ${data.version} on ${data.written}.`));

// The page about a search: history, importance, slices, every trial.

const data = JSON.parse(document.getElementById('data').textContent);
const names = Object.keys(data.parameters);
const scored = data.trials.filter((trial) => trial.value !== null);
const finished = scored.filter((trial) => trial.status === 'finished');
const better = (a, b) => (data.direction === 'maximize' ? Math.max(a, b) : Math.min(a, b));
const best = data.trials.find((trial) => trial.number === data.best);

function heading() {
  const counts = {};
  for (const trial of data.trials) counts[trial.status] = (counts[trial.status] || 0) + 1;
  const facts = Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(', ');
  return html('header', { class: 'top' }, html('div', {}, html('h1', {}, `Search: ${data.name}`),
    html('p', { class: 'soft' }, `${data.base} · ${data.direction} ${data.metric} · ${data.trials.length} trials: ${facts} · seed ${data.seed}`)),
  html('div', { class: 'tools' }, themeButton(), html('button', { onclick: () => print() }, 'Print')));
}
function winner() {
  if (!best) return section('Best trial', 'No trial has finished yet.');
  return section('Best trial', `Trial ${best.number}, run ${best.run}`, html('div', { class: 'big' }, format(best.value)),
    html('p', {}, html('code', {}, names.map((name) => `${name}=${best.values[name]}`).join(' '))));
}
function history() {
  const runningBest = [];
  for (const trial of finished) runningBest.push(runningBest.length ? better(runningBest.at(-1), trial.value) : trial.value);
  const line = lineChart({ title: 'Best so far', xName: 'trial', xFormat: format,
    series: [{ label: 'best so far', index: 0, x: finished.map((trial) => trial.number), value: runningBest,
      lines: [{ x: finished.map((trial) => trial.number), value: finished.map((trial) => trial.value) }] }] });
  const important = Object.entries(data.importances).map(([label, value]) => ({ label, value }));
  const bars = important.length ? barChart({ title: 'Importance', rows: important })
    : html('p', { class: 'soft small' }, 'Importance needs at least four finished trials with different scores.');
  return section('How it went', 'The thin line is each finished trial. Importance: the share of the differences between trials that an option explains (PED-ANOVA).',
    html('div', { class: 'panels' }, line, bars));
}
function slices() {
  const latest = Math.max(...data.trials.map((trial) => trial.number), 1);
  return section('Slices', 'Each option against the score; later trials are stronger in colour. Pruned trials show their last evaluation.',
    html('div', { class: 'panels three' }, names.map((name) => scatter({ title: name, xName: '', isLogarithmic: data.parameters[name].is_log,
      points: scored.map((trial) => ({ x: trial.values[name], y: trial.value, shade: trial.number / latest,
        title: `trial ${trial.number} (${trial.status}): ${trial.values[name]} → ${format(trial.value)}` })) }))));
}
function everyTrial() {
  const columns = [{ name: 'Trial', class: 'num' }, { name: 'Status' }, { name: data.metric, class: 'num' },
    ...names.map((name) => ({ name, class: 'num' })), { name: 'Steps', class: 'num' }, { name: 'Run', class: 'key' }];
  const rows = data.trials.map((trial) => [trial.number, trial.status,
    trial === best ? html('span', { class: 'best' }, format(trial.value)) : format(trial.value),
    ...names.map((name) => (typeof trial.values[name] === 'number' ? format(trial.values[name]) : String(trial.values[name]))),
    trial.steps === null ? '–' : trial.steps.toLocaleString('en'), trial.run || '–']);
  const part = section('Every trial', 'A click on a heading sorts.', table(columns, rows, { sortable: true }));
  part.classList.add('long');
  return part;
}

document.getElementById('page').append(heading(), winner(), ...(scored.length ? [history(), slices()] : []), everyTrial(),
  html('footer', {}, `Written by Paddock ${data.version} on ${data.written}.`));

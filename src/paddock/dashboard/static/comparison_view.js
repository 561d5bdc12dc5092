// Several runs side by side: curves, scores with intervals, options that differ, laps over each other, the report.

import { get } from './api.js';
import { Charts } from './charts.js';
import { empty, html, isNumber, lapTime, number, replace, svg } from './dom.js';

const AGGREGATES = [['iqm', 'IQM'], ['median', 'Median'], ['mean', 'Mean']];

/** Whether no other run of the list has the same name: else the seed tells them apart. */
const isAlone = (row, rows) => rows.filter((one) => one.name === row.name).length === 1;

export async function openComparison(main, { id }) {
  const ids = id.split(',').filter(Boolean), rows = await get('/api/runs');
  const runs = ids.map((one) => rows.find((row) => row.id === one)).filter(Boolean);
  if (!runs.length) {
    replace(main, empty('Nothing to compare', 'None of these runs is in this folder.', html('a', { class: 'button', href: '#/' }, 'All runs')));
    return () => {};
  }
  document.title = 'Comparison · Paddock';
  const query = new URLSearchParams({ runs: runs.map((row) => row.id).join(',') });
  const charts = new Charts(runs.map((row) => ({ id: row.id, name: isAlone(row, runs) ? row.name : `${row.name} s${row.seed}` })));
  const facts = html('div', { class: 'comparison' }, html('p', { class: 'soft' }, 'Comparing…'));
  const report = html('a', { class: 'button strong', href: `/api/report?${query}`, target: '_blank', rel: 'noopener' }, 'Report');
  replace(main, html('div', { class: 'run' }, html('header', { class: 'head' },
    html('div', {}, html('h1', {}, [...new Set(runs.map((row) => row.name))].join(' vs ')), html('p', { class: 'soft' }, 'One colour for each run.')),
    html('div', { class: 'row' }, report, html('a', { class: 'button', href: '#/' }, 'All runs'))),
  facts, html('section', { class: 'card' }, html('h2', {}, 'Curves'), charts.element)));
  get(`/api/compare?${query}`).then((values) => replace(facts, sections(values)),
    (error) => { report.hidden = true; replace(facts, html('p', { class: 'card' }, error.message)); });
  return () => charts.close();
}

function sections(values) {
  return [scores(values), improvements(values), options(values), ...values.laps.map(laps)];
}

const card = (title, ...content) => html('section', { class: 'card' }, html('h2', {}, title), ...content);
const table = (titles, rows, attributes = {}) => html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': attributes['aria-label'] }, html('table', attributes,
  html('thead', {}, html('tr', {}, titles.map((title) => html('th', { scope: 'col' }, title)))), html('tbody', {}, rows)));
const line = (head, cells) => html('tr', {}, html('th', { scope: 'row' }, head), cells.map((cell) => html('td', {}, cell)));

/** `12.3 [11.0, 13.9]`; a single run has no interval. */
function interval(estimate) {
  if (!estimate) return '–';
  return isNumber(estimate.low) ? `${number(estimate.value)} [${number(estimate.low)}, ${number(estimate.high)}]` : `${number(estimate.value)}, n = 1`;
}

function scores(values) {
  const direction = values.lower_is_better ? 'lower is better' : 'higher is better';
  return card('Scores', html('p', { class: 'soft small' }, `${values.score} ${values.metric}, ${direction}; 95 % bootstrap intervals where there are several seeds.`),
    table(['Group', 'Runs', ...AGGREGATES.map(([, title]) => title)], values.groups.map((group) => line(group.group,
      [String(group.runs.length), ...AGGREGATES.map(([name]) => interval(group[name]))])), { class: 'scores', 'aria-label': 'Scores' }),
    values.warnings.map((sentence) => html('p', { class: 'warning small' }, sentence)));
}

function improvements(values) {
  if (!values.improvements.length) return null;
  return card('Probability of improvement', table(['Pair', 'Probability'],
    values.improvements.map((one) => line(`${one.ours} > ${one.theirs}`, [interval(one)])), { 'aria-label': 'Probability of improvement' }));
}

function options(values) {
  const groups = values.groups.map((group) => group.group);
  if (!values.config.length) return card('Options', html('p', { class: 'soft' }, 'The groups differ in no option.'));
  return card('Options that differ', table(['Option', ...groups], values.config.map((row) => line(html('code', {}, row.key),
    groups.map((group) => (row.values[group] ?? []).map((value) => (value === null ? '–' : String(value))).join(' | ')))), { class: 'options', 'aria-label': 'Options that differ' }));
}

/** The best laps of the groups over each other on one circuit. */
function laps(track) {
  const points = (list) => list.map(([x, y]) => `${x.toFixed(1)},${(-y).toFixed(1)}`).join(' ');
  const all = [...track.left, ...track.right], xs = all.map(([x]) => x), ys = all.map(([, y]) => -y);
  const [left, top] = [Math.min(...xs), Math.min(...ys)], width = Math.max(...xs) - left, height = Math.max(...ys) - top;
  const path = (lap) => lap.samples.x.map((x, k) => [x, lap.samples.y[k]]);
  const driven = track.groups.filter((group) => group.lap);
  const picture = svg('svg', { class: 'lap-overlay', role: 'img', 'aria-label': `Best laps on ${track.name}`,
    viewBox: `${left - 10} ${top - 10} ${width + 20} ${height + 20}` },
  ['left', 'right'].map((side) => svg('polygon', { class: 'edge', points: points(track[side]) })),
  svg('polyline', { class: 'reference', points: points(path(track.reference)) }),
  driven.map((group) => svg('polyline', { class: `line${track.groups.indexOf(group) % 8}`, points: points(path(group.lap)) })));
  const rows = track.groups.map((group, k) => line(html('span', {}, html('span', { class: `swatch tint${k % 8}`, 'aria-hidden': 'true' }), ` ${group.label}`),
    [group.lap ? lapTime(group.lap.lap_time) : 'no lap', (group.sector_deltas ?? []).map((one) => (isNumber(one) ? `${one >= 0 ? '+' : '−'}${Math.abs(one).toFixed(2)}` : '–')).join('  ')]));
  return card(`Laps on ${track.name}`, picture, table(['Group', 'Best lap', 'Sectors against the reference, s'],
    [line('reference', [lapTime(track.reference.lap_time), '']), ...rows], { 'aria-label': `Laps on ${track.name}` }));
}

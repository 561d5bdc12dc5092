// All runs of the folder, the living ones first, and the way to each.

import { get, repeat } from './api.js';
import { button, empty, html, replace } from './dom.js';
import { RunsTable } from './runs_table.js';

export async function openRuns(main, _, state) {
  document.title = 'Paddock';
  const chosen = new Set();
  let rows = [], text = '';
  const filter = html('input', { type: 'search', placeholder: 'Filter by name, experiment, tag…', 'aria-label': 'Filter the runs',
    oninput: () => { text = filter.value.toLowerCase(); draw(); } });
  const compare = html('a', { class: 'button', hidden: true }, 'Compare');
  const body = html('div', {});
  const tools = html('div', { class: 'row' }, filter, compare, html('a', { class: 'button strong', href: '#/new' }, 'Start a run'));
  replace(main, html('header', { class: 'head' }, html('div', {}, html('h1', {}, 'Runs'), html('p', { class: 'soft', id: 'counts' })), tools), body);

  function pick(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    compare.hidden = chosen.size < 2;
    compare.textContent = `Compare ${chosen.size}`;
    compare.href = `#/compare/${[...chosen].map(encodeURIComponent).join(',')}`;
  }

  const table = new RunsTable({ chosen, pick, onchange: () => look().then(draw) });

  function draw() {
    const seen = rows.filter((row) => JSON.stringify([row.name, row.experiment, row.algorithm, row.environment, row.status, row.tags])
      .toLowerCase().includes(text));
    filter.hidden = rows.length < 2;
    const live = rows.filter((row) => row.is_live).length;
    document.getElementById('counts').textContent = rows.length ? `${rows.length} in this folder, ${live} running` : '';
    if (!rows.length) return replace(body, nothing());
    if (!seen.length) return replace(body, empty('No run matches', `Nothing here has “${text}” in its name, experiment or tags.`,
      button('Show all', () => { filter.value = text = ''; draw(); })));
    if (!body.contains(table.element)) replace(body, table.element);
    return table.draw(seen);
  }

  /** Whether the list of runs has changed. */
  async function look() {
    const found = sorted(await get('/api/runs'));
    state.runs = found;
    if (JSON.stringify(found) === JSON.stringify(rows) && rows.length) return false;
    rows = found;
    return true;
  }

  const stop = repeat(async () => { if (await look()) draw(); }, 2.5, (error) => { if (!rows.length) replace(body, empty('No answer', error.message)); });
  return stop;
}

const sorted = (rows) => [...rows].sort((a, b) => Number(b.is_live) - Number(a.is_live)
  || String(b.started ?? '').localeCompare(String(a.started ?? '')));

function nothing() {
  return empty('No runs yet', 'Start one and watch dozens of cars learn to race: the first laps take about a minute.',
    html('a', { class: 'button strong', href: '#/new' }, 'Start a run'), html('a', { class: 'button', href: '#/drive' }, 'Take the wheel'),
    html('code', {}, 'paddock train racing'));
}

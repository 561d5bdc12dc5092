// All runs of the folder, the living ones first, and the way to each.

import { get, repeat } from './api.js';
import { button, empty, html, replace } from './dom.js';
import { firstScreen } from './first_screen.js';
import { RunsTable } from './runs_table.js';

export async function openRuns(main, _, state) {
  document.title = 'Paddock';
  const chosen = new Set();
  let rows = [], text = '', first = null;
  const filter = html('input', { type: 'search', placeholder: 'Filter by name, experiment, tag…', 'aria-label': 'Filter the runs',
    oninput: () => { text = filter.value.toLowerCase(); draw(); } });
  const compare = html('a', { class: 'button', hidden: true }, 'Compare');
  const body = html('div', {});
  const tools = html('div', { class: 'row' }, filter, compare, html('a', { class: 'button strong', href: '#/new' }, 'Start a run'));
  const counts = html('p', { class: 'soft' });
  const head = html('header', { class: 'head' }, html('div', {}, html('h1', {}, 'Runs'), counts), tools);
  replace(main, head, body);

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
    counts.textContent = rows.length ? `${rows.length} in this folder, ${live} running` : '';
    if (!rows.length) {
      head.remove();
      first ??= firstScreen();
      return body.contains(first.element) ? undefined : replace(body, first.element);
    }
    if (!head.isConnected && body.isConnected) main.prepend(head);
    first?.close();
    first = null;
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
  return () => { stop(); first?.close(); };
}

const sorted = (rows) => [...rows].sort((a, b) => Number(b.is_live) - Number(a.is_live)
  || String(b.started ?? '').localeCompare(String(a.started ?? '')));

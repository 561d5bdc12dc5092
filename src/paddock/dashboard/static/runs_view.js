// All runs of the folder, the living ones first, and the way to each.

import { get, repeat } from './api.js';
import { ago, button, compact, duration, empty, html, number, replace, statusChip } from './dom.js';
import { firstScreen } from './first_screen.js';

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
    return replace(body, table(seen, chosen, pick));
  }

  const stop = repeat(async () => {
    const found = sorted(await get('/api/runs'));
    state.runs = found;
    if (JSON.stringify(found) === JSON.stringify(rows) && rows.length) return;
    rows = found;
    if (!body.contains(document.activeElement) || document.activeElement.tagName !== 'INPUT') draw();
  }, 2.5, (error) => { if (!rows.length) replace(body, empty('No answer', error.message)); });
  return () => { stop(); first?.close(); };
}

const sorted = (rows) => [...rows].sort((a, b) => Number(b.is_live) - Number(a.is_live)
  || String(b.started ?? '').localeCompare(String(a.started ?? '')));

const address = (row) => `#/${row.kind === 'driving' ? 'drive' : 'run'}/${encodeURIComponent(row.id)}`;

function table(rows, chosen, pick) {
  const counts = html('p', { class: 'soft' });
  const head = ['', 'Run', 'Status', 'Experiment', 'Algorithm', 'Steps', 'Time', 'Score', 'Started'];
  return html('div', { class: 'card flush' }, html('table', { class: 'runs' },
    html('thead', {}, html('tr', {}, head.map((title, k) => html('th', { class: k >= 5 && k <= 7 ? 'num' : '', scope: 'col' },
      title || html('span', { class: 'hidden' }, 'Compare'))))),
    html('tbody', {}, rows.map((row) => line(row, chosen, pick)))));
}

function line(row, chosen, pick) {
  const box = html('input', { type: 'checkbox', 'aria-label': `Compare ${row.name}`, onchange: () => pick(row.id, box.checked) });
  box.checked = chosen.has(row.id);
  const metric = (row.metric ?? '').replace(/^eval\//, '');
  return html('tr', { 'data-run': row.id },
    html('td', { class: 'pick' }, row.kind === 'driving' ? null : box),
    html('td', { class: 'name' }, html('a', { href: address(row) }, row.name), ' ',
      (row.tags ?? []).map((tag) => html('span', { class: 'tag' }, tag))),
    html('td', { 'data-label': 'Status' }, statusChip(row.status)),
    html('td', { 'data-label': 'Experiment' }, row.kind === 'driving' ? 'driving' : row.experiment ?? '–'),
    html('td', { 'data-label': 'Algorithm' }, [row.algorithm, row.environment].filter(Boolean).join(' · ')),
    html('td', { class: 'num', 'data-label': 'Steps' }, compact(row.agent_steps)),
    html('td', { class: 'num', 'data-label': 'Time' }, duration(row.seconds)),
    html('td', { class: 'num', 'data-label': metric || 'Score' }, number(row.best_score), metric ? html('small', { class: 'soft' }, ` ${metric}`) : null),
    html('td', { class: 'soft', 'data-label': 'Started' }, ago(row.started)));
}

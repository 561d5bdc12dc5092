// The table of runs: sorted, grouped, coloured, and what a person can change about a run.

import { post } from './api.js';
import { ago, button, compact, duration, field, html, number, onSubmit, replace, statusChip, toast } from './dom.js';

const KEPT = 'paddock.runs'; // where the browser remembers order and grouping
const COLUMNS = [
  ['name', 'Run', (row) => row.name.toLowerCase()],
  ['status', 'Status', (row) => row.status],
  ['experiment', 'Experiment', (row) => row.experiment ?? ''],
  ['algorithm', 'Algorithm', (row) => row.algorithm ?? ''],
  ['steps', 'Steps', (row) => row.agent_steps ?? 0],
  ['time', 'Time', (row) => row.seconds ?? 0],
  ['score', 'Score', (row) => row.best_score ?? -Infinity],
  ['started', 'Started', (row) => String(row.started ?? '')],
];
const NUMERIC = new Set(['steps', 'time', 'score']);
const GROUPS = {
  '': ['Not grouped', () => ''],
  experiment: ['By experiment', (row) => row.experiment ?? 'no experiment'],
  algorithm: ['By algorithm', (row) => row.algorithm ?? 'no algorithm'],
  environment: ['By environment', (row) => row.environment ?? 'no environment'],
  recipe: ['By recipe (seeds together)', (row) => (row.recipe ? `${row.name} · ${row.recipe.slice(0, 6)}` : row.name)],
  tag: ['By tag', (row) => row.tags?.[0] ?? 'no tag'],
  status: ['By status', (row) => row.status],
};
const address = (row) => `#/${row.kind === 'driving' ? 'drive' : 'run'}/${encodeURIComponent(row.id)}`;
const runAddress = (id) => `/api/runs/${encodeURIComponent(id)}`;

function remembered() {
  const plain = { by: '', isDown: true, group: '' };
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? '{}');
    return kept.group in GROUPS ? { ...plain, ...kept } : plain;
  } catch {
    return plain;
  }
}

export class RunsTable {
  /** pick(id, on): a run was ticked or not; onchange(): something about a run was changed here. */
  constructor({ chosen, pick, onchange }) {
    Object.assign(this, { chosen, pick, onchange, order: remembered(), rows: [] });
    this.body = html('div', { class: 'card flush' });
    this.grouping = html('select', { 'aria-label': 'Group the runs', onchange: () => this._set({ group: this.grouping.value }) },
      Object.entries(GROUPS).map(([value, [title]]) => html('option', { value }, title)));
    this.grouping.value = this.order.group;
    this.element = html('div', {}, html('div', { class: 'row table-tools' }, this.grouping), this.body);
  }

  draw(rows) {
    this.rows = rows;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    this.grouping.hidden = rows.length < 2;
    const groups = this._groups(rows);
    const colours = new Map([...new Set(rows.map((row) => this._colourKey(row)))].sort().map((key, k) => [key, k % 8]));
    replace(this.body, html('table', { class: 'runs' }, this._head(), groups.map(([title, members]) => html('tbody', {},
      title ? html('tr', { class: 'group' }, html('th', { colspan: COLUMNS.length + 2, scope: 'rowgroup' }, `${title} (${members.length})`)) : null,
      members.map((row) => this._line(row, colours.get(this._colourKey(row))))))));
    if (focused) this.body.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  /** Runs of one colour belong together: by the grouping, or by name where there is none. */
  _colourKey(row) {
    return this.order.group ? GROUPS[this.order.group][1](row) : row.name;
  }

  _groups(rows) {
    const [, keyOf] = GROUPS[this.order.group], found = new Map();
    for (const row of this._sorted(rows)) found.set(keyOf(row), [...(found.get(keyOf(row)) ?? []), row]);
    return [...found.entries()];
  }

  _sorted(rows) {
    const value = COLUMNS.find(([name]) => name === this.order.by)?.[2];
    if (!value) return rows; // as they came: the living first, then the newest
    const sign = this.order.isDown ? -1 : 1;
    return [...rows].sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  }

  _set(changes) {
    Object.assign(this.order, changes);
    localStorage.setItem(KEPT, JSON.stringify(this.order));
    this.draw(this.rows);
  }

  _head() {
    const { by, isDown } = this.order;
    const cell = ([name, title]) => html('th', { scope: 'col', class: NUMERIC.has(name) ? 'num' : '',
      'aria-sort': name === by ? (isDown ? 'descending' : 'ascending') : null },
    button(name === by ? `${title} ${isDown ? '↓' : '↑'}` : title, () => this._set({ by: name, isDown: name === by ? !isDown : NUMERIC.has(name) || name === 'started' }),
      { class: 'sorter', 'data-focus': `sort ${name}`, 'aria-label': `Sort by ${title.toLowerCase()}` }));
    return html('thead', {}, html('tr', {}, html('th', { scope: 'col' }, html('span', { class: 'hidden' }, 'Compare')), COLUMNS.map(cell),
      html('th', { scope: 'col' }, html('span', { class: 'hidden' }, 'Change'))));
  }

  _line(row, colour) {
    const box = html('input', { type: 'checkbox', 'aria-label': `Compare ${row.name}`, 'data-focus': `pick ${row.id}`, onchange: () => this.pick(row.id, box.checked) });
    box.checked = this.chosen.has(row.id);
    const metric = (row.metric ?? '').replace(/^eval\//, ''), isDriving = row.kind === 'driving';
    return html('tr', { 'data-run': row.id },
      html('td', { class: 'pick' }, isDriving ? null : box),
      html('td', { class: 'name' }, html('span', { class: `swatch tint${colour}`, 'aria-hidden': 'true' }), ' ', html('a', { href: address(row) }, row.name), ' ',
        Number.isInteger(row.seed) ? html('small', { class: 'soft' }, `s${row.seed} `) : null,
        row.is_pinned ? html('span', { class: 'tag', title: 'Cleanup does not touch it' }, 'pinned') : null,
        (row.tags ?? []).map((tag) => html('span', { class: 'tag' }, tag)), row.note ? html('small', { class: 'soft note' }, row.note) : null),
      html('td', { 'data-label': 'Status' }, statusChip(row.status)),
      html('td', { 'data-label': 'Experiment' }, isDriving ? 'driving' : row.experiment ?? '–'),
      html('td', { 'data-label': 'Algorithm' }, [row.algorithm, row.environment].filter(Boolean).join(' · ')),
      html('td', { class: 'num', 'data-label': 'Steps' }, compact(row.agent_steps)),
      html('td', { class: 'num', 'data-label': 'Time' }, duration(row.seconds)),
      html('td', { class: 'num', 'data-label': metric || 'Score' }, number(row.best_score), metric ? html('small', { class: 'soft' }, ` ${metric}`) : null),
      html('td', { class: 'soft', 'data-label': 'Started' }, ago(row.started)),
      html('td', { class: 'act' }, isDriving ? null : button('⋯', () => changeRun(row, this.onchange),
        { class: 'quiet', 'aria-label': `Change ${row.name}`, 'data-focus': `change ${row.id}` })));
  }
}

/** A button that has to be pressed twice. */
export function sure(label, question, action, attributes = {}) {
  const node = button(label, async () => {
    if (node.dataset.sure) {
      node.disabled = true;
      await action();
      node.disabled = false;
      return;
    }
    node.dataset.sure = 'yes';
    node.classList.add('danger');
    node.textContent = question;
  }, attributes);
  return node;
}

/** The dialog in which a run is renamed, tagged, noted, pinned, resumed and deleted. */
export function changeRun(row, onchange) {
  const name = html('input', { type: 'text', value: row.name, maxlength: 64, required: true });
  const tags = html('input', { type: 'text', value: (row.tags ?? []).join(' ') });
  const note = html('textarea', { rows: 3, maxlength: 2000, value: row.note ?? '' });
  const pin = html('input', { type: 'checkbox' });
  pin.checked = Boolean(row.is_pinned);
  const problem = html('p', { class: 'problem', role: 'alert', hidden: true });
  const done = (text) => { dialog.close(); toast(text); onchange(); };
  const attempt = async (task) => {
    problem.hidden = true;
    try {
      await task();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  };
  const resume = sure('Resume', 'Really resume?', () => attempt(async () => {
    const { id } = await post(`${runAddress(row.id)}/resume`, {});
    dialog.close();
    location.hash = `#/run/${encodeURIComponent(id)}`;
  }), { hidden: row.is_live });
  const remove = sure('Delete', 'Really delete, for good?', () => attempt(async () => {
    await post(`${runAddress(row.id)}/delete`, { confirm: row.id });
    done(`${row.name} was deleted.`);
  }), { hidden: row.is_live });
  const form = html('form', {}, html('h2', {}, row.name), field('Name', name, 'Its folder stays as it is.'), field('Tags', tags, 'Words, with spaces between them.'),
    field('Note', note), html('label', { class: 'row' }, pin, 'Pinned: cleanup does not touch it'), problem,
    html('div', { class: 'row spread' }, html('div', { class: 'row' }, html('button', { type: 'submit', class: 'strong' }, 'Save'), button('Cancel', () => dialog.close())),
      html('div', { class: 'row' }, resume, remove)));
  const dialog = html('dialog', { class: 'card', 'aria-label': `Change ${row.name}`, onclose: () => dialog.remove() }, form);
  onSubmit(form, problem, async () => {
    const words = tags.value.split(/\s+/).filter(Boolean);
    await post(`${runAddress(row.id)}/labels`, { tags: words, note: note.value, pinned: pin.checked, ...(name.value === row.name ? {} : { name: name.value }) });
    done('Saved.');
  });
  document.body.append(dialog);
  dialog.showModal();
}

// What happened in a run, and the policies that it kept.

import { runPolicies } from './api.js';
import { act } from './controls.js';
import { EVENTS } from './messages.js';
import { ago, button, choice, compact, empty, html, lapTime, number, replace } from './dom.js';

const KEPT = 200;
const QUIET = new Set(['time', 'event', 'type', 'agent_steps', 'command', 'by']);
const TOLD = ['eval/best_lap', 'eval/finish_rate', 'eval/return', 'eval/mean_lap', 'eval/success_rate'];

const isTime = (name) => /(lap|lap_time)$/.test(name) && !/lap_std/.test(name);
const shown = (name, value) => (typeof value === 'number' ? (isTime(name) ? lapTime(value) : /_rate$/.test(name) ? `${Math.round(100 * value)} %` : number(value))
  : typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value));

/** The words behind an event's name: an evaluation tells its main numbers, any other what it carries. */
function describe(row) {
  if (row.event === 'phase') return row.phase;
  if (row.command === 'reward') return `${row.term.replaceAll('_', ' ')} ${shown('', row.before)} → ${shown('', row.weight)}`;
  const names = Object.keys(row).filter((name) => !QUIET.has(name) && row[name] !== null);
  const told = row.event === 'evaluation' ? TOLD.filter((name) => name in row) : names;
  return (told.length ? told : names.slice(0, 4))
    .map((name) => `${name.replace(/^eval\//, '').replaceAll('_', ' ')} ${shown(name, row[name])}`).join(' · ');
}

const TOGETHER = 60_000; // ms within which presses of one slider are one event
const FILTERS = {
  all: ['All', () => true],
  evaluation: ['Evaluations', (row) => row.event === 'evaluation' || row.event === 'lap'],
  control: ['By hand', (row) => row.event === 'control' || row.event === 'correction'],
  phase: ['Phases', (row) => !['evaluation', 'lap', 'control', 'correction'].includes(row.event)],
  bad: ['Problems', (row) => EVENTS[row.event] === 'bad'],
};

/** Whether one event goes on with another: the same slider, a moment later. */
function isSame(last, row) {
  return last?.event === 'control' && row.event === 'control' && last.command === 'reward' && row.command === 'reward' && last.term === row.term
    && new Date(row.time) - new Date(last.time) < TOGETHER;
}

/** Events with the presses of one slider put together: from the first weight to the last. */
export function gathered(rows) {
  const found = [];
  for (const row of rows) {
    const last = found.at(-1);
    if (isSame(last, row)) found[found.length - 1] = { ...row, before: last.before };
    else found.push(row);
  }
  return found;
}

export class Events {
  constructor() {
    this.list = html('ol', { class: 'events', 'aria-label': 'Events, newest first' });
    this.filter = 'all';
    const filters = choice('Show events', Object.entries(FILTERS).map(([name, [label]]) => [name, label]), 'all', (name) => { this.filter = name; this._draw(); });
    filters.classList.add('events-filter');
    this.element = html('section', { class: 'card' }, html('div', { class: 'row spread' }, html('h2', {}, 'Events'), filters), this.list);
    this.set([]);
  }

  set(rows) {
    this.rows = gathered(rows.slice(-KEPT));
    this._draw();
  }

  add(row) {
    this.rows = gathered([...this.rows, row]).slice(-KEPT);
    this._draw();
    if (FILTERS[this.filter][1](row)) this.list.firstChild.classList.add('fresh');
  }

  _draw() {
    const seen = this.rows.filter(FILTERS[this.filter][1]);
    replace(this.list, seen.reverse().map((row) => this._item(row)));
    if (!seen.length) this.list.append(html('li', { class: 'soft none' }, this.rows.length ? 'No event of this kind.' : 'Nothing has happened yet.'));
  }

  _item(row) {
    const time = new Date(row.time), clock = Number.isNaN(time.getTime()) ? '' : time.toLocaleTimeString('en-GB');
    return html('li', { 'data-event': row.event }, html('time', { class: 'soft' }, clock),
      html('span', {}, html('b', { class: EVENTS[row.event] ?? '' }, String(row.command ?? row.event).replaceAll('_', ' ')), ' ', describe(row)),
      html('span', { class: 'soft steps' }, compact(row.agent_steps)));
  }
}

/** `step-000001015808` is what the run calls it; people read `step 1.02M`. */
const title = (name) => name.replace(/^step-0*(\d+)$/, (_, steps) => `step ${compact(Number(steps))}`);

export class Policies {
  /** isRacing: whether a person can race against one of them. */
  constructor(id, isRacing) {
    Object.assign(this, { id, isRacing });
    this.body = html('div', {});
    this.element = html('section', { class: 'card' }, html('h2', {}, 'Saved policies'),
      html('p', { class: 'soft small' }, 'Saved manually, or automatically on improvement.'), this.body);
    this.can = [];
  }

  async refresh() {
    this.rows = (await runPolicies(this.id)).sort((a, b) => String(b.saved ?? '').localeCompare(String(a.saved ?? '')));
    this._draw();
  }

  /** name: the policy that the run was given last, or null. */
  setLoaded(name) {
    if (!this.rows || this.rows.every((row) => Boolean(row.is_loaded) === (row.name === name))) return;
    for (const row of this.rows) row.is_loaded = row.name === name;
    this._draw();
  }

  setCan(can) {
    if (['load', 'save'].every((name) => this.can.includes(name) === can.includes(name))) return;
    this.can = can;
    if (this.rows) this._draw();
  }

  _draw() {
    if (!this.rows.length)
      return replace(this.body, this.can.includes('save') ? empty('None yet', 'Press “Save policy”, or wait until the run improves.') : empty('None', 'No policy was saved.'));
    return replace(this.body, html('ul', { class: 'policies' }, this.rows.map((row) => this._item(row))));
  }

  _item(row) {
    const metrics = row.metrics ?? {}, told = TOLD.filter((name) => name in metrics).slice(0, 2).map((name) => [name, metrics[name]]);
    const load = button(row.is_loaded ? 'Loaded' : 'Load', async () => {
      if (await act(this.id, 'load', { policy: row.name })) await this.refresh();
    }, { class: 'small', disabled: !this.can.includes('load'), 'aria-label': `Load ${row.name}` });
    const age = [/^step-/.test(row.name) ? null : `${compact(row.agent_steps)} steps`, ago(row.saved)].filter(Boolean).join(', ');
    return html('li', { 'data-policy': row.name }, html('div', {}, html('b', {}, title(row.name)), ' ',
      html('span', { class: 'soft small' }, age), html('div', { class: 'soft small' },
        told.map(([name, value]) => `${name.replace(/^eval\//, '').replaceAll('_', ' ')} ${shown(name, value)}`).join(' · '))),
      row.is_loaded ? html('span', { class: 'good small' }, 'in use') : null, load, this.isRacing ? this._race(row) : null);
  }

  _race(row) {
    const query = new URLSearchParams({ opponent: `${this.id}/${row.name}` });
    return html('a', { class: 'button small', href: `#/drive?${query}`, 'aria-label': `Race it: ${row.name}` }, 'Race it');
  }
}

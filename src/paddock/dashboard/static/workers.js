// The workers of a run whose environments are elsewhere: one row for each, rewritten with every status.

import { compact, html, isNumber, number, write } from './dom.js';

const percent = (share) => (isNumber(share) ? `${Math.round(100 * share)} %` : '–');
const milliseconds = (seconds) => (isNumber(seconds) ? `${number(1000 * seconds, 2)} ms` : '–');
const rounded = (value) => (isNumber(value) && Math.abs(value) >= 100 ? number(Math.round(value)) : number(value, 3));
const bytes = (value) => (value >= 1000 ? `${number(value / 1000, 3)} kB` : `${number(value, 3)} bytes`);

// Heading, what it means, the text of a worker's cell.
const NUMBERS = [
  ['Steps/s', 'Agent steps per second, as of its last report', (worker) => compact(worker.steps_per_second)],
  ['Idle', 'Share of its time without a step: it waits for weights, or for the trainer to take what it sent', (worker) => percent(worker.idle_share)],
  ['Version lag', 'Versions of the weights behind the newest', (worker) => number(worker.version_lag)],
  ['Round trip', 'To the relay and back', (worker) => milliseconds(worker.round_trip)],
  ['Last return', 'Return of its last training episode', (worker) => rounded(worker.episode_return)],
  ['Last length', 'Steps of its last training episode', (worker) => rounded(worker.episode_length)],
  ['Test return', 'Return of its last test episode, without exploration', (worker) => rounded(worker.test_return)],
];

export class Workers {
  constructor() {
    this.rows = [];
    this.count = html('span', { class: 'soft small' });
    this.trainer = html('span', { class: 'soft small' });
    this.body = html('tbody', {});
    const head = html('tr', {}, ['Worker', 'Status'].map((name) => html('th', { scope: 'col' }, name)),
      NUMBERS.map(([name, title]) => html('th', { scope: 'col', class: 'num', title }, name)));
    this.element = html('section', { class: 'card workers', 'aria-label': 'Workers', hidden: true },
      html('div', { class: 'row spread' }, html('div', { class: 'row' }, html('h2', {}, 'Workers'), this.count), this.trainer),
      html('div', { class: 'scroll' }, html('table', {}, html('thead', {}, head), this.body)));
  }

  /** workers: of a status message; latest: metric -> value. */
  set(workers, latest = {}) {
    this.element.hidden = !workers.length;
    while (this.rows.length > workers.length) for (const node of this.rows.pop().elements) node.remove();
    while (this.rows.length < workers.length) this._add();
    workers.forEach((worker, index) => this._show(this.rows[index], worker));
    write(this.count, `${workers.filter((one) => one.is_connected).length} of ${workers.length} connected`);
    write(this.trainer, [['collect/idle_share', (share) => `Trainer idle ${percent(share)}`],
      ['collect/bytes_per_step', (size) => `${bytes(size)} per step`]]
      .filter(([name]) => isNumber(latest[name])).map(([name, text]) => text(latest[name])).join(' · '));
  }

  _add() {
    const row = { name: html('b', {}), host: html('span', { class: 'soft small' }), chip: html('span', {}),
      pause: html('div', { class: 'warning small' }), cells: NUMBERS.map(([name]) => html('td', { class: 'num', 'data-label': name })) };
    row.elements = [
      html('tr', {}, html('th', { scope: 'row' }, row.name, ' ', row.host), html('td', { class: 'chips' }, row.chip), row.cells),
      html('tr', { class: 'pause', hidden: true }, html('td', { colspan: 2 + NUMBERS.length }, row.pause)),
    ];
    this.rows.push(row);
    this.body.append(...row.elements);
  }

  /** What a worker says of itself is text, whatever it contains. */
  _show(row, worker) {
    const state = worker.is_connected ? (worker.pause ? 'paused' : 'connected') : 'away';
    write(row.name, worker.name);
    write(row.host, worker.host ? `on ${worker.host}` : '');
    write(row.pause, worker.pause);
    write(row.chip, state === 'away' ? 'not connected' : state);
    row.chip.className = `status ${{ connected: 'running', paused: 'paused', away: 'failed' }[state]}`;
    row.elements[0].classList.toggle('offline', state === 'away');
    row.elements[1].hidden = !worker.pause;
    NUMBERS.forEach(([, , text], index) => write(row.cells[index], text(worker)));
  }
}

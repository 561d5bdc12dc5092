// The budget of a real-time run's time-steps: what capture, send and inference take of it, and what is left.

import { html, isNumber, number, write } from './dom.js';

const METRICS = 'collect/realtime/';
const milliseconds = (seconds) => `${number(1000 * seconds, 3)} ms`;

// Name, the metric that it is, what it means.
const PARTS = [
  ['Capture', 'capture', 'Reading the sensors'],
  ['Send', 'send', 'Sending the control'],
  ['Inference', 'inference', 'The policy, and whatever else its process does between two steps'],
];

export class TimeBudget {
  constructor() {
    this.parts = PARTS.map(([name, metric, title]) => this._part(name, metric, title));
    this.slack = this._part('Slack', 'slack', 'What is left of the time-step');
    this.missed = html('span', { class: 'soft small' });
    const all = [...this.parts, this.slack];
    this.bar = html('div', { class: 'spent', role: 'img' }, all.map((part) => part.share));
    this.element = html('section', { class: 'card budget', 'aria-label': 'Time-step budget', hidden: true },
      html('div', { class: 'row spread' }, html('h2', {}, 'Time-step budget'), this.missed), this.bar,
      html('dl', { class: 'row' }, all.map((part) => part.legend)));
  }

  /** latest: metric -> value; runs that are not in real time have none of them. */
  set(latest) {
    const found = Object.fromEntries(['time_step', 'timed_out', 'late_by_max', ...PARTS.map(([, metric]) => metric)]
      .map((name) => [name, latest[METRICS + name]]));
    this.element.hidden = !isNumber(found.time_step) || !(found.time_step > 0);
    if (this.element.hidden) return;
    const taken = this.parts.map((part) => (isNumber(found[part.metric]) ? Math.max(found[part.metric], 0) : 0));
    const sum = taken.reduce((total, one) => total + one, 0), whole = Math.max(sum, found.time_step);
    this.parts.forEach((part, index) => this._show(part, taken[index], whole));
    this._show(this.slack, Math.max(found.time_step - sum, 0), whole);
    this.element.classList.toggle('over', sum > found.time_step);
    const missed = isNumber(found.timed_out) ? `${number(found.timed_out, 3)} of an episode's time-steps timed out` : '';
    write(this.missed, [`of ${milliseconds(found.time_step)}`, missed,
      isNumber(found.late_by_max) ? `late by ${milliseconds(found.late_by_max)} at most` : ''].filter(Boolean).join(' · '));
    this.bar.setAttribute('aria-label', [...this.parts, this.slack].map((part) => part.legend.textContent).join(', '));
  }

  _part(name, metric, title) {
    const value = html('dd', {}), share = html('i', { class: metric, title });
    return { metric, share, value, legend: html('div', { class: metric, title }, html('dt', {}, name), ' ', value) };
  }

  _show(part, seconds, whole) {
    part.share.style.width = `${(100 * seconds) / whole}%`;
    write(part.value, milliseconds(seconds));
  }
}

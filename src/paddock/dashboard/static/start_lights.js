// The start's five lamps: they light one after another once a foot is on the throttle, and the car goes when they are out.

import { html } from './dom.js';

const KEY = 'paddock.start_lights', COUNT = 5;
const EVERY = 0.55, LEAST_HOLD = 0.3, MOST_HOLD = 1.2; // s between two lamps, and with all of them lit

const remembered = () => {
  try {
    return localStorage.getItem(KEY) === 'on';
  } catch {
    return false;
  }
};

export class StartLights {
  /** onlamp(isLast): a lamp lit, or all went out. */
  constructor({ onlamp = () => {} } = {}) {
    this.onlamp = onlamp;
    this.isOn = remembered();
    this.lit = 0;
    this.lamps = Array.from({ length: COUNT }, () => html('i', {}));
    this.element = html('div', { class: 'start-lights', hidden: true, role: 'status', 'aria-label': 'Start lights' }, this.lamps);
    this.restart();
  }

  set(isOn) {
    this.isOn = isOn;
    try {
      localStorage.setItem(KEY, isOn ? 'on' : 'off');
    } catch { /* it lasts as long as the page */ }
    this.restart();
  }

  restart() {
    Object.assign(this, { clock: null, isOver: false, hold: LEAST_HOLD + (MOST_HOLD - LEAST_HOLD) * Math.random() });
    this._show(0, false);
  }

  /** Whether the throttle has to wait. isWaiting: the car stands on the grid; elapsed: s since the last call, so that a slow page skips no lamp. */
  holds(isWaiting, isOnThrottle, elapsed) {
    if (!isWaiting) {
      if (!this._wasMoving) this._show(0, false);
      this._wasMoving = true;
      return false;
    }
    if (this._wasMoving) this.restart();
    this._wasMoving = false;
    if (!this.isOn || this.isOver) return false;
    if (this.clock === null && !isOnThrottle) return false;
    this.clock = this.clock === null ? 0 : this.clock + elapsed;
    const lit = Math.min(COUNT, 1 + Math.floor(this.clock / EVERY));
    if (this.clock > EVERY * (COUNT - 1) + this.hold) {
      this.isOver = true;
      this._show(0, true);
      this.onlamp(true);
      return false;
    }
    if (lit > this.lit) this.onlamp(false);
    this._show(lit, true);
    return true;
  }

  _show(lit, isShown) {
    this.element.hidden = !isShown;
    if (lit === this.lit && !this.isOver) return;
    this.lit = lit;
    this.lamps.forEach((lamp, k) => lamp.classList.toggle('lit', k < lit));
    this.element.classList.toggle('go', this.isOver);
  }
}

// Follows the leading car by itself once the picture has been left alone for a while; a hand on the picture ends it.

import { prefersStill, toggle } from './dom.js';

const AFTER = 8000, STAY = 9000; // ms until it begins, and with one car at least
const KEY = 'paddock-follow-leader';

export class Director {
  /** view: the picture; laps: knows who leads. */
  constructor(view, laps) {
    Object.assign(this, { view, laps, since: performance.now(), chosen: 0 });
    this.isOn = !prefersStill() && localStorage.getItem(KEY) !== 'off';
    this.isDirecting = false;
    this.button = toggle('Follow the leader', this.isOn, (on) => this._set(on), { title: 'The view follows the car that has come farthest' });
    for (const type of ['pointerdown', 'wheel', 'keydown']) view.above.addEventListener(type, () => this._touched(), { passive: true });
  }

  _set(on) {
    this.isOn = on;
    localStorage.setItem(KEY, on ? 'on' : 'off');
    this.since = on ? -Infinity : performance.now();
    this.chosen = 0;
    if (!on && this.isDirecting) this.view.fit();
    this.isDirecting = false;
  }

  _touched() {
    if (this.isOn) {
      this.isOn = false;
      this.button.setAttribute('aria-pressed', 'false');
    }
    this.isDirecting = false;
  }

  /** After a snapshot: begin, or change to a new leader. */
  turn(now = performance.now()) {
    if (!this.isOn || now - this.since < AFTER || now - this.chosen < STAY) return;
    const { leader } = this.laps;
    if (leader === null) return;
    this.chosen = now;
    this.isDirecting = true;
    this.view.follow(leader);
  }
}

// Instruments of the car that is followed or driven.

import { html, isNumber, lapTime, write } from './dom.js';
import { OFF_TRACK } from './messages.js';

const LIGHTS = 16, REVERSE = 255;

export class Hud {
  constructor() {
    this.title = html('strong', {});
    this.speed = html('b', {}, '0');
    this.gear = html('b', { class: 'gear' });
    this.lights = Array.from({ length: LIGHTS }, () => html('i', {}));
    this.revs = html('div', { class: 'revs' }, this.lights);
    this.laps = html('span', {}, 'Lap');
    [this.now, this.last, this.best] = [0, 1, 2].map(() => html('b', {}));
    this.throttle = html('i', { class: 'go' });
    this.brake = html('i', { class: 'slow' });
    this.wheel = html('i', { class: 'wheel' });
    this.dials = html('div', { class: 'hud dials' },
      html('div', {}, this.speed, html('span', {}, 'km/h'), this.gear),
      this.revs,
      html('div', { class: 'pedals' }, html('span', { class: 'steer' }, this.wheel), html('span', {}, this.brake),
        html('span', {}, this.throttle)));
    this.timing = html('div', { class: 'hud timing' }, this.title,
      html('div', {}, this.laps, this.now), html('div', {}, html('span', {}, 'last'), this.last),
      html('div', {}, html('span', {}, 'best'), this.best));
    this.element = html('div', { class: 'instruments', hidden: true }, this.timing, this.dials);
    this.reset();
  }

  reset() {
    this.bestLap = null;
    this.seenLast = null;
  }

  /** car: see `snapshots.car`; snapshot: its dials are those of the followed car. */
  update(car, snapshot, title) {
    this.element.hidden = !car;
    if (!car) return;
    if (isNumber(car.lastLap) && car.lastLap > 0 && car.lastLap !== this.seenLast) {
      this.seenLast = car.lastLap;
      this.bestLap = Math.min(this.bestLap ?? Infinity, car.lastLap);
    }
    write(this.title, title);
    write(this.speed, String(Math.round(3.6 * (car.speed ?? 0))));
    write(this.gear, snapshot.gear === REVERSE ? 'R' : snapshot.gear ? String(snapshot.gear) : '');
    write(this.laps, snapshot.laps ? `lap ${snapshot.laps + 1}` : 'lap');
    write(this.now, lapTime(car.lapTime, 1));
    write(this.last, lapTime(car.lastLap));
    write(this.best, lapTime(this.bestLap));
    this.timing.classList.toggle('off', Boolean(car.state & OFF_TRACK));
    this.revs.hidden = !snapshot.gear;
    this._light(snapshot.revs);
    this.throttle.style.height = `${100 * Math.max(car.throttle ?? 0, 0)}%`;
    this.brake.style.height = `${100 * Math.max(-(car.throttle ?? 0), 0)}%`;
    this.wheel.style.left = `${50 - 46 * (car.steer ?? 0)}%`;
  }

  _light(revs) {
    const lit = Math.round(revs * LIGHTS);
    this.lights.forEach((light, k) => {
      const kind = k >= lit ? '' : k < 10 ? 'low' : k < 13 ? 'middle' : 'high';
      if (light.className !== kind) light.className = kind;
    });
  }
}

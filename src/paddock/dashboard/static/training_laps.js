// What the cars of a training run do, told from their snapshots: laps, the best of them, and which car leads.

import { isNumber } from './dom.js';
import { COLUMNS, RESTARTED } from './messages.js';

const WIDTH = COLUMNS.length, [PROGRESS, LAST_LAP, STATE] = ['progress', 'lastLap', 'state'].map((name) => COLUMNS.indexOf(name));
const HALF = 0.5;

export class TrainingLaps {
  constructor() {
    this.clear();
  }

  clear() {
    this.count = 0; // laps from line to line that were seen
    this.best = null; // s
    this.distances = []; // laps that each car has driven in its present episode
    this.before = null;
  }

  push(snapshot) {
    const { values, cars } = snapshot, { before } = this;
    if (before?.cars === cars) for (let car = 0; car < cars; car += 1) this._car(car, before.values, values);
    else this.distances = new Array(cars).fill(0);
    this.before = snapshot;
  }

  _car(car, before, values) {
    const at = car * WIDTH, last = values[at + LAST_LAP], isNew = values[at + STATE] & RESTARTED;
    if (isNumber(last) && last > 0 && last !== before[at + LAST_LAP] && !isNew) {
      this.count += 1;
      this.best = Math.min(this.best ?? Infinity, last);
    }
    let step = values[at + PROGRESS] - before[at + PROGRESS];
    if (step < -HALF) step += 1;
    else if (step > HALF) step -= 1;
    this.distances[car] = isNew ? 0 : this.distances[car] + (Number.isFinite(step) ? step : 0);
  }

  /** The car that has come farthest since its start, or null. */
  get leader() {
    let found = null;
    this.distances.forEach((distance, car) => { if (distance > 0 && (found === null || distance > this.distances[found])) found = car; });
    return found;
  }
}

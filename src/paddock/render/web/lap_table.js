// A lap as a table: where two laps are compared at one place.

import { capital } from './elements.js';

/** A lap as time over the share of the lap, so that two laps can be compared at one place. */
export class LapTable {
  constructor(ghost, circuit) {
    this.title = capital(ghost.driver ?? ghost.kind);
    this.lapTime = ghost.lap_time;
    this.shares = [0];
    this.times = [0];
    let near = null;
    ghost.x.forEach((x, k) => {
      const { share, index } = circuit.progress(x, ghost.y[k], near);
      near = index;
      const time = ghost.time ? ghost.time[k] : k * ghost.dt;
      if (share > this.shares.at(-1) && time > this.times.at(-1) && time < this.lapTime) {
        this.shares.push(share);
        this.times.push(time);
      }
    });
    this.shares.push(1);
    this.times.push(this.lapTime);
  }

  /** Seconds since the line at a share of the lap. */
  at(share) {
    let low = 0, high = this.shares.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.shares[middle] <= share) low = middle;
      else high = middle;
    }
    const part = (share - this.shares[low]) / (this.shares[high] - this.shares[low] || 1);
    return this.times[low] + part * (this.times[high] - this.times[low]);
  }

  sectors(bounds) {
    const marks = [0, ...bounds, 1].map((share) => this.at(share));
    return marks.slice(1).map((time, k) => time - marks[k]);
  }
}

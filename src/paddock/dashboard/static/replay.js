// Laps that were driven before, played in the picture of the circuit as if they were live.

import { get } from './api.js';
import { clamp } from './dom.js';
import { COLUMNS } from './messages.js';

const WIDTH = COLUMNS.length, PAUSE = 1.2; // s between the end of a lap and its next beginning

/** Laps (`x`, `y`, `heading` every `dt` s) or ways of several cars in place of a run's snapshots; it begins again by itself. */
export class LapPlayback {
  constructor() {
    this.cars = [];
    this.clear();
  }

  clear() {
    this.time = 0;
    this.current = null;
    this.poses = new Float32Array(0);
    this.isPlaying = true;
  }

  get latest() {
    return this.current;
  }

  /** cars: [{x, y, heading, dt, lap_time}…]. */
  setCars(cars) {
    this.cars = cars;
    this.length = Math.max(...cars.map((car) => car.dt * (car.x.length - 1)), 0.1);
    this.time = 0;
    this.poses = new Float32Array(cars.length * WIDTH);
  }

  push() {}

  sample(now) {
    if (!this.cars.length) return null;
    const elapsed = this.isPlaying ? clamp(now - (this._before ?? now), 0, 0.25) : 0;
    this._before = now;
    this.time = (this.time + elapsed) % (this.length + PAUSE);
    this.cars.forEach((car, index) => this._place(car, index * WIDTH));
    this.current = { cars: this.cars.length, followed: null, time: this.time, gear: 0, revs: 0, laps: 0, rays: null, values: this.poses };
    return this.poses;
  }

  _place(car, at) {
    const { x, y, heading, dt } = car, last = x.length - 1, clock = Math.min(this.time, dt * last);
    const low = Math.min(Math.floor(clock / dt), last - 1), share = clock / dt - low, next = low + 1;
    const way = Math.hypot(x[next] - x[low], y[next] - y[low]), [place, placeY] = curve(car, low, share, way);
    const turn = heading[next] - heading[low];
    this.poses[at] = place;
    this.poses[at + 1] = placeY;
    this.poses[at + 2] = heading[low] + share * Math.atan2(Math.sin(turn), Math.cos(turn));
    this.poses[at + 3] = clock < dt * last ? way / dt : 0;
    this.poses[at + 4] = clamp(Math.atan2(Math.sin(turn), Math.cos(turn)) / Math.max(way, 0.5) * 6, -1, 1);
    this.poses[at + 5] = 0;
    this.poses[at + 6] = clock / (dt * last);
    this.poses[at + 7] = clock;
    this.poses[at + 8] = this.time > dt * last && car.lap_time ? car.lap_time : NaN;
    this.poses[at + 9] = 0;
  }
}

/** Between two places along a cubic that leaves and arrives in the car's headings. */
function curve({ x, y, heading }, low, t, way) {
  const next = low + 1, t2 = t * t, t3 = t2 * t, leave = (t3 - 2 * t2 + t) * way, arrive = (t3 - t2) * way, middle = 3 * t2 - 2 * t3;
  return [x[low] + middle * (x[next] - x[low]) + leave * Math.cos(heading[low]) + arrive * Math.cos(heading[next]),
    y[low] + middle * (y[next] - y[low]) + leave * Math.sin(heading[low]) + arrive * Math.sin(heading[next])];
}

/** The best lap of a replay as cars that can be played, or null. */
export const bestLap = ({ laps }) => (laps.length ? laps.map((lap) => ({ ...lap })) : null);

/** All cars of an evaluation from their standing starts, or null where they were not kept. */
export const evaluationDrives = ({ drives }) => (drives?.cars.length ? drives.cars.map((car) => ({ ...car, dt: drives.dt })) : null);

export const runReplay = (id, which = 'best') => get(`/api/runs/${encodeURIComponent(id)}/replay?which=${which}`);

/** Let a picture play cars on the circuit of a scene; gives the playback. */
export function play(view, scene, cars) {
  const playback = view.playback instanceof LapPlayback ? view.playback : new LapPlayback();
  view.playback = playback;
  view.setScene({ ...scene, cars: cars.length });
  playback.setCars(cars);
  return playback;
}

// Where the cars are: reading binary snapshots, and playing them back smoothly between two of them.

import { COLUMNS, HAS_RAYS, HEADER, HEADER_SIZE, NO_CAR, RESTARTED, SNAPSHOT_VERSION } from './messages.js';

const [X, Y, HEADING, SPEED, STATE] = ['x', 'y', 'heading', 'speed', 'state'].map((name) => COLUMNS.indexOf(name));
const WIDTH = COLUMNS.length;
const KEPT = 400, WINDOW = 6, FORGET = 8; // snapshots; s to judge the pace by; s of silence after which a new story begins

/** Little endian: see docs/dashboard_api.md. Gives null for what is not a snapshot. */
export function decode(buffer) {
  if (buffer.byteLength < HEADER_SIZE) return null;
  const view = new DataView(buffer), read = (name) => view[HEADER[name][1]](HEADER[name][0], true);
  const cars = read('cars'), rays = read('flags') & HAS_RAYS ? read('rays') : 0;
  if (read('version') !== SNAPSHOT_VERSION || buffer.byteLength < HEADER_SIZE + 4 * (cars * WIDTH + rays)) return null;
  const followed = read('followed'), dials = read('dials');
  return {
    cars,
    followed: followed === NO_CAR ? null : followed,
    time: read('time'),
    wall: read('wall'),
    sequence: read('sequence'),
    gear: dials & 255,
    revs: ((dials >> 8) & 255) / 255,
    laps: dials >>> 16,
    values: new Float32Array(buffer, HEADER_SIZE, cars * WIDTH),
    rays: rays ? new Float32Array(buffer, HEADER_SIZE + 4 * cars * WIDTH, rays) : null,
  };
}

/** One car of a snapshot as an object; what is not a number is null. */
export function car(snapshot, index) {
  if (index === null || index >= snapshot.cars) return null;
  const found = {};
  COLUMNS.forEach((name, k) => {
    const value = snapshot.values[index * WIDTH + k];
    found[name] = Number.isFinite(value) ? value : null;
  });
  return found;
}

/**
 * Snapshots played back by the clock of the simulation. Learning drives in bursts, with a pause for each update; shown
 * as they come, cars would sprint and freeze. So the playhead moves at the mean pace of the last seconds, as far behind
 * the newest snapshot as the longest pause asks for. A steady sender (a drive) is shown one snapshot late.
 */
export class Playback {
  constructor(isSteady = false) {
    this.isSteady = isSteady;
    this.clear();
  }

  clear() {
    this.snapshots = [];
    this.arrivals = []; // [s on our clock, s of simulation] of the last seconds
    this.time = null; // s of simulation that is shown
    this.current = null; // the snapshot that is moved towards
    this.poses = new Float32Array(0);
  }

  get latest() {
    return this.snapshots.at(-1) ?? null;
  }

  push(snapshot, now) {
    const last = this.latest;
    const isNewStory = last && (snapshot.cars !== last.cars || snapshot.time < last.time || snapshot.wall - last.wall > FORGET);
    if (isNewStory) this.clear();
    this.snapshots.push(snapshot);
    this.arrivals.push([now, snapshot.time]);
    while (now - this.arrivals[0][0] > WINDOW && this.arrivals.length > 2) this.arrivals.shift();
    while (this.snapshots.length > KEPT) this.snapshots.shift();
  }

  /** Simulated seconds per second, and how far behind the newest snapshot the playhead should stay (s simulated). */
  _pace() {
    const { arrivals } = this, [first, last] = [arrivals[0], arrivals.at(-1)], span = last[0] - first[0];
    if (span < 0.05) return { rate: 1, lag: 0.05 };
    const rate = (last[1] - first[1]) / span;
    if (this.isSteady) return { rate, lag: (1.3 * rate * span) / (arrivals.length - 1) };
    let pause = 0;
    for (let k = 1; k < arrivals.length; k += 1) pause = Math.max(pause, arrivals[k][0] - arrivals[k - 1][0]);
    return { rate, lag: rate * (1.1 * pause + 0.02) };
  }

  _advance(now) {
    const elapsed = Math.min(now - (this._before ?? now), 0.25), { time } = this.latest;
    this._before = now;
    const { rate, lag } = this._pace();
    if (this.time === null || time - this.time > 3 * lag + rate) this.time = time - lag;
    const error = (time - this.time - lag) / Math.max(lag, 0.05 * rate, 1e-3);
    this.time += elapsed * rate * Math.min(Math.max(1 + 0.5 * error, 0), 2);
    this.time = Math.min(this.time, time);
  }

  /** Poses at `now` (s) as rows of COLUMNS, or null before the first snapshot. Valid until the next call. */
  sample(now) {
    const { snapshots } = this, latest = this.latest;
    if (!latest) return null;
    this._advance(now);
    let after = snapshots.length - 1;
    while (after > 0 && snapshots[after - 1].time >= this.time) after -= 1;
    const to = snapshots[after], from = snapshots[Math.max(after - 1, 0)], span = to.time - from.time;
    const share = span > 0 ? Math.min(Math.max((this.time - from.time) / span, 0), 1) : 1;
    if (this.poses.length !== latest.values.length) this.poses = new Float32Array(latest.values.length);
    for (let row = 0; row < latest.cars; row += 1) blend(from, to, share, row * WIDTH, this.poses);
    this.current = { ...to, values: this.poses };
    return this.poses;
  }
}

/** Along a cubic that leaves and arrives with the car's own velocity; a car that was put elsewhere jumps. */
function blend(from, to, share, at, poses) {
  const a = from.values, b = to.values, elapsed = to.time - from.time;
  for (let k = 0; k < WIDTH; k += 1) poses[at + k] = b[at + k];
  const dx = b[at + X] - a[at + X], dy = b[at + Y] - a[at + Y], way = Math.hypot(dx, dy);
  const plausible = Math.max(a[at + SPEED], b[at + SPEED], 2) * elapsed * 1.6 + 2;
  if (from === to || share >= 1 || b[at + STATE] & RESTARTED || !(way <= plausible)) return;
  const t = share, t2 = t * t, t3 = t2 * t;
  const reachA = Math.min(a[at + SPEED] * elapsed, 1.5 * way), reachB = Math.min(b[at + SPEED] * elapsed, 1.5 * way);
  const leave = t3 - 2 * t2 + t, arrive = t3 - t2, middle = 3 * t2 - 2 * t3;
  poses[at + X] = a[at + X] + middle * dx
    + leave * reachA * Math.cos(a[at + HEADING]) + arrive * reachB * Math.cos(b[at + HEADING]);
  poses[at + Y] = a[at + Y] + middle * dy
    + leave * reachA * Math.sin(a[at + HEADING]) + arrive * reachB * Math.sin(b[at + HEADING]);
  const turn = b[at + HEADING] - a[at + HEADING];
  poses[at + HEADING] = a[at + HEADING] + share * Math.atan2(Math.sin(turn), Math.cos(turn));
  for (const column of [3, 4, 5]) poses[at + column] = a[at + column] + share * (b[at + column] - a[at + column]);
  if (b[at + 7] > a[at + 7]) poses[at + 7] = a[at + 7] + share * (b[at + 7] - a[at + 7]);
}

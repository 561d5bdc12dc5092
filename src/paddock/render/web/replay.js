// Laps driven again on their circuit, all across the line at one moment: play, pause, scrub, pace, and a car to follow.

import { Camera } from './camera.js';
import { drawCar, drawGhost, PAINTS, setOutline, smallest } from './car_art.js';
import { Circuit } from './circuit.js';
import { html, replace, write } from './elements.js';
import { ghostColour, ghostPose } from './ghosts.js';
import { Ground } from './ground.js';
import { LapTable } from './lap_table.js';
import { clamp, delta, isNumber, lapTime } from './numbers.js';
import { theme } from './theme.js';

const ROOM = { left: 28, right: 28, top: 28, bottom: 28 }; // pixels kept free around the whole circuit
const RATES = [[0.5, '½×'], [1, '1×'], [2, '2×'], [4, '4×']];
const ENDING = 1; // s that cars rest at the end before everything begins again
const TEXT_EVERY = 0.1; // s between two changes of the numbers
const REFERENCE = 'reference';

export class Replay {
  /**
   * scene: `track`, `car` as the scene of a run has them. laps: `driver`, `kind`, `lap_time` (null: not completed),
   * `duration` s, `dt` s, columns `x`, `y`, `heading`, and `sectors`. autoplay: whether it begins by itself.
   */
  constructor(scene, laps, { autoplay = true, isNarrow = false } = {}) {
    this.time = 0;
    this.rate = 1;
    this.isPlaying = autoplay;
    this.followed = null; // index of a lap
    this.frames = 0;
    this.camera = new Camera();
    this._build(isNarrow);
    this.setScene(scene);
    this.setLaps(laps);
    this._listen();
    this._watcher = new ResizeObserver(() => this._resize());
    this._watcher.observe(this.stage);
    this._request = requestAnimationFrame((now) => this._turn(now));
  }

  close() {
    cancelAnimationFrame(this._request);
    this._watcher.disconnect();
  }

  setScene(scene) {
    this.scene = scene;
    setOutline(scene.car.outline);
    this.circuit = new Circuit(scene.track);
    this.ground = new Ground(this.circuit, scene.reference ?? null);
    this._isStale = true;
  }

  /** Other laps on the same circuit; time and the place of a followed one stay. */
  setLaps(laps) {
    this.laps = laps.map((lap, index) => ({ ...lap, ghost: { ...lap, lap_time: lap.duration },
      colour: lap.kind === REFERENCE ? ghostColour(REFERENCE) : lap.colour ?? PAINTS[index % PAINTS.length],
      table: isNumber(lap.lap_time) ? new LapTable(lap, this.circuit) : null, isShown: true }));
    this.duration = Math.max(0.1, ...laps.map((lap) => lap.duration));
    this.scrubber.max = this.duration;
    this.time = Math.min(this.time, this.duration);
    if (this.followed !== null && this.followed >= laps.length) this.follow(null);
    this._fillTable();
    this._textAt = 0;
  }

  follow(index) {
    this.followed = index;
    this.camera.mode = index === null ? 'fit' : 'follow';
    this.whole.hidden = index === null;
    this.rows.forEach((row, k) => row.setAttribute('aria-selected', String(k === index)));
    this._textAt = 0;
  }

  play(isPlaying = !this.isPlaying) {
    if (isPlaying && this.time >= this.duration) this.time = 0;
    this.isPlaying = isPlaying;
    write(this.playing, isPlaying ? '❚❚' : '▶');
    this.playing.setAttribute('aria-label', isPlaying ? 'Pause' : 'Play');
  }

  seek(time) {
    this.time = clamp(time, 0, this.duration);
    this._textAt = 0;
  }

  _build(isNarrow) {
    const press = (label, act, more = {}) => html('button', { type: 'button', onclick: act, ...more }, label);
    this.below = html('canvas', { 'aria-hidden': 'true' });
    this.above = html('canvas', { tabindex: '0', role: 'img',
      'aria-label': 'The circuit with the laps. Space plays and pauses, arrows move in time, brackets choose a car.' });
    this.clock = html('b', {}, '0:00.0');
    this.told = html('span', {});
    this.whole = press('Whole circuit', () => this.follow(null), { hidden: true });
    this.stage = html('div', { class: 'replay-stage' }, this.below, this.above,
      html('div', { class: 'replay-clock' }, this.clock, this.told), html('div', { class: 'replay-tools' }, this.whole,
        press('+', () => this.zoom(1.3), { 'aria-label': 'Closer' }), press('−', () => this.zoom(0.77), { 'aria-label': 'Farther' })));
    this.playing = press('', () => this.play(), { class: 'replay-play' });
    this.scrubber = html('input', { type: 'range', min: 0, max: 1, step: 0.01, value: 0, 'aria-label': 'Moment of the lap, s',
      oninput: () => this.seek(Number(this.scrubber.value)) });
    this.rates = RATES.map(([rate, label]) => press(label, () => this._setRate(rate), { 'data-rate': rate }));
    this.turning = press('Turn with the car', () => {
      this.camera.turns = !this.camera.turns;
      this.turning.setAttribute('aria-pressed', String(this.camera.turns));
    }, { 'aria-pressed': 'false' });
    this.board = html('tbody', {});
    this.rows = [];
    const heads = ['', 'Driver', 'Lap', 'Gap', 'km/h'].map((name, k) => html('th', { class: k > 1 ? 'num' : '' }, name));
    this.table = html('table', { class: 'replay-laps' }, html('thead', {}, html('tr', {}, heads)), this.board);
    this.element = html('div', { class: `replay${isNarrow ? ' narrow' : ''}` }, this.stage,
      html('div', { class: 'replay-controls' }, this.playing, this.scrubber,
        html('div', { class: 'replay-rates', role: 'group', 'aria-label': 'Pace' }, this.rates), this.turning),
      html('div', { class: 'scroll' }, this.table));
    this._setRate(1);
    this.play(this.isPlaying);
  }

  _setRate(rate) {
    this.rate = rate;
    for (const one of this.rates) one.setAttribute('aria-pressed', String(Number(one.dataset.rate) === rate));
  }

  zoom(factor) {
    this.camera.zoomAt(this.camera.width / 2, this.camera.height / 2, factor);
    this._isStale = true;
  }

  _fillTable() {
    this.rows = this.laps.map((lap, index) => {
      const swatch = html('i', { class: 'swatch' });
      swatch.style.background = lap.colour;
      lap.cells = [html('td', { class: 'num' }), html('td', { class: 'num' })];
      const name = html('button', { type: 'button', class: 'replay-name', title: 'Follow this car',
        onclick: () => this.follow(this.followed === index ? null : index) }, lap.driver);
      const shown = html('input', { type: 'checkbox', 'aria-label': `Show ${lap.driver}`, onchange: () => { lap.isShown = shown.checked; } });
      shown.checked = lap.isShown;
      return html('tr', { 'aria-selected': String(index === this.followed) }, html('td', {}, shown, ' ', swatch), html('td', {}, name),
        html('td', { class: 'num' }, isNumber(lap.lap_time) ? lapTime(lap.lap_time) : 'no lap'), lap.cells);
    });
    replace(this.board, this.rows);
  }

  _listen() {
    const held = new Map(), place = (event) => [event.offsetX, event.offsetY];
    let travel = 0;
    this.above.addEventListener('pointerdown', (event) => {
      held.set(event.pointerId, place(event));
      travel = 0;
      this.above.setPointerCapture(event.pointerId);
    });
    this.above.addEventListener('pointermove', (event) => {
      const from = held.get(event.pointerId), to = place(event);
      if (!from) return;
      const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
      travel += Math.hypot(to[0] - from[0], to[1] - from[1]);
      held.set(event.pointerId, to);
      if (other) this.camera.zoomAt((to[0] + other[0]) / 2, (to[1] + other[1]) / 2,
        Math.hypot(to[0] - other[0], to[1] - other[1]) / Math.max(Math.hypot(from[0] - other[0], from[1] - other[1]), 10));
      else if (travel > 6 && this.camera.mode !== 'follow') this.camera.drag(to[0] - from[0], to[1] - from[1]);
      this._isStale = true;
    });
    const release = (event) => {
      if (held.delete(event.pointerId) && event.type === 'pointerup' && travel < 6) this._pick(...place(event));
    };
    this.above.addEventListener('pointerup', release);
    this.above.addEventListener('pointercancel', release);
    this.above.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.camera.zoomAt(...place(event), Math.exp(-clamp(event.deltaY, -120, 120) / 400));
      this._isStale = true;
    }, { passive: false });
    this.above.addEventListener('keydown', (event) => this._key(event));
  }

  _key(event) {
    const count = this.laps.length, next = (by) => this.follow(this.followed === null ? 0 : (this.followed + by + count) % count);
    const keys = { ' ': () => this.play(), ArrowLeft: () => this.seek(this.time - 1), ArrowRight: () => this.seek(this.time + 1),
      ']': () => next(1), '[': () => next(-1), Escape: () => this.follow(null), 0: () => this.follow(null),
      '+': () => this.zoom(1.25), '-': () => this.zoom(0.8) };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  _pick(px, py) {
    let found = null, least = 30;
    this.poses().forEach((pose, index) => {
      if (!pose || !this.laps[index].isShown) return;
      const [x, y] = this.camera.screen(pose.x, pose.y), gap = Math.hypot(x - px, y - py);
      if (gap < least) [found, least] = [index, gap];
    });
    if (found !== null) this.follow(found === this.followed ? null : found);
  }

  _resize() {
    const { clientWidth: width, clientHeight: height } = this.stage, pixels = Math.min(devicePixelRatio || 1, 2);
    if (!width || !height) return;
    for (const canvas of [this.below, this.above]) {
      canvas.width = Math.round(width * pixels);
      canvas.height = Math.round(height * pixels);
    }
    this.camera.resize(width, height, pixels);
    this._isStale = true;
  }

  /** Where each lap's car is now; one that has arrived stays where its lap ended. */
  poses() {
    return this.laps.map(({ ghost }) => ghostPose(ghost, Math.min(this.time, ghost.lap_time - 1e-3)));
  }

  _turn(now) {
    this._request = requestAnimationFrame((next) => this._turn(next));
    const elapsed = Math.min((now - (this._last ?? now)) / 1000, 0.1);
    this._last = now;
    if (this.isPlaying && !document.hidden) {
      this.time += elapsed * this.rate;
      if (this.time > this.duration + ENDING * this.rate) this.time = 0;
    }
    if (this.camera.width < 2) return;
    const poses = this.poses();
    this._aim(poses, elapsed);
    this._draw(poses);
    if (now / 1000 - (this._textAt ?? 0) > TEXT_EVERY) this._tell(now / 1000, poses);
    this.frames += 1;
  }

  _aim(poses, elapsed) {
    const { camera } = this, pose = this.followed === null ? null : poses[this.followed];
    if (camera.mode === 'free') return;
    const goal = camera.mode === 'follow' && pose ? camera.behind({ ...pose, speed: this._speed(this.followed) }, this.scene.car.length)
      : camera.fit(this.circuit.bounds, ROOM);
    const key = `${camera.mode}${this.followed}|${camera.width}x${camera.height}`;
    if (key !== this._aimed) [this._aimed, this._arrival] = [key, this._aimed?.split('|')[1] === key.split('|')[1] ? 0 : 1];
    this._arrival = Math.min(1, this._arrival + elapsed / 0.5);
    const share = this._arrival >= 1 ? 1 : this._arrival ** 2;
    if (camera.approach(goal, share, camera.turns ? 1 - Math.exp(-elapsed * 9) : 1)) this._isStale = true;
  }

  _draw(poses) {
    const { camera } = this;
    if (this._isStale || this._theme !== theme()) {
      this._theme = theme();
      this.ground.draw(this.below.getContext('2d', { alpha: false }), camera, { theme: theme(), line: false });
      this._isStale = camera.isMoving;
    }
    const context = this.above.getContext('2d');
    context.setTransform(camera.pixels, 0, 0, camera.pixels, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    const { length, width } = this.scene.car, shown = Math.max(length * camera.zoom, smallest(camera.width));
    const size = { length: shown, width: (shown * width) / length, pixels: camera.pixels };
    for (let index = this.laps.length - 1; index >= 0; index -= 1) {
      const pose = poses[index], lap = this.laps[index];
      if (!pose || !lap.isShown) continue;
      const [x, y] = camera.screen(pose.x, pose.y), angle = camera.angle(pose.heading);
      if (lap.kind === REFERENCE) drawGhost(context, { x, y, angle, colour: lap.colour, ...size });
      else drawCar(context, { x, y, angle, paint: lap.colour, ...size });
    }
  }

  /** m/s, from where the car was a moment ago. */
  _speed(index) {
    const { ghost } = this.laps[index], time = clamp(this.time, 0.1, ghost.lap_time - 1e-3);
    const [from, to] = [ghostPose(ghost, time - 0.1), ghostPose(ghost, time)];
    return from && to && this.time <= ghost.lap_time ? Math.hypot(to.x - from.x, to.y - from.y) / 0.1 : 0;
  }

  /** Seconds that a lap is behind the chosen one (or the first) at the place where it is now; null where that cannot be said. */
  gap(index) {
    const base = this.laps[this.followed ?? 0], other = this.laps[index];
    if (!base?.table || !other.table || base === other) return null;
    if (this.time >= base.lap_time) return other.lap_time - base.lap_time;
    const pose = ghostPose(base.ghost, this.time), { share } = this.circuit.progress(pose.x, pose.y);
    return share < 0.003 ? null : other.table.at(share) - base.table.at(share);
  }

  _tell(now) {
    this._textAt = now;
    const time = Math.min(this.time, this.duration);
    write(this.clock, lapTime(Math.max(time, 1e-9), 1));
    write(this.told, this.followed === null ? '' : `${this.laps[this.followed].driver} · ${Math.round(3.6 * this._speed(this.followed))} km/h`);
    if (document.activeElement !== this.scrubber || this.isPlaying) this.scrubber.value = time;
    this.laps.forEach((lap, index) => {
      const gap = this.gap(index);
      write(lap.cells[0], isNumber(gap) ? delta(gap, 2) : '');
      write(lap.cells[1], String(Math.round(3.6 * this._speed(index))));
    });
  }
}

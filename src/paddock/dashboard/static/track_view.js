// The live picture: ground below, cars, ghosts and rays above, at the screen's own rate; and the hand that moves it.

import { Camera } from './kit/camera.js';
import { drawCar, drawGhost, PAINTS, setOutline, smallest } from './kit/car_art.js';
import { Circuit } from './kit/circuit.js';
import { clamp, html, prefersStill } from './dom.js';
import { ghostColour, ghostPose, referenceGhost } from './kit/ghosts.js';
import { Ground, speedColour } from './kit/ground.js';
import { Minimap } from './minimap.js';
import { COLUMNS, HUMAN, OFF_TRACK, RESTARTED } from './messages.js';
import { Playback } from './snapshots.js';
import { theme } from './kit/theme.js';

const WIDTH = COLUMNS.length;
const ROOM = { left: 26, right: 26, top: 26, bottom: 26 }; // pixels kept free around the whole circuit
const TRAIL = 26, TRAIL_EVERY = 0.05; // points, s
const NEAR = 26; // pixels around a click

export class TrackView {
  /** options: rays, line, ghosts, trails (booleans), colour ('car' | 'speed'). onfollow(index | null), onframe(view). */
  constructor(options, { isDriving = false, onfollow = () => {}, onframe = () => {} } = {}) {
    this.options = { rays: true, line: false, ghosts: true, trails: true, colour: 'car', ...options };
    this.onfollow = onfollow;
    this.onframe = onframe;
    this.isDriving = isDriving;
    this.playback = new Playback(isDriving);
    this.camera = new Camera();
    this.ghosts = new Map(); // by kind
    this.followed = null;
    this.third = null; // a ThirdView, where there is one
    this.columns = WIDTH;
    this.trails = [];
    this.frames = 0;
    this._build();
    this._listen();
    this._request = requestAnimationFrame((now) => this._turn(now));
  }

  _build() {
    this.below = html('canvas', { 'aria-hidden': 'true' });
    this.above = html('canvas', { tabindex: '0', role: 'img', 'aria-label':
      'The circuit from above with its cars. Plus and minus zoom, arrows move, brackets choose a car, 0 shows everything.' });
    this.minimap = new Minimap();
    this.element = html('div', { class: 'track' }, this.below, this.above, this.minimap.canvas);
    this._watcher = new ResizeObserver(() => this._resize());
    this._watcher.observe(this.element);
  }

  close() {
    cancelAnimationFrame(this._request);
    this._watcher.disconnect();
    this._stop.abort();
    this.third?.close();
  }

  setScene(scene) {
    const isOther = !this.circuit || this.circuit.name !== scene.track.name || this.scene.cars !== scene.cars
      || this.circuit.count !== scene.track.centre.length;
    this.scene = scene;
    setOutline(scene.car.outline);
    if (isOther) {
      this.circuit = new Circuit(scene.track);
      this.ground = new Ground(this.circuit, scene.reference);
      this.minimap.setCircuit(this.circuit);
      this.playback.clear();
      this.ghosts.clear();
      this.third?.setScene();
    }
    this.topSpeed = scene.reference ? Math.max(...scene.reference.speed) : 60;
    if (scene.reference) this.setGhost(referenceGhost(scene.reference));
    this._isStale = true;
  }

  setGhost(ghost) {
    this.ghosts.set(ghost.kind, ghost);
  }

  push(snapshot) {
    this.playback.push(snapshot, performance.now() / 1000);
  }

  set(options) {
    Object.assign(this.options, options);
    this._isStale = true;
  }

  redraw() {
    this._isStale = true;
  }

  follow(index) {
    if (index === this.followed) return;
    this.followed = index;
    this.camera.mode = index === null ? 'fit' : 'follow';
    this.onfollow(index);
  }

  fit() {
    this.follow(null);
    this.camera.mode = 'fit';
  }

  zoom(factor) {
    this.camera.zoomAt(this.camera.width / 2, this.camera.height / 2, factor);
  }

  paint(index, poses) {
    if (this.options.colour === 'speed') return speedColour(Math.round((20 * poses[index * WIDTH + 3]) / this.topSpeed) / 20);
    return PAINTS[index % PAINTS.length];
  }

  _resize() {
    const { clientWidth: width, clientHeight: height } = this.element, pixels = Math.min(devicePixelRatio || 1, 2);
    if (!width || !height) return;
    for (const canvas of [this.below, this.above]) {
      canvas.width = Math.round(width * pixels);
      canvas.height = Math.round(height * pixels);
    }
    this.camera.resize(width, height, pixels);
    this.third?.resize(width, height);
    this._isStale = true;
    this._jumps = true;
  }

  _turn(now) {
    this._request = requestAnimationFrame((next) => this._turn(next));
    const elapsed = Math.min((now - (this._last ?? now)) / 1000, 0.1);
    this._last = now;
    if (!this.circuit || this.camera.width < 2) return;
    const poses = this.playback.sample(now / 1000);
    this._aim(poses, elapsed);
    const isFromCar = this.third?.frame(poses, elapsed, poses && this.options.ghosts ? this._ghostPoses(poses) : []);
    if (isFromCar) this.minimap.draw(poses, this.followed, (index) => this.paint(index, poses));
    else {
      if (this._moved || this._isStale || this._paintedTheme !== theme()) this._drawGround();
      this._drawCars(poses, now / 1000);
    }
    this.frames += 1;
    this.onframe(this);
  }

  _aim(poses, elapsed) {
    const { camera, scene } = this;
    const isThere = poses && this.followed !== null && Number.isFinite(poses[this.followed * WIDTH]);
    if (camera.mode === 'free') {
      this._moved = this._dragged;
      this._dragged = false;
      return;
    }
    const goal = camera.mode === 'follow' && isThere ? camera.behind(this.pose(this.followed, poses), scene.car.length)
      : camera.fit(this.circuit.bounds, ROOM);
    const isNew = camera.mode !== this._mode || this.followed !== this._aimed;
    if (isNew) this._arrival = this._mode === undefined || prefersStill() ? 1 : 0;
    [this._mode, this._aimed] = [camera.mode, this.followed];
    this._arrival = this._jumps ? 1 : Math.min(1, (this._arrival ?? 1) + elapsed / 0.5);
    this._jumps = false;
    const share = this._arrival >= 1 ? 1 : 1 - (1 - this._arrival) ** (elapsed * 12);
    this._moved = camera.approach(goal, Math.max(share, this._arrival ** 3), camera.turns ? 1 - Math.exp(-elapsed * 9) : 1);
  }

  pose(index, poses) {
    const at = index * WIDTH;
    return { x: poses[at], y: poses[at + 1], heading: poses[at + 2], speed: poses[at + 3], steer: poses[at + 4],
      throttle: poses[at + 5], state: poses[at + 9] };
  }

  _drawGround() {
    const context = this.below.getContext('2d', { alpha: false });
    this._paintedTheme = theme();
    this.ground.draw(context, this.camera, { theme: theme(), line: this.options.line });
    this._isStale = this.camera.isMoving;
  }

  _drawCars(poses, now) {
    const { camera } = this, context = this.above.getContext('2d');
    context.setTransform(camera.pixels, 0, 0, camera.pixels, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    if (!poses) return;
    const count = poses.length / WIDTH;
    if (this.options.trails && this.followed === null && !prefersStill()) this._drawTrails(context, poses, count, now);
    if (this.options.ghosts) this._drawGhosts(context, poses);
    if (this.options.rays && this.followed !== null) this._drawRays(context, poses);
    for (let index = 0; index < count; index += 1) if (index !== this.followed) this._drawOne(context, index, poses);
    if (this.followed !== null && this.followed < count) this._drawOne(context, this.followed, poses);
    for (const [index, name] of this.names ?? []) if (index < count && index !== this.followed) this._drawName(context, name, this.pose(index, poses));
    this.minimap.draw(this.followed === null ? null : poses, this.followed, (index) => this.paint(index, poses));
  }

  _size() {
    const { length, width } = this.scene.car, shown = Math.max(length * this.camera.zoom, smallest(this.camera.width));
    return { length: shown, width: (shown * width) / length };
  }

  _drawOne(context, index, poses) {
    const { camera } = this, pose = this.pose(index, poses), [x, y] = camera.screen(pose.x, pose.y);
    if (!(x > -60 && y > -60 && x < camera.width + 60 && y < camera.height + 60)) return; // also who is elsewhere: NaN
    const size = this._size();
    if (pose.state & HUMAN || index === this.followed) this._ring(context, x, y, size.length, 'rgb(255 255 255 / 55%)');
    else if (pose.state & OFF_TRACK) this._ring(context, x, y, size.length * 0.9, 'rgb(255 170 60 / 75%)');
    drawCar(context, { x, y, angle: camera.angle(pose.heading), paint: this.paint(index, poses), ...size,
      steer: pose.steer, brake: pose.throttle < -0.05, pixels: camera.pixels });
  }

  /** Above a car, where the cars are large enough to be told apart. */
  _drawName(context, name, pose) {
    const [x, y] = this.camera.screen(pose.x, pose.y), { length } = this._size();
    if (length < 18 || !Number.isFinite(x)) return;
    context.font = '600 12px system-ui, sans-serif';
    const wide = context.measureText(name).width + 12, top = y - 0.62 * length - 20;
    context.fillStyle = 'rgb(16 18 24 / 72%)';
    context.beginPath();
    context.roundRect(x - wide / 2, top, wide, 18, 6);
    context.fill();
    context.fillStyle = '#ffffff';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(name, x, top + 9.5);
  }

  _ring(context, x, y, length, colour) {
    if (length > 34) return;
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, y, length * 0.72, 0, 2 * Math.PI);
    context.stroke();
  }

  _drawTrails(context, poses, count, now) {
    if (this.trails.length !== count) this.trails = Array.from({ length: count }, () => []);
    const isDue = now - (this._trailed ?? 0) > TRAIL_EVERY;
    if (isDue) this._trailed = now;
    context.lineWidth = 2.5;
    context.lineCap = 'round';
    for (let index = 0; index < count; index += 1) {
      const trail = this.trails[index], { x, y, state } = this.pose(index, poses), last = trail.at(-1);
      if (last && (state & RESTARTED || !(Math.hypot(x - last[0], y - last[1]) < 40))) trail.length = 0;
      if (isDue && Number.isFinite(x)) trail.push([x, y]);
      if (trail.length > TRAIL) trail.shift();
      if (trail.length < 2) continue;
      context.strokeStyle = this.paint(index, poses);
      for (const [part, alpha] of [[0, 0.16], [0.5, 0.26]]) {
        context.globalAlpha = alpha;
        context.beginPath();
        for (const [tx, ty] of trail.slice(Math.floor(part * trail.length))) context.lineTo(...this.camera.screen(tx, ty));
        context.lineTo(...this.camera.screen(x, y));
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  /** Where the ghosts are now: on the lap clock of the followed car, or round and round. */
  _ghostPoses(poses) {
    const { followed } = this, clock = followed === null ? this.playback.time : poses[followed * WIDTH + 7];
    return [...this.ghosts.values()].map((ghost) => ({ kind: ghost.kind, pose: ghostPose(ghost, followed === null ? clock % ghost.lap_time : clock) }))
      .filter(({ pose }) => pose);
  }

  _drawGhosts(context, poses) {
    const { camera } = this;
    for (const { kind, pose } of this._ghostPoses(poses)) {
      const [x, y] = camera.screen(pose.x, pose.y);
      drawGhost(context, { x, y, angle: camera.angle(pose.heading), colour: ghostColour(kind), ...this._size(), pixels: camera.pixels });
    }
  }

  _drawRays(context, poses) {
    const { rays, followed } = this.playback.current, { angles } = this.scene.rays ?? {};
    if (!rays || !angles || followed !== this.followed) return;
    const pose = this.pose(followed, poses), [x, y] = this.camera.screen(pose.x, pose.y);
    context.lineWidth = 1;
    for (let k = 0; k < Math.min(rays.length, angles.length); k += 1) {
      const towards = pose.heading + angles[k];
      const [endX, endY] = this.camera.screen(pose.x + rays[k] * Math.cos(towards), pose.y + rays[k] * Math.sin(towards));
      context.strokeStyle = 'rgb(250 240 120 / 55%)';
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(endX, endY);
      context.stroke();
      context.fillStyle = 'rgb(255 246 140)';
      context.fillRect(endX - 1.5, endY - 1.5, 3, 3);
    }
  }

  /** The car nearest to a place on the screen, or null. */
  pick(px, py) {
    const { poses } = this.playback;
    let found = null, least = Math.max(NEAR, this._size().length * 0.6);
    for (let index = 0; index * WIDTH < poses.length; index += 1) {
      const [x, y] = this.camera.screen(poses[index * WIDTH], poses[index * WIDTH + 1]);
      const gap = Math.hypot(x - px, y - py);
      if (gap < least) [found, least] = [index, gap];
    }
    return found;
  }

  _listen() {
    this._stop = new AbortController();
    const on = (type, act, more = {}) => this.above.addEventListener(type, act, { signal: this._stop.signal, ...more });
    const held = new Map();
    const place = (event) => [event.offsetX, event.offsetY];
    on('pointerdown', (event) => {
      held.set(event.pointerId, place(event));
      this._travel = 0;
      this.above.setPointerCapture(event.pointerId);
    });
    on('pointermove', (event) => {
      if (held.has(event.pointerId)) this._drag(held, event.pointerId, place(event));
      else if (this.circuit) this.above.style.cursor = this.third?.isShown ? '' : this.pick(...place(event)) === null ? 'grab' : 'pointer';
    });
    const release = (event) => {
      if (held.delete(event.pointerId) && event.type === 'pointerup' && this._travel < 6 && this.circuit && !this.third?.isShown) {
        const index = this.pick(...place(event));
        if (index !== null) this.follow(index === this.followed ? null : index);
      }
    };
    on('pointerup', release);
    on('pointercancel', release);
    on('wheel', (event) => {
      event.preventDefault();
      this.camera.zoomAt(...place(event), Math.exp(-clamp(event.deltaY, -120, 120) / 400));
      this._dragged = true;
    }, { passive: false });
    on('keydown', (event) => this._key(event));
  }

  _drag(held, id, [x, y]) {
    const [oldX, oldY] = held.get(id), other = [...held].find(([key]) => key !== id)?.[1];
    held.set(id, [x, y]);
    this._travel += Math.hypot(x - oldX, y - oldY);
    if (other) {
      const before = Math.hypot(oldX - other[0], oldY - other[1]), after = Math.hypot(x - other[0], y - other[1]);
      if (before > 10) this.camera.zoomAt((x + other[0]) / 2, (y + other[1]) / 2, after / before);
    } else if (this._travel > 6 && this.camera.mode !== 'follow') this.camera.drag(x - oldX, y - oldY);
    this._dragged = true;
  }

  _key(event) {
    const count = this.scene?.cars ?? 0, step = 60;
    const next = (by) => this.follow(this.followed === null ? 0 : (this.followed + by + count) % count);
    const keys = {
      '+': () => this.zoom(1.25), '=': () => this.zoom(1.25), '-': () => this.zoom(0.8), 0: () => this.fit(),
      ']': () => next(1), '[': () => next(-1), Escape: () => this.follow(null),
      ArrowLeft: () => this.camera.drag(step, 0), ArrowRight: () => this.camera.drag(-step, 0),
      ArrowUp: () => this.camera.drag(0, step), ArrowDown: () => this.camera.drag(0, -step), c: () => this.third?.next(),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || this.isDriving) return;
    event.preventDefault();
    keys[event.key]();
    this._dragged = true;
  }
}

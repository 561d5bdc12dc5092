// The switch between the view from above and those from a car; the latter are loaded when they are chosen.

import { choice, toast } from './dom.js';
import { Slip } from './slip.js';
import { Sound, isWanted } from './sound.js';
import { car as carOf } from './snapshots.js';
import { OFF_TRACK } from './messages.js';

const KEY = 'paddock.view';
const VIEWS = [['above', 'Above'], ['chase', 'Chase'], ['cockpit', 'Cockpit']];
const NAMES = VIEWS.map(([name]) => name);
const MISSING = 'The view from the car needs WebGL, which this browser does not offer here. The view from above is shown.';

function remembered() {
  try {
    const name = localStorage.getItem(KEY);
    return NAMES.includes(name) ? name : 'above';
  } catch {
    return 'above';
  }
}

export class ThirdView {
  /** view: the TrackView over whose picture it lies. */
  constructor(view) {
    this.view = view;
    this.mode = 'above';
    this.world = null;
    this.lit = 0;
    this.slip = new Slip();
    this.sound = new Sound();
    this.isSounding = isWanted();
    this.switch = choice('View', VIEWS, 'above', (name) => this.choose(name));
    this.switch.classList.add('views');
    view.third = this;
    this._wish = remembered();
  }

  close() {
    this._isClosed = true;
    this.sound.close();
    this.world?.dispose();
  }

  /** Whether a car's view is what is seen now. */
  get isShown() {
    return this.world !== null && this.mode !== 'above' && this.view.followed !== null;
  }

  /** For tests and the curious. */
  get state() {
    const { world } = this;
    return { mode: this.isShown ? this.mode : 'above', sound: this.sound.isOn, frames: world?.frames ?? 0, rate: world?.rate ?? null,
      quality: world?.quality ?? null, graphics: world?.graphics ?? null, smoke: world?.smoke?.count ?? 0 };
  }

  next() {
    this.choose(NAMES[(NAMES.indexOf(this.mode) + 1) % NAMES.length]);
  }

  async choose(name, { isRemembered = true } = {}) {
    this.mode = name;
    this.switch.select(name);
    if (isRemembered) remember(name);
    if (name !== 'above' && !this.world) await this._load();
    this._reveal();
  }

  async _load() {
    try {
      this._loading ??= import('./world3d/world.js').then(({ World3D }) => new World3D());
      const world = await this._loading;
      if (this._isClosed) return void world.dispose();
      if (this.world) return;
      world.onlost = () => this._giveUp();
      this.view.above.after(world.canvas);
      this.world = world;
      this.setScene();
    } catch {
      this._giveUp();
    }
  }

  _giveUp() {
    this.world?.dispose();
    this.world = null;
    this._loading = null;
    this.mode = 'above';
    this.switch.select('above');
    if (!this._isClosed) toast(MISSING, 'bad');
  }

  /** The circuit changed, or the world was just made. */
  setScene() {
    const { circuit, scene, camera } = this.view;
    if (!this.world || !circuit) return;
    this.world.setScene(circuit, scene);
    this.world.resize(camera.width, camera.height);
  }

  resize(width, height) {
    this.world?.resize(width, height);
  }

  _reveal() {
    if (this.world) this.world.canvas.hidden = !this.isShown;
    this.view.element.classList.toggle('from-car', this.isShown);
    this.view.redraw();
  }

  /** After each frame of the plan's clock: sound and slip always, the picture where it is wanted. Gives whether it drew. */
  frame(poses, elapsed, ghosts) {
    const { view } = this, { followed } = view;
    if (this._wish !== 'above' && followed !== null && poses) {
      const name = this._wish;
      this._wish = 'above';
      this.choose(name, { isRemembered: false });
    }
    const isNeeded = this.isShown || this.sound.isOn;
    if (!poses || !isNeeded || !this.world && !this.sound.isOn) return this._hide();
    const cars = Array.from({ length: poses.length / view.columns }, (_, index) => {
      const pose = view.pose(index, poses);
      if (!Number.isFinite(pose.x)) return null;
      this.slip.update(index, pose, elapsed);
      return pose;
    });
    this._listen(cars);
    if (!this.isShown || !cars[followed]) return this._hide();
    if (this.world.canvas.hidden) this._reveal();
    this.world.draw({ cars, followed, ghosts, mode: this.mode, closeness: view.camera.closeness, lit: this.lit,
      paint: (index) => view.paint(index, poses), slip: (index) => this.slip.of(index) }, elapsed);
    return true;
  }

  _hide() {
    if (this.world && !this.world.canvas.hidden) this._reveal();
    return false;
  }

  _listen(cars) {
    const { followed, playback, scene } = this.view;
    if (!this.sound.isOn) return;
    const pose = followed === null ? null : cars[followed];
    if (!pose) return void this.sound.update(null);
    const dials = playback.current, fastest = scene.car.top_speed || 60;
    const revs = dials.followed === followed && dials.gear ? dials.revs : pose.speed / fastest;
    const isOff = Boolean((carOf(dials, followed)?.state ?? 0) & OFF_TRACK);
    this.sound.update({ speed: pose.speed, revs, throttle: pose.throttle, slip: this.slip.of(followed), isOff });
  }
}

function remember(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch { /* it lasts as long as the page */ }
}

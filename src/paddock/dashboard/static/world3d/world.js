// The circuit from a car: a camera behind it, or at the driver's eyes. WebGL by three.js, loaded when it is asked for.

import { Color, ColorManagement, DirectionalLight, DoubleSide, Fog, Group, HemisphereLight, InstancedMesh, LinearSRGBColorSpace, Matrix4, Mesh,
  MeshBasicMaterial, MeshLambertMaterial, PerspectiveCamera, PlaneGeometry, Quaternion, Scene, ShadowMaterial, Vector3, WebGLRenderer } from '../vendor/three.module.min.js';
import { clamp } from '../dom.js';
import { ghostColour } from '../kit/ghosts.js';
import { theme } from '../kit/theme.js';
import { CarModels } from './car_model.js';
import { ORDER, shade } from './ground.js';
import { Landscape, SKIES, SUN } from './landscape.js';
import { Smoke } from './smoke.js';

const MOST_CARS = 64, MOST_GHOSTS = 6;
const DETAILED = 14; // car lengths: beyond it a simpler model is drawn
const UP = new Vector3(0, 1, 0);
/** From fine to coarse: pixels of the screen per pixel drawn, and whether cars cast shadows that are computed. */
const QUALITIES = [{ pixels: 2, shadows: true }, { pixels: 1, shadows: true }, { pixels: 1, shadows: false }, { pixels: 0.75, shadows: false }, { pixels: 0.55, shadows: false }];
const SLOW = 1 / 32, JUDGED = 45; // s of a frame above which the next coarser quality is taken; frames that are judged together
const SOFTWARE = /swiftshader|llvmpipe|software|basic render/i;

// Colours are mixed as they are written: two powers per pixel are what software rendering has no time for.
ColorManagement.enabled = false;

export class World3D {
  /** Throws where the browser has no WebGL. */
  constructor() {
    const canvas = document.createElement('canvas'), options = { alpha: false, stencil: true, powerPreference: 'high-performance' };
    const probe = document.createElement('canvas').getContext('webgl2'), about = probe?.getExtension('WEBGL_debug_renderer_info');
    if (!probe) throw new Error('This browser offers no WebGL.');
    this.graphics = about ? String(probe.getParameter(about.UNMASKED_RENDERER_WEBGL)) : 'unknown';
    probe.getExtension('WEBGL_lose_context')?.loseContext();
    this.isSoftware = SOFTWARE.test(this.graphics);
    this.renderer = new WebGLRenderer({ canvas, antialias: !this.isSoftware, ...options });
    this.renderer.outputColorSpace = LinearSRGBColorSpace;
    this.canvas = canvas;
    canvas.setAttribute('aria-hidden', 'true');
    canvas.className = 'world3d';
    canvas.addEventListener('webglcontextlost', (event) => {
      event.preventDefault();
      this.onlost?.();
    });
    this.camera = new PerspectiveCamera(60, 1, 0.3, 1600);
    this.quality = this.isSoftware ? 3 : 0;
    this.frames = 0;
    this.durations = [];
    this.rate = null; // frames/s
    this.heading = null;
  }

  dispose() {
    this._clear();
    this.renderer.dispose();
    this.renderer.forceContextLoss?.();
    this.canvas.remove();
  }

  /** circuit: see circuit.js; scene: of the run. */
  setScene(circuit, scene) {
    Object.assign(this, { circuit, car: scene.car, reference: scene.reference });
    this._build();
  }

  resize(width, height) {
    Object.assign(this, { width, height });
    const { pixels, shadows } = QUALITIES[this.quality];
    this.renderer.setPixelRatio(Math.min(devicePixelRatio || 1, pixels));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(height, 1);
    this.camera.updateProjectionMatrix();
    if (this.sun) {
      this.renderer.shadowMap.enabled = shadows;
      this.sun.castShadow = shadows;
      this.shadowPlane.visible = shadows;
      this.blobs.visible = !shadows;
    }
  }

  _clear() {
    this.landscape?.dispose();
    this.scene?.traverse((one) => {
      one.geometry?.dispose();
      one.material?.dispose?.();
    });
  }

  _build() {
    this._clear();
    const { unit } = this.circuit, { length } = this.car, sky = SKIES[theme()];
    this.theme = theme();
    this.scene = new Scene();
    this.scene.background = new Color(sky.horizon);
    this.scene.fog = new Fog(new Color(sky.hills), 140 * unit, 780 * unit);
    Object.assign(this.camera, { near: 0.05 * length, far: 1500 * unit });
    this.landscape = new Landscape(this.circuit, this.reference, theme(), this.isSoftware ? 1 : 8);
    this.models = new CarModels(this.car);
    this.smoke = new Smoke(length);
    this._lights(sky, length);
    const paint = new MeshLambertMaterial({ vertexColors: true, side: DoubleSide });
    const clear = new MeshBasicMaterial({ vertexColors: true, transparent: true, opacity: 0.4, depthWrite: false });
    this.others = new InstancedMesh(this.models.whole, paint, MOST_CARS);
    this.distant = new InstancedMesh(this.models.distant, paint, MOST_CARS);
    this.ghosts = new InstancedMesh(this.models.whole, clear, MOST_GHOSTS);
    this.blobs = new InstancedMesh(new PlaneGeometry(1, 1).rotateX(-Math.PI / 2), shade('#000000', 0.34), MOST_CARS + 1);
    this.blobs.renderOrder = ORDER.cars;
    this.others.castShadow = true;
    for (const mesh of [this.others, this.distant, this.ghosts, this.blobs]) mesh.frustumCulled = false;
    this.own = this.models.detailed('#ffffff');
    this.scene.add(this.landscape.group, this.others, this.distant, this.ghosts, this.blobs, this.own.group, this.smoke.points);
    this.heading = null;
    if (this.width) this.resize(this.width, this.height);
  }

  _lights(sky, length) {
    const reach = 7 * length;
    this.sun = new DirectionalLight(sky.sun, sky.sunlight);
    this.sun.shadow.mapSize.set(1024, 1024);
    Object.assign(this.sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, near: 1, far: 60 * length });
    this.sunAim = new Group();
    this.sun.target = this.sunAim;
    this.shadowPlane = new Mesh(new PlaneGeometry(2 * reach, 2 * reach).rotateX(-Math.PI / 2), new ShadowMaterial({ opacity: 0.42, depthWrite: false }));
    this.shadowPlane.receiveShadow = true;
    this.shadowPlane.renderOrder = ORDER.cars;
    this.scene.add(this.sun, this.sunAim, this.shadowPlane, new HemisphereLight(sky.middle, sky.below, sky.ambient));
  }

  /**
   * One frame. cars: poses of all cars (`x`, `y`, `heading`, `speed`, `steer`, `throttle`), null where one is elsewhere;
   * followed: index; paint(index): colour; ghosts: [{pose, kind}]; slip(index): 0..1; mode: 'chase' | 'cockpit';
   * closeness: a person's zoom; lit: lamps of the gantry.
   */
  draw({ cars, followed, paint, ghosts, slip, mode, closeness, lit }, elapsed) {
    if (this.theme !== theme()) this._build();
    const own = cars[followed];
    if (!own) return;
    this._aim(own, mode, closeness, elapsed);
    this._place(cars, followed, paint, ghosts, mode === 'cockpit');
    this._dress(own, paint(followed), mode === 'cockpit', elapsed);
    this._smoke(cars, slip, elapsed);
    this.landscape.light(lit);
    this.landscape.backdrop.position.set(this.camera.position.x, 0, this.camera.position.z);
    this.renderer.render(this.scene, this.camera);
    this.frames += 1;
    this._judge(elapsed);
  }

  _aim(own, mode, closeness, elapsed) {
    const { camera } = this, { length } = this.car, isInside = mode === 'cockpit';
    const turn = this.heading === null ? 0 : Math.atan2(Math.sin(own.heading - this.heading), Math.cos(own.heading - this.heading));
    const isNew = this.heading === null || Math.abs(turn) > 1.2 || mode !== this.mode;
    this.mode = mode;
    this.heading = isNew ? own.heading : this.heading + turn * (1 - Math.exp(-elapsed * (isInside ? 18 : 5.5)));
    const ahead = [Math.cos(this.heading), -Math.sin(this.heading)], near = clamp(1 / closeness, 0.5, 3);
    const back = isInside ? 0.055 * length : (1.65 * length + 0.012 * length * Math.min(own.speed, 70)) * near;
    const height = isInside ? 0.222 * length : 0.58 * length * near ** 0.8;
    camera.position.set(own.x - ahead[0] * back, height, -own.y - ahead[1] * back);
    const look = isInside ? 20 * length : 2.4 * length;
    camera.lookAt(own.x + ahead[0] * look, isInside ? height * 0.55 : 0.16 * length, -own.y + ahead[1] * look);
    const view = (isInside ? 70 : 56) + 0.16 * Math.min(own.speed, 90);
    if (Math.abs(camera.fov - view) > 0.05) {
      camera.fov = view;
      camera.updateProjectionMatrix();
    }
    const { sun, sunAim, shadowPlane } = this, cell = length / 8; // whole steps keep the shadow's edges from crawling
    const [x, z] = [Math.round(own.x / cell) * cell, Math.round(-own.y / cell) * cell];
    sunAim.position.set(x, 0, z);
    sun.position.set(x, 0, z).addScaledVector(SUN, 20 * length);
    shadowPlane.position.set(x, 0, z);
  }

  /** Whether a car may be in the picture: ahead of the camera, or beside it. */
  _sees({ x, y }, far) {
    const dx = x - this.camera.position.x, dy = y + this.camera.position.z;
    return this._isWithin({ x, y }, far) && dx * Math.cos(this.heading) + dy * Math.sin(this.heading) > -this.car.length;
  }

  _isWithin({ x, y }, reach) {
    return Math.hypot(x - this.camera.position.x, y + this.camera.position.z) < reach;
  }

  _place(cars, followed, paint, ghosts, isInside) {
    const { length, width } = this.car, tone = new Color(), far = 500 * this.circuit.unit;
    let [near, distant, shadows] = [0, 0, 0];
    cars.forEach((pose, index) => {
      if (!pose || !this._sees(pose, far)) return;
      this.blobs.setMatrixAt(shadows, poseMatrix(pose, 1.02 * length, 1.06 * width));
      shadows += 1;
      if (index === followed || near + distant >= MOST_CARS || (isInside && isOn(pose, cars[followed], 0.8 * length))) return;
      const isNear = this._isWithin(pose, DETAILED * length), mesh = isNear ? this.others : this.distant, place = isNear ? near : distant;
      mesh.setMatrixAt(place, poseMatrix(pose));
      mesh.setColorAt(place, tone.set(paint(index)));
      if (isNear) near += 1;
      else distant += 1;
    });
    const own = cars[followed];
    let seen = 0;
    for (const { pose, kind } of ghosts) {
      if (seen >= MOST_GHOSTS || (isInside && isOn(pose, own, 0.8 * length))) continue;
      this.ghosts.setMatrixAt(seen, poseMatrix(pose));
      this.ghosts.setColorAt(seen, tone.set(ghostColour(kind)));
      seen += 1;
    }
    for (const [mesh, number] of [[this.others, near], [this.distant, distant], [this.ghosts, seen], [this.blobs, shadows]]) {
      mesh.count = number;
      mesh.visible = number > 0 && (mesh !== this.blobs || !QUALITIES[this.quality].shadows);
      mesh.instanceMatrix.needsUpdate = true;
      if (mesh.instanceColor) mesh.instanceColor.needsUpdate = true;
    }
  }

  /** The followed car: paint, wheels that roll and steer, brake lamps, what its driver sees. */
  _dress(own, colour, isInside, elapsed) {
    const { group, cabin, wheels, lamps, inside, material } = this.own;
    group.position.set(own.x, 0, -own.y);
    group.rotation.y = own.heading;
    material.color.set(colour);
    cabin.visible = !isInside;
    inside.group.visible = isInside;
    inside.wheel.rotation.x = -1.9 * own.steer;
    this.roll = ((this.roll ?? 0) + (own.speed * elapsed) / this.models.wheelRadius) % (2 * Math.PI);
    for (const { turning, wheel, isFront } of wheels) {
      turning.rotation.y = isFront ? 0.5 * own.steer : 0;
      wheel.rotation.z = -this.roll;
    }
    lamps.material.color.set(own.throttle < -0.05 ? '#ff3a2c' : '#5a0d0a');
  }

  _smoke(cars, slip, elapsed) {
    const { length, width } = this.car;
    let strongest = 0, places = [];
    cars.forEach((pose, index) => {
      if (!pose || Math.hypot(pose.x - this.camera.position.x, -pose.y - this.camera.position.z) > 25 * length) return;
      const strength = slip(index);
      if (strength <= strongest) return;
      const back = [pose.x - 0.31 * length * Math.cos(pose.heading), pose.y - 0.31 * length * Math.sin(pose.heading)];
      const aside = [-Math.sin(pose.heading) * 0.42 * width, Math.cos(pose.heading) * 0.42 * width];
      [strongest, places] = [strength, [-1, 1].map((side) => [back[0] + side * aside[0], -(back[1] + side * aside[1])])];
    });
    this.smoke.add(elapsed, places, strongest);
    this.smoke.update(elapsed, (this.renderer.domElement.height / 2) / Math.tan((this.camera.fov * Math.PI) / 360));
  }

  /** A machine that is too slow for this quality gets the next one; it never goes back, which would flicker. */
  _judge(elapsed) {
    if (elapsed <= 0) return;
    this.durations.push(elapsed);
    if (this.durations.length < JUDGED) return;
    const mean = this.durations.reduce((sum, one) => sum + one, 0) / this.durations.length;
    this.durations = [];
    this.rate = 1 / mean;
    if (mean > SLOW && this.quality + 1 < QUALITIES.length) {
      this.quality += 1;
      this.resize(this.width, this.height);
    }
  }
}

const place = new Matrix4(), at = new Vector3(), turn = new Quaternion(), size = new Vector3();

function poseMatrix({ x, y, heading }, long = 1, wide = 1) {
  return place.compose(at.set(x, 0, -y), turn.setFromAxisAngle(UP, heading), size.set(long, 1, wide));
}

/** Cars pass through each other: one that is where the driver sits would hide everything. */
const isOn = (one, other, near) => Math.hypot(one.x - other.x, one.y - other.y) < near;

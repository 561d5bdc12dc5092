// Cars as bodies: the outline from above, which the scene sends, raised to a hull with cabin, wing, lamps and wheels.

import { Group, Mesh, MeshLambertMaterial, MeshBasicMaterial, DoubleSide } from '../vendor/three.module.min.js';
import { Shapes } from './shapes.js';

const PAINT = '#ffffff'; // the material's or the instance's colour goes over it
const GLASS = '#20262e', TYRE = '#17171a', HUB = '#8f949c', DARK = '#24262b';

/** Height of the bonnet and the boot over the length, in car lengths: low at the nose. */
const deck = (ahead) => (ahead > 0.16 ? 0.152 - 0.17 * (ahead - 0.16) : ahead < -0.3 ? 0.165 : 0.16);

export class CarModels {
  /** car: `length`, `width` m and the `outline` of a scene. */
  constructor({ length, width, outline }) {
    Object.assign(this, { length, width, outline });
    this.wheelRadius = (outline.wheel_size[0] / 2) * length * 0.98;
    this.wheelWidth = outline.wheel_size[1] * width * 0.78;
    this.hull = this._hull().geometry();
    this.cabin = this._cabin().geometry();
    const whole = this._hull();
    this._cabin(whole);
    for (const [ahead, aside] of outline.wheels) this._wheel(whole, ahead * length, -aside * width);
    this.whole = whole.geometry();
    this.distant = this._distant().geometry();
  }

  /** Of a car that is a few pixels high: a fifth of the triangles. */
  _distant() {
    const shapes = new Shapes(), { body, cabin, wheels, wheel_size: [long] } = this.outline, { length, width } = this;
    const some = (ring, count) => Array.from({ length: count }, (_, k) => ring[Math.floor((k * ring.length) / count)]);
    const lower = this._ring(some(body, 8), () => 0.05), upper = this._ring(some(body, 8), deck, 0.97, 0.88);
    shapes.wall(lower, upper, PAINT);
    shapes.lid(upper, PAINT);
    const glass = some(cabin, 4), roof = glass.map(([ahead, aside]) => [(ahead * 0.62 - 0.045) * length, 0.255 * length, -aside * width * 0.74]);
    shapes.wall(this._ring(glass, deck), roof, GLASS);
    shapes.lid(roof, PAINT);
    for (const [ahead, aside] of wheels) shapes.box([ahead * length, this.wheelRadius, -aside * width], [0.8 * long * length, 1.6 * this.wheelRadius, this.wheelWidth], TYRE);
    shapes.box([-0.47 * length, 0.235 * length, 0], [0.075 * length, 0.02 * length, 0.96 * width], DARK);
    return shapes;
  }

  _ring(outline, height, grow = 1, widen = grow) {
    return outline.map(([ahead, aside]) => [ahead * this.length * grow, height(ahead) * this.length, -aside * this.width * widen]);
  }

  _hull() {
    const shapes = new Shapes(), { body, stripe, lamps } = this.outline, { length, width } = this;
    const sill = this._ring(body, () => 0.045, 0.985, 0.93), belt = this._ring(body, (x) => 0.7 * deck(x), 1.005), top = this._ring(body, deck, 0.965, 0.86);
    shapes.wall(sill, belt, PAINT);
    shapes.wall(belt, top, PAINT);
    shapes.lid(top, PAINT);
    shapes.lid([...sill].reverse(), DARK);
    const [left, right] = [stripe[1][1] * width, stripe[0][1] * width];
    for (let ahead = -0.46; ahead < 0.46; ahead += 0.08) {
      const [from, to] = [ahead, Math.min(ahead + 0.08, 0.47)].map((x) => [x * length, (deck(x) + 0.004) * length]);
      shapes.quad([from[0], from[1], -left], [to[0], to[1], -left], [to[0], to[1], -right], [from[0], from[1], -right], '#d9dce2');
    }
    for (const lamp of lamps) {
      const [ahead, aside] = lamp[0];
      shapes.box([ahead * length * 1.06, deck(0.44) * 0.86 * length, -aside * width * 1.15], [0.03 * length, 0.025 * length, 0.13 * width], '#fff4c8');
    }
    shapes.box([-0.47 * length, 0.235 * length, 0], [0.075 * length, 0.012 * length, 0.96 * width], DARK);
    for (const side of [-1, 1]) {
      shapes.box([-0.46 * length, 0.2 * length, side * 0.28 * width], [0.03 * length, 0.075 * length, 0.02 * width], DARK);
      shapes.box([-0.47 * length, 0.23 * length, side * 0.48 * width], [0.085 * length, 0.045 * length, 0.015 * width], PAINT);
    }
    return shapes;
  }

  _cabin(shapes = new Shapes()) {
    const { cabin } = this.outline, lower = this._ring(cabin, (x) => deck(x) - 0.004, 1, 0.98);
    const upper = cabin.map(([ahead, aside]) => [(ahead * 0.62 - 0.045) * this.length, 0.255 * this.length, -aside * this.width * 0.74]);
    shapes.wall(lower, upper, GLASS);
    shapes.lid(upper, PAINT);
    return shapes;
  }

  /** Of cars that are not followed: fewer corners, which dozens of them pay for. */
  _wheel(shapes, x, z) {
    shapes.wheel([x, this.wheelRadius, z], this.wheelRadius, this.wheelWidth, TYRE, HUB, 8);
  }

  /** The car that is followed: wheels that turn, lamps that light, a cabin that can be left out. */
  detailed(paint) {
    const group = new Group(), material = new MeshLambertMaterial({ vertexColors: true, side: DoubleSide, color: paint });
    const body = new Mesh(this.hull, material), cabin = new Mesh(this.cabin, material), plain = new MeshLambertMaterial({ vertexColors: true, side: DoubleSide });
    const wheels = this.outline.wheels.map(([ahead, aside]) => {
      const shapes = new Shapes();
      shapes.wheel([0, 0, 0], this.wheelRadius, this.wheelWidth, TYRE, HUB);
      const spoke = this.wheelRadius * 0.5;
      shapes.box([0, 0, 0], [2.1 * spoke, 0.25 * spoke, this.wheelWidth * 1.03], '#5c6168');
      const turning = new Group(), wheel = new Mesh(shapes.geometry(), plain);
      turning.position.set(ahead * this.length, this.wheelRadius, -aside * this.width);
      turning.add(wheel);
      group.add(turning);
      return { turning, wheel, isFront: ahead > 0 };
    });
    const rear = new Shapes();
    for (const side of [-1, 1]) rear.box([-0.494 * this.length, 0.115 * this.length, side * 0.3 * this.width], [0.012 * this.length, 0.028 * this.length, 0.2 * this.width], '#ffffff');
    const lamps = new Mesh(rear.geometry(), new MeshBasicMaterial({ color: '#5a0d0a' }));
    const inside = this._inside();
    group.add(body, cabin, lamps, inside.group);
    for (const mesh of [body, cabin, ...wheels.map(({ wheel }) => wheel)]) mesh.castShadow = true;
    return { group, cabin, wheels, lamps, inside, material };
  }

  /** What a driver sees of the own car: the top of the dashboard and a steering wheel. */
  _inside() {
    const group = new Group(), shapes = new Shapes(), { length, width } = this;
    shapes.box([0.11 * length, 0.142 * length, 0], [0.08 * length, 0.03 * length, 0.72 * width], '#2b2e34');
    for (const side of [-1, 1]) shapes.box([0.13 * length, 0.235 * length, side * 0.37 * width], [0.012 * length, 0.21 * length, 0.018 * width], '#1c1f24');
    shapes.box([0.12 * length, 0.32 * length, 0], [0.02 * length, 0.02 * length, 0.76 * width], '#1c1f24');
    const plain = new MeshLambertMaterial({ vertexColors: true, side: DoubleSide });
    group.add(new Mesh(shapes.geometry(), plain));
    const rim = new Shapes(), sides = 16, radius = 0.036 * length;
    const at = (k, r) => [0, r * Math.sin((2 * Math.PI * k) / sides), r * Math.cos((2 * Math.PI * k) / sides)];
    for (let k = 0; k < sides; k += 1) rim.quad(at(k, radius), at(k + 1, radius), at(k + 1, 0.78 * radius), at(k, 0.78 * radius), '#34383f');
    rim.box([0, 0, 0], [0.002 * length, 0.008 * length, 1.7 * radius], '#2c3038');
    const wheel = new Mesh(rim.geometry(), plain);
    wheel.position.set(0.05 * length, 0.16 * length, 0);
    group.add(wheel);
    group.visible = false;
    return { group, wheel };
  }
}

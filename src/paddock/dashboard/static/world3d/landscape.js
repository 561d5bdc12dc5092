// Everything that stands still: the ground, trees, hills, the gantry with its lights. x ahead of the plan, z = -y.

import { CircleGeometry, DoubleSide, Group, Mesh, MeshBasicMaterial, MeshLambertMaterial, Vector3 } from '../vendor/three.module.min.js';
import { PALETTES } from '../kit/ground.js';
import { Ground, ORDER, numbers, painted } from './ground.js';
import { Shapes } from './shapes.js';
import { makeTrees } from './trees.js';

export const SKIES = {
  light: { top: '#3f82c8', middle: '#8dbbe2', horizon: '#dbe8ee', sun: '#fff1d6', sunlight: 1.8, ambient: 2.0, hills: '#8fae9c', far: '#b6cdd2', below: '#5d7a4c' },
  dark: { top: '#0b1426', middle: '#22304e', horizon: '#a0684e', sun: '#ffc48a', sunlight: 1.7, ambient: 3.4, hills: '#27323f', far: '#4a4450', below: '#56584e' },
};
export const SUN = new Vector3(0.5, 0.72, 0.42); // towards it
const LAMPS = 5;

export class Landscape {
  /** sharpness: how finely textures are sampled far away; 1 is cheapest. */
  constructor(circuit, reference, theme, sharpness) {
    Object.assign(this, { circuit, unit: circuit.unit, colours: PALETTES[theme], sky: SKIES[theme] });
    this.ground = new Ground(circuit, reference, this.colours, sharpness);
    this.group = new Group();
    this.group.add(this.ground.group, makeTrees(circuit.trees, { ...this, theme, sun: SUN }));
    this._obstacles();
    this._gantry();
    this._hills();
  }

  dispose() {
    this.group.traverse((one) => {
      one.geometry?.dispose();
      one.material?.dispose?.();
    });
    this.ground.dispose();
  }

  _obstacles() {
    const shapes = new Shapes(), { obstacles } = this.circuit;
    if (!obstacles.length) return;
    for (const [x, y, radius] of obstacles)
      for (const [level, colour] of [[0, this.colours.red], [1, this.colours.white], [2, '#202024']]) {
        const ring = (share, height) => Array.from({ length: 12 }, (_, k) => [x + share * radius * Math.cos((Math.PI * k) / 6), height, -y + share * radius * Math.sin((Math.PI * k) / 6)]);
        const [low, high] = [0.4 * radius * level, 0.4 * radius * (level + 1)];
        shapes.wall(ring(1, low), ring(1, high), colour);
        shapes.lid(ring(1, high), colour);
      }
    this.group.add(new Mesh(shapes.geometry(), new MeshLambertMaterial({ vertexColors: true, side: DoubleSide })));
  }

  /** Over the line: five lamps, which face the cars on the grid. */
  _gantry() {
    const { circuit, unit } = this, [a, b] = [circuit.left[0], circuit.right[0]], heading = circuit.headings[0];
    const width = Math.hypot(a[0] - b[0], a[1] - b[1]) + 3 * unit, shapes = new Shapes(), height = 6.2 * unit;
    for (const side of [-1, 1]) shapes.box([0, height / 2, (side * width) / 2], [0.5 * unit, height, 0.5 * unit], '#3a3f48');
    shapes.box([0, height, 0], [0.6 * unit, 1.1 * unit, width], '#23272e');
    shapes.box([0, height - 1.25 * unit, 0], [0.3 * unit, 1.3 * unit, 5.6 * unit], '#101216');
    const frame = new Mesh(shapes.geometry(), new MeshLambertMaterial({ vertexColors: true, side: DoubleSide })), gantry = new Group();
    frame.castShadow = true;
    gantry.add(frame);
    this.lamps = Array.from({ length: LAMPS }, (_, k) => {
      const lamp = new Mesh(new CircleGeometry(0.4 * unit, 14).rotateY(-Math.PI / 2), new MeshBasicMaterial({ color: '#2a0c0b' }));
      lamp.position.set(-0.17 * unit, height - 1.25 * unit, (k - (LAMPS - 1) / 2) * 1.05 * unit);
      gantry.add(lamp);
      return lamp;
    });
    gantry.position.set((a[0] + b[0]) / 2, 0, -(a[1] + b[1]) / 2);
    gantry.rotation.y = heading;
    this.group.add(gantry);
  }

  /** lit: how many of the five are red. */
  light(lit) {
    if (lit === this.lit) return;
    this.lit = lit;
    this.lamps.forEach((lamp, k) => lamp.material.color.set(k < lit ? '#ff2a1c' : '#2a0c0b'));
  }

  /** Two ranges on the horizon and the sky, the nearest first; they go along with the camera, as what is far away seems to do. */
  _hills() {
    const draw = numbers(11), { top, middle, horizon, far, hills } = this.sky, shapes = new Shapes();
    const levels = [[-8, horizon], [45, horizon], [230, middle], [900, top]], sides = 48;
    const around = (radius, k, y) => [radius * Math.cos((2 * Math.PI * k) / sides), y, radius * Math.sin((2 * Math.PI * k) / sides)].map((one) => one * this.unit);
    for (const [radius, height, colour] of [[820, 30, hills], [950, 62, far]]) {
      const tops = Array.from({ length: sides }, () => height * (0.35 + 0.65 * draw()));
      for (let k = 0; k < sides; k += 1)
        shapes.quad(around(radius, k, -8), around(radius, k + 1, -8), around(radius, k + 1, tops[(k + 1) % sides]), around(radius, k, tops[k]), colour);
    }
    for (let level = 0; level + 1 < levels.length; level += 1)
      for (let k = 0; k < sides; k += 1) {
        const [[low, below], [high, above]] = [levels[level], levels[level + 1]];
        shapes.blend([around(1000, k, low), around(1000, k + 1, low), around(1000, k + 1, high), around(1000, k, high)], [below, below, above, above]);
      }
    this.backdrop = new Mesh(shapes.geometry({ isPlain: true }), painted({ vertexColors: true, fog: false }));
    this.backdrop.renderOrder = ORDER.backdrop;
    this.backdrop.frustumCulled = false;
    this.group.add(this.backdrop);
  }
}

// Triangles with colours, gathered into one mesh: few meshes are what keeps software rendering fast.

import { BufferAttribute, BufferGeometry, Color } from '../vendor/three.module.min.js';

/** Metres; x ahead, y up, z to the right of a car, or the plan's x and -y of a landscape. */
export class Shapes {
  constructor() {
    this.positions = [];
    this.colours = [];
  }

  triangle(a, b, c, colour) {
    const { r, g, b: blue } = new Color(colour);
    this.positions.push(...a, ...b, ...c);
    for (let k = 0; k < 3; k += 1) this.colours.push(r, g, blue);
  }

  quad(a, b, c, d, colour) {
    this.triangle(a, b, c, colour);
    this.triangle(a, c, d, colour);
  }

  /** A quad with a colour at each of its corners. */
  blend(corners, colours) {
    for (const corner of [0, 1, 2, 0, 2, 3]) {
      const { r, g, b } = new Color(colours[corner]);
      this.positions.push(...corners[corner]);
      this.colours.push(r, g, b);
    }
  }

  /** The surface between two rings of as many points. */
  wall(lower, upper, colour) {
    lower.forEach((point, k) => {
      const next = (k + 1) % lower.length;
      this.quad(point, lower[next], upper[next], upper[k], colour);
    });
  }

  /** A ring filled from its middle. */
  lid(ring, colour) {
    const middle = [0, 1, 2].map((axis) => ring.reduce((sum, point) => sum + point[axis], 0) / ring.length);
    ring.forEach((point, k) => this.triangle(point, ring[(k + 1) % ring.length], middle, colour));
  }

  box([x, y, z], [length, height, width], colour) {
    const ring = (level) => [[-1, -1], [-1, 1], [1, 1], [1, -1]].map(([a, b]) => [x + (a * length) / 2, level, z + (b * width) / 2]);
    const [lower, upper] = [ring(y - height / 2), ring(y + height / 2)];
    this.wall(lower, upper, colour);
    this.lid(upper, colour);
    this.lid([...lower].reverse(), colour);
  }

  /** A wheel: its axis lies across. */
  wheel([x, y, z], radius, width, tyre, hub, sides = 14) {
    const ring = (side, share) => Array.from({ length: sides }, (_, k) => {
      const angle = (2 * Math.PI * k) / sides;
      return [x + share * radius * Math.cos(angle), y + share * radius * Math.sin(angle), z + (side * width) / 2];
    });
    this.wall(ring(-1, 1), ring(1, 1), tyre);
    for (const side of [-1, 1]) {
      this.wall(ring(side, 1), ring(side, 0.62), tyre);
      this.lid(ring(side, 0.62), hub);
    }
  }

  /** isPlain: without normals, for what is not lit. */
  geometry({ isPlain = false } = {}) {
    const made = new BufferGeometry();
    made.setAttribute('position', new BufferAttribute(new Float32Array(this.positions), 3));
    made.setAttribute('color', new BufferAttribute(new Float32Array(this.colours), 3));
    if (!isPlain) made.computeVertexNormals();
    return made;
  }
}

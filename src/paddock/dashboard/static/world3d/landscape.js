// Everything that stands still: grass, road, kerbs, trees, hills, the gantry with its lights. x ahead of the plan, z = -y.

import { BufferAttribute, BufferGeometry, CanvasTexture, CircleGeometry, Color, CylinderGeometry, DoubleSide, Group, IcosahedronGeometry,
  InstancedMesh, LinearMipmapNearestFilter, Matrix4, Mesh, MeshBasicMaterial, MeshLambertMaterial, Quaternion, RepeatWrapping, Sphere, Vector3 } from '../vendor/three.module.min.js';
import { PALETTES } from '../kit/ground.js';
import { Shapes } from './shapes.js';

export const SKIES = {
  light: { top: '#3f82c8', middle: '#8dbbe2', horizon: '#dbe8ee', sun: '#fff1d6', sunlight: 1.8, ambient: 2.0, hills: '#8fae9c', far: '#b6cdd2', below: '#5d7a4c' },
  dark: { top: '#0b1426', middle: '#22304e', horizon: '#a0684e', sun: '#ffc48a', sunlight: 1.1, ambient: 2.0, hills: '#27323f', far: '#4a4450', below: '#56584e' },
};
const SUN = [0.5, 0.72, 0.42]; // towards it
const LAMPS = 5;
const PIECES = 14; // of a layer of the ground: what is out of sight is not drawn

/** Pseudo-random numbers that are the same on every visit. */
function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

function speckled(base, spots, { stripe = null, size = 256, count = 2600, seed = 7, sharpness = 1 } = {}) {
  const canvas = document.createElement('canvas'), draw = numbers(seed);
  canvas.width = canvas.height = size;
  const context = canvas.getContext('2d');
  context.fillStyle = base;
  context.fillRect(0, 0, size, size);
  if (stripe) {
    context.fillStyle = stripe;
    context.fillRect(0, 0, size, size / 2);
  }
  for (let k = 0; k < count; k += 1) {
    context.globalAlpha = 0.05 + 0.13 * draw();
    context.fillStyle = spots[k % spots.length];
    context.fillRect(draw() * size, draw() * size, 1 + 1.4 * draw(), 1 + 1.4 * draw());
  }
  const texture = new CanvasTexture(canvas);
  texture.wrapS = texture.wrapT = RepeatWrapping;
  texture.anisotropy = sharpness;
  if (sharpness === 1) texture.minFilter = LinearMipmapNearestFilter;
  return texture;
}

/** Triangles on the ground. */
class Flat {
  constructor(tile = 0) {
    Object.assign(this, { tile, points: [], order: [] });
  }

  add(...corners) {
    const first = this.points.length;
    this.points.push(...corners);
    for (let k = 1; k + 1 < corners.length; k += 1) this.order.push(first, first + k, first + k + 1);
  }

  band(inner, outer, from = 0, to = inner.length) {
    for (let k = from; k < to; k += 1) {
      const a = k % inner.length, b = (k + 1) % inner.length;
      this.add(inner[a], inner[b], outer[b], outer[a]);
    }
  }

  /** Ground lies in one plane: it is painted in the order of its layers, and nothing flickers. */
  mesh(layer, material) {
    const position = new BufferAttribute(new Float32Array(this.points.flatMap(([x, y]) => [x, 0, -y])), 3), group = new Group();
    const uv = this.tile ? new BufferAttribute(new Float32Array(this.points.flatMap(([x, y]) => [x / this.tile, y / this.tile])), 2) : null;
    const length = 3 * Math.max(2, Math.ceil(this.order.length / 3 / PIECES));
    for (let from = 0; from < this.order.length; from += length) {
      const piece = this.order.slice(from, from + length), made = new BufferGeometry();
      made.setAttribute('position', position);
      if (uv) made.setAttribute('uv', uv);
      made.setIndex(piece);
      made.boundingSphere = new Sphere().setFromPoints(piece.map((k) => new Vector3(this.points[k][0], 0, -this.points[k][1])));
      const mesh = new Mesh(made, material);
      mesh.renderOrder = layer - 100;
      group.add(mesh);
    }
    return group;
  }
}

const painted = (options) => new MeshBasicMaterial({ side: DoubleSide, depthTest: false, depthWrite: false, ...options });

export class Landscape {
  /** sharpness: how finely textures are sampled far away; 1 is cheapest. */
  constructor(circuit, reference, theme, sharpness) {
    Object.assign(this, { circuit, reference, theme, sharpness, unit: circuit.unit, colours: PALETTES[theme], sky: SKIES[theme] });
    this.group = new Group();
    this.textures = [];
    this._ground();
    this._trees();
    this._obstacles();
    this._gantry();
    this._hills();
  }

  dispose() {
    this.group.traverse((one) => {
      one.geometry?.dispose();
      one.material?.dispose?.();
    });
    for (const texture of this.textures) texture.dispose();
  }

  _texture(base, spots, options = {}) {
    const made = speckled(base, spots, { sharpness: this.sharpness, ...options });
    this.textures.push(made);
    return made;
  }

  _ground() {
    const { circuit, colours, unit, group } = this, [left, right] = circuit.sides, { bounds } = circuit;
    const reach = 1300 * unit, grass = new Flat(24 * unit), verge = new Flat(), road = new Flat(4 * unit), lines = new Flat(), gravel = new Flat(5 * unit);
    const across = [bounds.left - reach, bounds.right + reach], along = [bounds.bottom - reach, bounds.top + reach];
    grass.add([across[0], along[0]], [across[1], along[0]], [across[1], along[1]], [across[0], along[1]]);
    const kerbs = { 1: new Flat(), 2: new Flat() };
    for (const side of [left, right]) {
      for (let k = 0; k < circuit.count; k += 1) {
        if (side.hasGravel[k]) gravel.band(side.edge, side.gravel, k, k + 1);
        if (side.blocks[k]) kerbs[side.blocks[k]].band(side.edge, side.kerb, k, k + 1);
      }
      lines.band(side.edge, side.line);
    }
    verge.band(left.verge, right.verge);
    road.band(left.edge, right.edge);
    const starts = { true: new Flat(), false: new Flat() };
    for (const [isWhite, corners] of circuit.start) starts[isWhite].add(...corners);
    group.add(
      grass.mesh(0, painted({ map: this._texture(colours.grass, ['#000000', '#d8e8a0', '#1d3a1a'], { stripe: colours.stripe }) })),
      gravel.mesh(1, painted({ map: this._texture(colours.gravel, ['#000000', '#ffffff']) })),
      verge.mesh(2, painted({ color: colours.verge })),
      road.mesh(3, painted({ map: this._texture(colours.asphalt, ['#000000', '#c8ccd4'], { count: 9000 }) })),
      lines.mesh(5, painted({ color: colours.white })), kerbs[1].mesh(6, painted({ color: colours.white })), kerbs[2].mesh(6, painted({ color: colours.red })),
      starts.true.mesh(7, painted({ color: colours.white })), starts.false.mesh(7, painted({ color: colours.black })));
    if (this.reference) group.add(this._rubber());
  }

  _rubber() {
    const { x, y } = this.reference, flat = new Flat(), half = 1.2 * this.unit, count = x.length;
    const beside = (side) => x.map((_, k) => {
      const next = (k + 1) % count, angle = Math.atan2(y[next] - y[k], x[next] - x[k]);
      return [x[k] - side * half * Math.sin(angle), y[k] + side * half * Math.cos(angle)];
    });
    flat.band(beside(1), beside(-1));
    return flat.mesh(4, painted({ color: '#000000', transparent: true, opacity: 0.16 }));
  }

  _trees() {
    const { trees } = this.circuit, count = trees.length;
    if (!count) return;
    const { unit } = this, [shade, ...greens] = this.colours.tree, draw = numbers(3);
    const trunk = new CylinderGeometry(0.09, 0.14, 1, 5, 1, true).translate(0, 0.5, 0), crown = new IcosahedronGeometry(1, 0);
    const bark = new MeshLambertMaterial({ color: this.theme === 'light' ? '#6b4f38' : '#3a2d22' });
    const leaves = new MeshLambertMaterial({ color: '#ffffff', flatShading: true });
    const trunks = new InstancedMesh(trunk, bark, count), crowns = new InstancedMesh(crown, leaves, 2 * count);
    const shadows = new InstancedMesh(new CircleGeometry(1, 10).rotateX(-Math.PI / 2), painted({ color: shade, transparent: true, opacity: 0.45 }), count);
    const place = new Matrix4(), turn = new Quaternion(), up = new Vector3(0, 1, 0), at = new Vector3(), size = new Vector3();
    trees.forEach(([x, y, radius], k) => {
      const height = radius * (1.5 + 0.9 * draw()), wide = radius * (0.82 + 0.25 * draw());
      trunks.setMatrixAt(k, place.compose(at.set(x, 0, -y), turn.setFromAxisAngle(up, 6 * draw()), size.set(2.2 * unit * radius ** 0.5, height, 2.2 * unit * radius ** 0.5)));
      for (const [part, share, lift] of [[0, 1, 0.5], [1, 0.7, 1.35]]) {
        crowns.setMatrixAt(2 * k + part, place.compose(at.set(x, height + lift * wide, -y), turn.setFromAxisAngle(up, 6 * draw()), size.set(wide * share, wide * share * 1.05, wide * share)));
        crowns.setColorAt(2 * k + part, new Color(greens[part === 0 ? 0 : 2]).lerp(new Color(greens[1]), draw()));
      }
      shadows.setMatrixAt(k, place.compose(at.set(x - SUN[0] * radius * 1.2, 0, -y - SUN[2] * radius * 1.2), turn.setFromAxisAngle(up, Math.atan2(SUN[2], -SUN[0])), size.set(1.7 * radius, 1, radius)));
    });
    shadows.renderOrder = -92;
    for (const mesh of [trunks, crowns, shadows]) mesh.frustumCulled = false;
    this.group.add(shadows, trunks, crowns);
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

  /** The sky and two ranges on the horizon; they go along with the camera, as what is far away seems to do. */
  _hills() {
    const draw = numbers(11), made = new Group(), { top, middle, horizon } = this.sky;
    const sky = new Shapes(), levels = [[-8, horizon], [45, horizon], [230, middle], [900, top]], sides = 72;
    const around = (radius, k, y) => [radius * Math.cos((2 * Math.PI * k) / sides), y, radius * Math.sin((2 * Math.PI * k) / sides)].map((one) => one * this.unit);
    for (let level = 0; level + 1 < levels.length; level += 1)
      for (let k = 0; k < sides; k += 1) {
        const [[low, below], [high, above]] = [levels[level], levels[level + 1]];
        sky.blend([around(1000, k, low), around(1000, k + 1, low), around(1000, k + 1, high), around(1000, k, high)], [below, below, above, above]);
      }
    made.add(this._backdrop(sky, -112));
    for (const [radius, height, colour, order] of [[950, 62, this.sky.far, -110], [820, 30, this.sky.hills, -109]]) {
      const shapes = new Shapes(), tops = Array.from({ length: sides }, () => height * (0.35 + 0.65 * draw()));
      for (let k = 0; k < sides; k += 1)
        shapes.quad(around(radius, k, -8), around(radius, k + 1, -8), around(radius, k + 1, tops[(k + 1) % sides]), around(radius, k, tops[k]), colour);
      made.add(this._backdrop(shapes, order));
    }
    this.backdrop = made;
    this.group.add(made);
  }

  _backdrop(shapes, order) {
    const mesh = new Mesh(shapes.geometry(), painted({ vertexColors: true, fog: false }));
    mesh.renderOrder = order;
    mesh.frustumCulled = false;
    return mesh;
  }
}

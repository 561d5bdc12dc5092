// The ground of the views from a car: grass, gravel, verge, road, lines, kerbs. x ahead of the plan, z = -y.

import { BufferAttribute, BufferGeometry, CanvasTexture, Color, DoubleSide, Group, LinearMipmapNearestFilter, Mesh, MeshBasicMaterial,
  NotEqualStencilFunc, RepeatWrapping, ReplaceStencilOp, Sphere, Vector3 } from '../vendor/three.module.min.js';

const PIECES = 12; // of a layer, around the lap: what is out of sight is not drawn
const STRAIGHT = 0.05, ROUGHLY = 0.09; // units: how far points of an edge may lie beside one that is drawn straight

/** Pseudo-random numbers that are the same on every visit. */
export function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

/**
 * Ground lies in one plane and has no depth: the upper layers are painted first, and mark the pixels that the lower
 * ones leave alone. Nothing flickers, and no pixel is computed twice.
 */
export const painted = (options) => new MeshBasicMaterial({ side: DoubleSide, depthTest: false, depthWrite: false, stencilWrite: true, stencilRef: 1,
  stencilFunc: NotEqualStencilFunc, stencilZPass: ReplaceStencilOp, ...options });

/** What darkens the ground: drawn after everything that is solid, and hidden by it. */
export const shade = (color, opacity) => new MeshBasicMaterial({ side: DoubleSide, depthWrite: false, transparent: true, color, opacity });

/** In which order layers are painted. */
export const ORDER = { road: -100, beside: -99, grass: -98, backdrop: -97, rubber: -90, trees: -89, cars: -88 };

function speckled(base, spots, { stripe = null, size = 256, count = 2600, sharpness = 1 } = {}) {
  const canvas = document.createElement('canvas'), draw = numbers(7);
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

/**
 * [from, to, value] of stretches of a closed line with one value (`value(k)`: of the way from point k to the next; none
 * where it is falsy) that can be drawn straight: no point of the `edges` lies more than `most` beside them.
 */
export function stretches(count, value, edges, most) {
  const found = [], isStraight = (from, to) => edges.every((edge) => {
    const [ax, ay] = edge[from % count], [bx, by] = edge[to % count], length = Math.hypot(bx - ax, by - ay) || 1;
    for (let k = from + 1; k < to; k += 1) {
      const [x, y] = edge[k % count];
      if (Math.abs((x - ax) * (by - ay) - (y - ay) * (bx - ax)) > most * length) return false;
    }
    return true;
  });
  for (let from = 0; from < count;) {
    let to = from + 1;
    while (to < count && value(to) === value(from) && isStraight(from, to + 1)) to += 1;
    if (value(from)) found.push([from, to, value(from)]);
    from = to;
  }
  return found;
}

/** Coloured polygons on the ground in pieces; those of a piece that are added first lie on top. */
class Layer {
  constructor(tile = 0) {
    Object.assign(this, { tile, pieces: Array.from({ length: PIECES }, () => ({ points: [], colours: [], corners: [] })) });
  }

  /** share: where on the lap, 0..1. */
  add(share, colour, ...polygon) {
    const { points, colours, corners } = this.pieces[Math.min(Math.floor(share * PIECES), PIECES - 1)], { r, g, b } = new Color(colour), first = points.length;
    for (const point of polygon) {
      points.push(point);
      colours.push(r, g, b);
    }
    for (let k = 1; k + 1 < polygon.length; k += 1) corners.push(first, first + k, first + k + 1);
  }

  /** The band between two edges, from point to point. */
  band(inner, outer, colour, parts) {
    const count = inner.length;
    for (const [from, to] of parts) {
      const [a, b] = [from % count, to % count];
      this.add(from / count, colour, inner[a], inner[b], outer[b], outer[a]);
    }
  }

  mesh(order, material) {
    const group = new Group();
    for (const { points, colours, corners } of this.pieces) {
      if (!corners.length) continue;
      const made = new BufferGeometry(), places = points.map(([x, y]) => new Vector3(x, 0, -y));
      made.setAttribute('position', new BufferAttribute(new Float32Array(places.flatMap(({ x, y, z }) => [x, y, z])), 3));
      if (material.vertexColors) made.setAttribute('color', new BufferAttribute(new Float32Array(colours), 3));
      if (this.tile) made.setAttribute('uv', new BufferAttribute(new Float32Array(points.flatMap(([x, y]) => [x / this.tile, y / this.tile])), 2));
      made.setIndex(corners);
      made.boundingSphere = new Sphere().setFromPoints(places);
      const mesh = new Mesh(made, material);
      mesh.renderOrder = order;
      group.add(mesh);
    }
    return group;
  }
}

export class Ground {
  /** colours: of kit/ground.js; sharpness: how finely textures are sampled far away, 1 is cheapest. */
  constructor(circuit, reference, colours, sharpness) {
    Object.assign(this, { circuit, reference, colours, sharpness, most: STRAIGHT * circuit.unit, roughly: ROUGHLY * circuit.unit });
    this.group = new Group();
    this.textures = [];
    this._grass();
    this._road();
    if (reference) this._rubber();
  }

  dispose() {
    for (const texture of this.textures) texture.dispose();
  }

  _texture(base, spots, options = {}) {
    const made = speckled(base, spots, { sharpness: this.sharpness, ...options });
    this.textures.push(made);
    return made;
  }

  _grass() {
    const { bounds, unit } = this.circuit, reach = 1300 * unit, grass = new Layer(24 * unit), { colours } = this;
    const [left, right, bottom, top] = [bounds.left - reach, bounds.right + reach, bounds.bottom - reach, bounds.top + reach];
    grass.add(0, '#ffffff', [left, bottom], [right, bottom], [right, top], [left, top]);
    this.group.add(grass.mesh(ORDER.grass, painted({ map: this._texture(colours.grass, ['#000000', '#d8e8a0', '#1d3a1a'], { stripe: colours.stripe }) })));
  }

  /** Two layers, each one mesh per piece of the lap: colours, and a grain that is the same for all where that is cheap. */
  _road() {
    const { circuit, colours, most, roughly } = this, { count, sides, unit } = circuit, [left, right] = sides;
    const beside = new Layer(4 * unit), road = new Layer(4 * unit), whole = (edges, error = most) => stretches(count, () => 1, edges, error);
    for (const [isWhite, corners] of circuit.start) road.add(0, isWhite ? colours.white : colours.black, ...corners);
    for (const { edge, line, kerb, blocks } of sides) {
      for (const part of stretches(count, (k) => blocks[k], [edge], most)) road.band(edge, kerb, part[2] === 2 ? colours.red : colours.white, [part]);
      road.band(edge, line, colours.white, whole([edge]));
    }
    road.band(left.edge, right.edge, colours.asphalt, whole([left.edge, right.edge]));
    // From the middle of the road, which lies on top: no gap opens where both are straight in different places.
    for (const { verge } of sides) beside.band(circuit.centre, verge, colours.verge, whole([verge], roughly));
    for (const { gravel, hasGravel } of sides) beside.band(circuit.centre, gravel, colours.gravel, stretches(count, (k) => hasGravel[k], [gravel], roughly));
    const grain = this.sharpness > 1 ? { map: this._texture('#f6f6f6', ['#000000', '#ffffff', '#000000'], { count: 9000 }) } : {};
    const material = painted({ vertexColors: true, ...grain });
    this.group.add(road.mesh(ORDER.road, material), beside.mesh(ORDER.beside, material));
  }

  /** Rubber that lies along the reference lap. */
  _rubber() {
    const { x, y } = this.reference, layer = new Layer(), half = 1.2 * this.circuit.unit, count = x.length;
    const [left, right] = [1, -1].map((side) => x.map((_, k) => {
      const next = (k + 1) % count, angle = Math.atan2(y[next] - y[k], x[next] - x[k]);
      return [x[k] - side * half * Math.sin(angle), y[k] + side * half * Math.cos(angle)];
    }));
    layer.band(left, right, '#000000', stretches(count, () => 1, [left, right], this.roughly));
    this.group.add(layer.mesh(ORDER.rubber, shade('#000000', 0.16)));
  }
}

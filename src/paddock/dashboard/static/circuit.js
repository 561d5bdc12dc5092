// The circuit as geometry: outlines, kerbs, gravel and trees laid from the two edges and the centre line. Metres, y up.

const KERB_TURN = 130, GRAVEL_TURN = 55; // radius in tenths of the road's width below which a corner has them

/** Deterministic noise in [0, 1): the same circuit has the same trees in every browser. */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function smooth(values, window) {
  const count = values.length, width = 2 * window + 1, found = new Float64Array(count);
  let sum = 0;
  for (let k = -window; k <= window; k += 1) sum += values[(k + count) % count];
  for (let k = 0; k < count; k += 1) {
    found[k] = sum / width;
    sum += values[(k + window + 1) % count] - values[(k - window + count) % count];
  }
  return found;
}

const offset = (points, normals, distance) =>
  points.map(([x, y], k) => [x + normals[k][0] * distance[k], y + normals[k][1] * distance[k]]);

export class Circuit {
  constructor(track) {
    this.name = track.name;
    this.obstacles = track.obstacles ?? [];
    this.left = track.left;
    this.right = track.right;
    this.centre = track.centre;
    this.count = this.centre.length;
    this._measure();
    this._outline();
    this._plant();
    this._bound();
  }

  _measure() {
    const { centre, count } = this;
    this.along = new Float64Array(count + 1); // m from the line
    this.headings = new Float64Array(count);
    this.widths = this.left.map(([x, y], k) => Math.hypot(x - this.right[k][0], y - this.right[k][1]));
    for (let k = 0; k < count; k += 1) {
      const before = centre[(k - 1 + count) % count], after = centre[(k + 1) % count];
      this.headings[k] = Math.atan2(after[1] - before[1], after[0] - before[0]);
      this.along[k + 1] = this.along[k] + Math.hypot(after[0] - centre[k][0], after[1] - centre[k][1]);
    }
    this.length = this.along[count];
    this.spacing = this.length / count;
    this.unit = this.widths.reduce((sum, width) => sum + width, 0) / count / 10;
    const bend = new Float64Array(count);
    for (let k = 0; k < count; k += 1) {
      const turn = this.headings[(k + 1) % count] - this.headings[(k - 1 + count) % count];
      bend[k] = Math.atan2(Math.sin(turn), Math.cos(turn)) / (2 * this.spacing);
    }
    this.bend = smooth(bend, Math.max(1, Math.round((6 * this.unit) / this.spacing)));
  }

  _outline() {
    const { unit, count, bend } = this;
    const normals = Array.from(this.headings, (heading) => [-Math.sin(heading), Math.cos(heading)]);
    const every = (distance) => new Float64Array(count).fill(distance);
    const after = Math.max(1, Math.round((18 * unit) / this.spacing));
    const turns = (k, sign, radius) => sign * bend[(k + count) % count] > 1 / (radius * unit);
    const kerb = (sign) => Array.from({ length: count }, (_, k) =>
      turns(k, sign, KERB_TURN) || (turns(k - after, -sign, KERB_TURN) && !turns(k, -sign, KERB_TURN)));
    const window = Math.max(1, Math.round((6 * unit) / this.spacing));
    const gravel = (sign) => {
      let depth = Float64Array.from({ length: count }, (_, k) => Number(turns(k - after / 2 | 0, -sign, GRAVEL_TURN)));
      for (let turn = 0; turn < 3; turn += 1) depth = smooth(depth, window);
      return depth.map((share) => 8 * unit * share);
    };
    this.sides = [[this.left, 1], [this.right, -1]].map(([edge, sign]) => ({
      edge,
      line: offset(edge, normals, every(-sign * 0.2 * unit)),
      kerb: offset(edge, normals, every(sign * unit)),
      verge: offset(edge, normals, every(sign * 1.6 * unit)),
      gravel: offset(edge, normals, gravel(sign).map((depth) => sign * depth)),
      hasKerb: kerb(sign),
      hasGravel: Array.from(gravel(sign), (depth) => depth > 0.2 * unit),
    }));
  }

  _plant() {
    const next = random(this.count), { unit } = this;
    const stride = Math.max(1, Math.round((2 * unit) / this.spacing));
    const clear = Math.max(...this.widths) / 2 + 10 * unit;
    this.trees = [];
    for (let k = 0; k < Math.min(this.length / (9 * unit), 700); k += 1) {
      const at = Math.floor(next() * this.count), side = next() < 0.5 ? 1 : -1;
      const away = side * (this.widths[at] / 2 + unit * (12 + 30 * next())), radius = unit * (1.3 + 1.6 * next());
      const x = this.centre[at][0] - Math.sin(this.headings[at]) * away;
      const y = this.centre[at][1] + Math.cos(this.headings[at]) * away;
      let gap = Infinity;
      for (let j = 0; j < this.count; j += stride)
        gap = Math.min(gap, Math.hypot(x - this.centre[j][0], y - this.centre[j][1]));
      if (gap > clear) this.trees.push([x, y, radius]);
    }
  }

  _bound() {
    const bounds = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
    for (const [x, y] of [...this.left, ...this.right]) {
      bounds.left = Math.min(bounds.left, x);
      bounds.right = Math.max(bounds.right, x);
      bounds.bottom = Math.min(bounds.bottom, y);
      bounds.top = Math.max(bounds.top, y);
    }
    this.bounds = bounds;
  }

  /** Share of the lap (0..1) of the place on the centre line that is nearest to a point. `near`: an index to look around. */
  progress(x, y, near = null) {
    let best = 0, least = Infinity;
    const reach = near === null ? this.count : Math.ceil(60 / this.spacing);
    for (let k = 0; k < reach; k += 1) {
      const at = near === null ? k : (near - 8 + k + this.count) % this.count;
      const gap = (this.centre[at][0] - x) ** 2 + (this.centre[at][1] - y) ** 2;
      if (gap < least) [least, best] = [gap, at];
    }
    return { share: this.along[best] / this.length, index: best };
  }
}

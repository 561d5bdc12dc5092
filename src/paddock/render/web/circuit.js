// The circuit as geometry: outlines of the road and of the scenery beside it, as the scene says. Metres, y up.

const offset = (points, headings, distance) => points.map(([x, y], k) =>
  [x - Math.sin(headings[k]) * distance(k), y + Math.cos(headings[k]) * distance(k)]);

export class Circuit {
  constructor(track) {
    this.name = track.name;
    this.obstacles = track.obstacles ?? [];
    this.left = track.left;
    this.right = track.right;
    this.centre = track.centre;
    this.count = this.centre.length;
    this.unit = track.scenery.unit;
    this.trees = track.scenery.trees;
    this.start = track.scenery.start;
    this._measure();
    this._outline(track.scenery);
    this._bound();
  }

  _measure() {
    const { centre, count } = this;
    this.along = new Float64Array(count + 1); // m from the line
    this.headings = new Float64Array(count);
    for (let k = 0; k < count; k += 1) {
      const before = centre[(k - 1 + count) % count], after = centre[(k + 1) % count];
      this.headings[k] = Math.atan2(after[1] - before[1], after[0] - before[0]);
      this.along[k + 1] = this.along[k] + Math.hypot(after[0] - centre[k][0], after[1] - centre[k][1]);
    }
    this.length = this.along[count];
    this.spacing = this.length / count;
  }

  /** Each side's outlines; `blocks` [count]: 0 no kerb, 1 white, 2 red, from a point to the next. */
  _outline(scenery) {
    this.sides = [[this.left, 1], [this.right, -1]].map(([edge, sign], side) => {
      const { kerb, gravel } = scenery.sides[side];
      const beside = (distance) => offset(edge, this.headings, (k) => sign * distance(k));
      return {
        edge,
        line: beside(() => -scenery.line_width),
        kerb: beside(() => scenery.kerb_width),
        verge: beside(() => scenery.verge_width),
        gravel: beside((k) => gravel[k]),
        blocks: kerb,
        hasGravel: gravel.map((depth) => depth > 0),
      };
    });
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

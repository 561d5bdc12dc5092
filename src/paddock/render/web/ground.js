// The still part of the picture, painted once per place and zoom into a canvas of its own: grass, gravel, road, line.

export const PALETTES = {
  light: {
    grass: '#4f8443', stripe: '#558c48', gravel: '#c6b48c', verge: '#437239', asphalt: '#46484e', rubber: 'rgb(0 0 0 / 13%)',
    white: '#ecece8', red: '#cc2c28', black: '#18181c', tree: ['#2f5a2e', '#326634', '#3e7a3c', '#519248'],
  },
  dark: {
    grass: '#26402c', stripe: '#2a4731', gravel: '#7d7258', verge: '#203726', asphalt: '#34373d', rubber: 'rgb(0 0 0 / 20%)',
    white: '#cfd0cc', red: '#b8332e', black: '#121215', tree: ['#172a1b', '#1d3723', '#25452b', '#2f5535'],
  },
};
const MARGIN = 0.35; // of the view, painted beyond each of its edges
const NARROWEST_LINE = 2.2; // pixels

/** Red, amber, green from slow to fast. */
export function speedColour(share) {
  const stops = [[226, 48, 44], [242, 196, 60], [70, 206, 96]];
  const place = Math.min(Math.max(share, 0), 1) * 2, low = Math.min(Math.floor(place), 1), part = place - low;
  const mixed = stops[low].map((value, k) => Math.round(value + part * (stops[low + 1][k] - value)));
  return `rgb(${mixed.join(' ')})`;
}

function band(inner, outer, from, to) {
  const path = new Path2D(), count = inner.length;
  for (let k = from; k <= to; k += 1) path.lineTo(...inner[k % count]);
  for (let k = to; k >= from; k -= 1) path.lineTo(...outer[k % count]);
  path.closePath();
  return path;
}

function runs(mask) {
  const found = [], count = mask.length;
  for (let k = 0; k < count; k += 1) {
    if (!mask[k] || (mask[(k - 1 + count) % count] && k > 0)) continue;
    let end = k;
    while (end + 1 < count && mask[end + 1]) end += 1;
    found.push([k, end + 1]);
  }
  return found;
}

export class Ground {
  constructor(circuit, reference) {
    this.circuit = circuit;
    this.reference = reference;
    this.canvas = document.createElement('canvas');
    this.region = null;
    this._prepare();
  }

  /** Draw what the camera sees. camera: x, y (m at the anchor), zoom (px/m), up (rad), width, height, anchor (px). */
  draw(context, camera, options) {
    const reach = Math.hypot(camera.width, camera.height) / camera.zoom;
    if (!this._covers(camera, reach, options)) this._repaint(camera, reach, options);
    const { region } = this;
    context.save();
    camera.apply(context);
    context.imageSmoothingEnabled = true;
    context.scale(1, -1);
    context.drawImage(this.canvas, region.left, -region.top, region.width, region.height);
    context.restore();
  }

  _covers(camera, reach, options) {
    const { region } = this;
    if (!region || region.key !== JSON.stringify(options) || camera.pixels > region.pixels) return false;
    const ratio = (camera.zoom * camera.pixels) / region.scale;
    const half = camera.isStill ? { x: camera.width / camera.zoom / 2, y: camera.height / camera.zoom / 2 }
      : { x: reach / 2, y: reach / 2 };
    const { x, y } = camera.middle;
    const isInside = x - half.x >= region.left && x + half.x <= region.left + region.width
      && y + half.y <= region.top && y - half.y >= region.top - region.height;
    const finest = camera.isMoving ? 2.2 : camera.mode === 'follow' ? 1.25 : 1.05;
    return isInside && ratio > 0.6 && ratio < finest;
  }

  _repaint(camera, reach, options) {
    const { x, y } = camera.middle;
    let width = camera.isStill ? camera.width / camera.zoom : reach, height = camera.isStill ? camera.height / camera.zoom : reach;
    width *= 1 + 2 * MARGIN;
    height *= 1 + 2 * MARGIN;
    const scale = Math.min(camera.zoom * camera.pixels, 5000 / Math.max(width, height));
    this.region = { left: x - width / 2, top: y + height / 2, width, height, scale, pixels: camera.pixels,
      key: JSON.stringify(options) };
    this.canvas.width = Math.ceil(width * scale);
    this.canvas.height = Math.ceil(height * scale);
    const context = this.canvas.getContext('2d', { alpha: false });
    context.setTransform(scale, 0, 0, -scale, -this.region.left * scale, this.region.top * scale);
    this._paint(context, options, scale);
  }

  _prepare() {
    const { circuit } = this, { count, unit, spacing } = circuit, [left, right] = circuit.sides;
    const piece = Math.max(4, Math.round((30 * unit) / spacing));
    this.pieces = [];
    for (let from = 0; from < count; from += piece) {
      const to = Math.min(from + piece + 1, count + 1);
      this.pieces.push({
        road: band(left.edge, right.edge, from, to),
        lines: [band(left.edge, left.line, from, to), band(right.edge, right.line, from, to)],
        kerbs: [left, right].flatMap((side) => this._kerbs(side, from, Math.min(to, count))),
      });
    }
    this.verge = band(left.verge, right.verge, 0, Math.ceil(count / 2));
    this.vergeRest = band(left.verge, right.verge, Math.floor(count / 2), count);
    this.gravel = [left, right].flatMap((side) => runs(side.hasGravel).map(([a, b]) => band(side.edge, side.gravel, a, b)));
  }

  _kerbs({ edge, kerb, blocks }, from, to) {
    const found = [];
    for (let k = from; k < to; k += 1) {
      if (!blocks[k]) continue;
      let end = k + 1;
      while (end < to && blocks[end] === blocks[k]) end += 1;
      found.push([blocks[k] === 2, band(edge, kerb, k, end)]);
      k = end - 1;
    }
    return found;
  }

  _paint(context, { theme, line }, scale) {
    const colours = PALETTES[theme], { unit } = this.circuit;
    this._grass(context, colours);
    context.fillStyle = colours.gravel;
    for (const path of this.gravel) context.fill(path);
    context.fillStyle = colours.verge;
    context.fill(this.verge);
    context.fill(this.vergeRest);
    for (const piece of this.pieces) {
      context.fillStyle = colours.asphalt;
      context.fill(piece.road);
      context.fillStyle = colours.white;
      for (const path of piece.lines) context.fill(path);
      for (const [isRed, path] of piece.kerbs) {
        context.fillStyle = isRed ? colours.red : colours.white;
        context.fill(path);
      }
    }
    this._rubber(context, colours, unit);
    this._start(context, colours);
    if (line) this._line(context, Math.max(0.5 * unit, NARROWEST_LINE / scale));
    for (const obstacle of this.circuit.obstacles) tyres(context, colours, obstacle);
    for (const tree of this.circuit.trees) paintTree(context, colours, tree);
  }

  _grass(context, colours) {
    const { left, top, width, height } = this.region, stripe = 11 * this.circuit.unit, reach = width + height;
    context.fillStyle = colours.grass;
    context.fillRect(left, top - height, width, height);
    context.strokeStyle = colours.stripe;
    context.lineWidth = stripe;
    context.beginPath();
    const first = Math.floor((left + top - height) / (stripe * 2 * Math.SQRT2)) * stripe * 2 * Math.SQRT2;
    for (let at = first; at < left + top + reach; at += stripe * 2 * Math.SQRT2) {
      context.moveTo(at - top - height, top + height);
      context.lineTo(at - top + 2 * height, top - 2 * height);
    }
    context.stroke();
  }

  _rubber(context, colours, unit) {
    if (!this.reference) return;
    context.strokeStyle = colours.rubber;
    context.lineWidth = 2.6 * unit;
    context.lineJoin = 'round';
    context.beginPath();
    this.reference.x.forEach((x, k) => context.lineTo(x, this.reference.y[k]));
    context.closePath();
    context.stroke();
  }

  _line(context, width) {
    const { x, y, speed } = this.reference ?? { x: [] }, count = x.length;
    if (!count) return;
    const low = Math.min(...speed), span = Math.max(...speed) - low || 1;
    context.lineWidth = width;
    context.lineCap = 'round';
    for (let k = 0; k < count; k += 1) {
      context.strokeStyle = speedColour((speed[k] - low) / span);
      context.beginPath();
      context.moveTo(x[k], y[k]);
      context.lineTo(x[(k + 1) % count], y[(k + 1) % count]);
      context.stroke();
    }
  }

  _start(context, colours) {
    for (const [isWhite, corners] of this.circuit.start) {
      context.fillStyle = isWhite ? colours.white : colours.black;
      context.beginPath();
      for (const corner of corners) context.lineTo(...corner);
      context.fill();
    }
  }
}

function disc(context, colour, x, y, radius) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function paintTree(context, colours, [x, y, radius]) {
  const [shade, ...crown] = colours.tree;
  disc(context, shade, x + 0.35 * radius, y - 0.4 * radius, radius);
  [1, 0.72, 0.4].forEach((share, k) => {
    const shift = 0.28 * radius * (1 - share);
    disc(context, crown[k], x - shift, y + shift, radius * share);
  });
}

function tyres(context, colours, [x, y, radius]) {
  disc(context, 'rgb(0 0 0 / 35%)', x + 0.22 * radius, y - 0.25 * radius, 1.05 * radius);
  [[1, colours.red], [0.8, colours.white], [0.6, '#202024'], [0.3, '#54545a']].forEach(([share, colour]) =>
    disc(context, colour, x, y, radius * share));
}

// A small map in the corner while the view follows a car.

import { html } from './dom.js';
import { COLUMNS } from './messages.js';

const WIDTH = COLUMNS.length, SIZE = 132, EDGE = 14; // pixels

export class Minimap {
  constructor() {
    this.canvas = html('canvas', { class: 'minimap', 'aria-hidden': 'true', width: 2 * SIZE, height: 2 * SIZE, hidden: true });
  }

  setCircuit({ bounds, centre }) {
    const across = bounds.right - bounds.left, along = bounds.top - bounds.bottom;
    const scale = (SIZE - 2 * EDGE) / Math.max(across, along, 1);
    this.place = (x, y) => [SIZE / 2 + (x - (bounds.left + bounds.right) / 2) * scale,
      SIZE / 2 - (y - (bounds.bottom + bounds.top) / 2) * scale];
    this.road = new Path2D();
    for (const [x, y] of centre) this.road.lineTo(...this.place(x, y));
    this.road.closePath();
  }

  /** poses: rows of COLUMNS, or null to hide the map. paint(index): a car's colour. */
  draw(poses, followed, paint) {
    this.canvas.hidden = !poses;
    if (!poses) return;
    const context = this.canvas.getContext('2d');
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.clearRect(0, 0, SIZE, SIZE);
    context.lineJoin = 'round';
    for (const [width, colour] of [[5, 'rgb(0 0 0 / 45%)'], [2.5, '#f4f5f8']]) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.stroke(this.road);
    }
    for (let index = 0; index * WIDTH < poses.length; index += 1) if (index !== followed) this._dot(context, poses, index, 2.2, paint);
    this._dot(context, poses, followed, 4.2, paint);
  }

  _dot(context, poses, index, radius, paint) {
    const [x, y] = this.place(poses[index * WIDTH], poses[index * WIDTH + 1]);
    if (!Number.isFinite(x)) return;
    context.fillStyle = paint(index);
    context.strokeStyle = 'rgb(0 0 0 / 60%)';
    context.lineWidth = 1;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
}

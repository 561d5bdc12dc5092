// World to screen: `zoom` px/m about (x, y), which lies at `anchor`; the direction `up` (rad) points up on the screen.

import { clamp } from './numbers.js';

const NORTH = Math.PI / 2;
const FOLLOW_LENGTHS = 15; // car lengths that the view's height shows when following
const LENGTHS_AT_SPEED = 0.2; // more of them for each m/s while driving, to see what comes

export class Camera {
  constructor() {
    Object.assign(this, { x: 0, y: 0, zoom: 1, up: NORTH, width: 1, height: 1, pixels: 1, anchor: [0, 0] });
    this.mode = 'fit'; // fit | free | follow
    this.turns = false; // does the view turn with the car it follows?
    this.closeness = 1; // a person's zoom while following
    this.pace = 0; // m/s of the car that is followed, smoothed
    this.isMoving = false;
  }

  get isStill() {
    return this.up === NORTH;
  }

  get middle() {
    return this.world(this.width / 2, this.height / 2);
  }

  resize(width, height, pixels) {
    Object.assign(this, { width, height, pixels });
  }

  apply(context) {
    const { zoom, pixels, anchor } = this, sine = Math.sin(this.up) * zoom, cosine = Math.cos(this.up) * zoom;
    const right = anchor[0] - this.x * sine + this.y * cosine, down = anchor[1] + this.x * cosine + this.y * sine;
    context.setTransform(sine * pixels, -cosine * pixels, -cosine * pixels, -sine * pixels, right * pixels, down * pixels);
  }

  screen(x, y) {
    const dx = x - this.x, dy = y - this.y, sine = Math.sin(this.up), cosine = Math.cos(this.up);
    return [this.anchor[0] + this.zoom * (dx * sine - dy * cosine), this.anchor[1] - this.zoom * (dx * cosine + dy * sine)];
  }

  world(px, py) {
    const right = (px - this.anchor[0]) / this.zoom, ahead = (this.anchor[1] - py) / this.zoom;
    const sine = Math.sin(this.up), cosine = Math.cos(this.up);
    return { x: this.x + right * sine + ahead * cosine, y: this.y - right * cosine + ahead * sine };
  }

  /** Angle on the screen (clockwise, 0 points right) of a heading in the world. */
  angle(heading) {
    return this.up - NORTH - heading;
  }

  fit(bounds, room) {
    const across = Math.max(bounds.right - bounds.left, 1), along = Math.max(bounds.top - bounds.bottom, 1);
    const width = this.width - room.left - room.right, height = this.height - room.top - room.bottom;
    return {
      x: (bounds.left + bounds.right) / 2, y: (bounds.bottom + bounds.top) / 2, up: NORTH,
      zoom: Math.max(Math.min(width / across, height / along), 0.01),
      anchor: [room.left + width / 2, room.top + height / 2],
    };
  }

  behind(car, length) {
    this.pace += 0.015 * (car.speed - this.pace);
    const lengths = FOLLOW_LENGTHS + (this.turns ? LENGTHS_AT_SPEED * this.pace : 0);
    const zoom = (this.closeness * Math.max(this.height, 320)) / (lengths * length);
    const anchor = [this.width / 2, this.height * (this.turns ? 0.72 : 0.5)];
    return { x: car.x, y: car.y, up: this.turns ? car.heading : NORTH, zoom, anchor };
  }

  /** Go to a place at once, or a `share` of the way; a view that turns follows the heading softly. */
  approach(goal, share, turning = share) {
    const before = [this.x, this.y, this.zoom, this.up];
    this.x += share * (goal.x - this.x);
    this.y += share * (goal.y - this.y);
    this.zoom *= (goal.zoom / this.zoom) ** share;
    const turn = Math.atan2(Math.sin(goal.up - this.up), Math.cos(goal.up - this.up));
    this.up = Math.abs(turn) < 1e-3 ? goal.up : this.up + turning * turn;
    this.anchor = this.anchor.map((value, k) => value + share * (goal.anchor[k] - value));
    this.isMoving = Math.abs(this.zoom / goal.zoom - 1) > 0.01;
    return [this.x, this.y, this.zoom, this.up].some((value, k) => value !== before[k]);
  }

  drag(dx, dy) {
    const from = this.world(0, 0), to = this.world(dx, dy);
    this.mode = 'free';
    this.x -= to.x - from.x;
    this.y -= to.y - from.y;
  }

  zoomAt(px, py, factor) {
    if (this.mode === 'follow') {
      this.closeness = clamp(this.closeness * factor, 0.15, 4);
      return;
    }
    const place = this.world(px, py);
    this.mode = 'free';
    this.zoom = clamp(this.zoom * factor, 0.05, 60);
    const moved = this.world(px, py);
    this.x += place.x - moved.x;
    this.y += place.y - moved.y;
  }
}

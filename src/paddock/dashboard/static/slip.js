// How much each car slides: the angle between its nose and its way, from where it was a moment ago.

import { clamp } from './dom.js';

const GRIPS = 0.09, SLIDES = 0.3; // rad: below nothing is heard or seen, above it is all smoke
const SLOWEST = 4; // m/s
const SMOOTH = 9; // 1/s
const LONGEST = 0.2; // s between two places that belong together

export class Slip {
  constructor() {
    this.cars = [];
  }

  /** pose: `x`, `y`, `heading`, `speed`, `throttle`; elapsed: s since the last call. Gives 0..1. */
  update(index, pose, elapsed) {
    const car = (this.cars[index] ??= { x: pose.x, y: pose.y, value: 0 });
    const dx = pose.x - car.x, dy = pose.y - car.y, way = Math.hypot(dx, dy);
    Object.assign(car, { x: pose.x, y: pose.y });
    if (!(elapsed > 0) || elapsed > LONGEST || way > 3 * Math.max(pose.speed, 5) * elapsed) return (car.value = 0);
    let wanted = 0;
    if (pose.speed > SLOWEST && way > 1e-4) {
      const turn = Math.atan2(dy, dx) - pose.heading, angle = Math.abs(Math.atan2(Math.sin(turn), Math.cos(turn)));
      wanted = clamp((Math.min(angle, Math.PI - angle) - GRIPS) / (SLIDES - GRIPS), 0, 1);
      if (pose.throttle < -0.92 && pose.speed > 10) wanted = Math.max(wanted, 0.22);
    }
    car.value += (wanted - car.value) * (1 - Math.exp(-SMOOTH * elapsed));
    return car.value;
  }

  of(index) {
    return this.cars[index]?.value ?? 0;
  }
}

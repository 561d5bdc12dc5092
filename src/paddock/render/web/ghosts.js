// Laps that are driven again: their colours, and where a car was at a moment of its lap.

import { clamp } from './numbers.js';

export const GHOST_COLOURS = { best: '#f2f2f4', agent: '#f2f2f4', reference: '#59e3ff', classical: '#c9a2ff' };
export const ghostColour = (kind) => GHOST_COLOURS[kind] ?? '#ffb3d9';

export function referenceGhost({ x, y, time, lap_time: lapTime }) {
  const count = x.length;
  const heading = x.map((_, k) => Math.atan2(y[(k + 1) % count] - y[k], x[(k + 1) % count] - x[k]));
  return { kind: 'reference', driver: 'Reference lap', time, x, y, heading, lap_time: lapTime };
}

/** Where a ghost was `clock` seconds after the line; null once its lap is over. */
export function ghostPose(ghost, clock) {
  const { x, y, heading, time, dt } = ghost, count = x.length;
  if (!(clock >= 0) || clock > ghost.lap_time) return null;
  let low = 0, part = 0;
  if (time) {
    let high = count - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (time[middle] <= clock) low = middle;
      else high = middle;
    }
    const end = low + 1 < count ? time[low + 1] : ghost.lap_time;
    part = clamp((clock - time[low]) / (end - time[low] || 1), 0, 1);
  } else {
    low = Math.min(Math.floor(clock / dt), count - 1);
    part = clamp(clock / dt - low, 0, 1);
  }
  const next = time ? (low + 1) % count : Math.min(low + 1, count - 1);
  const turn = heading[next] - heading[low];
  return { x: x[low] + part * (x[next] - x[low]), y: y[low] + part * (y[next] - y[low]),
    heading: heading[low] + part * Math.atan2(Math.sin(turn), Math.cos(turn)) };
}

// A circuit as a line, as the list of tracks has it.

import { svg } from './dom.js';

export const outlinePicture = () => svg('svg', { 'aria-hidden': 'true' }, svg('path'));

/** points: [x, y] in m. */
export function drawOutline(picture, points) {
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const left = Math.min(...xs), top = Math.max(...ys), size = Math.max(Math.max(...xs) - left, top - Math.min(...ys), 1);
  const width = ((Math.max(...xs) - left) / size) * 100, height = ((top - Math.min(...ys)) / size) * 100;
  picture.setAttribute('viewBox', `-6 -6 ${width + 12} ${height + 12}`);
  const line = points.map(([x, y]) => `${(((x - left) / size) * 100).toFixed(1)},${(((top - y) / size) * 100).toFixed(1)}`);
  picture.firstChild.setAttribute('d', `M${line.join('L')}Z`);
}

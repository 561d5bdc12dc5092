// Racing: the road with a line coloured by speed, and how often cars were where.

const SPEED = [[214, 40, 57], [244, 108, 57], [252, 186, 72], [236, 226, 104], [150, 207, 104], [64, 184, 146], [52, 160, 220]];
const HEAT = [[33, 24, 64], [96, 30, 110], [181, 54, 95], [240, 112, 60], [252, 200, 90], [255, 246, 200]];

function blend(colours, share) {
  const place = Math.min(Math.max(share, 0), 1) * (colours.length - 1), k = Math.min(Math.floor(place), colours.length - 2);
  const mixed = colours[k].map((part, channel) => Math.round(part + (colours[k + 1][channel] - part) * (place - k)));
  return `rgb(${mixed.join(' ')})`;
}
const ramp = (colours) => `background:linear-gradient(90deg,${colours.map((one) => `rgb(${one.join(' ')})`).join(',')})`;

function roadView(track, width) {
  const points = [...track.left, ...track.right], xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const [xLow, xHigh] = extent(xs, 0.03), [yLow, yHigh] = extent(ys, 0.03);
  const zoom = width / (xHigh - xLow), height = Math.min((yHigh - yLow) * zoom, width * 1.1);
  const used = Math.min(zoom, height / (yHigh - yLow)), offset = (width - (xHigh - xLow) * used) / 2;
  return { width, height, zoom: used, x: (value) => offset + (value - xLow) * used, y: (value) => (yHigh - value) * used };
}
function road(track, view) {
  const outline = (points) => points.map(([x, y]) => `${view.x(x).toFixed(1)},${view.y(y).toFixed(1)}`).join('L');
  const shape = `M${outline([...track.left, track.left[0]])}ZM${outline([...track.right, track.right[0]])}Z`;
  const [a, b] = [track.left[0], track.right[0]];
  return [svg('path', { d: shape, fill: 'var(--rule)', 'fill-rule': 'evenodd' }),
    svg('line', { x1: view.x(a[0]), y1: view.y(a[1]), x2: view.x(b[0]), y2: view.y(b[1]), stroke: 'var(--ink)', 'stroke-width': 2.5 })];
}
function speedMap(track, name, lap, range, mark) {
  const view = roadView(track, 340), image = svg('svg', { viewBox: `0 0 340 ${view.height.toFixed(0)}`, role: 'img', 'aria-label': name });
  image.append(...road(track, view));
  if (lap) {
    const { x, y, speed } = lap.samples, levels = 24, level = speed.map((v) => Math.round(((v - range[0]) / ((range[1] - range[0]) || 1)) * levels));
    for (let first = 0; first < x.length;) {
      let last = first;
      while (last + 1 < x.length && level[last + 1] === level[first]) last++;
      const piece = [];
      for (let k = first; k <= last + 1; k++) piece.push(`${view.x(x[k % x.length]).toFixed(1)},${view.y(y[k % x.length]).toFixed(1)}`);
      image.append(svg('polyline', { points: piece.join(' '), fill: 'none', stroke: blend(SPEED, level[first] / levels), 'stroke-width': 3.2, 'stroke-linecap': 'round' }));
      first = last + 1;
    }
  }
  const time = lap ? lapTime(lap.lap_time) : 'no lap completed';
  return html('figure', {}, html('h3', {}, mark, ` ${name}`, html('span', { class: 'soft' }, `  ${time}`)), image);
}
function heatMap(track, name, heat, mark) {
  const view = roadView(track, 340), pixels = 2;
  const canvas = html('canvas', { width: 340 * pixels, height: Math.round(view.height * pixels), role: 'img', 'aria-label': `where ${name} drove` });
  const pen = canvas.getContext('2d');
  pen.scale(pixels, pixels);
  const outline = (points) => points.forEach(([x, y], k) => (k ? pen.lineTo(view.x(x), view.y(y)) : pen.moveTo(view.x(x), view.y(y))));
  pen.fillStyle = 'rgb(128 128 128 / 16%)';
  pen.beginPath(); outline(track.left); pen.closePath(); outline(track.right); pen.closePath(); pen.fill('evenodd');
  const most = Math.max(...heat.cells.map((cell) => cell[2]), 1), side = heat.cell * view.zoom + 0.5;
  for (const [column, row, visits, off] of heat.cells) {
    const x = view.x(heat.x + column * heat.cell), y = view.y(heat.y + (row + 1) * heat.cell);
    pen.fillStyle = off > visits / 2 ? '#e5484d' : blend(HEAT, Math.sqrt(visits / most));
    pen.fillRect(x, y, side, side);
  }
  return html('figure', {}, html('h3', {}, mark, ` ${name}`), canvas);
}

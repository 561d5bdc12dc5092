// Charts as SVG: scales, lines, intervals, bars and scattered points. The kit (paddock/render/web) comes before it.

const colour = (index) => `var(--c${index % 8})`;
const dashes = (index) => ['', '7 4', '2 3'][Math.floor(index / 8) % 3];

const format = (value) => number(value);

const ROUND_TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400]; // s

function ticks(low, high, count, isTime = false) {
  const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw || 1));
  const steps = isTime && raw >= 1 ? ROUND_TIMES : [1, 2, 5, 10].map((k) => k * unit);
  const step = steps.find((k) => k >= raw) || raw;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}
const scale = (low, high, from, to) => (value) => from + ((value - low) / ((high - low) || 1)) * (to - from);
const finite = (values) => values.filter((value) => Number.isFinite(value));
function extent(values, room = 0) {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const span = (high - low) || Math.abs(high) * 0.1 || 1;
  return [low - room * span, high + room * span];
}

function path(xs, ys, x, y) {
  let text = '', pen = 'M';
  for (let k = 0; k < xs.length; k++) {
    if (!Number.isFinite(ys[k])) { pen = 'M'; continue; }
    text += `${pen}${x(xs[k]).toFixed(1)},${y(ys[k]).toFixed(1)}`;
    pen = 'L';
  }
  return text;
}
function areaPath(xs, lows, highs, x, y) {
  const there = xs.map((_, k) => k).filter((k) => Number.isFinite(lows[k]) && Number.isFinite(highs[k]));
  if (there.length < 2) return '';
  const point = (k, values) => `${x(xs[k]).toFixed(1)},${y(values[k]).toFixed(1)}`;
  return `M${there.map((k) => point(k, highs)).join('L')}L${there.reverse().map((k) => point(k, lows)).join('L')}Z`;
}

function frame({ width, height, left, right, top, bottom, x, y, xTicks, yTicks, xFormat, yFormat, xName }) {
  const parts = [];
  for (const value of yTicks) {
    parts.push(svg('line', { class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    parts.push(svg('text', { x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, yFormat(value)));
  }
  for (const value of xTicks)
    parts.push(svg('text', { x: x(value), y: height - bottom + 18, 'text-anchor': 'middle' }, xFormat(value)));
  parts.push(svg('line', { class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  if (xName) parts.push(svg('text', { x: width - right, y: height - 2, 'text-anchor': 'end' }, xName));
  return parts;
}

// series: [{label, index, x, value, low, high, lines: [{x, value}]}], levels: [{value, label}]
function lineChart({ title, series, xName = '', xFormat = compact, yFormat = format, width = 560, height = 270, levels = [], yRange = null }) {
  const left = 56, right = 12, top = 10, bottom = 40;
  const drawn = series.filter((one) => one.x && one.x.length);
  const figure = html('figure', {}, title ? html('h3', {}, title) : null);
  if (!drawn.length) { figure.append(html('p', { class: 'soft small' }, 'Nothing was logged.')); return figure; }
  const values = drawn.flatMap((one) => finite([...one.value, ...(one.low || []), ...(one.high || []),
    ...(one.lines || []).flatMap((line) => line.value)])).concat(levels.map((level) => level.value));
  const [xLow, xHigh] = extent(drawn.flatMap((one) => finite(one.x)));
  const [yLow, yHigh] = yRange || extent(values, 0.04);
  const x = scale(xLow, xHigh, left, width - right), y = scale(yLow, yHigh, height - bottom, top);
  const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title || xName });
  image.append(...frame({ width, height, left, right, top, bottom, x, y, xTicks: ticks(xLow, xHigh, 6, xFormat === clock),
    yTicks: ticks(yLow, yHigh, 5), xFormat, yFormat, xName }));
  for (const level of levels) {
    image.append(svg('line', { x1: left, x2: width - right, y1: y(level.value), y2: y(level.value), stroke: 'var(--faint)',
      'stroke-dasharray': '3 4' }), svg('text', { x: left + 4, y: y(level.value) - 5 }, level.label));
  }
  for (const one of drawn) {
    const stroke = one.stroke || colour(one.index), group = svg('g', { 'data-group': one.label });
    if (one.low) group.append(svg('path', { d: areaPath(one.x, one.low, one.high, x, y), fill: stroke, opacity: 0.16 }));
    for (const line of one.lines || [])
      group.append(svg('path', { d: path(line.x, line.value, x, y), fill: 'none', stroke, opacity: 0.28, 'stroke-width': 1 }));
    group.append(svg('path', { d: path(one.x, one.value, x, y), fill: 'none', stroke, 'stroke-width': 2.2,
      'stroke-linejoin': 'round', 'stroke-dasharray': dashes(one.index) }));
    if (one.x.length === 1) group.append(svg('circle', { cx: x(one.x[0]), cy: y(one.value[0]), r: 4, fill: stroke }));
    image.append(group);
  }
  figure.append(image);
  hover(figure, image, drawn, { x, y, xLow, xHigh, left, right, top, bottom, width, height, xFormat, yFormat });
  return figure;
}

function hover(figure, image, series, view) {
  const tip = html('div', { class: 'tip' });
  const rule = svg('line', { y1: view.top, y2: view.height - view.bottom, stroke: 'var(--faint)', opacity: 0 });
  image.append(rule);
  figure.append(tip);
  const hide = () => { tip.style.opacity = 0; rule.setAttribute('opacity', 0); };
  image.addEventListener('mouseleave', hide);
  image.addEventListener('mousemove', (event) => {
    const box = image.getBoundingClientRect(), zoom = box.width / view.width;
    const place = (event.clientX - box.left) / zoom;
    if (place < view.left || place > view.width - view.right) { hide(); return; }
    const share = (place - view.left) / (view.width - view.left - view.right);
    const wanted = view.xLow + share * (view.xHigh - view.xLow);
    const rows = series.filter((one) => !image.querySelector(`g[data-group="${CSS.escape(one.label)}"][hidden]`))
      .map((one) => [one, nearest(one.x, wanted)]).filter(([one, k]) => Number.isFinite(one.value[k]))
      .map(([one, k]) => html('div', {}, `${one.label}  `, html('b', {}, view.yFormat(one.value[k])),
        one.low && one.low[k] !== one.high[k] ? `  [${view.yFormat(one.low[k])}, ${view.yFormat(one.high[k])}]` : ''));
    if (!rows.length) { hide(); return; }
    tip.replaceChildren(html('div', { style: 'opacity:.7' }, view.xFormat(wanted)), ...rows);
    const leftwards = place > view.width / 2;
    tip.style.left = leftwards ? 'auto' : `${place * zoom + 14}px`;
    tip.style.right = leftwards ? `${box.width - place * zoom + 14}px` : 'auto';
    tip.style.top = `${event.clientY - figure.getBoundingClientRect().top - 10}px`;
    tip.style.opacity = 1;
    for (const end of ['x1', 'x2']) rule.setAttribute(end, place);
    rule.setAttribute('opacity', 0.6);
  });
}
function nearest(values, wanted) {
  let low = 0, high = values.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (values[middle] < wanted) low = middle; else high = middle; }
  return Math.abs(values[low] - wanted) <= Math.abs(values[high] - wanted) ? low : high;
}

// rows: [{label, index, value, low, high, points}]: a mark with its interval, and single results as dots.
function intervalChart({ title, note = '', rows, line = null, range = null, labels = true }) {
  const width = 560, left = labels ? 150 : 14, right = 64, row = 34, top = 8, bottom = 26;
  const height = top + rows.length * row + bottom;
  const values = rows.flatMap((one) => finite([one.value, one.low, one.high, ...(one.points || [])]));
  const figure = html('figure', {}, html('h3', {}, title, note ? html('span', { class: 'soft small' }, `  ${note}`) : null));
  if (!values.length) { figure.append(html('p', { class: 'soft small' }, 'No scores.')); return figure; }
  const [low, high] = range || extent(line === null ? values : [...values, line], 0.06);
  const x = scale(low, high, left, width - right);
  const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title });
  for (const value of ticks(low, high, 5)) {
    image.append(svg('line', { class: 'grid', x1: x(value), x2: x(value), y1: top, y2: height - bottom }));
    image.append(svg('text', { x: x(value), y: height - 8, 'text-anchor': 'middle' }, compact(value)));
  }
  if (line !== null)
    image.append(svg('line', { x1: x(line), x2: x(line), y1: top, y2: height - bottom, stroke: 'var(--faint)', 'stroke-dasharray': '3 4' }));
  rows.forEach((one, k) => {
    const y = top + (k + 0.5) * row, stroke = one.stroke || colour(one.index);
    if (labels) image.append(svg('text', { class: 'name', x: 0, y: y + 4 }, short(one.label, 22), svg('title', {}, one.label)));
    (one.points || []).forEach((point, number) => image.append(svg('circle', { cx: x(point), cy: y + 9 - (number % 3) * 2,
      r: 2.6, fill: stroke, opacity: 0.45 }, svg('title', {}, format(point)))));
    if (Number.isFinite(one.low))
      image.append(svg('line', { x1: x(one.low), x2: x(one.high), y1: y - 3, y2: y - 3, stroke, 'stroke-width': 7, opacity: 0.3,
        'stroke-linecap': 'round' }));
    if (Number.isFinite(one.value)) image.append(svg('circle', { cx: x(one.value), cy: y - 3, r: 4.6, fill: stroke },
      svg('title', {}, Number.isFinite(one.low) ? `${format(one.value)} [${format(one.low)}, ${format(one.high)}]` : `${format(one.value)}, n = 1`)));
    image.append(svg('text', { class: 'name', x: width, y: y + 2, 'text-anchor': 'end' }, format(one.value)));
  });
  figure.append(image);
  return figure;
}
const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

function barChart({ title, rows }) {
  const width = 560, left = 200, row = 28, height = rows.length * row + 6;
  const longest = Math.max(...rows.map((one) => one.value), 1e-9);
  const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title });
  rows.forEach((one, k) => {
    const length = (one.value / longest) * (width - left - 60);
    image.append(svg('text', { class: 'name', x: left - 10, y: k * row + 19, 'text-anchor': 'end' }, short(one.label, 30), svg('title', {}, one.label)),
      svg('rect', { x: left, y: k * row + 6, width: Math.max(length, 1), height: 17, rx: 3, fill: 'var(--c1)' }),
      svg('text', { x: left + length + 8, y: k * row + 19 }, format(one.value)));
  });
  return html('figure', {}, html('h3', {}, title), image);
}

// points: [{x, y, shade 0..1, title}]; a text axis where x is not a number.
function scatter({ title, points, xName, yName, isLogarithmic = false }) {
  const width = 360, height = 250, left = 52, right = 12, top = 10, bottom = 40;
  const names = points.some((one) => typeof one.x !== 'number') ? [...new Set(points.map((one) => String(one.x)))] : null;
  const place = (value) => (names ? names.indexOf(String(value)) : isLogarithmic ? Math.log10(value) : value);
  const [xLow, xHigh] = names ? [-0.5, names.length - 0.5] : extent(points.map((one) => place(one.x)), 0.05);
  const [yLow, yHigh] = extent(points.map((one) => one.y), 0.06);
  const x = scale(xLow, xHigh, left, width - right), y = scale(yLow, yHigh, height - bottom, top);
  const image = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title });
  image.append(...frame({ width, height, left, right, top, bottom, x, y, yTicks: ticks(yLow, yHigh, 5), yFormat: compact, xName,
    xTicks: names ? names.map((_, k) => k) : ticks(xLow, xHigh, 4),
    xFormat: (value) => (names ? short(names[Math.round(value)] ?? '', 12) : isLogarithmic ? (10 ** value).toExponential(0) : compact(value)) }));
  for (const one of points)
    image.append(svg('circle', { cx: x(place(one.x)), cy: y(one.y), r: 4, fill: 'var(--c1)', opacity: 0.25 + 0.7 * (one.shade ?? 1) },
      svg('title', {}, one.title || `${one.x}: ${format(one.y)}`)));
  return html('figure', {}, html('h3', {}, title), image, yName ? html('p', { class: 'soft small' }, yName) : null);
}

function table(columns, rows, { sortable = false } = {}) {
  const body = html('tbody', {}, rows.map((row) => html('tr', {}, row.map((cell, k) =>
    html('td', { class: columns[k].class || null }, cell instanceof Node ? cell : String(cell ?? ''))))));
  const head = html('tr', {}, columns.map((column, k) => html('th', {
    class: [column.class === 'num' ? 'num' : '', sortable ? 'sortable' : ''].join(' ').trim() || null,
    onclick: sortable ? (event) => sortBy(body, k, event.currentTarget) : null }, column.name)));
  return html('div', { class: 'scroll' }, html('table', {}, html('thead', {}, head), body));
}
function sortBy(body, column, head) {
  const downwards = head.dataset.order !== 'down';
  head.dataset.order = downwards ? 'down' : 'up';
  const key = (row) => row.children[column].textContent.replaceAll(',', '');
  const rows = [...body.children].sort((a, b) => {
    const [p, q] = [key(a), key(b)], [m, n] = [parseFloat(p), parseFloat(q)];
    return Number.isNaN(m) || Number.isNaN(n) ? p.localeCompare(q) : m - n;
  });
  body.append(...(downwards ? rows.reverse() : rows));
}

function section(title, lead, ...content) {
  return html('section', {}, html('h2', {}, title), lead ? html('p', { class: 'lead' }, lead) : null, ...content);
}
function themeButton() {
  const button = html('button', { type: 'button' }, 'Light / dark');
  startTheme(button);
  return button;
}

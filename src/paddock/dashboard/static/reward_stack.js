// What the terms of the reward pay, stacked over the run: above the line what they give, below it what they take.

import { compact, html, isNumber, number, replace, svg } from './dom.js';

const WIDTH = 320, HEIGHT = 110, COLUMNS = 40, FEWEST = 8, PREFIX = 'collect/reward_terms/';
const share = (value, top, span) => ((top - value) / span) * HEIGHT;

export class RewardStack {
  constructor() {
    this.picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', class: 'stack' });
    this.legend = html('div', { class: 'row small stack-legend' });
    this.element = html('div', { class: 'reward-stack', hidden: true }, html('h3', {}, 'Contributions per episode'), this.picture, this.legend);
  }

  /** data: metric -> {x, y}. */
  update(data) {
    const terms = [...data.keys()].filter((name) => name.startsWith(PREFIX) && data.get(name).y.some((value) => value !== 0)).sort();
    this.element.hidden = !terms.length;
    if (!terms.length) return;
    const rows = columns(terms.map((name) => data.get(name)));
    const tops = rows.map((row) => sum(row, (value) => value > 0)), bottoms = rows.map((row) => sum(row, (value) => value < 0));
    const top = Math.max(...tops, 0), span = top - Math.min(...bottoms, 0) || 1, wide = WIDTH / Math.max(rows.length, FEWEST);
    replace(this.picture, rows.flatMap((row, k) => bars(row, k * wide, wide, top, span)),
      svg('line', { x1: 0, x2: WIDTH, y1: share(0, top, span), y2: share(0, top, span), class: 'zero' }));
    const newest = rows.at(-1);
    replace(this.legend, terms.map((name, k) => html('span', { class: `key term-${k % 8}` }, html('i', { class: 'swatch' }),
      `${name.slice(PREFIX.length).replaceAll('_', ' ')} `, html('b', {}, `${newest[k] > 0 ? '+' : ''}${number(newest[k], 3)}`))));
    this.picture.setAttribute('aria-label', `Contributions of ${terms.length} reward terms per episode, up to ${compact(top)}`);
  }
}

/** At most COLUMNS rows of the terms' values, each the last of its stretch. */
function columns(series) {
  const length = Math.max(...series.map(({ y }) => y.length)), count = Math.min(length, COLUMNS);
  return Array.from({ length: count }, (_, k) => {
    const at = Math.round(((k + 1) * length) / count) - 1;
    return series.map(({ y }) => (isNumber(y[at - (length - y.length)]) ? y[at - (length - y.length)] : 0));
  });
}

const sum = (row, isMeant) => row.filter(isMeant).reduce((total, value) => total + value, 0);

function bars(row, x, wide, top, span) {
  let above = 0, below = 0;
  return row.map((value, k) => {
    if (!value) return null;
    const from = value > 0 ? above : below, to = from + value;
    if (value > 0) above = to;
    else below = to;
    const y = share(Math.max(from, to), top, span), height = (Math.abs(value) / span) * HEIGHT;
    return svg('rect', { x: x.toFixed(2), width: Math.max(wide - 0.6, 0.6).toFixed(2), y: y.toFixed(2), height: height.toFixed(2), class: `term-${k % 8}` });
  }).filter(Boolean);
}

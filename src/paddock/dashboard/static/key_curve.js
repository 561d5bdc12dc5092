// The one or two curves that tell how a run goes, always in sight: the return while learning, and what is evaluated.

import { compact, html, isNumber, lapTime, number, replace, svg } from './dom.js';

const WIDTH = 320, HEIGHT = 84, EDGE = 4;
const LEARNING = ['collect/return', 'eval/return'];
const title = (name) => ({ 'collect/return': 'Return while learning', 'eval/best_lap': 'Best lap of an evaluation' })[name]
  ?? name.replace(/^(eval|collect)\//, '').replaceAll('_', ' ').replace(/^./, (letter) => letter.toUpperCase());

export class KeyCurve {
  constructor(metric) {
    this.metric = metric;
    this.picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' });
    this.legend = html('div', { class: 'row small' });
    this.element = html('section', { class: 'card key-curve', 'aria-label': 'Key curve', hidden: true }, this.picture, this.legend);
  }

  /** data: metric -> {x, y}. */
  update(data) {
    const evaluated = [data.has('eval/best_lap') ? 'eval/best_lap' : this.metric, this.metric].find((name) => data.has(name));
    const names = [LEARNING.find((name) => data.has(name)), evaluated].filter((name, k, all) => name && all.indexOf(name) === k);
    this.element.hidden = !names.length;
    if (!names.length) return;
    const last = Math.max(...names.map((name) => data.get(name).x.at(-1) ?? 0), 1);
    replace(this.picture, names.map((name, k) => line(data.get(name), last, `key-${k}`)));
    const told = names.map((name) => [title(name), data.get(name).y.at(-1), name]);
    replace(this.legend, told.map(([text, value, name], k) => html('span', { class: `key key-${k}` }, html('i', { class: 'dash' }), `${text} `,
      html('b', {}, /lap$/.test(name) ? lapTime(value) : number(value, 3)))), html('span', { class: 'soft' }, `${compact(last)} steps`));
    this.picture.setAttribute('aria-label', told.map(([text, value]) => `${text}: ${number(value, 3)}`).join(', '));
  }
}

function line({ x, y }, last, kind) {
  const known = y.filter(isNumber), isFlat = Math.max(...known) === Math.min(...known), span = isFlat ? 1 : Math.max(...known) - Math.min(...known);
  const low = Math.min(...known) - (isFlat ? 0.5 : 0); // what does not change lies in the middle
  const places = x.map((at, k) => [(at / last) * (WIDTH - 2 * EDGE) + EDGE, HEIGHT - EDGE - ((y[k] - low) / span) * (HEIGHT - 2 * EDGE)])
    .filter(([, place]) => isNumber(place)).map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`);
  const isAlone = places.length === 1;
  if (isAlone) places.push(places[0]);
  return svg('polyline', { class: isAlone ? `${kind} dot` : kind, points: places.join(' '), fill: 'none', 'vector-effect': 'non-scaling-stroke' });
}

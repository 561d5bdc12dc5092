// The page that is sent to others: a circuit, the laps on it, and what they took.

import { html, svg } from './elements.js';
import { lapTime } from './numbers.js';
import { Replay } from './replay.js';
import { startTheme } from './theme.js';

const data = JSON.parse(document.getElementById('data').textContent);
const switcher = html('button', { type: 'button', 'aria-label': 'Switch between dark and light', class: 'theme' });
const facts = [`${Math.round(data.length).toLocaleString('en')} m`, `car ${data.car}`, data.reference ? `reference lap ${lapTime(data.reference)}` : null];
startTheme(switcher);
const replay = new Replay(data.scene, data.laps, { autoplay: !matchMedia('(prefers-reduced-motion: reduce)').matches });
const flag = svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true', class: 'flag' },
  [[4, 4], [12, 4], [8, 8], [16, 8], [4, 12], [12, 12]].map(([x, y]) => svg('rect', { x, y, width: 4, height: 4 })));
document.getElementById('page').append(
  html('header', { class: 'top' }, html('div', {}, html('h1', {}, flag, data.title), html('p', { class: 'soft' }, facts.filter(Boolean).join(', '))),
    html('div', { class: 'tools' }, switcher)),
  replay.element, html('footer', {}, `Written by Paddock ${data.version}. The page works without a network.`));
window.replay = replay;

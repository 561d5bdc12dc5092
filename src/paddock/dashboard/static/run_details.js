// What a run was made from and what it printed: its options with their origins, its log, and its curves elsewhere.

import { get } from './api.js';
import { empty, html, replace, toggle } from './dom.js';

const path = (id, what) => `/api/runs/${encodeURIComponent(id)}/${what}`;
const shown = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** A section that is read when it is opened first, and again each time. */
function section(title, fill) {
  const body = html('div', {}), details = html('details', { class: 'card', ontoggle: async () => {
    if (!details.open) return;
    try {
      replace(body, await fill());
    } catch (error) {
      replace(body, empty('Not there', error.message));
    }
  } }, html('summary', {}, html('h2', {}, title)), body);
  return details;
}

async function options(id) {
  const rows = await get(path(id, 'options'));
  let text = '', isChangedOnly = false;
  const body = html('tbody', {});
  const draw = () => {
    const seen = rows.filter((row) => (!isChangedOnly || row.is_changed) && `${row.key} ${shown(row.value)} ${row.origin}`.toLowerCase().includes(text));
    replace(body, seen.map((row) => html('tr', { 'data-key': row.key }, html('th', { scope: 'row' }, html('code', {}, row.key)),
      html('td', {}, shown(row.value)), html('td', { class: row.is_changed ? 'warning' : 'soft' }, row.origin))));
  };
  const filter = html('input', { type: 'search', placeholder: 'Filter the options…', 'aria-label': 'Filter the options',
    oninput: () => { text = filter.value.toLowerCase(); draw(); } });
  draw();
  return [html('div', { class: 'row' }, filter, toggle('Only what was changed', false, (on) => { isChangedOnly = on; draw(); })),
    html('div', { class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Options' }, html('table', { class: 'options' },
      html('thead', {}, html('tr', {}, ['Option', 'Value', 'Where it was set'].map((title) => html('th', { scope: 'col' }, title)))), body))];
}

async function log(id) {
  const { lines } = await get(path(id, 'log'));
  if (!lines.length) return empty('No log', 'The page has the log of runs that were started or resumed from it; others print to their own terminal.');
  return html('pre', { class: 'log', tabindex: 0, 'aria-label': 'The end of the log' }, lines.join('\n'));
}

function elsewhere({ tensorboard, wandb } = {}) {
  if (!tensorboard && !wandb) return null;
  return html('p', { class: 'card small' }, 'Curves elsewhere: ', tensorboard ? html('code', {}, tensorboard) : null, ' ',
    wandb ? html('a', { href: wandb, rel: 'noreferrer noopener', target: '_blank' }, `Weights & Biases (${wandb})`) : null);
}

/** Sections below the curves of a run. */
export const runDetailsSections = (id, details) => html('div', { class: 'details' },
  elsewhere(details.links), section('Configuration', () => options(id)), section('Log', () => log(id)));

// The page: an address opens a view. `window.paddock.state` tells what the page knows, for tests and the curious.

import { onReachable, rememberPass } from './api.js';
import { empty, button, html, replace } from './dom.js';
import { openGarage } from './drive_view.js';
import { openRuns } from './runs_view.js';
import { car } from './snapshots.js';
import { openStart } from './start_view.js';
import { startTheme } from './kit/theme.js';

// A run, a comparison and the cockpit come with the first one that is opened: curves, cameras and sound are half of the page.
const openRun = async (...place) => (await import('./run_view.js')).openRun(...place);
const openComparison = async (...place) => (await import('./comparison_view.js')).openComparison(...place);
const openCockpit = async (...place) => (await import('./cockpit.js')).openCockpit(...place);

const VIEWS = [
  [/^\/$/, openRuns, 'runs'],
  [/^\/new$/, openStart, 'new'],
  [/^\/run\/([^/]+)$/, openRun, 'runs'],
  [/^\/compare\/([^/]+)$/, openComparison, 'runs'],
  [/^\/drive$/, openGarage, 'drive'],
  [/^\/drive\/([^/]+)$/, openCockpit, 'drive'],
];
const main = document.getElementById('main'), link = document.getElementById('link');
let close = () => {}, turn = 0;

/** What a view fills in: connection, status, scene, snapshot, shown (s simulated), followed, frames, events, laps, policies, input, gaps, runs, replay ('best', 'evaluation': laps that were driven before are shown). */
const blank = (route) => ({ route, connection: null, status: null, scene: null, snapshot: null, shown: null, followed: null, frames: 0,
  events: [], laps: [], policies: [], input: null, gaps: {}, runs: [], replay: null,
  car(index) { return this.snapshot ? car(this.snapshot, index) : null; } });

window.paddock = { state: blank('') };

async function navigate() {
  const [path, query = ''] = (location.hash.slice(1) || '/').split('?'), mine = (turn += 1);
  const [pattern, open, section] = VIEWS.find(([one]) => one.test(path)) ?? [null, notFound, ''];
  for (const one of document.querySelectorAll('nav a')) {
    if (one.dataset.section === section) one.setAttribute('aria-current', 'page');
    else one.removeAttribute('aria-current');
  }
  close();
  close = () => {};
  const state = (window.paddock.state = blank(path));
  scrollTo(0, 0);
  const id = decodeURIComponent(pattern?.exec(path)[1] ?? '');
  const view = html('div', { class: 'view' }); // A view that answers late draws here, and not over the one that came after it.
  replace(main, view);
  try {
    const leave = await open(view, { id, query: new URLSearchParams(query) }, state);
    if (mine === turn) close = leave;
    else leave();
  } catch (error) {
    if (mine === turn) replace(main, failure(error));
  }
}

async function notFound() {
  replace(main, empty('No such page', 'Page not found.', html('a', { class: 'button strong', href: '#/' }, 'All runs')));
  return () => {};
}

function failure(error) {
  const title = error.status === 404 ? 'Not here' : error.status === 0 ? 'No answer' : 'Failed';
  return empty(title, error.message, button('Try again', navigate, { class: 'strong' }), html('a', { class: 'button', href: '#/' }, 'All runs'));
}

onReachable((isReachable) => {
  link.textContent = isReachable ? '' : 'Server not reachable, reconnecting…';
  document.body.classList.toggle('away', !isReachable);
  if (isReachable) for (const note of document.querySelectorAll('.toast.bad')) if (note.textContent.startsWith('The server does not answer')) note.remove();
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
startTheme(document.getElementById('theme'));
addEventListener('hashchange', navigate);
navigate();
rememberPass();

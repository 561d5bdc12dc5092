// What a folder without runs shows: a lap of the agent that ships, and three ways to begin.

import { get, post } from './api.js';
import { button, html, lapTime, prefersStill, replace, toast } from './dom.js';
import { bestLap, play } from './replay.js';
import { TrackView } from './track_view.js';

const EXPERIMENT = 'racing', AGENT = 'agent/gt', TRACK = 'meadow', CAR = 'gt';

/** The first screen as an element with `close()`. */
export function firstScreen() {
  const view = new TrackView({ line: false, trails: true, ghosts: true, rays: false });
  view.above.setAttribute('aria-label', 'Replay of a lap that the agent that ships drove');
  const caption = html('p', { class: 'hero-caption' });
  const status = html('p', { class: 'soft small', role: 'status' });
  const problem = html('p', { class: 'problem', role: 'alert', hidden: true });
  const ways = [
    way('Watch a car learn', 'Dozens of cars begin with no idea of driving. In about two minutes they lap near the limit.', 'strong',
      () => start('/api/runs', { experiment: EXPERIMENT }, 'run', 'Starting the cars…')),
    way('Drive', 'Take the wheel yourself: keyboard, gamepad or touch. Choose a circuit and a car.', '', () => { location.hash = '#/drive'; }),
    way('Race the agent that ships', 'A trained agent waits on the grid of the circuit that you see here.', '',
      () => start('/api/drive', { track: TRACK, car: CAR, opponent: AGENT }, 'drive', 'Bringing both cars to the grid…')),
  ];

  async function start(path, values, section, text) {
    for (const one of ways) one.disabled = true;
    problem.hidden = true;
    status.classList.add('busy');
    status.textContent = text;
    try {
      const { id } = await post(path, values);
      location.hash = `#/${section}/${encodeURIComponent(id)}`;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      for (const one of ways) one.disabled = false;
      status.classList.remove('busy');
      status.textContent = '';
    }
  }

  const picture = html('div', { class: 'hero-picture' }, view.element, caption);
  const element = html('section', { class: 'hero', 'aria-label': 'Begin' }, picture,
    html('div', { class: 'hero-ways' }, html('h1', {}, 'Teach a car to race'),
      html('p', { class: 'soft' }, 'No run is in this folder yet. Choose one of these; nothing has to be set up.'),
      ways, problem, status,
      html('p', { class: 'soft small' }, 'Or choose from ', html('a', { href: '#/new' }, 'all experiments'), '. In a terminal: ',
        html('code', {}, 'paddock train racing'))));
  show(view, caption).catch((error) => toast(error.message, 'bad'));
  return { element, view, close: () => view.close() };
}

function way(title, text, kind, onclick) {
  return button([html('b', {}, title), html('span', {}, text)], onclick, { class: `way ${kind}` });
}

async function show(view, caption) {
  const replay = await get('/api/showcase'), cars = bestLap(replay), { scene } = replay;
  const playback = play(view, scene, cars);
  if (prefersStill()) playback.isPlaying = false;
  else view.follow(0);
  const over = 100 * (cars[0].lap_time / scene.reference.lap_time - 1);
  replace(caption, html('b', {}, lapTime(cars[0].lap_time)), ` · ${over.toFixed(1)} % over the reference lap · learned in a few minutes, ships with Paddock`);
}

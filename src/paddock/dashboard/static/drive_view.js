// Choosing a track, a car and an opponent for a drive.

import { get, post } from './api.js';
import { button, choice, field, html, lapTime, onSubmit, replace, toast, write } from './dom.js';
import { MODES } from './messages.js';
import { drawOutline, outlinePicture } from './track_outline.js';

const FIRST = 'oval', USUAL_CAR = 'gt'; // the first lesson, and in what
const LABELS = { manual: 'Manual', assisted: 'Assisted', ai: 'AI' };
/** Pairs of a mode and its label. */
export const MODE_CHOICES = MODES.map((mode) => [mode, LABELS[mode]]);

export async function openGarage(main, { query }) {
  document.title = 'Drive · Paddock';
  const [tracks, cars, policies, agents] = await Promise.all([get('/api/tracks'), get('/api/cars'), get('/api/policies').catch(() => []), get('/api/agents')]);
  const shipped = agents.map((row) => ({ ...row, run: 'agent', metrics: { 'eval/best_lap': row.lap_time } }));
  const racers = [...policies.filter((row) => row.is_racing !== false), ...shipped];
  const names = new Set(tracks.map(({ name }) => name));
  const agent = () => racers.find((row) => `${row.run}/${row.name}` === opponent.value);
  const ownTrack = (row) => row?.tracks?.find((name) => names.has(name));
  let hasChosenTrack = query.has('track');
  let mode = query.get('mode') ?? 'manual';
  const car = html('select', { id: 'drive-car' }, cars.map((name) => html('option', {}, name)));
  car.value = [query.get('car'), USUAL_CAR].find((name) => cars.includes(name)) ?? cars[0];
  const opponent = html('select', { id: 'drive-opponent' });
  const note = html('p', { class: 'small', role: 'status' });
  const problem = html('p', { class: 'problem', role: 'alert', hidden: true });
  const trouble = html('p', { class: 'problem', role: 'alert', hidden: true });
  const start = html('button', { class: 'strong', type: 'submit' }, 'Start');
  const board = html('div', { class: 'small soft' }), driven = html('div', { class: 'small demonstrations' });
  const cards = html('div', { class: 'cards tracks', role: 'radiogroup', 'aria-label': 'Track' });
  const form = html('form', { class: 'start' }, html('div', {}, trouble, cards), html('aside', { class: 'card sticky' }, html('h2', {}, 'Your drive'),
    field('Car', car), field('Opponent', opponent, 'Race against saved policies of this folder, or an agent that ships. Most drive well only on the tracks of their training.'), note,
    html('div', { class: 'field' }, html('span', {}, 'Who steers'), choice('Who steers', MODE_CHOICES, mode, (value) => { mode = value; })),
    problem, html('div', { class: 'row go' }, start), help(), board, driven));
  const chosen = () => form.querySelector('input[name=track]:checked')?.value;

  replace(opponent, html('option', { value: '' }, 'Nobody'), html('option', { value: 'classical' }, 'Classical driver'),
    racers.map((row) => html('option', { value: `${row.run}/${row.name}` }, policyName(row))));
  opponent.value = query.get('opponent') ?? 'classical';
  const wanted = query.get('track') ?? ownTrack(agent()) ?? (tracks.find(({ name }) => name === FIRST) ?? tracks[0])?.name;

  function refresh() {
    const row = agent(), warning = row ? unknownTrack(`${row.run}/${row.name}`, row, chosen()) : null;
    if (row && cars.includes(row.car)) car.value = row.car;
    car.disabled = Boolean(row); // an agent knows one car
    note.className = `small ${warning ? 'warning' : 'soft'}`;
    write(note, warning ?? (row ? trainedOn(row) : ''));
    showLaps(board, chosen());
  }

  /** An agent is met on a road that it knows, unless another one was chosen by hand. */
  function meet() {
    const own = ownTrack(agent());
    if (own && !hasChosenTrack) form.querySelector(`input[name=track][value=${CSS.escape(own)}]`).checked = true;
    refresh();
  }

  /** The server measures tracks in the background: what is not known yet is asked for again. */
  let timer = null;
  const known = new Map(); // cards by the track's name; they stay where they are, even if rows come in another order
  function showTracks(rows) {
    for (const track of rows) {
      if (!known.has(track.name)) {
        known.set(track.name, trackCard(track.name, track.name === wanted));
        cards.append(known.get(track.name));
      }
      describe(known.get(track.name), track);
    }
    if (rows.some((track) => !track.length && !track.error))
      timer = setTimeout(async () => {
        const next = await get('/api/tracks').catch((error) => error);
        trouble.hidden = !(next instanceof Error);
        write(trouble, trouble.hidden ? '' : next.message);
        showTracks(trouble.hidden ? next : rows);
      }, 2000);
  }

  form.addEventListener('change', (event) => {
    if (event.target === opponent) return meet();
    if (event.target.name !== 'track') return undefined;
    hasChosenTrack = true;
    return refresh();
  });
  onSubmit(form, problem, async () => {
    const { id } = await post('/api/drive', { track: chosen(), car: car.value, opponent: opponent.value || null, mode });
    toast('Loading…');
    location.hash = `#/drive/${encodeURIComponent(id)}`;
  });
  replace(main, html('header', { class: 'head' }, html('div', {}, html('h1', {}, 'Take the wheel'),
    html('p', { class: 'soft' }, 'Keyboard, gamepad or touch. Your laps are saved as ghosts and as demonstrations.'))), form);
  showTracks(tracks);
  refresh();
  showDemonstrations(driven, problem);
  return () => clearTimeout(timer);
}

const list = (names) => (names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', '));

function trainedOn({ tracks = [], procedural = 0 }) {
  if (procedural) return `Trained on ${procedural} generated circuits.`;
  return tracks.length ? `Trained on ${list(tracks)}.` : '';
}

/** What there is to say when an agent is to drive where it never was; null where it knows the road, or nothing is known of it. */
export function unknownTrack(name, { tracks = [], procedural = 0, laps_on: lapsOn = null }, track) {
  if (lapsOn && tracks.includes(track) && !(track in lapsOn)) return `${name} knows ${track}, but leaves the road there from most starts.`;
  if (!track || tracks.includes(track) || (!procedural && !tracks.length)) return null;
  if (procedural) return `${name} was trained on ${procedural} generated circuits; ${track} is new to it.`;
  return `${name} was trained on ${list(tracks)} only and has never driven ${track}: it may leave the road and stay there. `
    + 'The experiment racing_multi_track trains an agent for unseen circuits.';
}

function policyName(row) {
  const lap = row.metrics?.['eval/best_lap'];
  return [`${row.run} · ${row.name}`, lap ? lapTime(lap) : null, row.procedural ? null : list(row.tracks ?? [])].filter(Boolean).join(' · ');
}

async function showLaps(board, track) {
  replace(board);
  if (!track) return;
  const laps = await get(`/api/laps?track=${encodeURIComponent(track)}`).catch(() => []);
  if (laps.length) replace(board, html('h3', {}, 'Laps driven here'), html('ol', {}, [...laps].sort((a, b) => a.lap_time - b.lap_time).slice(0, 5)
    .map((lap) => html('li', {}, `${lapTime(lap.lap_time)} · ${lap.driver} · ${lap.car}`))));
}

/** Sets of demonstrations, each with a button that plays it. */
async function showDemonstrations(box, problem) {
  const sets = await get('/api/demonstrations').catch(() => []);
  if (!sets.length) return;
  const play = async (id) => {
    problem.hidden = true;
    try {
      const session = await post('/api/demonstrations', { id });
      location.hash = `#/drive/${encodeURIComponent(session.id)}`;
    } catch (error) {
      problem.hidden = false;
      write(problem, error.message);
    }
  };
  replace(box, html('h3', {}, 'Demonstrations'), html('ul', {}, sets.slice(0, 8).map((set) => html('li', { class: 'row spread' },
    html('span', { class: 'soft' }, `${set.name} · ${set.episodes} episode${set.episodes === 1 ? '' : 's'}`),
    button('Play', () => play(set.id), { 'aria-label': `Play ${set.name}` })))));
}

const help = () => html('p', { class: 'soft small keys' }, html('kbd', {}, '← →'), ' or ', html('kbd', {}, 'A D'), ' steer, ',
  html('kbd', {}, '↑'), ' ', html('kbd', {}, 'W'), ' throttle, ', html('kbd', {}, '↓'), ' ', html('kbd', {}, 'S'), ' ', html('kbd', {}, 'space'),
  ' brake, ', html('kbd', {}, 'R'), ' restart the lap, ', html('kbd', {}, 'M'), ' who steers.');

/** A card of which nothing is known yet: its parts stay, since a click is lost whose beginning was on one that is gone. */
function trackCard(name, checked) {
  const input = html('input', { type: 'radio', name: 'track', value: name });
  input.checked = checked;
  return html('label', { class: 'option' }, input, outlinePicture(), html('b', {}, name), html('span', { class: 'soft small' }, '…'));
}

function describe(card, track) {
  const facts = [track.length ? `${Math.round(track.length).toLocaleString('en')} m` : null, track.difficulty,
    track.reference ? lapTime(track.reference, 1) : null].filter(Boolean);
  write(card.querySelector('b'), track.title ?? track.name);
  if (facts.length || track.error) write(card.querySelector('span'), track.error ?? facts.join(' · '));
  card.querySelector('span').classList.toggle('problem', Boolean(track.error));
  card.querySelector('input').disabled = Boolean(track.error);
  if (track.outline?.length) drawOutline(card.querySelector('svg'), track.outline);
}

// A run's laps among others on the same circuit: the reference lap, the classical driver, the shipped agent, people.

import { get } from './api.js';
import { delta, html, isNumber, lapTime, replace } from './dom.js';
import { ShareLink } from './share_link.js';

const AGAIN = 5000; // ms until what is not complete is asked for again
const RUN = 'run', TRAINING = 'training';

export const raceAddress = (id) => `#/drive?${new URLSearchParams({ opponent: `${id}/best` })}`;

/** "0:51.070, 3.6 % over the reference lap". */
export function againstReference(time, reference) {
  if (!isNumber(time)) return '';
  if (!isNumber(reference)) return lapTime(time);
  const over = 100 * (time / reference - 1);
  return `${lapTime(time)}, ${Math.abs(over).toFixed(1)} % ${over < 0 ? 'under' : 'over'} the reference lap`;
}

export class Standings {
  /** id: of a run that can be raced and shared as soon as it has lapped; null where there is none. */
  constructor(id = null) {
    this.times = new Map(); // kind -> {name, time} of this run and the reference lap
    this.others = [];
    this.sentence = html('p', { class: 'standing-sentence', role: 'status' });
    this.facts = html('p', { class: 'soft small' });
    this.body = html('ol', { class: 'standings' });
    this.share = id ? new ShareLink(id) : null;
    this.ways = html('div', { class: 'row standing-ways', hidden: true }, id ? [html('a', { class: 'button strong', href: raceAddress(id) }, 'Race it'), this.share.element] : []);
    this.element = html('section', { class: 'card', 'aria-label': 'Standings', hidden: true }, html('h2', {}, 'Standings'), this.sentence, this.facts, this.body, this.ways);
  }

  close() {
    clearTimeout(this._timer);
    this._isClosed = true;
  }

  setScene(scene) {
    if (scene.kind !== 'racing') return;
    this.element.hidden = false;
    if (scene.reference) this.times.set('reference', { name: 'Reference lap', time: scene.reference.lap_time });
    const place = `${scene.track.name}/${scene.car.name}`;
    if (place !== this.place) {
      this.place = place;
      this._ask(scene.track.name, scene.car.name);
    }
    this._draw();
  }

  /** Best lap of the evaluations, s. */
  setBest(time) {
    this._set(RUN, 'This run, evaluated', time);
  }

  /** isOffered: the run learns; once it is over, its ending offers the same. */
  offer(isOffered) {
    const hasLapped = this.times.has(RUN);
    this.ways.hidden = !isOffered || !hasLapped;
    this.share?.offer(hasLapped);
  }

  /** Best lap of the training cars while they were watched, s. */
  setTraining(time) {
    this._set(TRAINING, 'Its training cars', time);
  }

  /** latest: metric -> value; laps: see training_laps.js; length: m of the circuit. */
  setFacts(latest, laps, length) {
    const finish = latest['eval/finish_rate'], far = latest['collect/distance'];
    const told = [
      isNumber(finish) ? `${Math.round(100 * finish)} % of evaluated starts finished` : null,
      isNumber(far) && length ? `training cars drive ${(far / length).toFixed(2)} laps per attempt` : null,
      laps?.count ? `${laps.count} laps seen` : null,
    ];
    const text = told.filter(Boolean).join(' · ');
    if (this.facts.textContent !== text) this.facts.textContent = text;
  }

  _set(kind, name, time) {
    if (!isNumber(time) || this.times.get(kind)?.time === time) return;
    this.times.set(kind, { name, time });
    this._draw();
  }

  async _ask(track, car) {
    const query = new URLSearchParams({ track, car }), found = await get(`/api/standings?${query}`).catch(() => null);
    if (this._isClosed || !found) return;
    this.others = found.rows;
    this._draw();
    if (!found.is_complete) this._timer = setTimeout(() => this._ask(track, car), AGAIN);
  }

  _draw() {
    const own = this.times.get(RUN)?.time, reference = this.times.get('reference')?.time;
    const rows = [...[...this.times].map(([kind, { name, time }]) => ({ kind, name, lap_time: time })), ...this.others]
      .sort((a, b) => a.lap_time - b.lap_time);
    const classical = this.others.find(({ kind }) => kind === 'classical')?.lap_time;
    const beside = isNumber(own) && isNumber(classical)
      ? `. ${Math.abs(classical - own).toFixed(2)} s ${own < classical ? 'ahead of' : 'behind'} the classical driver` : '';
    const text = isNumber(own) ? `${againstReference(own, reference)}${beside}` : 'No evaluated lap yet.';
    if (this.sentence.textContent !== text) this.sentence.textContent = text;
    replace(this.body, rows.map((row) => html('li', { class: row.kind === RUN ? 'own' : '', 'data-kind': row.kind },
      html('span', {}, row.name), html('b', {}, lapTime(row.lap_time)),
      html('span', { class: 'soft gap-to' }, isNumber(reference) && row.kind !== 'reference' ? delta(row.lap_time - reference, 2) : ''))));
  }
}

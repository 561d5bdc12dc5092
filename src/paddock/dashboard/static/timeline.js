// What the policies of a run drove as it learned: a scrubber over its evaluations, and two of them as ghosts on one circuit.

import { get } from './api.js';
import { compact, html, isNumber, lapTime, replace, svg, write } from './dom.js';

const NONE = 'None';

export class Timeline {
  /** isRacing: other runs have no laps, and no timeline. */
  constructor(id, isRacing) {
    Object.assign(this, { id, isRacing, entries: [], chosen: null, other: null, cache: new Map() });
    this.note = html('p', { class: 'soft small' });
    this.label = html('b', {});
    this.scrubber = html('input', { type: 'range', min: 0, max: 0, step: 1, value: 0, 'aria-label': 'Evaluated policy, oldest first',
      oninput: () => this._choose(Number(this.scrubber.value)) });
    this.against = html('select', { 'aria-label': 'Second policy', onchange: () => this._compare() });
    this.tracks = html('select', { 'aria-label': 'Circuit', onchange: () => this._show(), hidden: true });
    this.share = html('a', { class: 'button small', download: '', title: 'One file that plays these laps, to send to others' }, 'Share these laps');
    this.marks = html('div', { class: 'timeline-marks' });
    this.place = html('div', {});
    this.body = html('div', { hidden: true }, html('div', { class: 'timeline-line' }, this.marks, this.scrubber),
      html('div', { class: 'row spread' }, this.label, html('span', { class: 'row' }, this.tracks,
        html('label', { class: 'row small soft' }, 'Against', this.against), this.share)), this.place);
    this.element = html('section', { class: 'card timeline', hidden: !isRacing, 'aria-label': 'Timeline' }, html('h2', {}, 'Timeline'), this.note, this.body);
    this._watcher = new IntersectionObserver(([seen]) => { if (seen.isIntersecting) this._load(); }, { rootMargin: '200px' });
    if (isRacing) this._watcher.observe(this.element);
  }

  close() {
    this._watcher.disconnect();
    this.replay?.close();
    this._isClosed = true;
  }

  /** Another evaluation is there: the list grows, and who looked at the newest one sees it. */
  async refresh() {
    if (!this.isRacing) return;
    const isAtEnd = this.chosen === null || this.chosen === this.entries.at(-1)?.agent_steps;
    try {
      this.entries = await get(`/api/runs/${encodeURIComponent(this.id)}/timeline`);
    } catch (error) {
      return void write(this.note, error.message);
    }
    this.body.hidden = !this.entries.length;
    write(this.note, this.entries.length ? 'What each evaluated policy drove: its best lap, or the longest way where it completed none.'
      : 'No laps are stored in this run. New runs store them at every evaluation; runs of earlier versions have none.');
    if (!this.entries.length) return;
    this._fill();
    const index = isAtEnd ? this.entries.length - 1 : Math.max(0, this.entries.findIndex((one) => one.agent_steps === this.chosen));
    this.scrubber.value = index;
    if (this._isVisible) await this._choose(index);
  }

  async _load() {
    this._isVisible = true;
    this._watcher.disconnect();
    await this.refresh();
  }

  _fill() {
    this.scrubber.max = this.entries.length - 1;
    const best = this._best();
    replace(this.against, html('option', { value: '' }, NONE), [...this.entries].reverse().map((entry) => html('option', { value: entry.agent_steps },
      `${title(entry)}${entry === best ? ' (best)' : ''}`)));
    this.against.value = this.other ?? '';
    const tracks = [...new Set(this.entries.flatMap((entry) => entry.drives.map((drive) => drive.track)))], chosen = this.tracks.value;
    replace(this.tracks, tracks.map((name) => html('option', {}, name)));
    this.tracks.value = tracks.includes(chosen) ? chosen : tracks[0];
    this.tracks.hidden = tracks.length < 2;
    this._drawMarks();
  }

  _best() {
    const timed = this.entries.filter((entry) => isNumber(entry.drives[0]?.lap_time));
    return timed.reduce((least, entry) => (least && least.drives[0].lap_time <= entry.drives[0].lap_time ? least : entry), null);
  }

  /** Lap times over the evaluations; kept policies are filled, evaluations without a lap lie on the ground. */
  _drawMarks() {
    const times = this.entries.map((entry) => entry.drives[0]?.lap_time ?? null), known = times.filter(isNumber);
    const low = Math.min(...known), high = Math.max(...known, low + 0.5), count = Math.max(this.entries.length - 1, 1);
    const x = (k) => (100 * k) / count, y = (time) => (isNumber(time) ? 6 + (26 * (time - low)) / (high - low) : 38);
    const line = this.entries.map((_, k) => [x(k), y(times[k])]).filter((_, k) => isNumber(times[k]));
    const picture = svg('svg', { viewBox: '0 0 100 44', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svg('polyline', { points: line.map(([a, b]) => `${a.toFixed(2)},${b.toFixed(1)}`).join(' ') }));
    const dots = this.entries.map((entry, k) => {
      const dot = html('i', { class: [entry.policies.length ? 'kept' : '', isNumber(times[k]) ? '' : 'off'].join(' ').trim() });
      dot.style.left = `${x(k)}%`;
      dot.style.top = `${(100 * y(times[k])) / 44}%`;
      return dot;
    });
    replace(this.marks, picture, dots);
    this.dots = dots;
  }

  async _choose(index) {
    const entry = this.entries[index];
    if (!entry) return;
    this.chosen = entry.agent_steps;
    this.dots.forEach((dot, k) => dot.classList.toggle('now', k === index));
    await this._show();
  }

  async _compare() {
    this.other = this.against.value ? Number(this.against.value) : null;
    await this._show();
  }

  async _show() {
    const mine = (this._turn = (this._turn ?? 0) + 1), track = this.tracks.value;
    const entry = this.entries.find((one) => one.agent_steps === this.chosen);
    write(this.label, describe(entry, track));
    const wanted = [this.chosen, this.other].filter((steps, k) => steps !== null && (k === 0 || steps !== this.chosen));
    this.share.href = `/api/runs/${encodeURIComponent(this.id)}/share?${new URLSearchParams({ steps: wanted.join(','), track })}`;
    try {
      const found = (await Promise.all(wanted.map((steps) => this._drive(steps, track)))).filter(Boolean);
      const scene = found.length ? await this._read(`roads/${found[0].road}`) : null;
      const { Replay } = await import('./kit/replay.js');
      if (mine !== this._turn || this._isClosed || !scene) return;
      this._play(Replay, scene, found.filter((drive) => drive.road === found[0].road), found[0].road);
    } catch (error) {
      write(this.note, error.message);
    }
  }

  _play(Replay, scene, laps, road) {
    const all = scene.reference ? [...laps, reference(scene.reference)] : laps;
    if (this.replay && this.road === road) return void this.replay.setLaps(all);
    this.replay?.close();
    this.road = road;
    this.replay = new Replay(scene, all, { autoplay: !matchMedia('(prefers-reduced-motion: reduce)').matches });
    replace(this.place, this.replay.element);
  }

  async _drive(steps, track) {
    const { drives } = await this._read(`timeline/${steps}`), drive = drives.find((one) => one.track === track);
    return drive ? { ...drive, driver: `step ${compact(steps)}` } : null;
  }

  /** Drives and roads do not change: each is asked for once. */
  _read(path) {
    if (!this.cache.has(path)) this.cache.set(path, get(`/api/runs/${encodeURIComponent(this.id)}/${path}`));
    return this.cache.get(path);
  }
}

const title = (entry) => `step ${compact(entry.agent_steps)} · ${isNumber(entry.drives[0]?.lap_time) ? lapTime(entry.drives[0].lap_time) : 'no lap'}`;

function describe(entry, track) {
  const drive = entry.drives.find((one) => one.track === track);
  const driven = !drive ? `nothing driven on ${track}` : isNumber(drive.lap_time) ? `best lap ${lapTime(drive.lap_time)}` : `no lap, ${Math.round(drive.duration)} s driven`;
  const names = entry.policies.filter((name) => !name.startsWith('step-'));
  return [`Step ${compact(entry.agent_steps)}`, driven, entry.policies.length ? `kept${names.length ? ` as ${names.join(', ')}` : ''}` : 'policy not kept'].join(' · ');
}

function reference({ x, y, heading, time, lap_time: lap, sectors }) {
  return { driver: 'Reference lap', kind: 'reference', lap_time: lap, duration: lap, time, x, y, heading, sectors };
}

// One run: its picture, its controls, its curves and its record, live while it lives.

import { get, repeat, runDetails } from './api.js';
import { Charts } from './charts.js';
import { Controls, Rewards } from './controls.js';
import { Director } from './director.js';
import { compact, duration, empty, html, isNumber, lapTime, number, replace, statusChip, toast, write } from './dom.js';
import { Ending } from './ending.js';
import { EvaluationReplay } from './evaluation_replay.js';
import { KeyCurve } from './key_curve.js';
import { Live } from './live.js';
import { Progress } from './progress.js';
import { Events, Policies } from './records.js';
import { bestLap, evaluationDrives, play, runReplay } from './replay.js';
import { RewardStack } from './reward_stack.js';
import { runDetailsSections } from './run_details.js';
import { Stage } from './stage.js';
import { Standings } from './standings.js';
import { TimeBudget } from './time_budget.js';
import { drawOutline, outlinePicture } from './track_outline.js';
import { Timeline } from './timeline.js';
import { TrainingLaps } from './training_laps.js';
import { Workers } from './workers.js';

const ENDS = new Set(['finished', 'stopped', 'failed', 'crashed', 'damaged', 'pruned']);
const SILENCE = 4000; // ms
const MEANING = { 'Steps/s': 'Agent steps per second of wall clock, learning and evaluation included' };

/** The library that draws curves is half of the page's size: it comes with the first run that is opened. */

export async function openRun(main, { id }, state) {
  const details = await runDetails(id);
  document.title = `${details.name} · Paddock`;
  const page = new RunPage(id, details, state);
  replace(main, page.element);
  return () => page.close();
}

class RunPage {
  constructor(id, details, state) {
    Object.assign(this, { id, details, state, _heard: performance.now() });
    this.stage = new Stage(id, { onframe: (stage) => this._frame(stage) });
    this.isRacing = (details.environment ?? '').split('/')[0] === 'racing';
    this.policies = new Policies(id, this.isRacing);
    this.laps = new TrainingLaps();
    this.director = new Director(this.stage.view, this.laps);
    this.evaluation = new EvaluationReplay(id, this.stage.view, (isOn) => { state.replay = isOn ? 'evaluation' : null; });
    this.progress = new Progress(details.config?.training);
    this.standings = new Standings(this.isRacing ? id : null);
    this.curve = new KeyCurve(details.metric);
    this.stack = new RewardStack();
    this.ending = new Ending(id, { isRacing: this.isRacing, onresumed: () => this._resumed() });
    this.controls = new Controls(id, { onsaved: () => this._refreshPolicies() });
    this.rewards = new Rewards(id);
    this.events = new Events();
    this.workers = new Workers();
    this.budget = new TimeBudget();
    this.timeline = new Timeline(id, this.isRacing);
    this.charts = new Charts([{ id, name: details.name }]);
    this._build();
    this._show(details);
    this.events.set(details.events ?? []);
    this._refreshPolicies();
    this.live = new Live(id, this._handlers());
    this.stage.live = this.live;
    this.live.wish({ type: 'rays', on: true });
    if (!details.is_live) this._ended();
    this.charts.ready.then(() => {
      this._bestLap(this.charts.data.get(id)?.get('eval/best_lap')?.y ?? []);
      this._curves();
    });
    // A run may begin and end between two tries of the server to reach it: what is said to run and is silent is asked for.
    this._endAsking = repeat(async () => { if (!this.isOver && performance.now() - this._heard > SILENCE) await this._refresh(); }, SILENCE / 1000);
    addEventListener('keydown', this._keys = (event) => this._key(event));
  }

  /** Keys of the picture work wherever the focus is, unless it is where people write or choose. */
  _key(event) {
    if (/^[[\]0+=-]$|^Escape$/.test(event.key) && !event.target.closest?.('input, select, textarea, button, canvas')) {
      this.director._touched();
      this.stage.view._key(event);
    }
  }

  _curves() {
    const data = this.charts.data.get(this.id);
    if (!data) return;
    this.curve.update(data);
    this.stack.update(data);
  }

  close() {
    removeEventListener('keydown', this._keys);
    clearTimeout(this._measuring);
    this._endAsking();
    this.standings.close();
    this.live.close();
    this.stage.close();
    this.timeline.close();
    this.charts.close();
  }

  _build() {
    const { details } = this;
    this.chip = html('span', {});
    this.tiles = Object.fromEntries(['Steps', 'Steps/s', 'Time', 'Best lap', 'Score'].map((name) => [name, html('b', {}, '–')]));
    this.rewards.element.append(this.stack.element);
    this.stage.tools.prepend(this.director.button, this.evaluation.button);
    this.phases = html('ol', { class: 'phases', 'aria-label': 'Phases' });
    const facts = [details.experiment, details.algorithm, details.environment, `seed ${details.seed}`, ...(details.tags ?? [])];
    this.element = html('div', { class: 'run' },
      html('header', { class: 'head' }, html('div', {}, html('h1', {}, details.name, ' ', this.chip),
        html('p', { class: 'soft' }, facts.filter(Boolean).join(' · '))), this.phases),
      html('div', { class: 'pitwall' },
        html('div', { class: 'left' }, this.stage.element, this.progress.element, html('dl', { class: 'tiles' },
          Object.entries(this.tiles).map(([name, node]) => html('div', { title: MEANING[name] }, html('dt', {}, name), html('dd', {}, node)))), this.events.element, this.policies.element),
        html('div', { class: 'right' }, this.ending.element, this.controls.element, this.curve.element, this.standings.element, this.rewards.element)),
      this.workers.element, this.budget.element, this.timeline.element,
      html('section', { class: 'card' }, html('div', { class: 'row spread' }, html('h2', {}, 'Curves'), this._overlay()), this.charts.element),
      runDetailsSections(this.id, details));
  }

  /** A menu of other runs whose curves may lie over this one's. */
  _overlay() {
    const menu = html('select', { 'aria-label': 'Overlay another run' }, html('option', { value: '' }, 'Compare with…'));
    get('/api/runs').then((rows) => {
      for (const row of rows.filter((one) => one.id !== this.id && one.kind !== 'driving').slice(0, 60))
        menu.append(html('option', { value: row.id }, row.name));
    }).catch(() => {});
    menu.addEventListener('change', () => {
      const [option] = menu.selectedOptions, own = this.charts.runs[0];
      const others = this.charts.runs.slice(1).filter((run) => run.id !== menu.value);
      this.charts.setRuns(menu.value ? [own, ...others, { id: menu.value, name: option.textContent }] : [own]);
      menu.options[0].textContent = menu.value ? 'Only this run' : 'Compare with…';
      menu.value = menu.value || '';
    });
    return menu;
  }

  _handlers() {
    return {
      scene: (scene) => this._scene(scene),
      snapshot: (snapshot) => this._snapshot(snapshot),
      ghost: (ghost) => this.stage.setGhost(ghost),
      status: (status) => this._status(status),
      event: (row) => this._event(row),
      metrics: (row) => { this.charts.append(row.row ?? row); this._curves(); },
      lap: (lap) => { this.state.laps.push(lap); },
      gone: () => this._refresh(),
      unknown: () => this._refresh(),
      link: (isOpen) => this._link(isOpen),
    };
  }

  _scene(scene) {
    this.state.scene = scene;
    this.stage.element.classList.remove('over', 'replaying');
    this.stage.title = undefined;
    this.evaluation.leave();
    if (this.livePlayback) this.stage.view.playback = this.livePlayback;
    this.livePlayback = null;
    this.laps.clear();
    this.stage.setScene(scene);
    this.standings.setScene(scene);
    this.director.button.hidden = scene.kind !== 'racing';
  }

  _snapshot(snapshot) {
    this.state.snapshot = snapshot;
    this.laps.push(snapshot);
    this.standings.setTraining(this.laps.best);
    this.stage.push(snapshot);
    if (!this.evaluation.isOn) this.director.turn();
  }

  /** The run was resumed: its process brings the scene, the rest is asked for. */
  async _resumed() {
    this.state.snapshot = null;
    this.ending.hide();
    await this._refresh();
  }

  _link(isOpen) {
    this.state.connection = isOpen ? 'open' : 'lost';
    if (!isOpen || !this._wasLost) {
      this._wasLost = !isOpen;
      return;
    }
    this._wasLost = false;
    this._refresh();
    this.charts.load();
  }

  async _refresh() {
    try {
      this._show(await runDetails(this.id));
      this.events.set(this.details.events ?? []);
      await this._refreshPolicies();
    } catch (error) {
      if (error.status) toast(error.message, 'bad');
    }
    if (!this.details.is_live) this._ended();
  }

  async _refreshPolicies() {
    await this.policies.refresh().catch(() => {});
    this.state.policies = this.policies.rows ?? [];
  }

  _event(row) {
    this.events.add(row);
    this.state.events.push(row);
    if (row.event === 'evaluation') {
      this._refresh();
      this.timeline.refresh();
      if (this.isRacing) this.evaluation.offer();
    } else if (row.event === 'control') this._refreshPolicies();
  }

  _show(details) {
    this.details = details;
    replace(this.chip, statusChip(details.status));
    const isOver = (this.isOver = !details.is_live && ENDS.has(details.status));
    if (isOver && this.ending.shown !== details.agent_steps + details.status) {
      this.ending.shown = details.agent_steps + details.status;
      this.ending.show(details);
    } else if (!isOver) {
      this.ending.shown = null;
      this.ending.hide();
    }
    this.controls.element.hidden = isOver;
    this.progress.training = details.config?.training ?? {};
    this.progress.update(details, isOver);
    if (this.isRacing && (details.events ?? []).some((row) => row.event === 'evaluation') && details.is_live) this.evaluation.offer();
    this.controls.setCan(details.can ?? []);
    this.controls.update(details);
    this.policies.setCan(details.can ?? []);
    this.rewards.setWeights(details.rewards, details.is_live && (details.can ?? []).includes('reward'));
    if (!details.is_live) this.workers.set([]);
    this._tiles(details, {});
    this._phases(details.phases ?? [], details.phase);
  }

  _status(status) {
    this.state.status = status;
    const now = (this._heard = performance.now());
    if (!this.details.can?.length && now - (this._asked ?? 0) > 1000) { // it was only starting when we asked
      this._asked = now;
      this._refresh();
    }
    if (this.chip.textContent !== status.status) replace(this.chip, statusChip(status.status));
    this.controls.update(status);
    this.rewards.setWeights(status.rewards, (this.details.can ?? []).includes('reward'));
    this.rewards.setPaid(status.latest);
    this.workers.set(status.workers ?? [], status.latest ?? {});
    this.budget.set(status.latest ?? {});
    this.progress.update(status);
    this.standings.setFacts(status.latest ?? {}, this.laps, this.state.scene?.track?.length);
    if ('policy' in status) this.policies.setLoaded(status.policy);
    this._tiles(status, status.latest ?? {});
    if (status.phase !== this.details.phase) this._phases(this.details.phases ?? [], status.phase);
    if (!this.state.snapshot && this.stage.kind === 'racing') this.stage.say('The run is getting ready…');
  }

  _tiles(values, latest) {
    write(this.tiles.Steps, compact(values.agent_steps));
    write(this.tiles.Time, duration(values.seconds));
    this._pace(values);
    this._bestLap([latest['eval/best_lap']]);
    const { metric, best_score: score } = this.details;
    this.tiles.Score.closest('div').hidden = ['eval/pace', 'eval/clean_pace'].includes(metric); // the standings say it in seconds
    if (isNumber(score)) write(this.tiles.Score, number(score));
    if (metric) write(this.tiles.Score.parentElement.previousSibling, metric.replace(/^eval\//, 'Best ').replaceAll('_', ' '));
  }

  /** As on the command line: over the last seconds while it runs, over everything once it is over. */
  _pace({ agent_steps: steps, seconds, steps_per_second: pace }) {
    const isOver = !this.details.is_live, value = isOver ? steps / seconds : pace;
    if (isNumber(value)) write(this.tiles['Steps/s'], compact(value));
    write(this.tiles['Steps/s'].parentElement.previousSibling, isOver ? 'Steps/s overall' : 'Steps/s');
  }

  _bestLap(laps) {
    this.lap = Math.min(this.lap ?? Infinity, ...laps.filter(isNumber));
    this.tiles['Best lap'].closest('div').hidden = !isNumber(this.lap);
    this.standings.setBest(this.lap);
    this.standings.offer(!this.isOver);
    write(this.tiles['Best lap'], lapTime(this.lap));
  }

  _phases(phases, current) {
    this.details.phase = current;
    this.phases.hidden = phases.length < 2; // the only one says nothing
    replace(this.phases, phases.map(({ name, share }) => {
      const bar = html('i', {});
      bar.style.width = `${100 * (share ?? 0)}%`;
      return html('li', { 'aria-current': name === current ? 'step' : null }, html('span', {}, name), bar);
    }));
  }

  /** The circuit with the best lap that was evaluated; a sentence where there is none. */
  async _ended() {
    if (this.state.snapshot) return;
    const replay = this.isRacing ? await runReplay(this.id).catch(() => null) : null, { view } = this.stage;
    const cars = replay && (bestLap(replay) ?? evaluationDrives(replay));
    if (this.state.snapshot || this.state.scene) return; // it lives again
    if (!cars) {
      this.stage.element.classList.add('over');
      this.stage.say(this.isRacing ? 'This run has no evaluated drive to replay. Its curves and events are below.' : 'This run has ended. Its curves, events and policies are below.');
      if (this.isRacing) await this._outline();
      return;
    }
    this.livePlayback ??= view.playback;
    this.stage.kind = 'racing';
    this.stage.frame.classList.remove('video');
    play(view, replay.scene, cars);
    this.stage.title = bestLap(replay) ? 'Best lap' : 'Last evaluation';
    this.stage.say(null);
    this.stage.element.classList.add('replaying');
    this.stage.rays.hidden = this.director.button.hidden = true;
    this.standings.setScene(replay.scene);
    this.state.replay = 'best';
    if (cars.length === 1) view.follow(0);
  }

  /** Where nothing was driven that could be played: the circuit alone. The server may still be measuring it. */
  async _outline(turns = 15) {
    const name = this.details.config?.environment?.track, tracks = await get('/api/tracks').catch(() => []);
    const track = tracks.find((one) => one.name === name), points = track?.outline, picture = outlinePicture();
    if (track && !points?.length && !track.error && turns > 0) this._measuring = setTimeout(() => this._outline(turns - 1), 2000);
    if (!points?.length || !this.stage.element.classList.contains('over') || this.stage.frame.querySelector('.outline')) return;
    picture.classList.add('outline');
    drawOutline(picture, points);
    this.stage.frame.prepend(picture);
  }

  _frame(stage) {
    this.state.frames = stage.view.frames;
    this.state.shown = stage.view.playback.time;
    this.state.followed = stage.view.followed;
  }
}

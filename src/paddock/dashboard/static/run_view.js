// One run: its picture, its controls, its curves and its record, live while it lives.

import { get, runDetails } from './api.js';
import { Charts } from './charts.js';
import { Controls, Rewards } from './controls.js';
import { compact, duration, html, isNumber, lapTime, number, replace, statusChip, toast, write } from './dom.js';
import { Live } from './live.js';
import { Events, Policies } from './records.js';
import { runDetailsSections } from './run_details.js';
import { Stage } from './stage.js';
import { TimeBudget } from './time_budget.js';
import { Workers } from './workers.js';

const ENDS = new Set(['finished', 'stopped', 'failed', 'crashed', 'damaged', 'pruned']);
const MEANING = { 'Steps/s': 'Agent steps per second of wall clock, learning and evaluation included' };

export async function openRun(main, { id }, state) {
  const details = await runDetails(id);
  document.title = `${details.name} · Paddock`;
  const page = new RunPage(id, details, state);
  replace(main, page.element);
  return () => page.close();
}

class RunPage {
  constructor(id, details, state) {
    Object.assign(this, { id, details, state });
    this.stage = new Stage(id, { onframe: (stage) => this._frame(stage) });
    this.policies = new Policies(id, (details.environment ?? '').split('/')[0] === 'racing');
    this.controls = new Controls(id, { onsaved: () => this._refreshPolicies() });
    this.rewards = new Rewards(id);
    this.events = new Events();
    this.workers = new Workers();
    this.budget = new TimeBudget();
    this.charts = new Charts([{ id, name: details.name }]);
    this._build();
    this._show(details);
    this.events.set(details.events ?? []);
    this._refreshPolicies();
    this.live = new Live(id, this._handlers());
    this.stage.live = this.live;
    this.live.wish({ type: 'rays', on: true });
    if (!details.is_live) this._ended();
    this.charts.ready.then(() => this._bestLap(this.charts.data.get(id)?.get('eval/best_lap')?.y ?? []));
  }

  close() {
    this.live.close();
    this.stage.close();
    this.charts.close();
  }

  _build() {
    const { details } = this;
    this.chip = html('span', {});
    this.tiles = Object.fromEntries(['Steps', 'Steps/s', 'Time', 'Best lap', 'Score'].map((name) => [name, html('b', {}, '–')]));
    this.over = html('section', { class: 'card', hidden: true }, html('p', {}, 'Run ended. Its policies and curves are kept.'),
      html('a', { class: 'button', href: `#/new?experiment=${encodeURIComponent(details.experiment ?? '')}` }, 'Start another like it'));
    this.phases = html('ol', { class: 'phases', 'aria-label': 'Phases' });
    const facts = [details.experiment, details.algorithm, details.environment, `seed ${details.seed}`, ...(details.tags ?? [])];
    this.element = html('div', { class: 'run' },
      html('header', { class: 'head' }, html('div', {}, html('h1', {}, details.name, ' ', this.chip),
        html('p', { class: 'soft' }, facts.filter(Boolean).join(' · '))), this.phases),
      html('div', { class: 'pitwall' },
        html('div', { class: 'left' }, this.stage.element, html('dl', { class: 'tiles' },
          Object.entries(this.tiles).map(([name, node]) => html('div', { title: MEANING[name] }, html('dt', {}, name), html('dd', {}, node)))), this.events.element),
        html('div', { class: 'right' }, this.controls.element, this.over, this.rewards.element, this.policies.element)),
      this.workers.element, this.budget.element,
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
      scene: (scene) => { this.state.scene = scene; this.stage.element.classList.remove('over'); this.stage.setScene(scene); },
      snapshot: (snapshot) => { this.state.snapshot = snapshot; this.stage.push(snapshot); },
      ghost: (ghost) => this.stage.setGhost(ghost),
      status: (status) => this._status(status),
      event: (row) => this._event(row),
      metrics: (row) => this.charts.append(row.row ?? row),
      lap: (lap) => { this.state.laps.push(lap); },
      gone: () => this._refresh(),
      unknown: () => this._refresh(),
      link: (isOpen) => this._link(isOpen),
    };
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
    if (row.event === 'evaluation') this._refresh();
    else if (row.event === 'control') this._refreshPolicies();
  }

  _show(details) {
    this.details = details;
    replace(this.chip, statusChip(details.status));
    const isOver = !details.is_live && ENDS.has(details.status);
    this.over.hidden = !isOver;
    this.controls.element.hidden = isOver;
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
    const now = performance.now();
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
    if (isNumber(score)) write(this.tiles.Score, number(score));
    if (metric) write(this.tiles.Score.parentElement.previousSibling, metric.replace(/^eval\//, 'Best '));
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
    write(this.tiles['Best lap'], lapTime(this.lap));
  }

  _phases(phases, current) {
    this.details.phase = current;
    replace(this.phases, phases.map(({ name, share }) => {
      const bar = html('i', {});
      bar.style.width = `${100 * (share ?? 0)}%`;
      return html('li', { 'aria-current': name === current ? 'step' : null }, html('span', {}, name), bar);
    }));
  }

  _ended() {
    if (this.state.snapshot) return;
    this.stage.element.classList.add('over');
    this.stage.say('This run has ended. Its curves, events and policies are below.');
  }

  _frame(stage) {
    this.state.frames = stage.view.frames;
    this.state.shown = stage.view.playback.time;
    this.state.followed = stage.view.followed;
  }
}

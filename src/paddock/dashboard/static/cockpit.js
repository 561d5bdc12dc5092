// At the wheel: the picture turns with the car, inputs leave sixty times a second, the clock runs against others.

import { control, get } from './api.js';
import { act } from './controls.js';
import { button, capital, choice, delta, html, isNumber, lapTime, replace, statusChip, toast, toggle, write } from './dom.js';
import { MODE_CHOICES, unknownTrack } from './drive_view.js';
import { Inputs } from './inputs.js';
import { ghostColour } from './kit/ghosts.js';
import { LapTiming } from './lap_timing.js';
import { Live } from './live.js';
import { FASTEST_RATE, MODES } from './messages.js';
import { ShareLink } from './share_link.js';
import { car } from './snapshots.js';
import { Stage } from './stage.js';
import { StartLights } from './start_lights.js';

const GO = matchMedia('(pointer: coarse)').matches ? 'Hold Gas to go. ' : 'Press ↑ to go. ', COUNT = 'Laps that stay on the road count and are saved.';
const RIVAL = 1; // the car beside the person's
const SEND_EVERY = 1000 / 60 - 2; // ms
const SESSION_CAR = 0; // the person's, in a driving session
const SHARED = new Set(['agent', 'classical']); // ghosts that a drive keeps among its laps

export async function openCockpit(main, { id }, state) {
  const { config, kind } = await get(`/api/runs/${encodeURIComponent(id)}`);
  document.title = 'Driving · Paddock';
  const warning = config?.trained_on ? unknownTrack('The agent', config.trained_on, config.track) : null;
  const cockpit = new Cockpit(id, state, warning, kind === 'training');
  replace(main, cockpit.element);
  document.activeElement?.blur();
  return () => cockpit.close();
}

class Cockpit {
  /** isBeside: the person drives in the world of an agent that learns, which goes on without them. */
  constructor(id, state, warning, isBeside) {
    Object.assign(this, { id, state, warning, isBeside, mode: isBeside ? 'ai' : 'manual', sent: 0, own: SESSION_CAR });
    this.inputs = new Inputs();
    this.inputs.oncleared = () => this.live?.send({ type: 'release' });
    this.timing = new LapTiming();
    this.stage = new Stage(id, { isDriving: true, onframe: () => this._frame() });
    this.stage.title = 'You';
    this.lights = new StartLights({ onlamp: (isLast) => this.stage.third.sound.beep(isLast) });
    this.isWaiting = false; // on the grid
    this._build();
    this.live = new Live(id, this._handlers());
    this.stage.live = this.live;
    this.live.wish({ type: 'rate', hz: FASTEST_RATE });
    this.live.wish({ type: 'rays', on: this.stage.view.options.rays });
    this.live.wish({ type: 'follow', car: this.own });
    this._stop = new AbortController();
    addEventListener('keydown', (event) => this._key(event), { signal: this._stop.signal });
  }

  close() {
    this._stop.abort();
    this.live.send({ type: 'release' });
    if (this.isBeside && this.mode !== 'ai') control(this.id, 'mode', { mode: 'ai' }).catch(() => {});
    this.live.close();
    this.inputs.close();
    this.stage.close();
  }

  _build() {
    this.modes = choice('Who steers', MODE_CHOICES, this.mode, (mode) => this._setMode(mode));
    this.assist = html('input', { type: 'range', min: 0, max: 1, step: 0.05, value: 0.5, 'aria-label': 'Share of the assist',
      onchange: () => this._setMode('assisted') });
    this.assistRow = html('label', { class: 'labelled', hidden: true }, html('span', { class: 'soft small' }, 'Assist'), this.assist);
    this.gap = html('b', { class: 'gap' });
    this.gapTitle = html('span', { class: 'soft small' });
    this.gapBox = html('div', { class: 'hud gapbox', hidden: true }, this.gap, this.gapTitle);
    this.stage.frame.append(this.gapBox, this.lights.element, this.inputs.element);
    this.stage.tools.append(toggle('Start lights', this.lights.isOn, (on) => { this.lights.set(on); document.activeElement?.blur(); }));
    this.board = html('tbody', {});
    this.heads = html('tr', {});
    this.lapList = html('ol', { class: 'laps', reversed: true });
    this.chip = html('span', {});
    this.ping = html('span', { class: 'soft small', title: 'To the server and back' });
    this.corrections = html('p', { class: 'small corrections', role: 'status', hidden: true });
    this.title = html('h1', {}, 'Drive');
    this.restart = button('Restart lap', () => this._reset());
    this.end = button(this.isBeside ? 'Back to the run' : 'End the drive', () => this._leave());
    this.share = new ShareLink(this.id);
    this.pause = button('Pause', () => act(this.id, this.state.status?.status === 'paused' ? 'resume' : 'pause'), { hidden: true });
    this.notice = html('p', { class: 'soft small' }, this.isBeside
      ? 'You drive in the world in which the agent learns. The classical driver has your car until you take it, and when you leave it.'
      : `${GO}${COUNT}`);
    this.racing = [
      html('section', { class: 'card' }, html('h2', {}, 'Sectors'),
        html('div', { class: 'scroll' }, html('table', { class: 'sectors' }, html('thead', {}, this.heads), this.board))),
      html('section', { class: 'card' }, html('h2', {}, 'Your laps'), this.lapList),
    ];
    this.element = html('div', { class: 'run drive' },
      html('div', { class: 'pitwall' }, html('div', { class: 'left' }, this.stage.element),
        html('div', { class: 'right' },
          html('section', { class: 'card' }, html('div', { class: 'row spread' }, this.title, html('span', { class: 'row' }, this.ping, this.chip)),
            this.modes, this.assistRow, html('div', { class: 'row' }, this.restart, this.pause, this.share.element, this.end),
            this.corrections, this.warning ? html('p', { class: 'warning small' }, this.warning) : null, this.notice),
          this.racing)));
    this._listLaps();
  }

  _handlers() {
    const { state } = this;
    return {
      scene: (scene) => {
        state.scene = scene;
        this.stage.setScene(scene);
        if (scene.playback_of) return this._playback(scene);
        if (scene.kind !== 'racing') return this._dream(scene);
        this.timing.setScene(scene, this.stage.view.circuit);
        for (const ghost of this.stage.view.ghosts.values()) this.timing.setGhost(ghost);
        this.stage.view.follow(this.own);
      },
      snapshot: (snapshot) => { state.snapshot = snapshot; this.stage.push(snapshot); },
      ghost: (ghost) => this._ghost(ghost),
      status: (status) => this._status(status),
      event: (row) => state.events.push(row),
      lap: (lap) => this._lap(lap),
      gone: () => this._gone(),
      unknown: () => this._gone(),
      link: (isOpen) => { state.connection = isOpen ? 'open' : 'lost'; },
    };
  }

  _ghost(ghost) {
    this.stage.setGhost(ghost);
    this.timing.setGhost(ghost);
    if (!this.isBeside && SHARED.has(ghost.kind)) this.share.offer(true); // its lap is part of the replay until a faster one is driven
  }

  _status(status) {
    this.state.status = status;
    this._take(status);
    this.isWaiting = Boolean(status.is_waiting) && status.mode === 'manual';
    if (!this.isBeside && this.stage.kind === 'racing' && !this.state.scene?.playback_of) write(this.notice, `${this.isWaiting ? GO : ''}${COUNT}`);
    this.stage.view.names = status.opponent ? new Map([[RIVAL, capital(status.opponent)]]) : null;
    if (this.live.latency !== null) write(this.ping, `delay ${Math.round(this.live.latency)} ms`);
    if (this.chip.textContent !== status.status) replace(this.chip, statusChip(status.status));
    write(this.pause, status.status === 'paused' ? 'Resume' : 'Pause');
    if (status.mode && status.mode !== this.mode && !this._asked) this._showMode(status.mode);
    this._showCorrections(status.corrections);
    if (isNumber(status.assist) && document.activeElement !== this.assist) this.assist.value = status.assist;
  }

  /** Beside an agent: sit down in the car that the run has for a person, and take its wheel once. */
  _take(status) {
    if (!this.isBeside || status.car === undefined || this._hasTaken) return;
    this._hasTaken = true;
    this.own = status.car;
    this.stage.view.follow(this.own);
    this._setMode('manual');
  }

  /** What a policy that can learn from the person has learned so far. */
  _showCorrections(found) {
    this.corrections.hidden = !found;
    if (!found) return;
    const many = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
    const data = `${many(found.stretches, 'correction')} (${many(found.steps, 'decision')})`;
    if (!found.stretches) write(this.corrections, 'Take over with Manual when the agent errs, then give back with AI: it learns from what you did.');
    else if (found.is_learning) write(this.corrections, `Learning from ${data}…`);
    else write(this.corrections, `Learned from ${data} in ${many(found.updates, 'update')}: error on them ${found.error_before.toFixed(3)} → ${found.error_after.toFixed(3)}. Saved as policy/corrected.`);
  }

  _frame() {
    const { latest } = this.stage.view.playback, now = performance.now();
    this.state.frames = this.stage.view.frames;
    this.state.shown = this.stage.view.playback.time;
    if (!latest) return;
    const own = car(latest, Math.min(this.own, latest.cars - 1));
    this._steer(now, own.speed ?? 0);
    if (latest.sequence !== this._timed) this._time(own, latest);
  }

  _steer(now, speed) {
    const elapsed = Math.min((now - (this._last ?? now)) / 1000, 0.1);
    this._last = now;
    const { steer, throttle: wanted, brake } = this.inputs.update(elapsed, speed);
    const isHeld = this.lights.holds(this.isWaiting && speed < 1, wanted > 0, elapsed), throttle = isHeld ? 0 : wanted;
    this.stage.third.lit = this.lights.isOn && this.lights.clock !== null ? this.lights.lit : this.isWaiting ? 5 : 0;
    this.state.lights = { lit: this.lights.lit, isHeld };
    this.state.input = { steer, throttle, brake };
    if (now - this.sent >= SEND_EVERY && document.hasFocus()) {
      this.sent = now;
      this.live.send({ type: 'input', steer, throttle, brake, t: now });
    }
  }

  /** Frames alone: no car that is drawn here, and no laps. */
  _frames(scene, notice) {
    for (const card of this.racing) card.hidden = true;
    this.modes.hidden = true;
    write(this.notice, notice);
    this.captions?.remove();
    this.captions = html('div', { class: 'captions' }, scene.panels.map((panel) => html('span', {}, panel)));
    this.stage.frame.after(this.captions);
  }

  /** A demonstration is watched, not driven. */
  _playback(scene) {
    this._frames(scene, `Demonstrations of ${scene.playback_of}. Blue is what was done, green what a teacher wanted, red a correction. R begins the episode anew.`);
    this.inputs.element.hidden = true;
    write(this.title, 'Playback');
    write(this.restart, 'Restart episode');
    write(this.end, 'End the playback');
    this.pause.hidden = false;
  }

  _dream(scene) {
    this._frames(scene, `Inside the dream of ${scene.dream_of}: arrow keys steer the road and the dream alike. R begins anew.`);
    if (this._isDreaming) return;
    this._isDreaming = true;
    const tick = () => {
      if (this._stop.signal.aborted) return;
      this._steer(performance.now(), 0);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  _time(own, latest) {
    this._timed = latest.sequence;
    const gaps = this.timing.update({ progress: own.progress ?? 0, lapTime: own.lapTime ?? 0 });
    this.state.gaps = gaps;
    const kind = ['agent', 'best', 'classical', 'reference'].find((one) => one in gaps);
    this.gapBox.hidden = !kind;
    if (kind) {
      write(this.gap, delta(gaps[kind], 2));
      this.gap.className = `gap ${gaps[kind] < 0 ? 'good' : 'bad'}`;
      const isFirst = !this.timing.laps.length; // from a standing start, which the others have not
      write(this.gapTitle, `to ${this.timing.tables.get(kind).title}${isFirst ? ', flying lap' : ''}`);
    }
    const key = `${this.timing.sectors.length}|${this.timing.laps.length}|${this.timing.tables.size}`;
    if (key !== this._drawn) this._drawBoard(key);
  }

  _drawBoard(key) {
    this._drawn = key;
    const { timing } = this, tables = [...timing.tables], last = timing.laps.at(-1);
    const columns = tables.map(([kind, table]) => [kind, table, table.sectors(timing.bounds)]);
    replace(this.heads, html('th', {}), html('th', { class: 'num' }, 'You'), columns.map(([kind, table]) => {
      const swatch = html('i', { class: 'swatch' });
      swatch.style.background = ghostColour(kind);
      return html('th', { class: 'num' }, swatch, ' ', table.title.replace(/ (lap|driver)$/, ''));
    }));
    const isFresh = timing.sectors.length === 0 && last;
    const own = isFresh ? last.sectors ?? [] : timing.sectors;
    const rows = Array.from({ length: timing.bounds.length + 1 }, (_, k) => this._boardRow(`S${k + 1}`, own[k],
      columns.map(([, , sectors]) => sectors[k])));
    rows.push(this._boardRow('Lap', isFresh ? last.lap_time : null, columns.map(([, table]) => table.lapTime)));
    replace(this.board, rows);
  }

  _boardRow(name, own, others) {
    return html('tr', {}, html('th', { scope: 'row' }, name), html('td', { class: 'num' }, own ? own.toFixed(2) : '–'),
      others.map((other) => html('td', { class: `num ${own ? (own < other ? 'good' : 'bad') : 'soft'}` },
        own ? delta(own - other, 2) : other.toFixed(2))));
  }

  _lap(lap) {
    if (lap.valid !== false && !this.isBeside) this.share.offer(true);
    if (lap.car !== this.own) return;
    this.state.laps.push(lap);
    this.timing.finish({ ...lap, isHelped: this._wasHelped });
    this._wasHelped = this.mode !== 'manual';
    this.share.element.classList.toggle('strong', this.timing.best !== null);
    toast(`Lap ${lapTime(lap.lap_time)}${lap.valid === false ? ', left the road: not counted' : ''}`,
      lap.valid === false ? 'bad' : 'good');
    this._listLaps();
  }

  _listLaps() {
    const { laps, best } = this.timing;
    if (!laps.length) return replace(this.lapList, html('li', { class: 'soft none' }, 'No laps yet. A lap counts from line to line.'));
    return replace(this.lapList, [...laps].reverse().map((lap) => html('li', { class: lap === best ? 'best' : '' },
      html('b', {}, lapTime(lap.lap_time)), lap === best ? ' best' : '', html('span', { class: 'soft small' },
        ` ${(lap.sectors ?? []).map((sector) => (sector === null ? '–' : sector.toFixed(2))).join('  ')}`),
      lap.isHelped ? html('span', { class: 'soft small' }, ' with the AI: not saved') : null,
      lap.valid === false ? html('span', { class: 'bad small' }, ' off the road') : null)));
  }

  /** At once, so that a second press goes on from here; what the server says of older presses is not listened to. */
  async _setMode(mode) {
    const before = this.mode, mine = this._asked = (this._asked ?? 0) + 1;
    this._showMode(mode);
    const isDone = await act(this.id, 'mode', { mode, assist: Number(this.assist.value) });
    if (mine === this._asked) {
      this._asked = null;
      if (!isDone) this._showMode(before);
    }
    document.activeElement?.blur(); // the keys drive, they do not press buttons
  }

  _showMode(mode) {
    this.mode = mode;
    this.modes.select(mode);
    this.assistRow.hidden = mode !== 'assisted';
    this._wasHelped ||= mode !== 'manual';
  }

  async _reset() {
    this._wasHelped = this.mode !== 'manual';
    this.inputs.clear();
    this.timing.restart();
    this.lights.restart();
    await act(this.id, 'reset');
    document.activeElement?.blur(); // the keys drive, they do not press buttons
  }

  async _leave() {
    if (this.isBeside) location.hash = `#/run/${encodeURIComponent(this.id)}`;
    else if (await act(this.id, 'stop', {}, 'The drive has ended.')) location.hash = '#/drive';
  }

  _gone() {
    this.stage.say('This drive has ended. ', html('a', { href: '#/drive' }, 'Drive again'));
    this.state.connection = 'gone';
    this.inputs.element.hidden = true;
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, select, textarea')) return;
    if (event.code === 'KeyR') this._reset();
    if (event.code === 'KeyC') this.stage.third.next();
    if (event.code === 'KeyM') {
      this._setMode(MODES[(MODES.indexOf(this.mode) + 1) % MODES.length]);
    }
  }
}

// What a run that is over offers: how it went, its film and laps, what to do next, and the log where it failed.

import { get, post } from './api.js';
import { button, compact, delta, duration, html, isNumber, lapTime, number, replace } from './dom.js';
import { ShareLink } from './share_link.js';
import { againstReference, raceAddress } from './standings.js';

const FAILED = new Set(['failed', 'crashed', 'damaged']), DONE = 'finished';
const WORDS = { finished: 'finished', stopped: 'was stopped', failed: 'failed', crashed: 'ended unexpectedly', damaged: 'is damaged', pruned: 'was pruned' };
const MOST_ROWS = 16, FACTORS = [[0.5, '1.5 times as long'], [1, 'twice as long'], [3, 'four times as long']];
const address = (id, what) => `/api/runs/${encodeURIComponent(id)}/${what}`;

export class Ending {
  /** onresumed(): the run lives again. */
  constructor(id, { isRacing, onresumed }) {
    Object.assign(this, { id, isRacing, onresumed });
    this.sentence = html('p', { class: 'standing-sentence' });
    this.status = html('p', { class: 'soft small', role: 'status' });
    this.share = new ShareLink(id);
    this.problem = html('p', { class: 'problem', role: 'alert', hidden: true });
    this.actions = html('div', { class: 'row ending-actions' });
    this.more = html('div', {});
    this.element = html('section', { class: 'card ending', 'aria-label': 'Ending', hidden: true }, html('h2', {}, 'How it ended'),
      this.sentence, this.actions, this.status, this.problem, this.more);
  }

  /** Show the ending of the run as `details` has it; asked for once for each ending. */
  async show(details) {
    this.element.hidden = false;
    this.details = details;
    this._actions(details);
    const ending = await get(address(this.id, 'ending')).catch(() => null);
    if (!ending) return;
    this._sentence(details, ending);
    this.share.offer(ending.can_share);
    for (const one of this.actions.querySelectorAll('[data-needs-policy]')) one.hidden = !ending.has_policy;
    replace(this.more, this._error(ending), this._film(ending), this._laps(ending), log('Log', ending.log, FAILED.has(details.status)),
      log('Traceback', ending.traceback, false), html('p', { class: 'soft small' }, 'In a terminal: ', html('code', {}, ending.command)));
  }

  hide() {
    this.element.hidden = true;
  }

  _sentence({ status, agent_steps: steps, seconds, metric, best_score: score }, { metrics, starts }) {
    const best = starts.filter(({ lap_time: time }) => isNumber(time)).sort((a, b) => a.lap_time - b.lap_time)[0];
    const finish = metrics['eval/finish_rate'];
    const told = [`The run ${WORDS[status] ?? status} after ${compact(steps)} steps in ${duration(seconds)}.`,
      best ? `Best lap ${againstReference(best.lap_time, best.reference)}.` : starts.length ? 'No evaluated start completed a lap.' : isNumber(score) && metric ? `Best ${metric.replace(/^eval\//, '').replaceAll('_', ' ')}: ${number(score)}.` : null,
      best && isNumber(finish) ? `${Math.round(100 * finish)} % of ${starts.length} starts finished.` : null];
    this.sentence.textContent = told.filter(Boolean).join(' ');
  }

  _actions(details) {
    const isDone = details.status === DONE, { total_steps: total, max_seconds: longest } = details.config?.training ?? {};
    const factor = html('select', { 'aria-label': 'How much longer' }, FACTORS.map(([value, text]) => html('option', { value }, text)));
    factor.value = '1';
    const limits = () => {
      const by = 1 + Number(factor.value), found = {};
      if (isNumber(total)) found.total_steps = Math.round(Math.max(total, details.agent_steps) * by);
      if (isNumber(longest)) found.max_seconds = Math.round(Math.max(longest, details.seconds) * by);
      return found;
    };
    replace(this.actions,
      isDone ? null : this._button('Resume', 'strong', 'Resuming…', () => this._resume({})),
      isDone ? html('span', { class: 'row together' }, this._button('Train longer', 'strong', 'Training continues…', () => this._resume(limits())), factor) : null,
      this._button('Evaluate', '', 'Evaluating 64 starts or episodes…', () => this._evaluate(), { 'data-needs-policy': '' }),
      this.isRacing ? html('a', { class: 'button', href: raceAddress(this.id), 'data-needs-policy': '' }, 'Race it') : null,
      this.share.element,
      html('span', { class: 'row', 'data-compare': '' }),
      html('a', { class: 'button', href: `#/new?experiment=${encodeURIComponent(details.experiment ?? '')}` }, 'Start another like it'));
    this._offerComparison(details);
  }

  /** A menu of the other runs in the same environment, the newest first. */
  async _offerComparison({ environment }) {
    const place = this.actions.querySelector('[data-compare]'), rows = await get('/api/runs').catch(() => []);
    const others = rows.filter((row) => row.id !== this.id && row.kind === 'training')
      .sort((a, b) => Number(b.environment === environment) - Number(a.environment === environment)).slice(0, 30);
    if (!others.length || !place.isConnected) return;
    const menu = html('select', { 'aria-label': 'Compare with' }, html('option', { value: '' }, 'Compare with…'),
      others.map((row) => html('option', { value: row.id }, row.name)));
    menu.addEventListener('change', () => { if (menu.value) location.hash = `#/compare/${[this.id, menu.value].map(encodeURIComponent).join(',')}`; });
    replace(place, menu);
  }

  _button(label, kind, text, task, more = {}) {
    return button(label, async () => {
      for (const one of this.actions.querySelectorAll('button')) one.disabled = true;
      this.problem.hidden = true;
      this.status.className = 'soft small busy';
      this.status.textContent = text;
      try {
        await task();
      } catch (error) {
        this.problem.textContent = error.message;
        this.problem.hidden = false;
        this.status.textContent = '';
      } finally {
        this.status.classList.remove('busy');
        for (const one of this.actions.querySelectorAll('button')) one.disabled = false;
      }
    }, { class: kind, ...more });
  }

  async _resume(limits) {
    await post(address(this.id, 'resume'), limits);
    this.status.textContent = '';
    await this.onresumed();
  }

  async _evaluate() {
    const found = await post(address(this.id, 'evaluate'), {}), finish = found['eval/finish_rate'], lap = found['eval/best_lap'];
    const told = isNumber(finish) ? [`${Math.round(100 * finish)} % of starts finished`, isNumber(lap) ? `best lap ${lapTime(lap)}` : null]
      : [`mean return ${number(found['eval/return'])}`];
    this.status.textContent = `Evaluated: ${told.filter(Boolean).join(', ')}.`;
  }

  _error({ error }) {
    return error ? html('p', { class: 'problem' }, error) : null;
  }

  _film({ films }) {
    if (!films.length) return null;
    return html('video', { controls: true, preload: 'metadata', 'aria-label': 'Film of the run', src: address(this.id, `films/${encodeURIComponent(films[0])}`) });
  }

  _laps({ starts }) {
    if (!starts.length) return null;
    const isOne = new Set(starts.map(({ track }) => track)).size === 1, heads = [['Lap', 'num'], ['To the reference', 'num'], ['Road', '']];
    const rows = [...starts].sort((a, b) => (a.lap_time ?? Infinity) - (b.lap_time ?? Infinity)).slice(0, MOST_ROWS);
    return html('details', { open: true }, html('summary', {}, `Laps of the best evaluation (${starts.length} starts)`), html('div', { class: 'scroll' },
      html('table', { class: 'lap-table' }, html('thead', {}, html('tr', {}, [...heads, ...(isOne ? [] : [['Track', '']])].map(([text, kind]) => html('th', { scope: 'col', class: kind }, text)))),
        html('tbody', {}, rows.map((row) => html('tr', {}, html('td', { class: 'num' }, isNumber(row.lap_time) ? lapTime(row.lap_time) : 'no lap'),
          html('td', { class: 'num' }, isNumber(row.lap_time) ? delta(row.lap_time - row.reference) : `${Math.round(row.distance ?? 0)} m`),
          html('td', {}, isNumber(row.lap_time) ? (row.clean ? 'kept' : 'a wheel off') : 'left'), isOne ? null : html('td', {}, row.track)))))));
  }
}

function log(title, lines, isOpen) {
  if (!lines?.length) return null;
  return html('details', { open: isOpen, class: 'log' }, html('summary', {}, `${title}, last lines`), html('pre', { tabindex: 0, role: 'log', 'aria-label': title }, lines.slice(-60).join('\n')));
}

// What a person can do to a running experiment: its pace, its life, its rewards.

import { control } from './api.js';
import { COMMANDS } from './messages.js';
import { button, choice, html, isNumber, number, toast, toggle, write } from './dom.js';

const SPEEDS = [['1', '1×'], ['2', '2×'], ['5', '5×'], ['20', '20×'], ['', 'Unlimited']];

/** Send the run a command; the page says what happened. Gives whether it worked. */
export async function act(id, command, values = {}, done = COMMANDS[command].done) {
  try {
    await control(id, command, values);
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(error.message, 'bad');
    return false;
  }
}

export class Controls {
  constructor(id, { onsaved = () => {} } = {}) {
    this.id = id;
    this.pause = button('Pause', () => act(id, this.isPaused ? 'resume' : 'pause'), { class: 'strong' });
    this.stop = button('Stop', () => this._stop());
    this.save = button('Save policy', async () => { if (await act(id, 'save')) onsaved(); });
    this.speed = choice('Simulation speed', SPEEDS, '', (text) => act(id, 'speed', { factor: text ? Number(text) : null }));
    this.explore = toggle('Exploration', true, (on) => act(id, 'explore', { on }), { class: 'chip' });
    this.drive = html('a', { class: 'button', href: `#/drive/${encodeURIComponent(id)}`, hidden: true }, 'Drive beside the agent');
    this.element = html('section', { class: 'card controls', 'aria-label': 'Controls' },
      html('div', { class: 'row' }, this.pause, this.save, this.stop), this.drive,
      html('div', { class: 'labelled' }, html('span', { class: 'soft small' }, 'Simulation speed'), this.speed),
      html('div', { class: 'labelled' }, html('span', { class: 'soft small' }, 'Actions'), this.explore));
    this.setCan([]);
  }

  /** can: names of the commands that the run understands now. */
  setCan(can) {
    const allow = (node, name) => { node.disabled = !can.includes(name); };
    allow(this.pause, 'pause');
    allow(this.stop, 'stop');
    allow(this.save, 'save');
    allow(this.explore, 'explore');
    this.drive.hidden = !can.includes('mode');
    for (const one of this.speed.children) allow(one, 'speed');
  }

  update(status) {
    this.isPaused = status.paused ?? status.status === 'paused';
    write(this.pause, this.isPaused ? 'Resume' : 'Pause');
    if (status.speed !== undefined) this.speed.select(status.speed === null ? '' : String(status.speed));
    if (status.explore !== undefined) this.explore.setAttribute('aria-pressed', String(status.explore));
  }

  _stop() {
    if (this.stop.dataset.sure) {
      act(this.id, 'stop');
      return this._relax();
    }
    this.stop.dataset.sure = 'yes';
    this.stop.classList.add('danger');
    write(this.stop, 'Really stop?');
    this._timer = setTimeout(() => this._relax(), 4000);
  }

  _relax() {
    clearTimeout(this._timer);
    delete this.stop.dataset.sure;
    this.stop.classList.remove('danger');
    write(this.stop, 'Stop');
  }
}

/** Sliders over the weights of the reward's terms; a change acts at once and becomes an event. */
export class Rewards {
  constructor(id) {
    this.id = id;
    this.rows = new Map();
    this.list = html('div', { class: 'rewards' });
    this.resting = html('details', { hidden: true }, html('summary', { class: 'soft small' }, 'Inactive terms (weight 0)'));
    this.element = html('section', { class: 'card', 'aria-label': 'Reward', hidden: true },
      html('h2', {}, 'Reward'), this.note = html('p', { class: 'soft small' }), this.list, this.resting);
  }

  setWeights(weights, isLive) {
    const names = Object.keys(weights ?? {});
    this.element.hidden = !names.length;
    write(this.note, `${isLive ? 'A new weight takes effect at once.' : 'Weights as they were last.'} Beside each term: its average contribution per episode.`);
    for (const name of names) {
      if (!this.rows.has(name)) this._add(name, weights[name]);
      const row = this.rows.get(name);
      row.slider.disabled = row.box.disabled = !isLive;
      if (document.activeElement !== row.slider && document.activeElement !== row.box) this._show(row, weights[name]);
    }
  }

  /** latest: metric -> value. */
  setPaid(latest) {
    for (const [name, row] of this.rows) {
      const paid = latest?.[`collect/reward_terms/${name}`];
      write(row.paid, isNumber(paid) ? `${paid > 0 ? '+' : ''}${number(paid, 3)}` : '');
      row.paid.className = paid > 0 ? 'paid good' : paid < 0 ? 'paid bad' : 'paid soft';
    }
  }

  _add(name, weight) {
    const most = Math.max(4 * Math.abs(weight), 1), label = name.replaceAll('_', ' ');
    const slider = html('input', { type: 'range', min: 0, max: most, step: most / 200, 'aria-label': `Weight of ${label}`,
      'data-term': name });
    const box = html('input', { type: 'number', step: 'any', 'aria-label': `Weight of ${label}, as a number` });
    const row = { slider, box, paid: html('span', { class: 'paid soft' }) };
    slider.addEventListener('input', () => { box.value = number(Number(slider.value)); });
    slider.addEventListener('change', () => this._send(name, Number(slider.value)));
    box.addEventListener('change', () => { if (box.value !== '') this._send(name, Number(box.value)); });
    this.rows.set(name, row);
    const place = weight === 0 ? this.resting : this.list;
    place.append(html('div', { class: 'reward' }, html('span', { class: 'term' }, label), slider, box, row.paid));
    this.resting.hidden = this.resting.children.length < 2;
    this._show(row, weight);
  }

  _show(row, weight) {
    if (weight > Number(row.slider.max)) row.slider.max = weight;
    row.slider.value = weight;
    row.box.value = String(Number(weight.toPrecision(4)));
  }

  async _send(term, weight) {
    const row = this.rows.get(term);
    this._show(row, weight);
    await act(this.id, 'reward', { term, weight });
  }
}

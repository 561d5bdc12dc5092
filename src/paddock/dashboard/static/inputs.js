// Hands on the wheel: keyboard, gamepad and touch become steer (-1..1, left positive), throttle and brake (0..1).

import { clamp, html } from './dom.js';

const KEYS = { ArrowLeft: 'left', KeyA: 'left', ArrowRight: 'right', KeyD: 'right', ArrowUp: 'gas', KeyW: 'gas',
  ArrowDown: 'brake', KeyS: 'brake', Space: 'brake' };
const TURN = 3.4, RETURN = 6, PRESS = 5; // full travel per second: turning in, back to the middle, the throttle
const DEAD_ZONE = 0.08, TOUCH_REACH = 70; // share of the stick, px for full lock
const TRIGGERS = { gas: 7, brake: 6 };

export class Inputs {
  constructor() {
    this.held = new Set();
    this.touch = { steer: 0, gas: 0, brake: 0 };
    this.steer = 0;
    this.throttle = 0;
    this.brake = 0;
    this.source = 'keyboard';
    this._stop = new AbortController();
    const { signal } = this._stop;
    addEventListener('keydown', (event) => this._key(event, true), { signal });
    addEventListener('keyup', (event) => this._key(event, false), { signal });
    addEventListener('blur', () => this.clear(), { signal });
    document.addEventListener('visibilitychange', () => document.hidden && this.clear(), { signal });
    this.element = this._touchControls();
  }

  close() {
    this._stop.abort();
  }

  /** Let go of everything; `oncleared` is told so that the car learns of it at once. */
  clear() {
    this.held.clear();
    this.touch = { steer: 0, gas: 0, brake: 0 };
    this.steer = this.throttle = this.brake = 0;
    this.oncleared?.();
  }

  /** Move the controls on by `elapsed` s. `speed` (m/s): at high speed the keys turn the wheel less far. */
  update(elapsed, speed) {
    const pad = this._pad();
    if (pad) return Object.assign(this, pad);
    const { held, touch } = this;
    if (touch.steer || touch.gas || touch.brake) return Object.assign(this, { steer: touch.steer, throttle: touch.gas, brake: touch.brake });
    const reach = clamp(1.15 - speed / 75, 0.35, 1);
    const target = reach * (Number(held.has('left')) - Number(held.has('right')));
    const rate = elapsed * (target === 0 || Math.sign(target) !== Math.sign(this.steer) ? RETURN : TURN);
    this.steer += clamp(target - this.steer, -rate, rate);
    this.throttle = held.has('gas') ? Math.min(1, this.throttle + PRESS * elapsed) : 0;
    this.brake = held.has('brake') ? Math.min(1, this.brake + PRESS * elapsed) : 0;
    return this;
  }

  _key(event, isDown) {
    const meaning = KEYS[event.code];
    const isTyping = event.target instanceof Element && event.target.closest('input, select, textarea, button');
    if (!meaning || event.ctrlKey || event.metaKey || event.altKey || (isTyping && isDown)) return;
    event.preventDefault();
    if (isDown) this.held.add(meaning);
    else this.held.delete(meaning);
    this.source = 'keyboard';
  }

  _pad() {
    const pad = [...(navigator.getGamepads?.() ?? [])].find((one) => one?.connected && one.axes.length);
    if (!pad) return null;
    const stick = pad.axes[0], push = Math.max(0, (Math.abs(stick) - DEAD_ZONE) / (1 - DEAD_ZONE));
    const steer = -Math.sign(stick) * push ** 1.6;
    const throttle = pad.buttons[TRIGGERS.gas]?.value ?? 0, brake = pad.buttons[TRIGGERS.brake]?.value ?? 0;
    if (!steer && !throttle && !brake && this.source !== 'gamepad') return null;
    this.source = this.held.size ? 'keyboard' : 'gamepad';
    return this.held.size ? null : { steer, throttle, brake };
  }

  _touchControls() {
    const knob = html('i', {}), pad = html('div', { class: 'touch-steer', 'aria-hidden': 'true' }, knob);
    let from = null;
    const steer = (value) => {
      this.touch.steer = value;
      knob.style.transform = `translateX(${-value * TOUCH_REACH * 0.6}px)`;
    };
    pad.addEventListener('pointerdown', (event) => { from = event.clientX; pad.setPointerCapture(event.pointerId); this.source = 'touch'; });
    pad.addEventListener('pointermove', (event) => { if (from !== null) steer(clamp((from - event.clientX) / TOUCH_REACH, -1, 1)); });
    for (const type of ['pointerup', 'pointercancel']) pad.addEventListener(type, () => { from = null; steer(0); });
    return html('div', { class: 'touch' }, pad, this._pedal('brake', 'Brake'), this._pedal('gas', 'Gas'));
  }

  _pedal(name, label) {
    const pedal = html('button', { type: 'button', class: `pedal ${name}`, tabindex: '-1' }, label);
    const press = (value) => (event) => {
      event.preventDefault();
      this.touch[name] = value;
      this.source = 'touch';
    };
    pedal.addEventListener('pointerdown', press(1));
    for (const type of ['pointerup', 'pointercancel', 'pointerleave']) pedal.addEventListener(type, press(0));
    pedal.addEventListener('contextmenu', (event) => event.preventDefault());
    return pedal;
  }
}

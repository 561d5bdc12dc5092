// Engine, tyres and the start's beeps, made by WebAudio. Off until a person switches it on; the choice is remembered.

import { clamp } from './dom.js';

const KEY = 'paddock.sound';
const IDLE = 42, REACH = 150; // Hz of the engine at rest, and more of it at the limit
const VOLUME = 0.16;

export function isWanted() {
  try {
    return localStorage.getItem(KEY) === 'on';
  } catch {
    return false;
  }
}

export class Sound {
  constructor() {
    this.isOn = false;
    this.level = 0; // of the tyres, for tests
    if (isWanted()) this._waitForAHand();
  }

  /** A browser lets a page sound only after a key or a press. */
  _waitForAHand() {
    this._waiting = new AbortController();
    const start = () => {
      this._waiting?.abort();
      this._start();
    };
    for (const type of ['pointerdown', 'keydown']) addEventListener(type, start, { signal: this._waiting.signal });
  }

  set(isOn) {
    try {
      localStorage.setItem(KEY, isOn ? 'on' : 'off');
    } catch { /* it lasts as long as the page */ }
    this._waiting?.abort();
    if (isOn) this._start();
    else this.close();
  }

  close() {
    this._waiting?.abort();
    this.isOn = false;
    this.context?.close();
    this.context = null;
  }

  _start() {
    if (this.context) return;
    const context = (this.context = new AudioContext());
    this.isOn = true;
    this.out = context.createGain();
    this.out.gain.value = VOLUME;
    this.out.connect(context.destination);
    this._engine(context);
    this._tyres(context);
  }

  _engine(context) {
    this.muffle = new BiquadFilterNode(context, { type: 'lowpass', frequency: 500, Q: 1.2 });
    this.engine = new GainNode(context, { gain: 0 });
    this.muffle.connect(this.engine).connect(this.out);
    this.voices = [[1, 'sawtooth', 0.5], [0.5, 'square', 0.32], [2.01, 'sawtooth', 0.2]].map(([ratio, type, gain]) => {
      const voice = new OscillatorNode(context, { type, frequency: IDLE * ratio }), loud = new GainNode(context, { gain });
      voice.connect(loud).connect(this.muffle);
      voice.start();
      return { voice, ratio };
    });
  }

  _tyres(context) {
    const noise = new AudioBuffer({ length: context.sampleRate, sampleRate: context.sampleRate }), samples = noise.getChannelData(0);
    for (let k = 0; k < samples.length; k += 1) samples[k] = 2 * Math.random() - 1;
    const source = new AudioBufferSourceNode(context, { buffer: noise, loop: true });
    this.squeal = new BiquadFilterNode(context, { type: 'bandpass', frequency: 900, Q: 5 });
    this.tyres = new GainNode(context, { gain: 0 });
    this.rumble = new BiquadFilterNode(context, { type: 'lowpass', frequency: 140 });
    this.grass = new GainNode(context, { gain: 0 });
    source.connect(this.squeal).connect(this.tyres).connect(this.out);
    source.connect(this.rumble).connect(this.grass).connect(this.out);
    source.start();
  }

  /** speed m/s; revs 0..1; throttle -1..1; slip 0..1; isOff: beside the road. Null: no car is followed. */
  update(car) {
    if (!this.isOn) return;
    const now = this.context.currentTime, to = (parameter, value, time = 0.05) => parameter.setTargetAtTime(value, now, time);
    if (!car) {
      this.level = 0;
      for (const one of [this.engine, this.tyres, this.grass]) to(one.gain, 0);
      return;
    }
    const pitch = IDLE + REACH * clamp(car.revs, 0, 1.1), load = clamp(car.throttle, 0, 1);
    for (const { voice, ratio } of this.voices) to(voice.frequency, pitch * ratio, 0.03);
    to(this.muffle.frequency, 320 + 900 * load + 900 * car.revs);
    to(this.engine.gain, 0.3 + 0.5 * load);
    this.level = car.slip;
    to(this.tyres.gain, 1.5 * car.slip ** 1.4);
    to(this.squeal.frequency, 760 + 6 * Math.min(car.speed, 60));
    to(this.grass.gain, car.isOff && car.speed > 3 ? 2.4 : 0);
  }

  /** A lamp of the start goes on; the last beep is higher. */
  beep(isLast) {
    if (!this.isOn) return;
    const now = this.context.currentTime, tone = new OscillatorNode(this.context, { frequency: isLast ? 880 : 440 });
    const loud = new GainNode(this.context, { gain: 0.5 });
    loud.gain.setTargetAtTime(0, now + (isLast ? 0.35 : 0.12), 0.03);
    tone.connect(loud).connect(this.out);
    tone.start(now);
    tone.stop(now + 0.8);
  }
}

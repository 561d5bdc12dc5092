// The last evaluation to watch in a running run's picture: its cars from their standing starts, in place of the training cars.

import { toast, toggle } from './dom.js';
import { bestLap, evaluationDrives, LapPlayback, play, runReplay } from './replay.js';

export class EvaluationReplay {
  /** view: the picture; onchange(isOn). */
  constructor(id, view, onchange = () => {}) {
    Object.assign(this, { id, view, onchange, isOn: false, isWanted: false });
    this.button = toggle('Last evaluation', false, (on) => this._set(on), { hidden: true, title: 'The cars of the last evaluation, from their standing starts' });
  }

  /** There is an evaluation, perhaps a new one. */
  offer() {
    this.button.hidden = false;
    if (this.isOn) this._show();
  }

  async _set(on) {
    this.isWanted = on;
    if (on) await this._show();
    else this.leave();
  }

  async _show() {
    try {
      const replay = await runReplay(this.id, 'latest'), cars = replay && (evaluationDrives(replay) ?? bestLap(replay));
      if (!this.isWanted) return; // it was left while the answer was on its way
      if (!cars) throw new Error('Nothing of the last evaluation was kept to be watched.');
      if (!this.isOn) this._before = { playback: this.view.playback, scene: this.view.scene, ghosts: new Map(this.view.ghosts) };
      this.isOn = true;
      this.view.fit();
      play(this.view, replay.scene, cars);
      this.onchange(true);
    } catch (error) {
      this.button.setAttribute('aria-pressed', String(this.isOn));
      toast(error.message, 'bad');
    }
  }

  /** Back to the training cars. */
  leave() {
    this.isWanted = false;
    if (!this.isOn) return;
    this.isOn = false;
    this.button.setAttribute('aria-pressed', 'false');
    const { playback, scene, ghosts } = this._before;
    this.view.fit();
    this.view.playback = playback instanceof LapPlayback ? this.view.playback : playback;
    if (scene) this.view.setScene(scene);
    for (const ghost of ghosts.values()) this.view.setGhost(ghost);
    this.onchange(false);
  }
}

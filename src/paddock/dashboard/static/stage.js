// The picture of a run with its switches: the racing world drawn here, any other world as a stream of frames.

import { streamAddress } from './api.js';
import { button, capital, html, replace, toggle } from './dom.js';
import { Hud } from './hud.js';
import { ghostColour } from './kit/ghosts.js';
import { speedColour } from './kit/ground.js';
import { car } from './snapshots.js';
import { ThirdView } from './third_view.js';
import { TrackView } from './track_view.js';

export class Stage {
  /** live: the connection that is told whom we follow. isDriving: the keys belong to the driver. */
  constructor(id, { isDriving = false, onframe = () => {} } = {}) {
    this.id = id;
    this.live = null;
    this.hud = new Hud();
    this.onframe = onframe;
    this.view = new TrackView({ line: isDriving, trails: !isDriving }, {
      isDriving, onfollow: (index) => this._followed(index), onframe: () => this._frame() });
    this.third = new ThirdView(this.view);
    this.message = html('p', { class: 'stage-message' }, 'Waiting for the first picture…');
    this.ghostLegend = html('span', { class: 'row' });
    this.speedLegend = html('span', { class: 'ramp', hidden: true }, html('span', {}, '0'), html('canvas', { width: 90, height: 8 }),
      html('span', {}));
    this.tools = html('div', { class: 'row stage-tools' }, this._switches(isDriving), this.ghostLegend, this.speedLegend);
    this.frame = html('div', { class: 'stage' }, this.view.element, this.hud.element, this.message, this._zoomers());
    this.element = html('div', {}, this.frame, this.tools);
    this._paintRamp();
  }

  close() {
    this.view.close();
    this.image?.removeAttribute('src');
  }

  setScene(scene) {
    this.kind = scene.kind;
    this.frame.classList.toggle('video', scene.kind !== 'racing');
    if (scene.kind !== 'racing') return this._showVideo();
    this.view.setScene(scene);
    this.rays.hidden = !scene.rays?.angles?.length;
    replace(this.speedLegend.lastChild, `${Math.round(3.6 * this.view.topSpeed)} km/h`);
    this._nameGhosts();
  }

  setGhost(ghost) {
    this.view.setGhost(ghost);
    this._nameGhosts();
  }

  push(snapshot) {
    this.view.push(snapshot);
    if (!this.message.hidden) this.message.hidden = true;
  }

  /** A sentence over the picture, and perhaps a link; null removes it. */
  say(text, ...more) {
    this.message.hidden = !text;
    if (text) replace(this.message, text, more);
  }

  get followedCar() {
    const { current } = this.view.playback;
    return current && this.view.followed !== null ? car(current, this.view.followed) : null;
  }

  _frame() {
    this.hud.update(this.followedCar, this.view.playback.current, this.title ?? `Car ${this.view.followed + 1}`);
    window.paddock.state.third = this.third.state;
    this.onframe(this);
  }

  _followed(index) {
    this.hud.reset();
    this.live?.wish({ type: 'follow', car: index });
    this.release.hidden = index === null;
    this.third.switch.hidden = index === null;
  }

  _switches(isDriving) {
    const { view } = this, { options } = view;
    const flag = (label, name) => toggle(label, options[name], (on) => {
      view.set({ [name]: on });
      if (name === 'rays') this.live?.wish({ type: 'rays', on });
      if (name === 'ghosts') this.ghostLegend.hidden = !on;
    });
    view.camera.turns = isDriving;
    const { third } = this;
    third.switch.hidden = !isDriving; // a view from a car needs one that is followed
    return [
      third.switch,
      flag('Ghosts', 'ghosts'), this.rays = flag('Rays', 'rays'), flag('Racing line', 'line'), isDriving ? null : flag('Trails', 'trails'),
      toggle('Speed colours', false, (on) => { view.set({ colour: on ? 'speed' : 'car' }); this.speedLegend.hidden = !on; }),
      toggle('Turn with the car', isDriving, (on) => { view.camera.turns = on; }),
      toggle('Sound', third.isSounding, (on) => third.sound.set(on)),
    ];
  }

  _zoomers() {
    this.release = button('Whole track', () => this.view.fit(), { class: 'small', hidden: true });
    return html('div', { class: 'zoomers' }, this.release,
      button('+', () => this.view.zoom(1.3), { 'aria-label': 'Closer', class: 'square' }),
      button('−', () => this.view.zoom(0.77), { 'aria-label': 'Farther', class: 'square' }),
      button('⤢', () => (this.view.isDriving ? this._full() : this.view.fit()),
        { 'aria-label': this.view.isDriving ? 'Full screen' : 'Show the whole track', class: 'square' }));
  }

  _full() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.frame.requestFullscreen?.().catch(() => {});
  }

  _nameGhosts() {
    replace(this.ghostLegend, [...this.view.ghosts.values()].map((ghost) => {
      const swatch = html('i', { class: 'swatch' });
      swatch.style.background = ghostColour(ghost.kind);
      return html('span', { class: 'key' }, swatch, capital(ghost.driver ?? ghost.kind));
    }));
  }

  _paintRamp() {
    const context = this.speedLegend.children[1].getContext('2d');
    for (let k = 0; k < 90; k += 1) {
      context.fillStyle = speedColour(k / 89);
      context.fillRect(k, 0, 1, 8);
    }
  }

  /** A new connection brings a new scene, and with it a new stream. */
  _showVideo() {
    this.say(null);
    this.tools.hidden = true;
    this.image?.remove();
    this.image = html('img', { class: 'video-frame', alt: 'Live frames of the environment',
      src: `${streamAddress(this.id)}&again=${Date.now()}` });
    this.image.addEventListener('error', () => this.say('No picture: this environment cannot be drawn, or the run has ended.'));
    this.image.addEventListener('load', () => this.image.classList.toggle('pale', isPale(this.image)));
    this.frame.prepend(this.image);
  }
}

/** Whether a picture is black on white, as drawings of simple environments are: its corners tell. */
function isPale(image) {
  const canvas = html('canvas', { width: 2, height: 2 }), context = canvas.getContext('2d');
  const { naturalWidth: wide, naturalHeight: high } = image, at = [[1, 1], [wide - 2, 1], [1, high - 2], [wide - 2, high - 2]];
  at.forEach(([x, y], k) => context.drawImage(image, x, y, 1, 1, k % 2, Math.floor(k / 2), 1, 1));
  return context.getImageData(0, 0, 2, 2).data.every((value) => value > 235);
}

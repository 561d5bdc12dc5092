// How far a run is: steps of how many, and the time that is left.

import { clamp, compact, duration, html, isNumber, write } from './dom.js';

const SMOOTH = 0.2; // share of the newest pace in the mean

/** Share done (0..1) and seconds left of a run, by whichever limit ends it first; null where there is no limit. */
export function remaining({ total_steps: total, max_seconds: longest } = {}, steps, seconds, pace) {
  const ends = [];
  if (isNumber(total) && total > 0) ends.push([steps / total, pace > 0 ? (total - steps) / pace : null]);
  if (isNumber(longest) && longest > 0) ends.push([seconds / longest, longest - seconds]);
  if (!ends.length) return { share: null, left: null };
  const known = ends.map(([, left]) => left).filter(isNumber);
  return { share: clamp(Math.max(...ends.map(([share]) => share)), 0, 1), left: known.length ? Math.max(Math.min(...known), 0) : null };
}

export class Progress {
  constructor(training) {
    this.training = training ?? {};
    this.bar = html('i', {});
    this.track = html('div', { class: 'bar-track', role: 'progressbar', 'aria-label': 'Progress of the run', 'aria-valuemin': 0, 'aria-valuemax': 100 }, this.bar);
    this.steps = html('span', {});
    this.left = html('span', { class: 'soft' });
    this.element = html('div', { class: 'progress' }, this.track, html('div', { class: 'row spread small' }, this.steps, this.left));
  }

  update({ agent_steps: steps = 0, seconds = 0, steps_per_second: pace }, isOver = false) {
    const newest = isNumber(pace) && pace > 0 ? pace : steps / seconds;
    this.pace = isNumber(this.pace) ? (1 - SMOOTH) * this.pace + SMOOTH * newest : newest;
    const { total_steps: total, max_seconds: longest } = this.training, { share, left } = remaining(this.training, steps, seconds, this.pace);
    const clock = isNumber(longest) && longest > 0 ? ` · ${duration(seconds)} of ${duration(longest)}` : '';
    write(this.steps, `${compact(steps)}${isNumber(total) ? ` of ${compact(total)}` : ''} steps${clock}`);
    write(this.left, isOver ? `took ${duration(seconds)}` : isNumber(left) ? `about ${duration(left)} left` : duration(seconds));
    this.track.hidden = share === null;
    if (share === null) return;
    this.bar.style.width = `${(100 * share).toFixed(1)}%`;
    this.track.setAttribute('aria-valuenow', Math.round(100 * share));
    this.track.setAttribute('aria-valuetext', `${this.steps.textContent}, ${this.left.textContent}`);
  }
}

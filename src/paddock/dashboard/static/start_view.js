// A new run: an experiment from groups of cards, then track, car, reward, algorithm, seed and time as pickers.

import { get, post } from './api.js';
import { field, html, replace, toast } from './dom.js';
import { experimentPicture } from './experiment_pictures.js';

const FIRST = 'racing', SHIPPED = 'shipped', OWN = 'mine';
const NARROW = 860; // px up to which the options stand below the cards, so that most groups are folded
const AS_IT_IS = 'as the experiment says';

export async function openStart(main, { query }) {
  document.title = 'Start a run · Paddock';
  const [options, tracks] = await Promise.all([get('/api/options'), get('/api/tracks').catch(() => [])]);
  const page = new StartPage(options, tracks, query.get('experiment') || FIRST);
  replace(main, page.element);
  return () => {};
}

class StartPage {
  constructor(options, tracks, wanted) {
    Object.assign(this, { options, tracks });
    this.name = html('input', { type: 'text', id: 'run-name', autocomplete: 'off', placeholder: 'same as the experiment', maxlength: 64 });
    this.seed = html('input', { type: 'number', id: 'run-seed', min: 0, step: 1, placeholder: '1' });
    this.overrides = html('textarea', { id: 'run-overrides', rows: 3, spellcheck: 'false', autocapitalize: 'off', placeholder: 'one per line, for example\ntraining.max_seconds=120' });
    this.problem = html('div', { class: 'problem', role: 'alert', hidden: true });
    this.status = html('p', { class: 'soft small', role: 'status' });
    this.start = html('button', { class: 'strong', type: 'submit' }, 'Start');
    this.pickers = this._pickers();
    this.chosenName = html('b', {});
    this.summary = html('p', { class: 'soft small' });
    this.form = html('form', { class: 'start' }, this._cards(wanted), this._aside());
    this.form.addEventListener('change', () => this._show());
    this.form.addEventListener('submit', (event) => { event.preventDefault(); this._submit(); });
    this.element = html('div', {}, html('header', { class: 'head' }, html('div', {}, html('h1', {}, 'Start a run'),
      html('p', { class: 'soft' }, 'The run is a separate process: it continues when you close this page or stop the server.'))), this.form);
    this._show();
  }

  _aside() {
    const more = html('details', { open: true }, html('summary', { class: 'small' }, 'More options'),
      field('Name', this.name), field('Overrides', this.overrides, 'Numbers and known words, as on the command line. Keys that name files, code or commands can be set there only.'));
    return html('aside', { class: 'card sticky start-options' }, html('h2', {}, 'Options for ', this.chosenName), this.summary,
      ...Object.values(this.pickers).map(({ row }) => row), field('Seed', this.seed), more, this.problem, html('div', { class: 'row go' }, this.start, this.status));
  }

  /** Menus by the key that each sets; an empty choice leaves the experiment as it is. */
  _pickers() {
    const { rewards, algorithms, cars, mine } = this.options, usable = this.tracks.filter((track) => !track.error);
    const own = mine?.rewards ?? [];
    return {
      track: picker('Track', usable.map(({ name, title }) => [name, title ?? name]), { isRacing: true }),
      car: picker('Car', cars.map((name) => [name, name]), { isRacing: true }),
      reward: picker('Reward', rewards.map(({ name, description }) => [name, name, description]), { isRacing: true,
        more: own.length ? [`Your folder “${mine.folder}”`, own.map(({ name, description }) => [`${OWN}/${name}`, name, description])] : null }),
      algorithm: picker('Algorithm', algorithms.map(({ name, description }) => [name, name, description])),
      time: picker('Learn for at most', [[60, '1 minute'], [180, '3 minutes'], [600, '10 minutes'], [3600, '1 hour']]),
    };
  }

  _cards(wanted) {
    const { groups, experiments, mine } = this.options, box = html('div', { class: 'experiments', role: 'radiogroup', 'aria-label': 'Experiment' });
    const isKnown = experiments.some(({ name, install }) => name === wanted && !install), first = isKnown ? wanted : FIRST;
    const isWide = innerWidth > NARROW, groupOf = (chosen) => (recommended.some(({ name }) => name === chosen) ? null : experiments.find(({ name }) => name === chosen)?.group);
    const recommended = experiments.filter((one) => one.is_recommended && !one.install);
    const add = (title, text, members, isOpen = true) => members.length && box.append(html('details', { class: 'group', open: isOpen },
      html('summary', {}, html('h2', {}, title), html('span', { class: 'soft small' }, text)),
      html('div', { class: 'cards' }, members.map((one) => this._card(one, one.name === first && !box.querySelector('input:checked'))))));
    add('Recommended', 'Good ones to begin with; the first takes about two minutes.', recommended.sort((a, b) => (a.minutes ?? 99) - (b.minutes ?? 99)).sort((a, b) => Number(b.name === FIRST) - Number(a.name === FIRST)));
    if (mine) {
      add('Yours', `Experiments of your folder “${mine.folder}”.`, mine.experiments.map((one) => ({ ...one, isOwn: true })));
      if (mine.problems.length) box.append(html('ul', { class: 'problem' }, mine.problems.map((text) => html('li', {}, text))));
    }
    for (const { name, title, text } of groups)
      add(title, text, experiments.filter((one) => one.group === name && !recommended.includes(one)), isWide || name === groupOf(first));
    return box;
  }

  _card(experiment, isChosen) {
    const { name, description, minutes, difficulty, install, isOwn } = experiment;
    const input = html('input', { type: 'radio', name: 'experiment', value: name, 'data-from': isOwn ? OWN : SHIPPED, disabled: Boolean(install) });
    input.checked = isChosen;
    const facts = [minutes ? time(minutes) : null, difficulty].filter(Boolean).join(' · ');
    return html('label', { class: `option with-picture${install ? ' missing' : ''}` }, input, experimentPicture(experiment),
      html('b', {}, name), html('span', { class: 'soft small' }, description), facts ? html('span', { class: 'small facts' }, facts) : null,
      install ? html('span', { class: 'small install' }, 'Needs an extra: ', html('code', {}, install)) : null);
  }

  get chosen() {
    const input = this.form.querySelector('input[name=experiment]:checked'), isOwn = input?.dataset.from === OWN;
    const known = isOwn ? this.options.mine.experiments : this.options.experiments;
    return input ? { isOwn, ...known.find(({ name }) => name === input.value) } : null;
  }

  /** What the chosen experiment has by itself stands in the pickers; those that do not fit are hidden. */
  _show() {
    const { chosen } = this;
    if (!chosen) return;
    this.chosenName.textContent = chosen.name;
    this.summary.textContent = chosen.description ?? '';
    const own = { track: chosen.track, car: chosen.car, reward: chosen.reward, algorithm: chosen.workflow };
    for (const [key, { row, menu, isRacing }] of Object.entries(this.pickers)) {
      row.hidden = isRacing && !chosen.is_racing && !chosen.isOwn;
      if (row.hidden) menu.value = '';
      menu.options[0].textContent = key === 'time' ? AS_IT_IS : typeof own[key] === 'string' ? `${own[key]} (${AS_IT_IS})` : AS_IT_IS;
    }
  }

  _values() {
    const { chosen, pickers } = this, overrides = [], values = chosen.isOwn ? { own_experiment: chosen.name } : { experiment: chosen.name };
    const add = (key, value) => { if (value) overrides.push(`${key}=${value}`); };
    const { track, car, reward, algorithm, time: longest } = Object.fromEntries(Object.entries(pickers).map(([key, { menu }]) => [key, menu.value]));
    add('workflow', algorithm);
    if (reward.startsWith(`${OWN}/`)) values.own_reward = reward.slice(OWN.length + 1);
    else add('reward', reward);
    add('environment.track', track);
    add('environment.car', car);
    add('training.max_seconds', longest);
    if (this.name.value.trim()) values.name = this.name.value.trim();
    if (this.seed.value !== '') values.seed = Number(this.seed.value);
    return { ...values, overrides: [...overrides, ...this.overrides.value.split('\n').map((line) => line.trim()).filter(Boolean)] };
  }

  async _submit() {
    this.start.disabled = true;
    this.problem.hidden = true;
    this.status.classList.add('busy');
    this.status.textContent = 'Checking the configuration, then starting…';
    try {
      const { id } = await post('/api/runs', this._values());
      toast('The run is starting.');
      location.hash = `#/run/${encodeURIComponent(id)}`;
    } catch (error) {
      replace(this.problem, problemList(error.message));
      this.problem.hidden = false;
      this.problem.scrollIntoView({ block: 'nearest' });
    } finally {
      this.start.disabled = false;
      this.status.classList.remove('busy');
      this.status.textContent = '';
    }
  }
}

/** A menu; choices: [value, label, hint?]. more: [label, choices] of a second group. */
function picker(label, choices, { isRacing = false, more = null } = {}) {
  const option = ([value, text, hint]) => html('option', { value, title: hint || null }, text);
  const menu = html('select', { 'aria-label': label }, html('option', { value: '' }, AS_IT_IS), choices.map(option),
    more ? html('optgroup', { label: more[0] }, more[1].map(option)) : null);
  return { menu, isRacing, row: field(label, menu) };
}

const time = (minutes) => (minutes < 1 ? `${Math.round(60 * minutes)} s` : minutes < 60 ? `about ${minutes} min` : `about ${minutes / 60} h`);

/** The server's sentence, and the points below it as a list. */
export function problemList(text) {
  const points = [];
  let title = '';
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    if (/^[-•*] /.test(line)) points.push(line.slice(2));
    else if (points.length) points[points.length - 1] += ` ${line}`;
    else title = title ? `${title} ${line}` : line;
  }
  return [html('p', {}, title), points.length ? html('ul', {}, points.map((point) => html('li', {}, point))) : null];
}

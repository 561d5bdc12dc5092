// A new run from an experiment that ships, with whatever should differ.

import { get, post } from './api.js';
import { button, field, html, onSubmit, replace, toast } from './dom.js';

const EXAMPLES = ['training.max_seconds=120', 'environment.track=oval', 'workflow=sac', 'reward=racing_line'];

export async function openStart(main, { query }) {
  document.title = 'Start a run · Paddock';
  const experiments = await get('/api/experiments');
  const name = html('input', { type: 'text', id: 'run-name', autocomplete: 'off', placeholder: 'same as the experiment', maxlength: 80 });
  const seed = html('input', { type: 'number', id: 'run-seed', min: 0, step: 1, placeholder: '1' });
  const overrides = html('textarea', { id: 'run-overrides', rows: 4, spellcheck: 'false', autocapitalize: 'off',
    placeholder: 'one per line, for example\ntraining.max_seconds=120' });
  const problem = html('p', { class: 'problem', role: 'alert', hidden: true });
  const start = html('button', { class: 'strong', type: 'submit' }, 'Start');
  const cards = html('div', { class: 'experiments', role: 'radiogroup', 'aria-label': 'Experiment' });

  const groups = [['Racing', (one) => one.is_racing], ['Other environments', (one) => !one.is_racing]];
  const first = query.get('experiment') ?? experiments.find((one) => one.name === 'racing')?.name ?? experiments[0]?.name;
  for (const [title, belongs] of groups) {
    const members = experiments.filter(belongs);
    if (members.length) cards.append(html('h2', {}, title), html('div', { class: 'cards' }, members.map((one) => card(one, first))));
  }
  const form = html('form', { class: 'start' }, cards, html('aside', { class: 'card sticky' }, html('h2', {}, 'Options'),
    field('Name', name), field('Seed', seed),
    field('Overrides', overrides, 'Numbers and known words, as on the command line. Keys that name files, code or commands can be set there only.'),
    html('div', { class: 'row' }, EXAMPLES.map((text) => button(text, () => add(text), { class: 'chip small' }))),
    problem, html('div', { class: 'row' }, start)));

  function add(text) {
    const lines = overrides.value.split('\n').filter((line) => line.trim());
    if (!lines.includes(text)) overrides.value = [...lines, text].join('\n');
    overrides.focus();
  }

  onSubmit(form, problem, async () => {
    const values = { experiment: form.querySelector('input[name=experiment]:checked')?.value,
      overrides: overrides.value.split('\n').map((line) => line.trim()).filter(Boolean) };
    if (name.value.trim()) values.name = name.value.trim();
    if (seed.value !== '') values.seed = Number(seed.value);
    const { id } = await post('/api/runs', values);
    toast('The run is starting.');
    location.hash = `#/run/${encodeURIComponent(id)}`;
  });
  replace(main, html('header', { class: 'head' }, html('div', {}, html('h1', {}, 'Start a run'),
    html('p', { class: 'soft' }, 'The run is a separate process: it continues when you close this page or stop the server.'))), form);
  return () => {};
}

function card(experiment, first) {
  const input = html('input', { type: 'radio', name: 'experiment', value: experiment.name });
  input.checked = experiment.name === first;
  return html('label', { class: 'option' }, input, html('b', {}, experiment.name), html('span', { class: 'soft small' }, experiment.description));
}

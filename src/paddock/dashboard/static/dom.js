// Pieces of the pit wall's views. Elements and numbers come from the kit that reports use as well.

import { html } from './kit/elements.js';

export * from './kit/elements.js';
export * from './kit/numbers.js';

export const prefersStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** A sentence that appears for a moment; problems stay longer. */
export function toast(text, kind = 'good') {
  const box = document.getElementById('toasts');
  const note = html('p', { class: `toast ${kind}` }, text);
  box.append(note);
  while (box.children.length > 4) box.firstChild.remove();
  setTimeout(() => note.remove(), kind === 'bad' ? 9000 : 4000);
}

/** A place that has nothing to show says why, and what to do. */
export function empty(title, text, ...actions) {
  return html('div', { class: 'empty' }, html('h2', {}, title), html('p', { class: 'soft' }, text),
    actions.length ? html('p', { class: 'row centre' }, actions) : null);
}

export const button = (label, onclick, attributes = {}) => html('button', { type: 'button', onclick, ...attributes }, label);

/** A button that stays pressed. */
export function toggle(label, isOn, onchange, attributes = {}) {
  const node = button(label, () => {
    const on = node.getAttribute('aria-pressed') !== 'true';
    node.setAttribute('aria-pressed', String(on));
    onchange(on);
  }, { class: 'chip', 'aria-pressed': String(isOn), ...attributes });
  return node;
}

/** Buttons of which one is pressed; choices: [[value, label]…]. `select(value)` presses without telling. */
export function choice(label, choices, value, onchange) {
  const group = html('div', { class: 'choice', role: 'group', 'aria-label': label });
  group.select = (chosen) => {
    for (const one of group.children) one.setAttribute('aria-pressed', String(one.dataset.value === String(chosen)));
  };
  for (const [name, text] of choices)
    group.append(button(text, () => { group.select(name); onchange(name); }, { 'data-value': String(name) }));
  group.select(value);
  return group;
}

export function field(label, control, hint = null) {
  return html('label', { class: 'field' }, html('span', {}, label), control, hint ? html('small', { class: 'soft' }, hint) : null);
}

/** What a form does when it is sent; a failure is told in `problem`, and the form can be sent again. */
export function onSubmit(form, problem, task) {
  const sender = form.querySelector('[type=submit]');
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    sender.disabled = true;
    problem.hidden = true;
    try {
      await task();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      sender.disabled = false;
    }
  });
}

export const statusChip = (status) => html('span', { class: `status ${status}` }, status);

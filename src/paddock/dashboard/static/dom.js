// Elements, and numbers as people read them.

/** Make an element: attributes by name, `on…` are listeners, true and false switch, children may be nested lists. */
export function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'value') node.value = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child));
  return node;
}

/** Change text only where it differs: a page at 60 Hz must not touch what stays. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
export const prefersStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

export function number(value, digits = 4) {
  if (!isNumber(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e4) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(digits)));
}

export function compact(value) {
  if (!isNumber(value)) return '–';
  for (const [unit, scale] of [['G', 1e9], ['M', 1e6], ['k', 1e3]])
    if (Math.abs(value) >= scale) return `${Number((value / scale).toPrecision(3))}${unit}`;
  return number(value, 3);
}

export function duration(seconds) {
  if (!isNumber(seconds)) return '–';
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${String(Math.floor(seconds % 60)).padStart(2, '0')} min`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')} h`;
}

/** `1:23.456`, or dashes where there is no time. */
export function lapTime(seconds, digits = 3) {
  if (!isNumber(seconds) || seconds <= 0) return '-:--.---'.slice(0, 5 + digits);
  const scale = 10 ** digits, whole = Math.round(seconds * scale), minute = 60 * scale;
  const rest = (whole % minute) / scale;
  return `${Math.floor(whole / minute)}:${rest.toFixed(digits).padStart(digits + 3, '0')}`;
}

export function delta(seconds, digits = 3) {
  if (!isNumber(seconds)) return '';
  return `${seconds < 0 ? '−' : '+'}${Math.abs(seconds).toFixed(digits)}`;
}

export function ago(moment, now = Date.now()) {
  const seconds = (now - new Date(moment).getTime()) / 1000;
  if (!isNumber(seconds)) return '';
  if (seconds < 60) return 'just now';
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
    const count = Math.floor(seconds / size);
    if (count >= 1) return `${count} ${unit}${count > 1 ? 's' : ''} ago`;
  }
  return '';
}

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

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const statusChip = (status) => html('span', { class: `status ${status}` }, status);

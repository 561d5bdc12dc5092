// Dark or light: the system's wish until a person chooses here.

const wish = matchMedia('(prefers-color-scheme: light)');
const listeners = new Set();
let chosen = remembered();
let current = 'dark';

export const theme = () => current;

/** A page that is opened as a file may have no storage. */
function remembered() {
  try {
    return localStorage.getItem('paddock.theme');
  } catch {
    return null;
  }
}

function remember(name) {
  try {
    localStorage.setItem('paddock.theme', name);
  } catch { /* it lasts as long as the page */ }
}

/** Calls `listener(theme)` after each change; gives a function that ends it. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function apply() {
  current = chosen ?? (wish.matches ? 'light' : 'dark');
  document.documentElement.dataset.theme = current;
  for (const listener of listeners) listener(current);
}

export function startTheme(switcher) {
  wish.addEventListener('change', apply);
  switcher.addEventListener('click', () => {
    chosen = current === 'dark' ? 'light' : 'dark';
    remember(chosen);
    apply();
  });
  apply();
}

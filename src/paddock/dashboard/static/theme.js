// Dark or light: the system's wish until a person chooses here.

const wish = matchMedia('(prefers-color-scheme: light)');
const listeners = new Set();
let chosen = localStorage.getItem('paddock.theme');
let current = 'dark';

export const theme = () => current;

/** Told after each change of theme; gives a function that ends it. */
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
    localStorage.setItem('paddock.theme', chosen);
    apply();
  });
  apply();
}

// Elements of a page.

const SVG = 'http://www.w3.org/2000/svg';

/** Attributes by name: `on…` are listeners, true and false switch, null is left out. Children may be nested lists. */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'value') node.value = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child));
  return node;
}

/** Change text only where it differs: a page at 60 Hz must not touch what stays. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

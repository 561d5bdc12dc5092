// What can be done with a curve besides looking at it: smoothing, a file of its picture, a file of its numbers.

import { button, html, toast } from './dom.js';

/** Exponential moving average, free of the pull to the first value; weight 0 leaves the curve as it is. */
export function smoothed(values, weight) {
  if (!weight) return values;
  let sum = 0, total = 0;
  return values.map((value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Columns as comma-separated values; columns: [[title, values]…]. */
export function csv(columns) {
  const lines = [columns.map(([title]) => quoted(title)).join(',')];
  for (let k = 0; k < columns[0][1].length; k += 1) lines.push(columns.map(([, values]) => values[k] ?? '').join(','));
  return `${lines.join('\n')}\n`;
}

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  html('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A picture of a plot on the page's own ground, with its title. */
function picture(plot, title) {
  const source = plot.ctx.canvas, ratio = devicePixelRatio || 1, head = 28 * ratio;
  const canvas = html('canvas', { width: source.width, height: source.height + head });
  const context = canvas.getContext('2d'), colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  context.fillStyle = colour('--card');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = colour('--ink');
  context.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  context.fillText(title, 8 * ratio, 19 * ratio);
  context.drawImage(source, 0, head);
  return canvas;
}

/** Buttons of one panel. plot(): the panel's plot now; columns(): its numbers, unsmoothed. */
export function panelTools(title, holder, { plot, columns }) {
  const file = title.replace(/[^\w]+/g, '_').toLowerCase();
  const full = async () => {
    if (document.fullscreenElement) return document.exitFullscreen();
    return holder.requestFullscreen().catch(() => toast('This browser shows nothing in full screen.', 'bad'));
  };
  const tool = (label, does, meaning) => button(label, does, { class: 'small quiet', title: meaning, 'aria-label': `${label} of ${title}` });
  return html('span', { class: 'panel-tools' },
    button('⤢', full, { class: 'small quiet', title: 'Full screen', 'aria-label': `Full screen: ${title}` }),
    tool('PNG', () => picture(plot(), title).toBlob((blob) => save(blob, `${file}.png`)), 'Save the picture'),
    tool('CSV', () => save(new Blob([csv(columns())], { type: 'text/csv' }), `${file}.csv`), 'Save the numbers'));
}

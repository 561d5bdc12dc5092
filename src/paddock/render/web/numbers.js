// Numbers as people read them.

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

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

/** Seconds in the unit that fits them, as an axis shows them. */
export function clock(seconds) {
  const size = Math.abs(seconds);
  if (size < 120) return `${Number(seconds.toPrecision(3))} s`;
  return size < 7200 ? `${Number((seconds / 60).toPrecision(3))} min` : `${Number((seconds / 3600).toPrecision(3))} h`;
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

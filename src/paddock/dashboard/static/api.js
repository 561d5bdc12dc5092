// Questions to the server. Its own sentence is what a failure says; the server being away is a failure of its own.

const listeners = new Set();
let isReachable = true;

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Told whenever the server goes away or returns; gives a function that ends it. */
export function onReachable(listener) {
  listeners.add(listener);
  listener(isReachable);
  return () => listeners.delete(listener);
}

export function setReachable(value) {
  if (value === isReachable) return;
  isReachable = value;
  for (const listener of listeners) listener(value);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', ...options });
  } catch {
    setReachable(false);
    throw new ApiError('The server does not answer. Is `paddock dashboard` still running?', 0);
  }
  setReachable(true);
  const values = await response.json().catch(() => null);
  if (response.ok) return values;
  if (response.status === 401)
    throw new ApiError('This page needs the token: open the address that `paddock dashboard` printed.', 401);
  throw new ApiError(values?.error ?? `The server answered with ${response.status}.`, response.status);
}

export const get = (path) => ask(path);
export const post = (path, values) => ask(path, {
  method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(values),
});

const run = (id) => `/api/runs/${encodeURIComponent(id)}`;
export const runDetails = (id) => get(run(id));
export const runPolicies = (id) => get(`${run(id)}/policies`);
export const control = (id, command, values = {}) => post(`${run(id)}/control`, { command, ...values });
export function runMetrics(id, names, axis, points = 2000) {
  const query = new URLSearchParams({ names: names.join(','), axis, points });
  return get(`${run(id)}/metrics?${query}`);
}
export const liveAddress = (id) => `${location.origin.replace(/^http/, 'ws')}${run(id)}/live`;
export const streamAddress = (id) => `/stream.mjpg?run=${encodeURIComponent(id)}`;

/** Call `task` now and every `seconds` while the page is seen; failures are handed to `onerror`. Gives a stop. */
export function repeat(task, seconds, onerror = () => {}) {
  let timer = null, isStopped = false;
  const turn = async () => {
    if (!document.hidden) await task().catch(onerror);
    if (!isStopped) timer = setTimeout(turn, seconds * 1000);
  };
  turn();
  return () => { isStopped = true; clearTimeout(timer); };
}

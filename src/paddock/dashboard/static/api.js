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

async function send(path, options) {
  try {
    const response = await fetch(path, { credentials: 'same-origin', ...options });
    return { response, values: await response.json().catch(() => null) };
  } catch {
    setReachable(false);
    throw new ApiError('The server does not answer. Is `paddock dashboard` still running?', 0);
  }
}

async function ask(path, options) {
  if (!isReachable) await comeBack();
  let { response, values } = await send(path, options);
  if (response.status === 401 && (await comeBack())) ({ response, values } = await send(path, options));
  setReachable(true);
  if (response.ok) return values;
  if (response.status === 401)
    throw new ApiError('This page needs the token: open the address that `paddock dashboard` printed.', 401);
  throw new ApiError(values?.error ?? `The server answered with ${response.status}.`, response.status);
}

// A restarted server has another token. A page that was let in before proves that it was, with a key that it never sends:
// whoever else has taken the port meanwhile learns nothing.
let pass = null, returning = null;

/** Fetch what the page can come back with; without it, as in browsers that hash for secure pages only, it cannot. */
export async function rememberPass() {
  if (globalThis.crypto?.subtle) pass = await get('/api/return/key').catch(() => null);
}

async function proofOf({ key, challenge }) {
  const bytes = new TextEncoder(), algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const secret = await crypto.subtle.importKey('raw', bytes.encode(key), algorithm, false, ['sign']);
  const signed = new Uint8Array(await crypto.subtle.sign('HMAC', secret, bytes.encode(challenge)));
  return [...signed].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function returnToServer() {
  const { challenge } = (await send('/api/return')).values ?? {};
  if (!pass || !challenge || challenge === pass.challenge) return false;
  const body = JSON.stringify({ proof: await proofOf({ key: pass.key, challenge }) });
  const { response } = await send('/api/return', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  if (response.ok) pass = { ...pass, challenge };
  return response.ok;
}

/** Be let in by a server that was restarted; whether that was needed and succeeded. */
export function comeBack() {
  returning ??= returnToServer().finally(() => { returning = null; });
  return returning;
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
export const shareAddress = (id) => `${run(id)}/share`;
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

// One socket to one run: scenes, snapshots, events in; wishes and steering out. It comes back by itself.

import { comeBack, liveAddress, setReachable } from './api.js';
import { REFUSED } from './messages.js';
import { decode } from './snapshots.js';

const FIRST_PAUSE = 300, LONGEST_PAUSE = 3000; // ms
const UNKNOWN_RUN = REFUSED + 404;

export class Live {
  /** handlers: by message type, and `snapshot(snapshot)`, `link(isOpen)`, `unknown()`. */
  constructor(id, handlers) {
    this.id = id;
    this.handlers = handlers;
    this.wishes = {}; // what the server has to be told again after a reconnect, by type
    this.pause = FIRST_PAUSE;
    this.latency = null; // ms there and back, the quickest of the last few
    this._trips = [];
    this._isClosed = false;
    this._open();
    this._pings = setInterval(() => this.send({ type: 'ping', t: performance.now() }), 2000);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(message) {
    if (this.isOpen && this.socket.bufferedAmount < 4096) this.socket.send(JSON.stringify(message));
  }

  /** A message that stays true: said now, and again whenever the connection is new. */
  wish(message) {
    this.wishes[message.type] = message;
    this.send(message);
  }

  close() {
    this._isClosed = true;
    clearTimeout(this._timer);
    clearInterval(this._pings);
    const { socket } = this;
    socket.onmessage = null;
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(); // at once, browsers complain
    else socket.close();
  }

  _open() {
    this.socket = new WebSocket(liveAddress(this.id));
    this.socket.binaryType = 'arraybuffer';
    let wasOpen = false;
    this.socket.onopen = () => {
      wasOpen = true;
      this.pause = FIRST_PAUSE;
      setReachable(true);
      this._tell('link', true);
      for (const wish of Object.values(this.wishes)) this.send(wish);
    };
    this.socket.onmessage = ({ data }) => this._hear(data);
    this.socket.onclose = ({ code }) => {
      if (this._isClosed) return;
      this._tell('link', false);
      if (code === UNKNOWN_RUN) return this._tell('unknown');
      if (!wasOpen) setReachable(false);
      this._retry();
    };
  }

  /** Open again after a pause; a server that is not there, or has not let the page in again, is not asked for a socket. */
  _retry() {
    this._timer = setTimeout(() => comeBack().then(() => { if (!this._isClosed) this._open(); },
      () => { if (!this._isClosed) this._retry(); }), this.pause);
    this.pause = Math.min(this.pause * 1.6, LONGEST_PAUSE);
  }

  _hear(data) {
    if (data instanceof ArrayBuffer) {
      const snapshot = decode(data);
      if (snapshot) this._tell('snapshot', snapshot);
      return;
    }
    const message = JSON.parse(data);
    if (message.type !== 'pong') return this._tell(message.type, message);
    this._trips = [...this._trips.slice(-4), performance.now() - message.t];
    this.latency = Math.min(...this._trips);
  }

  _tell(type, message) {
    this.handlers[type]?.(message);
  }
}

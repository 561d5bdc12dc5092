// Written by `python -m paddock.dashboard.page_messages` from control/messages.py; not to be edited.

export const COMMANDS = {
  "pause": {"done": "Paused.", "arguments": {}},
  "resume": {"done": "Running again.", "arguments": {}},
  "stop": {"done": "Stopping: the run saves, then ends.", "arguments": {}},
  "save": {"done": "Policy saved.", "arguments": {"name": {"needed": false, "nullable": true}}},
  "load": {"done": "Policy loaded.", "arguments": {"policy": {"needed": true, "nullable": false}}},
  "speed": {"done": "", "arguments": {"factor": {"needed": true, "nullable": true, "least": 0.05, "most": 1000.0}}},
  "explore": {"done": "", "arguments": {"on": {"needed": true, "nullable": false}}},
  "reward": {"done": "", "arguments": {"term": {"needed": true, "nullable": false}, "weight": {"needed": true, "nullable": false, "least": -1000000000000.0, "most": 1000000000000.0}}},
  "mode": {"done": "", "arguments": {"mode": {"needed": true, "nullable": false}, "assist": {"needed": false, "nullable": true, "least": 0.0, "most": 1.0}}},
  "reset": {"done": "", "arguments": {}},
  "ghost": {"done": "", "arguments": {"kind": {"needed": true, "nullable": false}, "on": {"needed": true, "nullable": false}}},
};
export const MODES = ["manual", "assisted", "ai"];
export const EVENTS = {
  "alert": "bad",
  "alert_undelivered": "bad",
  "cleanup": "",
  "continued": "",
  "control": "",
  "correction": "",
  "evaluation": "good",
  "failed": "bad",
  "finished": "good",
  "lap": "good",
  "opponent_put_back": "",
  "paused": "",
  "phase": "",
  "resumed": "",
  "stopped": "",
  "worker_replaced": "bad",
};
export const REFUSED = 4000;
export const FASTEST_RATE = 60;
export const SNAPSHOT_VERSION = 1;
export const HEADER = {
  "version": [0, "getUint8"],
  "flags": [1, "getUint8"],
  "cars": [2, "getUint16"],
  "rays": [4, "getUint16"],
  "followed": [6, "getUint16"],
  "time": [8, "getFloat64"],
  "wall": [16, "getFloat64"],
  "sequence": [24, "getUint32"],
  "dials": [28, "getUint32"],
};
export const HEADER_SIZE = 32;
export const HAS_RAYS = 1;
export const NO_CAR = 65535;
export const COLUMNS = ["x", "y", "heading", "speed", "steer", "throttle", "progress", "lapTime", "lastLap", "state"];
export const OFF_TRACK = 1;
export const RESTARTED = 2;
export const HUMAN = 4;

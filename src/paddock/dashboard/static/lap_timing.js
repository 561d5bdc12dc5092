// How a lap under way stands against others: the reference, the classical driver, the agent, a person's best.

import { LapTable } from './kit/lap_table.js';

/** Follows one car round: its sectors so far, its laps, and the gap to every table at this moment. */
export class LapTiming {
  constructor() {
    this.tables = new Map();
    this.bounds = [];
    this.laps = [];
    this.restart();
  }

  setScene(scene, circuit) {
    this.circuit = circuit;
    this.bounds = (scene.sectors ?? []).map((along) => along / circuit.length).filter((share) => share > 0.01 && share < 0.99);
    this.tables.clear();
    this.restart();
  }

  setGhost(ghost) {
    if (this.circuit && ghost.x.length > 3) this.tables.set(ghost.kind, new LapTable(ghost, this.circuit));
  }

  restart() {
    this.sectors = [];
    this.before = null;
  }

  /** car: see `snapshots.car`. Gives the gaps in s by kind of table; negative is ahead. */
  update({ progress, lapTime }) {
    const { before } = this;
    if (before && (lapTime < before.lapTime - 0.5 || progress < before.progress - 0.5)) this.sectors = [];
    else if (before) this._cross(before, progress, lapTime);
    this.before = { progress, lapTime };
    const gaps = {};
    const isUnderWay = lapTime > 0.3 && progress > 0.002 && !(progress > 0.9 && lapTime < 0.3 * this.quickest);
    if (isUnderWay) for (const [kind, table] of this.tables) gaps[kind] = lapTime - table.at(progress);
    return gaps;
  }

  _cross(before, progress, lapTime) {
    const bound = this.bounds[this.sectors.length];
    if (bound === undefined || before.progress >= bound || progress < bound) return;
    const part = (bound - before.progress) / (progress - before.progress || 1);
    const time = before.lapTime + part * (lapTime - before.lapTime);
    this.sectors.push(time - this.sectors.reduce((sum, sector) => sum + sector, 0));
  }

  get quickest() {
    return Math.min(...Array.from(this.tables.values(), (table) => table.lapTime), Infinity);
  }

  /** A lap that was counted: {lap_time, sectors, isHelped: whether the AI had a hand in it}. */
  finish(lap) {
    this.laps.push(lap);
  }

  get best() {
    return this.laps.filter((lap) => lap.valid !== false && !lap.isHelped).reduce((least, lap) => (least && least.lap_time <= lap.lap_time ? least : lap), null);
  }
}

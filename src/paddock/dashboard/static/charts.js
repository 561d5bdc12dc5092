// Curves of one run or several over each other: panels by theme, zoomed together, growing while they are looked at.

import { runDetails, runMetrics } from './api.js';
import { panelTools, smoothed } from './chart_tools.js';
import { choice, compact, duration, empty, html, number, replace, toast, toggle, button } from './dom.js';
import { onTheme } from './kit/theme.js';
import uPlot from './vendor/uPlot.esm.js';

const PANELS = [
  ['Return', /^(eval|collect|train)\/return$/],
  ['Lap time, s', /\/(best_lap|mean_lap|lap_time)$/],
  ['Finish rate', /\/(finish_rate|pace|success_rate)$/],
  ['Ratio to the reference', /\/(best_ratio|ratio)$/],
  ['Sector deltas, s', /\/sector_\d+_delta$/],
  ['Distance and length', /^collect\/(distance|length)$/],
  ['Reward terms', /\/reward_terms\//],
  ['Losses', /loss/],
  ['Exploration', /(entropy|temperature|alpha|epsilon|exploration|noise|log_std)/],
  ['Policy update size (KL, clip)', /\/(kl|clip_fraction)$/],
  ['Steps/s while collecting', /steps_per_second$/],
  ['Gradient norm', /gradient_norm/],
  ['Learning rate', /learning_rate/],
  ['Machine, %', /^system\/.*percent$/],
  ['Memory and disk, GB', /^system\/.*_gb$/],
];
const MORE = 'Everything else';
const OF_WORKER = /^collect\/workers\/(.+?)\/(reward_terms\/[^/]+|[^/]+)$/; // name of the worker, what of it
const HEIGHT = 190, REDRAW = 400; // px, ms
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

const colour = (index) => getComputedStyle(document.documentElement).getPropertyValue(`--c${index % 8}`).trim();
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const panelOf = (metric) => PANELS.find(([, pattern]) => pattern.test(metric))?.[0] ?? MORE;
const workerPanel = (metric) => `Workers: ${metric.match(OF_WORKER)[2].replace(/^reward_terms\//, 'reward ').replaceAll('_', ' ')}`;
const short = (metric) => metric.match(OF_WORKER)?.[1] ?? metric.replace(/^collect\/reward_terms\//, '').replace(/^(train|controller|workflow|system)\//, '');

export class Charts {
  /** runs: [{id, name}…]; the first one is fed by `append`, the others are asked for now and then. */
  constructor(runs) {
    this.runs = runs;
    this.axis = 'agent_steps';
    this.data = new Map(); // run id -> metric -> {x, y}
    this.plots = new Map(); // panel title -> {plot, series}
    this.showsMore = this.showsWorkers = false;
    this.zoom = null; // {min, max} that a person chose, for all panels
    this.smoothing = 0; // weight of the past in a moving average
    this.isLog = false; // whether vertical axes are logarithmic, where all values are positive
    this.grid = html('div', { class: 'charts' });
    this.tools = html('div', { class: 'row' },
      choice('Horizontal axis', [['agent_steps', 'Steps'], ['seconds', 'Time']], this.axis, (axis) => this._setAxis(axis)),
      button('Reset zoom', () => this.resetZoom(), { class: 'small' }),
      this._smoother(),
      toggle('Log axis', false, (on) => { this.isLog = on; this._rebuild(); }),
      html('span', { class: 'soft small wide-only' }, 'Drag to zoom, double-click to see everything, click a name to hide it.'));
    this.element = html('div', {}, this.tools, this.grid);
    this._endTheme = onTheme(() => this._rebuild());
    this._watcher = new ResizeObserver(() => this._resize());
    this._watcher.observe(this.grid);
    this._timer = setInterval(() => this._redraw(), REDRAW);
    this.ready = this.load();
  }

  _smoother() {
    const slider = html('input', { type: 'range', min: 0, max: 0.98, step: 0.02, value: 0, 'aria-label': 'Smoothing', oninput: () => {
      this.smoothing = Number(slider.value);
      this._isDirty = true;
    } });
    return html('label', { class: 'row smoothing' }, html('span', { class: 'soft small' }, 'Smoothing'), slider);
  }

  close() {
    this._endTheme();
    this._watcher.disconnect();
    clearInterval(this._timer);
    clearInterval(this._refresher);
    this._destroy();
  }

  async setRuns(runs) {
    this.runs = runs;
    await this.load();
  }

  async load() {
    clearInterval(this._refresher);
    await Promise.all(this.runs.map((run) => this._fetch(run))).catch((error) => toast(error.message, 'bad'));
    this._rebuild();
    if (this.runs.length > 1)
      this._refresher = setInterval(() => Promise.all(this.runs.slice(1).map((run) => this._fetch(run))).then(
        () => { this._isDirty = true; }, () => {}), 8000);
  }

  async _fetch(run) {
    const { metrics } = await runDetails(run.id);
    const found = new Map();
    for (let k = 0; k < metrics.length; k += 40) {
      const { names } = await runMetrics(run.id, metrics.slice(k, k + 40), this.axis);
      for (const [name, points] of Object.entries(names)) if (points.x.length) found.set(name, points);
    }
    this.data.set(run.id, found);
  }

  /** A new row of metrics of the first run. */
  append(row) {
    const found = this.data.get(this.runs[0].id), at = row[this.axis];
    if (!found || !Number.isFinite(at)) return;
    let isNew = false;
    for (const [name, value] of Object.entries(row)) {
      if (!name.includes('/') || !Number.isFinite(value)) continue;
      if (!found.has(name)) {
        found.set(name, { x: [], y: [] });
        isNew = true;
      }
      const { x, y } = found.get(name);
      if (x.length && x.at(-1) >= at) continue;
      x.push(at);
      y.push(value);
    }
    this._isDirty = true;
    if (isNew) this._rebuild();
  }

  resetZoom() {
    this._setZoom(null);
  }

  _setZoom(zoom) {
    this.zoom = zoom;
    const range = zoom ?? this._extent();
    for (const { plot } of this.plots.values()) plot.setScale('x', range);
  }

  /** All panels share one horizontal range, so that what lies above each other happened together. */
  _extent() {
    let min = Infinity, max = -Infinity;
    for (const run of this.runs)
      for (const { x } of this.data.get(run.id)?.values() ?? []) [min, max] = [Math.min(min, x[0]), Math.max(max, x.at(-1))];
    return max > min ? { min, max } : { min: 0, max: max > 0 ? 2 * max : 1 }; // one point, or none: it stands in the middle
  }

  async _setAxis(axis) {
    this.axis = axis;
    this.zoom = null;
    await this.load();
  }

  _metrics() {
    const metrics = new Set(this.runs.flatMap((run) => [...(this.data.get(run.id)?.keys() ?? [])]));
    return [...metrics].sort().filter((metric) => !this._isIdle(metric));
  }

  _titles() {
    const groups = new Map([...PANELS.map(([title]) => [title, []]), [MORE, []]]);
    for (const metric of this._metrics()) if (!OF_WORKER.test(metric)) groups.get(panelOf(metric)).push(metric);
    return groups;
  }

  /** One panel for each number of the workers, with a line for each worker. */
  _workerTitles() {
    const groups = new Map();
    for (const metric of this._metrics().filter((one) => OF_WORKER.test(one)))
      groups.set(workerPanel(metric), [...(groups.get(workerPanel(metric)) ?? []), metric]);
    return groups;
  }

  /** A term that pays nothing all along would only fill the legend. */
  _isIdle(metric) {
    return metric.includes('/reward_terms/')
      && this.runs.every((run) => (this.data.get(run.id)?.get(metric)?.y ?? []).every((value) => value === 0));
  }

  _destroy() {
    for (const { plot } of this.plots.values()) plot.destroy();
    this.plots.clear();
  }

  _rebuild() {
    this._destroy();
    const groups = this._titles(), more = groups.get(MORE), workers = this._workerTitles();
    groups.delete(MORE);
    replace(this.grid);
    for (const [title, metrics] of groups) if (metrics.length) this._panel(title, metrics);
    if (this.showsMore) for (const metric of more) this._panel(metric, [metric]);
    if (this.showsWorkers) for (const [title, metrics] of workers) this._panel(title, metrics);
    if (!this.plots.size)
      this.grid.append(empty('No curves yet', 'Numbers appear here with the first row that the run logs.'));
    this.grid.append(html('div', { class: 'row more' },
      more.length ? this._fold('showsMore', `Show ${more.length} more`, 'Show less') : null,
      workers.size ? this._fold('showsWorkers', 'Show curves of each worker', 'Hide curves of each worker') : null));
    this._isDirty = false;
  }

  /** A button that shows panels which are usually not needed, and hides them again. */
  _fold(name, show, hide) {
    return button(this[name] ? hide : show, () => { this[name] = !this[name]; this._rebuild(); }, { class: 'small' });
  }

  _panel(title, metrics) {
    const series = this.runs.flatMap((run, r) => metrics.map((metric, m) => ({ run, metric, r, m })))
      .filter(({ run, metric }) => this.data.get(run.id)?.has(metric));
    const caption = html('figcaption', {}, title), holder = html('figure', { class: 'chart', 'data-panel': title }, caption);
    caption.append(panelTools(title, holder, { plot: () => this.plots.get(title).plot, columns: () => this._columns(series) }));
    holder.addEventListener('fullscreenchange', () => this._resize());
    this.grid.append(holder);
    const width = Math.max(holder.clientWidth, 200);
    const plot = new uPlot(this._options(width, series), this._table(series), holder);
    plot.setScale('x', this.zoom ?? this._extent());
    this.plots.set(title, { plot, series });
    showLast(plot);
  }

  _table(series, smoothing = this.smoothing) {
    if (!series.length) return [[]];
    return uPlot.join(series.map(({ run, metric }) => {
      const { x, y } = this.data.get(run.id).get(metric);
      return [x, smoothed(y, smoothing)];
    }));
  }

  /** The numbers of a panel as they were logged, for a file. */
  _columns(series) {
    const [x, ...columns] = this._table(series, 0);
    return [[this.axis, x], ...columns.map((values, k) => [`${series[k].run.name} ${series[k].metric}`, values])];
  }

  _isPositive(series) {
    return series.every(({ run, metric }) => this.data.get(run.id).get(metric).y.every((value) => !(value <= 0)));
  }

  _options(width, series) {
    const isAlone = this.runs.length === 1, format = this.axis === 'seconds' ? duration : compact;
    const axis = { stroke: style('--soft'), grid: { stroke: style('--grid'), width: 1 }, ticks: { show: false },
      font: '12px system-ui, sans-serif' };
    return {
      width,
      height: HEIGHT,
      cursor: { sync: { key: 'paddock' }, drag: { x: true, y: false, setScale: false }, points: { size: 6 },
        bind: { dblclick: () => () => { this.resetZoom(); return null; } } },
      hooks: { setSelect: [(plot) => this._selected(plot)], setLegend: [showLast] },
      scales: { x: { time: false, auto: false }, y: { distr: this.isLog && this._isPositive(series) ? 3 : 1 } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(format), size: 28, space: 60 },
        { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : compact(tick))), size: 52 },
      ],
      series: [
        { label: this.axis === 'seconds' ? 'time' : 'step', value: (_, value) => (value === null ? '' : format(value)) },
        ...series.map(({ run, metric, r, m }) => ({
          label: isAlone ? short(metric) : `${run.name} · ${short(metric)}`,
          stroke: colour(isAlone ? m : r),
          dash: isAlone ? DASHES[Math.floor(m / 8) % 4] : DASHES[m % 4],
          width: 1.6,
          spanGaps: true,
          points: { show: this.data.get(run.id).get(metric).x.length < 30, size: 4 },
          value: (_, value) => (value === null || value === undefined ? '' : number(value)),
        })),
      ],
    };
  }

  _selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    this._setZoom({ min: plot.posToVal(left, 'x'), max: plot.posToVal(left + width, 'x') });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  _redraw() {
    if (!this._isDirty || document.hidden) return;
    this._isDirty = false;
    const range = this.zoom ?? this._extent();
    for (const { plot, series } of this.plots.values()) {
      plot.setData(this._table(series), false);
      plot.setScale('x', range);
      showLast(plot);
    }
  }

  _resize() {
    for (const { plot } of this.plots.values()) {
      const holder = plot.root.parentElement, width = holder.clientWidth;
      const height = document.fullscreenElement === holder ? Math.max(innerHeight - 140, HEIGHT) : HEIGHT;
      if (width && (width !== plot.width || height !== plot.height)) plot.setSize({ width, height });
    }
  }
}

/** While nobody points at a moment, the legend tells the newest values. */
function showLast(plot) {
  if (plot.cursor.left >= 0) return;
  const idxs = plot.data.map((column) => {
    let at = column.length - 1;
    while (at > 0 && (column[at] === null || column[at] === undefined)) at -= 1;
    return at;
  });
  plot.setLegend({ idxs }, false);
}

// The view of time that all charts over time share, and these charts.

const GUTTER = 84, EDGE = 14;

// What part of time is shown, in ticks, and where the pointer is.
class TimeView {
  constructor(clock) {
    this.clock = clock;
    this.all = clock.ticks;
    this.least = Math.min(this.all, Math.max(20, 1 / clock.unit));
    this.from = 0;
    this.to = this.all;
    this.cursor = null;
    this.painters = [];
    this.waiting = false;
  }

  set(from, to) {
    const span = Math.min(this.all, Math.max(this.least, to - from));
    const start = Math.min(this.all - span, Math.max(0, from + (to - from - span) / 2));
    if (start === this.from && start + span === this.to) return false;
    this.from = start;
    this.to = start + span;
    this.repaint();
    return true;
  }

  zoom(factor, at = (this.from + this.to) / 2) { // below 1: closer
    const span = Math.min(this.all, Math.max(this.least, (this.to - this.from) * factor));
    const share = (at - this.from) / (this.to - this.from);
    const from = Math.min(this.all - span, Math.max(0, at - share * span));
    return this.set(from, from + span);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    const from = Math.min(this.all - (this.to - this.from), Math.max(0, this.from + by));
    return this.set(from, from + this.to - this.from);
  }

  point(tick) {
    if (tick === this.cursor) return;
    this.cursor = tick;
    this.repaint();
  }

  repaint() { // once a frame, however often it is asked for
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const begin = performance.now();
    for (const paint of this.painters) paint();
    document.documentElement.dataset.paintMs = (performance.now() - begin).toFixed(1);
  }
}

// A canvas as wide as its place, with a context in CSS pixels.
class Surface {
  constructor(height, label) {
    this.height = height;
    this.width = 0;
    this.canvas = el("canvas", { role: "img", "aria-label": label });
    this.canvas.style.height = `${height}px`;
    this.context = this.canvas.getContext("2d");
  }

  fit() { // true if there is room to paint
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight || this.height;
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (width && (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio))) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.width = width;
    this.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return width > GUTTER + EDGE + 20;
  }

  get plotWidth() { return this.width - GUTTER - EDGE; }
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

function paintTimeAxis(surface, view, top, { below = true, grid = 0 } = {}) {
  const { context } = surface, { colours } = theme;
  const scale = linear(view.from, view.to, GUTTER, surface.width - EDGE);
  const ticks = timeTicks(view.clock, view.from, view.to, Math.max(2, Math.floor(surface.plotWidth / 105)));
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const { tick, label, below: second } of ticks) {
    const x = scale(tick);
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x), top - grid, 1, grid + 4);
    const half = context.measureText(label).width / 2;
    if (!below || x - half < GUTTER - 30 || x + half > surface.width) continue;
    context.fillStyle = colours.soft;
    context.fillText(label, x, top + 6);
    if (second) context.fillText(second, x, top + 20);
  }
}

// Least, mean and most of a line's bins in each column of pixels.
function columnsOf(line, columns, view, width) {
  const out = { mean: new Float64Array(width), low: null, high: null };
  const parts = line.parts.map((part) => columns[`${line.key}.${part}`]);
  const bins = parts[0].length, per = bins / view.all;
  if (line.parts.includes("low")) [out.low, out.high] = [new Float64Array(width), new Float64Array(width)];
  const begin = view.from * per, step = ((view.to - view.from) * per) / width;
  for (let x = 0; x < width; x++) {
    const first = Math.min(bins - 1, Math.floor(begin + x * step));
    const last = Math.max(first + 1, Math.min(bins, Math.ceil(begin + (x + 1) * step)));
    let sum = 0, known = 0, low = Infinity, high = -Infinity;
    for (let bin = first; bin < last; bin++) {
      if (parts[0][bin]) { sum += parts[0][bin] - 1; known += 1; }
      if (out.low && parts[1][bin]) {
        low = Math.min(low, parts[1][bin] - 1);
        high = Math.max(high, parts[2][bin] - 1);
      }
    }
    out.mean[x] = known ? line.low + (sum / known) * line.step : NaN;
    if (out.low) {
      out.low[x] = known ? line.low + low * line.step : NaN;
      out.high[x] = known ? line.low + high * line.step : NaN;
    }
  }
  return out;
}

function topOf(line) { return line.low + 65534 * line.step; }

// Value of a line at a tick, for the text beside the title.
function valueAt(line, columns, view, tick) {
  const mean = columns[`${line.key}.mean`];
  const level = mean[Math.max(0, Math.min(mean.length - 1, Math.floor((tick / view.all) * mean.length)))];
  return level ? line.low + (level - 1) * line.step : null;
}

const FLOW_STYLES = {
  "sun and wind": "green", "battery": "battery", "grid": "grey", "unserved": "red",
  "into the battery": "pale", "exported": "export", "curtailed": "cut",
};

// One chart over time of one run; `top` is the end of its scale, which all runs share.
function timeChart(run, chart, view, columns, colour, top) {
  const readout = el("span", { class: "readout" });
  const surface = new Surface(chart.kind === "power" ? 190 : 104,
    `${chart.title}, over time${run.label ? `, ${run.label}` : ""}`);
  const [factor, unit] = unitFor(chart.unit, top);
  const stacked = chart.kind === "power";
  const lines = chart.lines;
  const scaleTop = stacked ? powerTop(chart, columns) : top;
  const names = stacked
    ? legend(lines.map((line) => line.name === "load"
      ? { text: "load", css: "var(--ink)" }
      : { text: line.name, css: `var(--${FLOW_STYLES[line.name]})`, shape: "box" }))
    : null;
  const paint = () => {
    if (!surface.fit()) return;
    const { context, width, height } = surface, { colours } = theme;
    const bottom = height - 6, plot = Math.round(surface.plotWidth);
    const y = linear(0, scaleTop || 1, bottom, 8);
    context.clearRect(0, 0, width, height);
    paintTimeAxis(surface, view, bottom, { below: false, grid: bottom - 8 });
    paintLevels(surface, roundTicks(0, (scaleTop || 1) / factor, 3), (value) => y(value * factor), chart.unit === "%" ? "%" : "");
    const found = lines.map((line) => columnsOf(line, columns, view, plot));
    if (stacked) paintStack(context, lines, found, y, bottom);
    else paintLine(context, chart, found, y, bottom, theme.runs[colour]);
    if (view.cursor !== null) paintCursor(surface, view, 8, bottom);
    readout.textContent = readoutText(chart, columns, view, lines);
  };
  view.painters.push(paint);
  followPointer(surface, view);
  const total = chart.kind === "use" ? ` of ${plain(chart.total, 6)}` : "";
  return el("figure", { class: "strip" },
    el("figcaption", {},
      run.label ? el("span", { class: "swatch", style: { background: `var(--run-${colour})` } }) : null,
      el("b", {}, run.label ? `${chart.title}: ${run.label}` : chart.title),
      el("span", { class: "unit" }, chart.unit === "%" ? `%${total}` : unit), readout),
    names, surface.canvas);
}

// Curtailed power may be many times the load: the scale ends where the rest is still readable.
function powerTop(chart, columns) {
  let load = 0, all = 0;
  const bins = columns[`${chart.lines[0].key}.mean`].length;
  const read = chart.lines.map((line) => columns[`${line.key}.mean`]);
  for (let bin = 0; bin < bins; bin++) {
    let sum = 0, rest = 0;
    for (const [n, line] of chart.lines.entries()) {
      const value = line.low + Math.max(0, read[n][bin] - 1) * line.step;
      if (line.name === "load") { load = Math.max(load, value); continue; }
      sum += value;
      if (line.name !== "curtailed") rest += value;
    }
    load = Math.max(load, rest);
    all = Math.max(all, sum);
  }
  chart.cut = all > 2 * load;
  return Math.max(1e-9, chart.cut ? 2 * load : all);
}

function readoutText(chart, columns, view, lines) {
  const number = (value) => chart.unit === "%" ? `${plain(value, 3)}%` : quantity(value, chart.unit);
  if (view.cursor === null) {
    if (chart.kind === "power") return chart.cut ? "curtailed power reaches beyond the scale" : "means";
    return { use: "mean; pale: from least to most; dashed: available", queue: "mean; pale: from least to most", charge: "mean; pale: from least to most" }[chart.kind] || "mean";
  }
  return `${view.clock.text(view.cursor)}: ` + lines.map((line) => {
    const value = valueAt(line, columns, view, view.cursor);
    if (chart.kind === "power" && !value) return null;
    return value === null ? `${line.name} ${UNKNOWN_TEXT}` : lines.length > 1 ? `${line.name} ${number(value)}` : number(value);
  }).filter((text) => text !== null).join(" · ");
}

function paintLevels(surface, ticks, y, sign) {
  const { context } = surface;
  context.font = FONT;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of ticks) {
    const at = Math.round(y(value));
    context.fillStyle = theme.colours.line;
    context.fillRect(GUTTER, at, surface.plotWidth, 1);
    context.fillStyle = theme.colours.soft;
    context.fillText(`${plain(value, 6)}${sign}`, GUTTER - 8, at);
  }
}

function paintLine(context, chart, found, y, bottom, colour) {
  const [line, available] = found;
  if (line.low) {
    context.globalAlpha = 0.28;
    context.fillStyle = colour;
    for (let x = 0; x < line.mean.length; x++) {
      if (Number.isNaN(line.high[x])) continue;
      const top = y(line.high[x]);
      context.fillRect(GUTTER + x, top, 1, Math.max(1, y(line.low[x]) - top));
    }
    context.globalAlpha = 1;
  }
  strokeColumns(context, line.mean, y, colour, 1.5);
  if (available) {
    context.setLineDash([5, 4]);
    strokeColumns(context, available.mean, y, theme.colours.soft, 1.2);
    context.setLineDash([]);
  }
}

function strokeColumns(context, values, y, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  let there = false;
  for (let x = 0; x < values.length; x++) {
    if (Number.isNaN(values[x])) { there = false; continue; }
    const at = y(values[x]);
    if (there) { context.lineTo(GUTTER + x, at); context.lineTo(GUTTER + x + 1, at); }
    else { context.moveTo(GUTTER + x, at); context.lineTo(GUTTER + x + 1, at); }
    there = true;
  }
  context.stroke();
}

function paintStack(context, lines, found, y, bottom) {
  const below = new Float64Array(found[0].mean.length);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 8, below.length, bottom - 8);
  context.clip();
  for (const [n, line] of lines.entries()) {
    const { mean } = found[n];
    if (line.name === "load") { strokeColumns(context, mean, y, theme.colours.ink, 1.2); continue; }
    context.fillStyle = theme.colours[FLOW_STYLES[line.name]];
    for (let x = 0; x < below.length; x++) {
      if (!(mean[x] > 0)) continue;
      const from = y(below[x]), to = y(below[x] + mean[x]);
      context.fillRect(GUTTER + x, to, 1, from - to);
      below[x] += mean[x];
    }
  }
  context.restore();
}

function paintCursor(surface, view, top, bottom) {
  const x = linear(view.from, view.to, GUTTER, surface.width - EDGE)(view.cursor);
  if (x < GUTTER || x > surface.width - EDGE) return;
  surface.context.globalAlpha = 0.55;
  surface.context.fillStyle = theme.colours.ink;
  surface.context.fillRect(Math.round(x), top, 1, bottom - top);
  surface.context.globalAlpha = 1;
}

function tickAt(surface, view, event) {
  const x = event.clientX - surface.canvas.getBoundingClientRect().left;
  const share = (x - GUTTER) / surface.plotWidth;
  return view.from + Math.min(1, Math.max(0, share)) * (view.to - view.from);
}

// The pointer over any chart shows its time in all of them.
function followPointer(surface, view) {
  surface.canvas.addEventListener("pointermove", (event) => view.point(tickAt(surface, view, event)));
  surface.canvas.addEventListener("pointerleave", () => view.point(null));
}

function axisStrip(view) {
  const surface = new Surface(42, view.clock.name);
  surface.canvas.classList.add("axis-strip");
  view.painters.push(() => {
    if (!surface.fit()) return;
    surface.context.clearRect(0, 0, surface.width, surface.height);
    paintTimeAxis(surface, view, 0, {});
  });
  return surface.canvas;
}

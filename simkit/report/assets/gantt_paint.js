// Paints the chart: single bars where few lie in the window, else how full each pixel is.

const MOST_BARS = 20000; // more are drawn as shades, pixel by pixel
const AXIS = 40;

// What a chart shows: times from the shared view, lanes of its own.
class GanttPainter {
  constructor(bars, view, surface) {
    this.bars = bars;
    this.view = view;
    this.surface = surface;
    this.low = 0;
    this.high = bars.lanes;
    this.colour = "wait";
    this.chosen = null; // row of the chosen job, and its rectangles
    this.chosenRects = [];
    this.shades = new Map(); // level → canvas with its cells
    this.order = null;
    this.image = null;
    theme.listeners.push(() => { this.shades.clear(); this.order = null; });
  }

  get window() { return { from: this.view.from, to: this.view.to, low: this.low, high: this.high }; }

  get bottom() { return this.surface.height - AXIS; }

  x(tick) { return GUTTER + ((tick - this.view.from) / (this.view.to - this.view.from)) * this.surface.plotWidth; }

  y(lane) { return ((lane - this.low) / (this.high - this.low)) * this.bottom; }

  laneAt(y) { return this.low + (Math.min(this.bottom, Math.max(0, y)) / this.bottom) * (this.high - this.low); }

  paint() {
    const { surface, bars } = this, { context, canvas } = surface;
    if (!surface.fit()) return;
    context.clearRect(0, 0, surface.width, surface.height);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, surface.plotWidth, this.bottom);
    context.clip();
    context.fillStyle = theme.colours.panel;
    context.fillRect(GUTTER, 0, surface.plotWidth, this.bottom);
    this.mode = !bars.exceeds(this.window, MOST_BARS) ? "bars" : this.gridSuffices() ? "grid" : "shades";
    if (this.mode === "grid" || bars.facts.bars_left_out) this.paintGrid();
    if (this.mode === "shades") this.paintShades();
    let drawn = 0;
    if (this.mode === "bars") drawn = this.paintBars();
    this.paintMachines();
    this.paintChosen();
    context.restore();
    this.paintRows();
    paintTimeAxis(surface, this.view, this.bottom, {});
    if (this.view.cursor !== null) paintCursor(surface, this.view, 0, this.bottom);
    Object.assign(canvas.dataset, {
      mode: this.mode, bars: drawn, from: this.view.from, to: this.view.to, low: this.low, high: this.high,
    });
  }

  // Whether the file's grid has about as many cells in the window as the chart has pixels.
  gridSuffices() {
    const { bars, view } = this;
    const bins = (bars.facts.bins * (view.to - view.from)) / view.all;
    const bands = (this.high - this.low) / bars.facts.lanes_a_band;
    return bins >= 0.6 * this.surface.plotWidth && (bars.facts.lanes_a_band === 1 || bands >= 0.4 * this.bottom);
  }

  paintGrid() {
    const { bars, view, surface } = this, { context } = surface;
    const per = bars.facts.lanes_a_band;
    const smooth = (this.high - this.low) / per > this.bottom; // else bands have edges
    const wanted = (surface.plotWidth / ((view.to - view.from) / view.all)) * (smooth ? 1 : 0.5);
    let level = 0;
    while (level + 1 < bars.levels.length && bars.levels[level + 1].bins >= wanted) level++;
    const { bins } = bars.levels[level];
    const sx = (view.from / view.all) * bins, sw = ((view.to - view.from) / view.all) * bins;
    context.imageSmoothingEnabled = smooth;
    context.globalAlpha = this.mode === "bars" ? 0.45 : 1;
    // the last band may have fewer lanes than the others
    context.drawImage(this.shade(level), sx, this.low / per, Math.max(1e-3, sw), (this.high - this.low) / per,
      GUTTER, 0, surface.plotWidth, this.bottom);
    context.globalAlpha = 1;
  }

  // A canvas with a pixel for each cell of a level.
  shade(level) {
    if (!this.shades.has(level)) {
      const { bins, cells } = this.bars.levels[level];
      const canvas = el("canvas", { width: bins, height: this.bars.bands });
      const context = canvas.getContext("2d"), image = context.createImageData(bins, this.bars.bands);
      const colours = shadeColours(), pixels = new Uint32Array(image.data.buffer);
      for (let n = 0; n < cells.length; n++) pixels[n] = colours[cells[n]];
      context.putImageData(image, 0, 0);
      this.shades.set(level, canvas);
    }
    return this.shades.get(level);
  }

  // Adds up what each rectangle covers of each pixel: four corners of it in a table whose sums from
  // the left and from above are the shares.
  paintShades() {
    const { surface, bars, view } = this;
    const width = Math.round(surface.plotWidth), height = Math.round(this.bottom), wide = width + 2;
    const size = wide * (height + 2);
    if (!this.sums || this.sums.length !== size) this.sums = new Float32Array(size);
    const sums = this.sums.fill(0);
    const px = width / (view.to - view.from), py = height / (this.high - this.low);
    const { from, to, lane, height: lanes } = bars;
    for (const block of bars.blocksIn(this.window)) {
      const end = Math.min(bars.count, (block + 1) * BLOCK);
      for (let n = block * BLOCK; n < end; n++) {
        const x0 = Math.max(0, (from[n] - view.from) * px), x1 = Math.min(width, (to[n] - view.from) * px);
        const y0 = Math.max(0, (lane[n] - this.low) * py), y1 = Math.min(height, (lane[n] + lanes[n] - this.low) * py);
        if (x1 <= x0 || y1 <= y0) continue;
        const xi = x0 | 0, xf = x0 - xi, xj = x1 | 0, xg = x1 - xj;
        const yi = (y0 | 0) * wide, yf = y0 - (y0 | 0), yj = (y1 | 0) * wide, yg = y1 - (y1 | 0);
        sums[yi + xi] += (1 - xf) * (1 - yf); sums[yi + xi + 1] += xf * (1 - yf);
        sums[yi + wide + xi] += (1 - xf) * yf; sums[yi + wide + xi + 1] += xf * yf;
        sums[yi + xj] -= (1 - xg) * (1 - yf); sums[yi + xj + 1] -= xg * (1 - yf);
        sums[yi + wide + xj] -= (1 - xg) * yf; sums[yi + wide + xj + 1] -= xg * yf;
        sums[yj + xi] -= (1 - xf) * (1 - yg); sums[yj + xi + 1] -= xf * (1 - yg);
        sums[yj + wide + xi] -= (1 - xf) * yg; sums[yj + wide + xi + 1] -= xf * yg;
        sums[yj + xj] += (1 - xg) * (1 - yg); sums[yj + xj + 1] += xg * (1 - yg);
        sums[yj + wide + xj] += (1 - xg) * yg; sums[yj + wide + xj + 1] += xg * yg;
      }
    }
    this.show(sums, width, height, wide);
  }

  show(sums, width, height, wide) {
    const { context } = this.surface;
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = context.createImageData(width, height);
      this.under = el("canvas", { width, height });
    }
    const pixels = new Uint32Array(this.image.data.buffer), colours = shadeColours();
    for (let y = 0; y < height; y++) {
      let across = 0;
      const row = y * wide;
      for (let x = 0; x < width; x++) {
        across += sums[row + x];
        const share = y ? (sums[row + x] = across + sums[row - wide + x]) : (sums[row + x] = across);
        const level = share < 0.002 ? 0 : Math.min(255, Math.max(1, (share * 255 + 0.5) | 0));
        pixels[y * width + x] = colours[level];
      }
    }
    this.under.getContext("2d").putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.under, GUTTER, 0, this.surface.plotWidth, this.bottom);
  }

  paintBars() {
    const { context } = this.surface, { bars } = this;
    const groups = new Map();
    let drawn = 0;
    bars.each(this.window, (n) => {
      drawn++;
      const colour = this.colourOf(bars.bar.job[bars.rectBar[n]]);
      if (!groups.has(colour)) groups.set(colour, []);
      groups.get(colour).push(n);
    });
    const gap = this.bottom / (this.high - this.low) > 4 ? 1 : 0;
    const named = [];
    for (const [colour, rectangles] of groups) {
      context.fillStyle = colour;
      for (const n of rectangles) {
        const x = Math.max(GUTTER - 2, this.x(bars.from[n]));
        const right = Math.min(this.surface.width, this.x(bars.to[n]));
        const y = this.y(bars.lane[n]), height = this.y(bars.lane[n] + bars.height[n]) - y;
        const width = Math.max(1, right - x - (right - x > 4 ? 1 : 0));
        context.fillRect(x, y, width, Math.max(1, height - gap));
        if (width > 34 && height > 13) named.push([n, x, y, width, height]);
      }
    }
    if (named.length < 1500) this.paintNames(named);
    return drawn;
  }

  paintNames(named) {
    const { context } = this.surface, { bars } = this;
    context.font = FONT;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const [n, x, y, width, height] of named) {
      const job = bars.bar.job[bars.rectBar[n]], text = String(bars.job.id[job]);
      const left = Math.max(x, GUTTER);
      if (context.measureText(text).width > x + width - left - 8) continue;
      context.fillStyle = inkOn(this.colourOf(job));
      context.fillText(text, left + 5, Math.min(Math.max(y, 0) + Math.min(height, 26) / 2, y + height - 7));
    }
  }

  colourOf(job) {
    const { job: jobs, facts } = this.bars;
    if (this.colour === "wait") {
      if (!jobs.start[job]) return theme.steps[0];
      return theme.steps[waitStep((jobs.start[job] - jobs.submit[job]) * this.view.clock.unit)];
    }
    if (this.colour === "status") return theme.kinds[[2, 1, 5, 0, 4][jobs.status[job]] ?? 6];
    if (this.colour === "size") return theme.steps[sizeStep(jobs.size[job] / facts.size_per)];
    return this.kinds().colour[jobs[this.colour][job]];
  }

  // Users or queues → colours: the largest six have their own, the others share grey.
  kinds() {
    if (this.order?.by !== this.colour) {
      const rows = this.bars.job[this.colour], names = this.bars.facts.names[this.colour];
      const counts = new Uint32Array(names.length);
      for (let n = 0; n < rows.length; n++) counts[rows[n]]++;
      const largest = [...counts.keys()].sort((a, b) => counts[b] - counts[a]).slice(0, 6);
      const colour = new Array(names.length).fill(theme.kinds[6]);
      for (const [place, row] of largest.entries()) colour[row] = theme.kinds[place];
      this.order = { by: this.colour, colour, largest, names, counts, others: names.length - largest.length };
    }
    return this.order;
  }

  paintMachines() { // lines between machines, where they have room
    const { bars, surface } = this, { context } = surface;
    const first = bars.machineAt(this.low), last = bars.machineAt(this.high - 1e-9);
    if ((last - first) * 5 > this.bottom) return;
    context.fillStyle = theme.colours["bar-line"];
    for (let n = first + 1; n <= last; n++) context.fillRect(GUTTER, Math.round(this.y(bars.machineLane[n])), surface.plotWidth, 1);
  }

  paintChosen() {
    if (this.chosen === null) return;
    const { context } = this.surface, { bars } = this, jobs = bars.job;
    context.strokeStyle = theme.colours.mark;
    context.lineWidth = 2;
    for (const n of this.chosenRects) {
      const x = this.x(bars.from[n]), y = this.y(bars.lane[n]);
      const width = Math.max(3, this.x(bars.to[n]) - x), height = Math.max(3, this.y(bars.lane[n] + bars.height[n]) - y);
      context.strokeRect(x, y, width, height);
    }
    const n = this.chosenRects[0];
    if (n === undefined || !jobs.start[this.chosen]) return;
    const y = this.y(bars.lane[n] + bars.height[n] / 2); // dashed: from its submission to its start
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(this.x(jobs.submit[this.chosen] - 1), y);
    context.lineTo(this.x(jobs.start[this.chosen] - 1), y);
    context.stroke();
    context.setLineDash([]);
  }

  paintRows() {
    const { bars, surface } = this, { context } = surface;
    context.clearRect(0, 0, GUTTER, this.bottom + 2);
    context.font = FONT;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = theme.colours.soft;
    if (bars.facts.machines <= 1 && bars.facts.by_processor) this.paintNumbers();
    else this.paintMachineNames();
  }

  paintNumbers() { // of lanes, from 1
    const { context } = this.surface;
    for (const row of roundTicks(this.low, this.high, Math.max(1, Math.floor(this.bottom / 46)))) {
      if (row !== Math.floor(row) || row < 1) continue;
      const y = this.y(row - 0.5);
      if (y >= 6 && y < this.bottom - 4) context.fillText(plain(row * this.bars.facts.processors_a_lane), GUTTER - 10, y);
    }
  }

  paintMachineNames() { // of machines
    const { context } = this.surface, { bars } = this;
    const first = bars.machineAt(this.low), last = bars.machineAt(this.high - 1e-9);
    let free = 6;
    for (let n = first; n <= last; n++) {
      const top = Math.max(0, this.y(bars.machineLane[n])), end = Math.min(this.bottom, this.y(bars.machineLane[n + 1]));
      const y = (top + end) / 2;
      if (y < free || y > this.bottom - 4) continue;
      context.fillText(cut(context, bars.nameOf(n), GUTTER - 14), GUTTER - 10, y);
      free = y + Math.max(15, this.bottom / 40);
    }
  }
}

function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`…${kept}`).width > width) kept = kept.slice(1);
  return `…${kept}`;
}

const WAIT_STEPS = [60, 600, 3600, 21600, 86400]; // ends of the classes after "none"
const WAIT_STEP_NAMES = ["none", "to 1 min", "to 10 min", "to 1 h", "to 6 h", "to 1 d", "over 1 d"];
function waitStep(seconds) {
  if (seconds < 0.5) return 0;
  const found = WAIT_STEPS.findIndex((end) => seconds <= end);
  return found < 0 ? 6 : found + 1;
}

const SIZE_STEP_NAMES = ["to 1", "to 4", "to 16", "to 64", "to 256", "to 1,024", "more"];
function sizeStep(size) {
  const found = [1, 4, 16, 64, 256, 1024].findIndex((end) => size <= end);
  return found < 0 ? 6 : found;
}

// Shares 0 to 255 → colours from the panel's to the accent, as the bytes of a pixel.
let shadeTable = null;
function shadeColours() {
  const key = theme.colours.panel + theme.colours.accent;
  if (shadeTable?.key === key) return shadeTable.colours;
  const low = rgb(theme.colours.panel), high = rgb(theme.colours.accent), colours = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    const share = n === 0 ? 0 : 0.16 + 0.84 * (n / 255);
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(low[c] + share * (high[c] - low[c])));
    colours[n] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  shadeTable = { key, colours };
  return colours;
}

const inks = new Map();
function inkOn(colour) { // black or white, whichever is readable
  if (!inks.has(colour)) {
    const [r, g, b] = rgb(colour).map((c) => (c / 255) ** 2.2);
    inks.set(colour, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.3 ? "#14181d" : "#ffffff");
  }
  return inks.get(colour);
}

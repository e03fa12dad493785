// The bars of a run: which rectangles lie in a window, which one lies under the pointer, which jobs
// there are. Neighbouring rectangles lie in blocks with a known extent, so most are never looked at.

const BLOCK = 256;

class Bars {
  constructor(facts, columns) {
    this.facts = facts;
    this.job = pick(columns, "job");
    this.bar = pick(columns, "bar");
    this.taskName = columns["task.name"] || null;
    this.machineName = columns["machine.name"];
    this.machineLane = columns["machine.lane"];
    this.lanes = Math.max(1, facts.lanes);
    const bars = columns["rect.bar"], count = bars.length;
    this.count = count;
    this.rectBar = bars;
    this.lane = columns["rect.lane"];
    this.height = columns["rect.lanes"];
    this.from = new Uint32Array(count);
    this.to = new Uint32Array(count);
    for (let n = 0; n < count; n++) {
      this.from[n] = this.bar.start[bars[n]];
      this.to[n] = this.from[n] + this.bar.length[bars[n]];
    }
    this.makeBlocks();
    this.makeLevels(columns.grid);
    this.makeSearch();
  }

  makeBlocks() {
    const blocks = Math.ceil(this.count / BLOCK);
    this.blocks = blocks;
    this.blockFrom = new Uint32Array(blocks).fill(0xffffffff);
    this.blockTo = new Uint32Array(blocks);
    this.blockLow = new Uint32Array(blocks).fill(0xffffffff);
    this.blockHigh = new Uint32Array(blocks);
    for (let n = 0; n < this.count; n++) {
      const block = (n / BLOCK) | 0;
      if (this.from[n] < this.blockFrom[block]) this.blockFrom[block] = this.from[n];
      if (this.to[n] > this.blockTo[block]) this.blockTo[block] = this.to[n];
      if (this.lane[n] < this.blockLow[block]) this.blockLow[block] = this.lane[n];
      const high = this.lane[n] + this.height[n];
      if (high > this.blockHigh[block]) this.blockHigh[block] = high;
    }
  }

  // The grid of the file, and coarser ones of half as many bins each, down to 512.
  makeLevels(grid) {
    const { bands, bins } = this.facts;
    this.levels = [{ bins, cells: grid }];
    for (let n = bins; n > 512; n /= 2) {
      const { cells } = this.levels[this.levels.length - 1];
      const half = new Uint8Array(cells.length / 2);
      for (let at = 0; at < half.length; at++) {
        const sum = cells[2 * at] + cells[2 * at + 1];
        half[at] = (sum + 1) >> 1;
      }
      this.levels.push({ bins: n / 2, cells: half });
    }
    this.bands = bands;
  }

  makeSearch() {
    const ids = this.job.id;
    this.rowOf = null;
    this.findRow = (text) => {
      if (this.rowOf === null) {
        this.rowOf = new Map();
        for (let n = 0; n < ids.length; n++) this.rowOf.set(String(ids[n]), n);
      }
      return this.rowOf.get(text.trim());
    };
  }

  *blocksIn(view) {
    for (let n = 0; n < this.blocks; n++) {
      if (this.blockFrom[n] < view.to && this.blockTo[n] >= view.from &&
        this.blockLow[n] < view.high && this.blockHigh[n] > view.low) yield n;
    }
  }

  // At most how many rectangles lie in a window {from, to, low, high} of ticks and lanes.
  atMost(view) {
    let blocks = 0;
    for (let n = 0; n < this.blocks; n++) {
      if (this.blockFrom[n] < view.to && this.blockTo[n] >= view.from &&
        this.blockLow[n] < view.high && this.blockHigh[n] > view.low) blocks++;
    }
    return blocks * BLOCK;
  }

  // Whether more than so many rectangles lie in a window.
  exceeds(view, most) {
    if (this.atMost(view) <= most) return false;
    let count = 0;
    for (const block of this.blocksIn(view)) {
      const end = Math.min(this.count, (block + 1) * BLOCK);
      for (let n = block * BLOCK; n < end; n++) {
        if (this.from[n] < view.to && this.to[n] >= view.from &&
          this.lane[n] < view.high && this.lane[n] + this.height[n] > view.low) count++;
      }
      if (count > most) return true;
    }
    return false;
  }

  each(view, visit) {
    for (const block of this.blocksIn(view)) {
      const end = Math.min(this.count, (block + 1) * BLOCK);
      for (let n = block * BLOCK; n < end; n++) {
        if (this.from[n] < view.to && this.to[n] >= view.from &&
          this.lane[n] < view.high && this.lane[n] + this.height[n] > view.low) visit(n);
      }
    }
  }

  // The rectangles within a small window, the first `most` of them, and how many there are.
  near(view, most = 1) {
    const found = [];
    let count = 0;
    this.each(view, (n) => { count++; if (found.length < most) found.push(n); });
    return { found, count };
  }

  rectanglesOf(job) {
    const found = [];
    for (let n = 0; n < this.count; n++) if (this.bar.job[this.rectBar[n]] === job) found.push(n);
    return found;
  }

  machineAt(lane) { // row of the machine whose lanes hold this one
    let low = 0, high = this.machineLane.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.machineLane[middle] <= lane) low = middle;
      else high = middle;
    }
    return low;
  }

  nameOf(machine) { return this.machineName[machine] ?? `machine ${machine}`; }

  // Share of the lanes in use around a tick and a lane, by the grid of the file.
  shareAt(tick, lane, all) {
    const { bins, cells } = this.levels[0];
    const bin = Math.min(bins - 1, Math.floor((tick / all) * bins));
    const band = Math.min(this.bands - 1, Math.floor(lane / this.facts.lanes_a_band));
    return cells[band * bins + bin] / 255;
  }
}

function pick(columns, kind) {
  const found = {};
  for (const [name, values] of Object.entries(columns)) {
    const [head, ...rest] = name.split(".");
    if (head === kind) found[rest.join(".")] = values;
  }
  return found;
}

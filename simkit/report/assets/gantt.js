// The Gantt chart: pointer, wheel, keys, search, and what is said of a job.

const HELP = [
  ["wheel, + −", "zoom time"], ["Shift + wheel, Shift + + −", "zoom rows"], ["drag, ← →", "move in time"],
  ["↑ ↓", "move over rows"], ["0, Home", "show all"], ["click, Enter", "keep a job"], ["Esc", "let it go"], ["/", "search"],
];

class Gantt {
  constructor(run, bars, view) {
    this.run = run;
    this.bars = bars;
    this.view = view;
    const facts = bars.facts;
    this.surface = new Surface(480, this.title());
    this.painter = new GanttPainter(bars, view, this.surface);
    this.tip = el("div", { class: "tip", role: "status", hidden: true });
    this.detail = el("div", { class: "detail", "aria-live": "polite" });
    this.key = el("div");
    this.message = el("span", { class: "message", role: "status" });
    this.map = this.overview();
    const { canvas } = this.surface;
    canvas.tabIndex = 0;
    canvas.classList.add("gantt");
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${this.title()}. Arrow keys move, plus and minus zoom, slash searches for a job.`);
    this.listen(canvas);
    this.element = el("div", { class: "gantt-box" }, this.toolbar(), this.key,
      el("div", { class: "canvas-box" }, canvas, this.tip), this.map, this.notes(facts), this.detail);
    view.painters.push(() => this.painter.paint(), () => this.paintOverview());
    theme.listeners.push(() => this.showKey());
    this.showKey();
    this.showDetail();
    new ResizeObserver(() => view.repaint()).observe(canvas);
  }

  stop() { this.stopped = true; }

  title() {
    const { facts } = this.bars;
    const rows = facts.machines > 1 ? counted(facts.machines, "machine") : `${plain(facts.lanes * facts.processors_a_lane)} ${facts.resource}`;
    return `Gantt chart of ${counted(facts.jobs, "job")} on ${rows}`;
  }

  toolbar() {
    const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.input = el("input", {
      type: "search", placeholder: "Job id", "aria-label": "Search for a job by its id", spellcheck: "false",
      onkeydown: (event) => { if (event.key === "Enter") this.search(); },
      oninput: () => { this.message.textContent = ""; }, // which was about another id
    });
    return el("div", { class: "toolbar" },
      el("span", { class: "search" }, this.input, el("button", { type: "button", onclick: () => this.search() }, "Find job"), this.message),
      select("Colour by", this.colours(), "wait", (value) => { this.painter.colour = value; this.showKey(); this.view.repaint(); }),
      el("span", { class: "buttons" },
        button("−", "Zoom out in time", () => this.view.zoom(2)), button("+", "Zoom in on time", () => this.view.zoom(0.5)),
        button("Rows −", "Show more rows", () => this.zoomRows(2)), button("Rows +", "Show fewer rows", () => this.zoomRows(0.5)),
        button("Show all", "Show all times and rows", () => this.showAll())));
  }

  colours() {
    const { names } = this.bars.facts;
    const known = ["user", "group", "queue", "partition"].filter((name) => names[name]?.length > 1);
    return [["wait", "wait"], ...known.map((name) => [name, name]), ["size", "size"], ["status", "status"]];
  }

  showKey() { // what the colours mean
    const { painter } = this, entry = (text, colour) => ({ text, css: colour, shape: "box" });
    const steps = (names) => names.map((text, n) => entry(text, theme.steps[n]));
    const by = painter.colour;
    let entries;
    if (by === "wait") entries = steps(WAIT_STEP_NAMES);
    else if (by === "size") entries = steps(SIZE_STEP_NAMES);
    else if (by === "status") entries = [["finished", 2], ["killed", 1], ["rejected", 5], ["running", 0], ["waiting", 4]].map(([text, n]) => entry(text, theme.kinds[n]));
    else {
      const { largest, names, counts, others } = painter.kinds();
      entries = largest.map((row, n) => entry(`${names[row]} (${counted(counts[row], "job")})`, theme.kinds[n]));
      if (others > 0) entries.push(entry(`${plain(others)} others`, theme.kinds[6]));
    }
    const far = el("span", { class: "ramp", "aria-hidden": "true" });
    this.key.replaceChildren(el("div", { class: "keys" }, el("span", { class: "soft" }, `Bars: ${by}`), legend(entries),
      el("span", { class: "soft" }, "From far away: share in use, 0 "), far, el("span", { class: "soft" }, " 100%")));
  }

  notes(facts) {
    const lines = [];
    if (facts.by_processor) {
      const each = facts.processors_a_lane > 1 ? `A row is ${plain(facts.processors_a_lane)} ${facts.resource}. ` : "";
      lines.push(facts.machines > 1
        ? `${each}Rows within a machine are drawn, not recorded: a run records the machine of a job, not which of its ${facts.resource} it had.`
        : `${each}Rows are drawn, not recorded: a pool counts ${facts.resource} and does not number them, so each job is packed into the lowest free rows.`);
    } else {
      lines.push("A row holds one allocation at a time, on the machine that was recorded; which row of a machine is drawn, not recorded.");
    }
    const missing = [];
    if (facts.bars_left_out) missing.push(`${counted(facts.bars_left_out, "bar")} of ${plain(facts.bars + facts.bars_left_out)}`);
    if (facts.jobs_left_out) missing.push(`${counted(facts.jobs_left_out, "job")} of ${plain(facts.jobs + facts.jobs_left_out)}`);
    if (missing.length) lines.push(`Left out of this file: ${missing.join(" and ")}, those with the smallest areas. They count in the shades, but cannot be pointed at or found.`);
    return el("div", { class: "notes" }, lines.map((line) => el("p", {}, line)),
      el("details", { class: "screen-only" }, el("summary", {}, "Keys and pointer"),
        el("dl", { class: "keys-list" }, HELP.map(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]))));
  }

  listen(canvas) {
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; this.view.point(null); });
    canvas.addEventListener("dblclick", (event) => { this.view.zoom(0.25, tickAt(this.surface, this.view, event)); });
    canvas.addEventListener("keydown", (event) => this.press_key(event));
  }

  // A wheel that is scrolling the page scrolls on; one that starts over the chart zooms. Where there
  // is nothing more to show, the page scrolls.
  wheel(event) {
    const now = performance.now();
    const scrolling = now - lastScroll < 250 && !event.ctrlKey && document.activeElement !== this.surface.canvas;
    if (scrolling) return;
    const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) * (event.deltaMode ? 0.05 : 0.002))));
    let changed;
    if (event.shiftKey) changed = this.zoomRows(factor, this.painter.laneAt(event.clientY - this.surface.canvas.getBoundingClientRect().top));
    else if (Math.abs(event.deltaX) > 2 * Math.abs(event.deltaY)) changed = this.view.pan(event.deltaX / this.surface.plotWidth);
    else changed = this.view.zoom(factor, tickAt(this.surface, this.view, event));
    if (changed || event.ctrlKey) event.preventDefault();
    this.tip.hidden = true;
  }

  zoomRows(factor, at = (this.painter.low + this.painter.high) / 2) {
    const { painter, bars } = this;
    const span = Math.min(bars.lanes, Math.max(Math.min(4, bars.lanes), (painter.high - painter.low) * factor));
    const share = (at - painter.low) / (painter.high - painter.low);
    return this.setRows(at - share * span, span);
  }

  setRows(low, span) {
    const { painter, bars } = this;
    const start = Math.min(bars.lanes - span, Math.max(0, low));
    if (start === painter.low && start + span === painter.high) return false;
    painter.low = start;
    painter.high = start + span;
    this.view.repaint();
    return true;
  }

  showAll() {
    this.setRows(0, this.bars.lanes);
    this.view.set(0, this.view.all);
    this.view.repaint();
  }

  press(event) {
    if (event.button !== 0) return;
    this.surface.canvas.focus({ preventScroll: true });
    this.surface.canvas.setPointerCapture(event.pointerId);
    const { view, painter } = this;
    this.drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, low: painter.low, span: painter.high - painter.low, moved: false };
  }

  move(event) {
    const { drag, view, surface } = this;
    if (!drag) { this.hover(event); return; }
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    this.tip.hidden = true;
    const by = (-dx / surface.plotWidth) * (drag.to - drag.from);
    const from = Math.min(view.all - (drag.to - drag.from), Math.max(0, drag.from + by));
    view.set(from, from + drag.to - drag.from);
    this.setRows(drag.low - (dy / this.painter.bottom) * drag.span, drag.span);
  }

  release(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag || drag.moved) return;
    const { found } = this.under(event);
    if (found.length) this.choose(this.bars.bar.job[this.bars.rectBar[found[0]]], false);
    else this.choose(null);
  }

  under(event) { // rectangles under the pointer, within a pixel
    const box = this.surface.canvas.getBoundingClientRect(), y = event.clientY - box.top;
    if (y > this.painter.bottom || event.clientX - box.left < GUTTER) return { found: [], count: 0 };
    const tick = tickAt(this.surface, this.view, event), lane = this.painter.laneAt(y);
    const half = Math.max(0.01, (this.view.to - this.view.from) / this.surface.plotWidth / 2);
    const rows = (this.painter.high - this.painter.low) / this.painter.bottom / 2;
    const exact = this.bars.near({ from: tick, to: tick + 0.01, low: lane, high: lane + 1e-6 });
    const near = this.bars.near({ from: tick - half, to: tick + half, low: lane - rows, high: lane + rows }, 1);
    return { found: exact.count ? exact.found : near.found, count: near.count, tick, lane };
  }

  hover(event) {
    const { found, count, tick, lane } = this.under(event);
    this.view.point(tickAt(this.surface, this.view, event));
    if (tick === undefined) { this.tip.hidden = true; return; }
    const box = this.surface.canvas.getBoundingClientRect();
    const lines = count > 3 && this.painter.mode !== "bars"
      ? [el("b", {}, `${percent(this.bars.shareAt(tick, lane, this.view.all), 2)} in use here`), `${plain(count)} bars in this pixel; zoom in to see them`]
      : found.length ? this.jobLines(found[0]) : [el("b", {}, "Nothing runs here"), this.place(lane)];
    lines.splice(1, 0, el("span", { class: "soft" }, this.view.clock.text(tick, true)));
    this.tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
    this.tip.hidden = false;
    const x = event.clientX - box.left, y = event.clientY - box.top;
    this.tip.style.left = `${Math.max(0, Math.min(box.width - this.tip.offsetWidth - 8, x + (x > box.width - 300 ? -this.tip.offsetWidth - 14 : 16)))}px`;
    this.tip.style.top = `${Math.max(0, Math.min(box.height - this.tip.offsetHeight - 8, y + 16))}px`;
  }

  place(lane) {
    const { bars } = this, machine = bars.machineAt(lane);
    const row = Math.floor(lane - bars.machineLane[machine]) + 1;
    const called = bars.nameOf(machine);
    const name = bars.facts.machines > 1 ? `${/^\d+$/.test(called) ? "machine " : ""}${called}, ` : "";
    return `${name}row ${plain(row)} (drawn, not recorded)`;
  }

  jobLines(n) { // what the tip says of a rectangle
    const { bars, view } = this, bar = bars.rectBar[n], job = bars.bar.job[bar];
    const facts = jobFacts(this.run, bars, job, view.clock);
    const seconds = (ticks) => view.clock.seconds(ticks);
    const task = bars.taskName ? `, task ${bars.taskName[bars.bar.task[bar]]}` : "";
    return [
      el("b", {}, `Job ${bars.job.id[job]}${task}`),
      `${facts.size}${facts.user ? `, ${facts.user}` : ""}`,
      `${facts.waited}`,
      `this bar: ${duration(seconds(bars.bar.length[bar]))}${bars.bar.count[bar] > 1 && !bars.facts.by_processor ? `, ${counted(bars.bar.count[bar], "instance")}` : ""}` +
        `${bars.bar.attempt[bar] > 1 ? `, attempt ${bars.bar.attempt[bar]}` : ""}, ${bars.facts.outcomes[bars.bar.outcome[bar]] || UNKNOWN_TEXT}`,
      this.place(bars.lane[n]),
    ];
  }

  press_key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { view, painter } = this, rows = painter.high - painter.low;
    const actions = {
      "ArrowLeft": () => view.pan(-0.15), "ArrowRight": () => view.pan(0.15),
      "ArrowUp": () => this.setRows(painter.low - 0.15 * rows, rows), "ArrowDown": () => this.setRows(painter.low + 0.15 * rows, rows),
      "+": () => (event.shiftKey && event.code === "NumpadAdd" ? this.zoomRows(0.5) : view.zoom(0.5)), "=": () => view.zoom(0.5), "-": () => view.zoom(2),
      "*": () => this.zoomRows(0.5), "_": () => this.zoomRows(2), "0": () => this.showAll(), "Home": () => this.showAll(),
      "PageUp": () => this.zoomRows(0.5), "PageDown": () => this.zoomRows(2),
      "Escape": () => this.choose(null), "/": () => this.input.focus(),
    };
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  search() {
    const text = this.input.value.trim();
    this.message.textContent = "";
    if (!text) return;
    const job = this.bars.findRow(text);
    if (job === undefined) {
      const left = this.bars.facts.jobs_left_out;
      this.message.textContent = left ? `No job ${text} among the ${plain(this.bars.facts.jobs)} of this file` : `No job ${text} in this run`;
      return;
    }
    this.choose(job, true);
  }

  // Keeps a job: marks it, says all about it, and moves there if that is wanted.
  choose(job, go = false) {
    const { painter, bars, view } = this;
    painter.chosen = job;
    painter.chosenRects = job === null ? [] : bars.rectanglesOf(job);
    if (job !== null && go) {
      const { submit, end, start } = bars.job, rects = painter.chosenRects;
      const from = submit[job] ? submit[job] - 1 : 0;
      const to = rects.length ? Math.max(...rects.map((n) => bars.to[n])) : Math.max(from, (start[job] || end[job] || submit[job]) - 1);
      const room = Math.max(view.least, (to - from) * 0.25);
      view.set(from - room, to + room);
      if (rects.length) {
        const low = Math.min(...rects.map((n) => bars.lane[n])), high = Math.max(...rects.map((n) => bars.lane[n] + bars.height[n]));
        const span = Math.min(bars.lanes, Math.max(high - low + 8, Math.min(bars.lanes, 32)));
        this.setRows((low + high - span) / 2, span);
      }
    }
    this.showDetail();
    view.repaint();
  }

  showDetail() {
    const { chosen } = this.painter;
    if (chosen === null) {
      this.detail.replaceChildren(el("p", { class: "soft screen-only" }, "Click a bar, or search for a job, to keep what is known of it here."));
      return;
    }
    const { run, bars, view } = this, facts = jobFacts(run, bars, chosen, view.clock);
    const id = String(bars.job.id[chosen]), command = run.explain + quoted(id);
    const known = run.longest.find((one) => String(one.job_id) === id);
    this.detail.dataset.job = id;
    this.detail.replaceChildren(...[el("h3", {}, `Job ${id}`),
      el("dl", { class: "facts" }, facts.all.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
      run.explain ? el("p", { class: "command" }, el("span", {}, "Why it waited: "), el("code", {}, command), copyButton(() => command, "the command")) : null,
      known?.explanation.length ? explanation(known, view.clock) : null].filter(Boolean));
  }

  overview() {
    this.mapSurface = new Surface(40, "All times, with the part that is shown");
    const { canvas } = this.mapSurface;
    canvas.classList.add("map", "screen-only");
    const go = (event) => {
      if (!(event.buttons & 1)) return;
      const x = event.clientX - canvas.getBoundingClientRect().left;
      const tick = ((x - GUTTER) / this.mapSurface.plotWidth) * this.view.all, half = (this.view.to - this.view.from) / 2;
      this.view.set(Math.min(this.view.all - 2 * half, Math.max(0, tick - half)), Math.min(this.view.all, Math.max(2 * half, tick + half)));
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); go(event); });
    canvas.addEventListener("pointermove", go);
    return canvas;
  }

  paintOverview() {
    const surface = this.mapSurface;
    if (!surface.fit()) return;
    const { context } = surface, { colours } = theme, { bars, view } = this;
    const width = Math.round(surface.plotWidth), top = 4, height = 26;
    context.clearRect(0, 0, surface.width, surface.height);
    context.fillStyle = colours.panel;
    context.fillRect(GUTTER, top, width, height);
    context.fillStyle = colours.accent;
    const sums = this.usedByBin();
    for (let x = 0; x < width; x++) {
      const share = sums[Math.min(sums.length - 1, Math.floor((x / width) * sums.length))];
      context.fillRect(GUTTER + x, top + height * (1 - share), 1, height * share);
    }
    const from = GUTTER + (view.from / view.all) * width, to = GUTTER + (view.to / view.all) * width;
    context.fillStyle = colours.page;
    context.globalAlpha = 0.72;
    context.fillRect(GUTTER, top, from - GUTTER, height);
    context.fillRect(to, top, GUTTER + width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.5, top, Math.max(3, to - from - 1), height);
    context.font = FONT;
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("all", GUTTER - 10, top + height / 2);
  }

  usedByBin() { // mean share of all lanes in use, in 512 bins
    if (this.used) return this.used;
    const { levels, bands } = this.bars, { bins, cells } = levels[levels.length - 1];
    this.used = new Float32Array(bins);
    for (let band = 0; band < bands; band++) for (let bin = 0; bin < bins; bin++) this.used[bin] += cells[band * bins + bin] / 255 / bands;
    return this.used;
  }
}

let lastScroll = -1e9;
addEventListener("scroll", () => { lastScroll = performance.now(); }, { passive: true });

function quoted(id) { // for a shell
  return /^[\w.@%+=:,/-]+$/.test(id) ? id : `'${id.replaceAll("'", "'\\''")}'`;
}

// What is known of a job; an unknown is never a number.
function jobFacts(run, bars, job, clock) {
  const { job: jobs, facts } = bars;
  const at = (ticks) => (ticks ? clock.text(ticks - 1, true) : "never");
  const between = (from, to) => (from && to ? duration(clock.seconds(to - from)) : null);
  const size = `${counted(jobs.size[job] / facts.size_per, facts.resource.replace(/s$/, ""), facts.resource)}`;
  const wait = between(jobs.submit[job], jobs.start[job]);
  const status = facts.statuses[jobs.status[job]] || UNKNOWN_TEXT;
  const asked = jobs.requested[job];
  const names = Object.entries(facts.names).map(([kind, list]) => [kind, list[jobs[kind][job]]]);
  const user = names.find(([kind, name]) => kind === "user" && name !== UNKNOWN_TEXT);
  const requested = !asked ? UNKNOWN_TEXT : asked >= 0xffffffff - 1 ? "no limit" : duration(clock.seconds(asked - 1));
  return {
    size,
    user: user ? `user ${user[1]}` : "",
    waited: wait === null ? "never started" : `waited ${wait}`,
    all: [
      ["status", status], ["asked for", size], ["submitted", at(jobs.submit[job])], ["started", at(jobs.start[job])],
      ["ended", jobs.end[job] ? at(jobs.end[job]) : "not within the run"], ["waited", wait === null ? "it never started" : wait],
      ["start to end", between(jobs.start[job], jobs.end[job]) || UNKNOWN_TEXT], ["requested time", requested], ...names,
    ],
  };
}

const CAUSES = []; // of waits, in the order in which they are met

// The intervals of a job's wait: a bar in parts, and a sentence for each. A job waits until its first
// task starts, and is explained until its last one does.
function explanation(job, clock) {
  const parts = job.explanation, total = parts.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  const colour = (cause) => { // the same for all jobs
    if (!CAUSES.includes(cause)) CAUSES.push(cause);
    return `var(--kind-${Math.min(6, CAUSES.indexOf(cause))})`;
  };
  const waited = parts.reduce((sum, [from, to]) => sum + to - from, 0);
  return el("div", { class: "explanation" },
    waited > job.wait_time_s + 0.001 ? el("p", { class: "soft" }, `Of its task that waited longest: ${duration(waited)}. The job's own wait, ${duration(job.wait_time_s)}, ends when its first task starts.`) : null,
    el("div", { class: "parts", role: "img", "aria-label": `The wait in ${counted(parts.length, "interval")}` },
      parts.map(([from, to, cause]) => el("span", { title: `${cause}: ${duration(to - from)}`, style: { flexGrow: String((to - from) / total), background: colour(cause) } }))),
    el("ol", {}, parts.map(([from, to, cause, sentence]) => el("li", {},
      el("span", { class: "swatch", style: { background: colour(cause) } }), el("b", {}, cause), ` ${duration(to - from)}, from ${clock.text((from - clock.start) / clock.unit)}: ${sentence}`))));
}

// The parts of the page about runs.

const COUNTS = ["finished", "killed", "rejected", "running", "waiting"];
const COUNT_TEXTS = { running: "still running", waiting: "still waiting", other: "not recorded" };

// Name → {value, unit, metric} of all numbers of a run.
function numbersOfRun(run) {
  const found = new Map();
  for (const metric of run.metrics) {
    const main = "value" in metric.values ? "value" : "mean" in metric.values ? "mean" : null;
    if (main) found.set(metric.name, { value: metric.values[main], unit: metric.unit, metric });
    for (const [key, value] of Object.entries(metric.values)) found.set(`${metric.name}.${key}`, { value, unit: metric.unit, metric });
  }
  return found;
}

function countsText(counts) {
  const parts = [...COUNTS, "other"].filter((state) => counts[state]).map((state) => `${plain(counts[state])} ${COUNT_TEXTS[state] || state}`);
  return `${counted(counts.submitted, "job")}${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

function alerts(runs) {
  return runs.flatMap((run) => {
    const named = run.label ? `${run.label}: ` : "";
    const found = [];
    if (run.status !== "complete") found.push(el("p", { class: "alert" }, el("b", {}, `${named}this run is ${run.status}. `), `Its numbers are partial${run.error ? `: ${run.error}` : "."}`));
    if (run.empty) found.push(el("p", { class: "alert" }, `${named}${run.empty}, so there is nothing to draw.`));
    return found;
  });
}

function overview(runs) {
  const [run] = runs;
  if (runs.length > 1) return section("overview", "Overview", comparisonTable(runs));
  const numbers = numbersOfRun(run);
  const priced = (name) => name !== "energy_cost" || numbers.get(name).value; // 0: nothing had a price
  const tiles = run.tiles.filter(priced).map((name) => {
    const { value, unit, metric } = numbers.get(name);
    return el("div", { class: "tile", title: metric.formula }, el("div", { class: "tile-name" }, tileName(name, metric)), el("div", { class: "tile-value" }, quantity(value, unit)),
      el("div", { class: "soft" }, tileNote(metric)));
  });
  return section("overview", "Overview",
    el("div", { class: "tiles" }, el("div", { class: "tile" }, el("div", { class: "tile-name" }, "jobs"), el("div", { class: "tile-value" }, plain(run.counts.submitted)), el("div", { class: "soft" }, countParts(run.counts))), tiles),
    run.metrics.length ? null : el("p", { class: "soft" }, "This run has no metrics: it did not end."));
}

function countParts(counts) {
  const parts = [...COUNTS, "other"].filter((state) => counts[state]).map((state) => `${plain(counts[state])} ${COUNT_TEXTS[state] || state}`);
  return parts.join(", ") || "none submitted";
}

function isMean(name, { values }) { // whether a metric's own name stands for its mean
  return !name.includes(".") && !("value" in values) && "mean" in values;
}

function tileName(name, metric) {
  return (isMean(name, metric) ? "mean " : "") + metricName(name);
}

function tileNote({ count, censored, unit, note, of_jobs: ofJobs }) {
  if (ofJobs) return counted(count, "job") + (censored ? `; ${plain(censored)} without one` : "");
  return unit?.length > 12 ? `in the ${unit}` : note;
}

function comparisonTable(runs) {
  const numbers = runs.map(numbersOfRun);
  const names = [...new Set(runs.flatMap((run) => run.report))];
  const row = (name, cells, title) => el("tr", {}, el("th", { scope: "row", title: title || null }, name), cells.map((text) => el("td", { class: "number" }, text)));
  const head = el("tr", {}, el("th", { scope: "col" }, ""), runs.map((run, n) => el("th", { scope: "col", class: "number" }, el("span", { class: "swatch", style: { background: `var(--run-${n})` } }), run.label)));
  const states = ["submitted", ...COUNTS, "other"].filter((state) => runs.some((run) => run.counts[state]));
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Runs side by side" }, el("table", {}, el("thead", {}, head), el("tbody", {},
    states.map((state) => row(`jobs ${COUNT_TEXTS[state] || state}`, runs.map((run) => plain(run.counts[state])))),
    names.map((name) => row(meanName(name, numbers), numbers.map((found) => found.has(name) ? quantity(found.get(name).value, found.get(name).unit) : "–"), numbers.find((found) => found.has(name)).get(name).metric.formula)))));
}

function meanName(name, numbers) {
  const { metric } = numbers.find((found) => found.has(name)).get(name);
  return metricName(name) + (isMean(name, metric) ? ", mean" : "");
}

function gainsSection(runs, comparisons) {
  if (!comparisons.length) return null;
  return section("gains", "Who gains, who loses", comparisons.map((one) => gains(runs, one)));
}

function gains(runs, one) {
  const a = runs[0], b = runs[one.run];
  const title = el("h3", {}, el("span", { class: "swatch", style: { background: `var(--run-${one.run})` } }), `${b.label} instead of `, el("span", { class: "swatch", style: { background: "var(--run-0)" } }), a.label);
  if (one.refused) return el("div", {}, title, el("p", { class: "alert" }, `Not compared job by job: ${one.refused}`));
  const kinds = Object.keys(one.groups);
  const place = el("div");
  const show = (by) => place.replaceChildren(gainTable(one.groups[by], by));
  if (kinds.length) show(kinds.includes("user") ? "user" : kinds[0]);
  return el("div", {}, title, differencesTable(one),
    one.notes.map((note) => el("p", { class: "soft" }, `${note}.`)),
    kinds.length ? [el("div", { class: "toolbar" }, choice("Group jobs by", kinds.map((by) => [by, `By ${by}`]), kinds.includes("user") ? "user" : kinds[0], show)), place] : null,
    el("p", { class: "soft" }, `${counted(one.paired, "job")} started in both runs and are paired by id${one.without ? `; ${counted(one.without, "job")} did not start in both and are left out` : ""}.`));
}

function differencesTable({ differences, level }) {
  const rows = differences.map((d) => {
    const text = (value) => quantity(value, d.unit);
    const interval = d.low === null || d.low === undefined ? "none" : `${signed(d.low, text)} to ${signed(d.high, text)}`;
    return el("tr", {}, el("th", { scope: "row" }, metricName(d.metric)), [text(d.a), text(d.b), signed(d.difference, text)].map((cell) => el("td", { class: "number" }, cell)),
      el("td", { class: "number", title: d.method }, interval), el("td", {}, d.better === null ? "" : shareBar(d.better, d.equal, d.worse)), el("td", { class: "number" }, plain(d.n)));
  });
  const heads = ["metric, mean", "before", "after", "difference", `${plain(100 * level)}% interval`, "better, equal, worse", "pairs"];
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Differences" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((name, n) => el("th", { scope: "col", class: n && n !== 5 ? "number" : "" }, name)))), el("tbody", {}, rows)));
}

function shareBar(better, equal, worse) {
  const text = `better ${percent(better, 2)}, equal ${percent(equal, 2)}, worse ${percent(worse, 2)}`;
  return el("div", { class: "share", title: text, role: "img", "aria-label": text },
    [["gain", better], ["equal", equal], ["lose", worse]].map(([name, share]) => el("span", { class: name, style: { flexGrow: String(share) } }, share > 0.14 ? percent(share, 2) : "")));
}

function gainTable(table, by) {
  const most = Math.max(...table.rows.map((row) => Math.abs(row.total)), 1e-9);
  const columns = [
    { name: by, value: (row) => row.name, text: (row) => row.name },
    { name: "jobs", number: true, value: (row) => row.jobs, text: (row) => plain(row.jobs) },
    { name: "mean wait before", number: true, value: (row) => row.a, text: (row) => duration(row.a) },
    { name: "after", number: true, value: (row) => row.b, text: (row) => duration(row.b) },
    { name: "difference a job", number: true, value: (row) => row.b - row.a, text: (row) => signed(row.b - row.a, duration) },
    { name: "all waiting", number: true, title: "sum over the group's jobs", value: (row) => row.total, text: (row) => signed(row.total, duration) },
    { name: "shorter ← in all → longer", value: (row) => row.total, cell: (row) => totalBar(row.total / most) },
    { name: "better, equal, worse", value: (row) => row.better, cell: (row) => shareBar(row.better, row.equal, row.worse) },
  ];
  const few = [...table.rows.slice(0, 12).filter((row) => row.total < 0), ...table.rows.slice(-12).filter((row) => row.total > 0)];
  const rows = table.rows.length <= 24 ? table.rows : few;
  const words = by === "user" || by === "group" ? by : `${by}s`.replace(/ys$/, "ies");
  const count = (n, text) => `${counted(n, by)} ${n === 1 ? text[0] : text[1]}`;
  return el("div", { "data-by": words },
    el("p", {}, `${count(table.gain, ["waits", "wait"])} less in all, ${count(table.lose, ["waits", "wait"])} longer.`),
    sortable(`Waits by ${by}`, columns, rows, { sorted: 5, descending: false, most: 24 }),
    table.rows.length > rows.length || table.left_out ? el("p", { class: "soft" }, `The twelve that gain most and the twelve that lose most, of ${plain(table.rows.length + table.left_out)}.`) : null);
}

function totalBar(share) {
  const width = 90 * Math.abs(share);
  return svg("svg", { viewBox: "0 0 200 14", class: "range", "aria-hidden": "true" },
    svg("line", { x1: 100, x2: 100, y1: 0, y2: 14, class: "axis" }),
    svg("rect", { x: share < 0 ? 100 - width : 100, width: Math.max(1, width), y: 2, height: 10, rx: 2, style: { fill: share < 0 ? "var(--gain)" : "var(--lose)" } }));
}

function longestSection(runs, show) {
  const [run] = runs.filter((one) => one.longest?.length);
  if (!run) return section("longest", "The longest waits", el("p", { class: "soft" }, "No job had to wait."));
  const place = el("div");
  const fill = (number) => place.replaceChildren(longestTable(runs[number], number, show));
  fill(runs.indexOf(run));
  return section("longest", "The longest waits",
    runs.length > 1 ? el("div", { class: "toolbar" }, choice("Run", runs.map((one, n) => [n, one.label]), runs.indexOf(run), fill)) : null, place);
}

function longestTable(run, number, show) {
  const rows = run.longest || [];
  if (!rows.length) return el("p", { class: "soft" }, "No job had to wait.");
  const known = (value) => (value === null || value === -1 || value === "" || value === "-1" ? UNKNOWN_TEXT : String(value));
  const clock = page.clock, at = (s) => clock.text((s - clock.start) / clock.unit);
  const columns = [
    { name: "job", value: (row) => row.job_id, cell: (row) => el("button", { type: "button", class: "link", title: "Show in the Gantt chart", onclick: () => show(number, String(row.job_id)) }, String(row.job_id)) },
    { name: "waited", number: true, value: (row) => row.wait_time_s, text: (row) => duration(row.wait_time_s) },
    { name: run.gantt.resource, number: true, value: (row) => row.size, text: (row) => plain(row.size) },
    { name: "user", value: (row) => known(row.user), text: (row) => known(row.user) },
    { name: "submitted", value: (row) => row.submit_time_s, text: (row) => at(row.submit_time_s) },
    { name: "started", value: (row) => row.start_time_s, text: (row) => at(row.start_time_s) },
    { name: "why", value: (row) => row.explanation.length, cell: (row) => row.explanation.length
      ? el("details", {}, el("summary", {}, [...new Set(row.explanation.map(([, , cause]) => cause))].join(", ")), explanation(row, clock))
      : !run.explain ? "" : el("span", { class: "command" }, el("code", {}, run.explain + quoted(String(row.job_id))), copyButton(() => run.explain + quoted(String(row.job_id)), "the command")) },
  ];
  const never = run.counts.waiting;
  return el("div", {}, sortable("Jobs with the longest waits", columns, rows, { most: 20 }),
    never ? el("p", { class: "soft" }, `${counted(never, "job")} still waited at the end and are not listed: nobody knows how long they would have waited.`) : null);
}

function sourceSection(runs) {
  return section("source", "Where this comes from", runs.map((run, n) => {
    const trace = run.trace, dropped = Object.entries(trace.dropped || {}), repaired = Object.entries(trace.repaired || {});
    const facts = [
      ["scenario", run.name], ["policy", run.policy], ["estimates", run.estimates || "not used"], ["seed", String(run.seed)],
      ["cluster", `${Object.entries(run.resources).map(([name, amount]) => `${plain(amount, 15)} ${name}`).join(", ") || UNKNOWN_TEXT}${run.machines > 1 ? ` on ${plain(run.machines)} machines` : ""}`],
      ["digest", run.digest || "none: the run is not complete"], ["run folder", run.folder], ["simkit", run.versions.simkit || UNKNOWN_TEXT],
      ["times", !page.clock || page.clock.dated ? null : `since the first submit, which is at ${elapsed(page.clock.start)} of the trace's clock; simkit explain --at counts from that clock's zero`],
      ["rows of the log", trace.read === undefined ? null : `${plain(trace.read)} read, ${plain(trace.accepted)} accepted as they are${[...repaired.map(([rule, count]) => `, ${plain(count)} repaired: ${rule}`), ...dropped.map(([rule, count]) => `, ${plain(count)} dropped: ${rule}`)].join("")}`],
    ].filter(([, text]) => text !== null);
    return el("div", {}, runs.length > 1 ? el("h3", {}, el("span", { class: "swatch", style: { background: `var(--run-${n})` } }), run.label) : null,
      el("dl", { class: "facts" }, facts.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
      run.warnings.length ? el("details", { open: true }, el("summary", {}, counted(run.warnings.length, "warning")), el("ul", {}, run.warnings.map((text) => el("li", {}, text)))) : null,
      run.inputs.length ? el("details", {}, el("summary", {}, counted(run.inputs.length, "input")), el("ul", { class: "inputs" }, run.inputs.map(({ path, sha256 }) => el("li", {}, el("code", {}, path), el("br"), el("span", { class: "soft" }, `sha256 ${sha256}`))), run.inputs_left_out ? el("li", {}, `${plain(run.inputs_left_out)} more`) : null)) : null,
      el("details", {}, el("summary", {}, "Scenario, after defaults"), copyButton(() => run.scenario, "the scenario"), el("pre", {}, run.scenario)),
      run.metrics.length ? el("details", {}, el("summary", {}, `All ${plain(run.metrics.length)} metrics, with their formulas`), metricsTable(run)) : null);
  }));
}

function metricsTable(run) {
  const rows = run.metrics.map((metric) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, metric.name)),
    el("td", {}, Object.entries(metric.values).map(([key, value]) => el("div", {}, `${key === "value" ? "" : `${key} `}${quantity(value, metric.unit)}`))),
    el("td", {}, metric.formula), el("td", {}, metric.window), el("td", { class: "number" }, plain(metric.count)), el("td", { class: "number" }, plain(metric.censored))));
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "All metrics" }, el("table", { class: "metrics" },
    el("thead", {}, el("tr", {}, ["metric", "numbers", "formula", "window", "count", "without"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)));
}

// Waits and slowdowns: their distributions over all jobs, and by group.

function measures(runs) { // [name, title] of the metrics that are drawn
  return Object.keys(runs[0].distributions).map((name) => [name, metricName(name).replace(/^./, (first) => first.toUpperCase())]);
}

function isTime(metric) {
  return metric.endsWith("_s");
}

function distributionCharts(runs) {
  return el("div", { class: "pair" }, measures(runs).map(([metric, title]) => {
    const curves = runs.map((run, n) => ({
      css: `var(--run-${n})`, text: curveText(run, metric, runs.length > 1), ...run.distributions[metric],
    })).filter((curve) => curve.values.length);
    return curveFigure(title, metric, curves);
  }));
}

function curveText(run, metric, named) {
  const { mean, count, without } = run.distributions[metric];
  const number = (value) => (isTime(metric) ? duration(value) : plain(value));
  const lost = without ? `; ${counted(without, "job")} without one` : "";
  return `${named ? `${run.label}: ` : ""}mean ${number(mean)} of ${counted(count, "job")}${lost}`;
}

function curveFigure(title, metric, curves) {
  if (!curves.length) return el("figure", {}, el("figcaption", {}, el("b", {}, title)), el("p", { class: "soft" }, "No job has a value."));
  const time = isTime(metric), label = metricName(metric);
  const high = Math.max(time ? 60 : 10, ...curves.map((curve) => curve.values[curve.values.length - 1])) * 1.15;
  const x = { low: 1, high, log: true, label: `${label} (logarithmic${time ? "; below 1 s at the left edge" : ""})`, ticks: time ? waitTicks(1, high) : powerTicks(1, high) };
  const y = { low: 0, high: 100, label: "jobs", ticks: [0, 25, 50, 75, 100].map((n) => [n, `${n}%`]) };
  const { root, layer, sx, sy } = chartFrame(`${title}: share of jobs with at most each ${label}`, x, y);
  for (const curve of curves) {
    layer.append(svg("path", {
      d: pathOf(stepped(shareSteps(curve, high)).map(([value, share]) => [sx(value), sy(share)])),
      class: "curve", style: { stroke: curve.css, strokeDasharray: curve.dash || "none" },
    }));
  }
  return el("figure", {}, el("figcaption", {}, el("b", {}, `${title}, cumulative`)), legend(curves), root);
}

// [value, per cent of jobs that have at most it] from the left edge to the right one; what is below
// the left edge counts there.
function shareSteps({ values, shares }, high) {
  const below = values.filter((value) => value <= 1).length;
  const steps = values.slice(below).map((value, n) => [value, 100 * shares[below + n]]);
  return [[1, below ? 100 * shares[below - 1] : 0], ...steps, [high, 100]];
}

// The waits that a log records, beside those of the runs that replay it.
function recordedFigures(runs) {
  const logs = new Map();
  for (const [n, run] of runs.entries()) {
    if (!run.recorded) continue;
    const { mean, count } = run.recorded.recorded, key = `${mean} ${count}`;
    logs.set(key, [...(logs.get(key) || []), [run, n]]);
  }
  return [...logs.values()].map(recordedFigure);
}

function recordedFigure(members) {
  const { recorded, jobs } = members[0][0].recorded;
  const curves = [
    { ...recorded, css: "var(--ink)", dash: "6 4", text: `recorded in the log: mean ${duration(recorded.mean)}` },
    ...members.map(([run, n]) => ({
      ...run.recorded.simulated, css: `var(--run-${n})`,
      text: `${run.label || "simulated"}: mean ${duration(run.recorded.simulated.mean)}; ${percent(run.recorded.within_5_min)} of jobs within 5 min of what is recorded`,
    })),
  ];
  return el("div", {},
    curveFigure("Recorded and simulated waits", "wait_time_s", curves),
    el("p", { class: "soft" }, `${counted(recorded.count, "job")} of ${plain(jobs)} have a recorded wait; only they count here.`));
}

const GROUP_WORDS = { size: "size", length: "length", user: "user", group: "group", queue: "queue", partition: "partition" };

function groupSection(runs) {
  const kinds = Object.keys(GROUP_WORDS).filter((by) => runs.some((run) => run.groups[by]));
  let by = kinds[0], measure = measures(runs)[0][0];
  const place = el("div");
  const show = () => place.replaceChildren(groupTable(runs, by, measure));
  show();
  return el("div", {},
    el("div", { class: "toolbar" },
      choice("Group jobs by", kinds.map((kind) => [kind, `By ${GROUP_WORDS[kind]}`]), by, (value) => { by = value; show(); }),
      choice("Metric", measures(runs), measure, (value) => { measure = value; show(); })),
    place);
}

function groupTable(runs, by, measure) {
  const time = isTime(measure), number = (value) => (value === null ? "–" : time ? duration(value) : plain(value));
  const rows = [];
  const names = [...new Set(runs.flatMap((run) => (run.groups[by]?.rows || []).map((row) => row.name)))];
  for (const [place, name] of names.entries()) {
    for (const [n, run] of runs.entries()) {
      const row = run.groups[by]?.rows.find((one) => one.name === name);
      if (row) rows.push({ ...row, run, n, place });
    }
  }
  const highest = Math.max(time ? 60 : 10, ...rows.map((row) => row[measure][3] || 0));
  const part = (title, place) => ({ name: title, number: true, value: (row) => row[measure][place], text: (row) => number(row[measure][place]) });
  const columns = [
    { name: by, value: (row) => (by === "size" || by === "length" ? row.place : row.name), text: (row) => row.name },
    ...(runs.length > 1 ? [{ name: "run", value: (row) => row.n, cell: (row) => [el("span", { class: "swatch", style: { background: `var(--run-${row.n})` } }), row.run.label] }] : []),
    { name: "jobs", number: true, value: (row) => row.jobs, text: (row) => plain(row.jobs) },
    { name: "not finished", number: true, value: (row) => row.unfinished, text: (row) => plain(row.unfinished) },
    part("mean", 0), part("median", 1), part("90%", 2), part("99%", 3), part("longest", 4),
    { name: "median to 90 %, logarithmic", value: (row) => row[measure][0],
      cell: (row) => rangeBar(row[measure], 1, highest, `var(--run-${row.n})`, `${row.name}: mean ${number(row[measure][0])}, median ${number(row[measure][1])}, 90th percentile ${number(row[measure][2])}, 99th ${number(row[measure][3])}`) },
  ];
  const notes = runs.map((run) => groupNote(run, by, runs.length > 1)).filter(Boolean);
  return el("div", {}, sortable(`Jobs by ${by}`, columns, rows, { most: 24 * runs.length }),
    el("p", { class: "soft" }, "Dot: mean. Bar: median to 90th percentile. Line: to the 99th. Killed jobs count; jobs that never started have no wait."),
    notes.map((note) => el("p", { class: "soft" }, note)));
}

function groupNote(run, by, named) {
  const table = run.groups[by];
  if (!table) return null;
  const parts = [];
  if (table.unknown === table.jobs) parts.push(`the log names no ${by} of any job`);
  else if (table.unknown) parts.push(`the ${by} of ${counted(table.unknown, "job")} is unknown`);
  if (table.left_out) parts.push(`${counted(table.left_out, `more ${by}`)} with ${counted(table.left_out_jobs, "job")} not listed`);
  if (!parts.length) return null;
  const text = parts.join("; ");
  return named ? `${run.label}: ${text}.` : `${text[0].toUpperCase()}${text.slice(1)}.`;
}

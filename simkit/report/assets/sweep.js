// A sweep: response curves with intervals over seeds, and a table that can be sorted.

const DASHES = ["none", "7 4", "2 3", "10 3 2 3"];

function sweepPage(sweep) {
  return [
    section("curves", "Response", sweep.curves.length ? responseCurves(sweep) : groupDots(sweep)),
    section("table", "All groups", summaryTable(sweep.table),
      sweep.table.rows_left_out ? el("p", { class: "soft" }, `${counted(sweep.table.rows_left_out, "more group")} not listed.`) : null),
    section("runs", "Runs",
      el("p", {}, `${counted(sweep.runs, "run")}, ${plain(sweep.complete)} of them complete; seeds ${sweep.seeds.slice(0, 40).join(", ")}${sweep.seeds.length > 40 ? ", …" : ""}.`),
      sweep.left_out.length ? el("ul", {}, sweep.left_out.map((text) => el("li", {}, `Left out: ${text}`))) : null,
      el("p", { class: "soft" }, "For charts over time and a Gantt chart of one run: ", el("code", {}, "simkit report RUN"))),
  ];
}

function metricChoices(metrics) {
  return metrics.map(({ name }, n) => [String(n), metricName(name)]);
}

function responseCurves(sweep) {
  let curve = 0, metric = 0, log = false;
  const place = el("div");
  const show = () => place.replaceChildren(curveChart(sweep.curves[curve], metric, log));
  show();
  return el("div", {},
    el("div", { class: "toolbar" },
      sweep.curves.length > 1 ? select("Over", sweep.curves.map(({ x }, n) => [String(n), x]), "0", (value) => { curve = Number(value); show(); }) : null,
      select("Metric", metricChoices(sweep.curves[0].metrics), "0", (value) => { metric = Number(value); show(); }),
      choice("Scale", [[false, "Linear"], [true, "Logarithmic"]], log, (value) => { log = value; show(); })),
    place);
}

// [mean, low, high, …] of each row. An interval of what is never below 0 is cut there.
function cutCells(rows, metric) {
  const cells = rows.map((row) => row.cells[metric]);
  const least = cells.some(([mean]) => mean < 0) ? -Infinity : 0;
  return cells.map(([mean, low, ...rest]) => [mean, low === null ? null : Math.max(least, low), ...rest]);
}

// One line a combination of the other keys, with a band for the interval over seeds.
function curveChart({ x, rows, metrics, level }, metric, log = false) {
  const { name, unit } = metrics[metric], series = new Map(), cells = cutCells(rows, metric);
  for (const [place, row] of rows.entries()) {
    const label = row.values.slice(1).join(" · ") || metricName(name);
    if (!series.has(label)) series.set(label, []);
    if (row.numbers[0] !== null && cells[place][0] !== null) series.get(label).push([row.numbers[0], ...cells[place]]);
  }
  const points = [...series.values()].flat();
  if (!points.length) return el("p", { class: "soft" }, "No run has a value.");
  const share = unit === SHARE, of = share ? 100 : 1;
  const values = points.flatMap((point) => [point[1], point[2] ?? point[1], point[3] ?? point[1]]).map((value) => value * of);
  const [div, sign] = share ? [1, "%"] : axisUnit(unit, Math.max(...values.map(Math.abs)));
  const positive = points.map((point) => (point[1] * of) / div).filter((value) => value > 0);
  const logarithm = log && positive.length > 0;
  const low = logarithm ? Math.min(...positive) * 0.8 : Math.min(0, ...values) / div;
  const high = (Math.max(...values) / div) * 1.05 || 1;
  const xs = [...new Set(points.map((point) => point[0]))].sort((a, b) => a - b);
  const pad = (xs[xs.length - 1] - xs[0]) * 0.03 || 0.5;
  const { root, layer, sx, sy } = chartFrame(`${metricName(name)} over ${x}`,
    { low: xs[0] - pad, high: xs[xs.length - 1] + pad, ticks: (xs.length <= 10 ? xs : roundTicks(xs[0], xs[xs.length - 1], 8)).map((n) => [n, plain(n, 6)]), label: x },
    { low, high, log: logarithm, ticks: logarithm ? logTicks(low, high) : roundTicks(low, high, 5).map((n) => [n, plain(n, 6)]), label: `${metricName(name)}${sign ? ` (${sign})` : ""}` },
    { width: 900, height: 380 });
  const entries = [];
  for (const [n, [label, line]] of [...series].entries()) {
    const css = `var(--run-${n % 6})`, dash = DASHES[Math.floor(n / 6) % DASHES.length];
    line.sort((a, b) => a[0] - b[0]);
    const y = (value) => sy((value * of) / div);
    const banded = line.filter((point) => point[2] !== null && point[3] !== null);
    if (banded.length > 1) {
      layer.append(svg("path", {
        d: `${pathOf([...banded.map((p) => [sx(p[0]), y(p[2])]), ...banded.reverse().map((p) => [sx(p[0]), y(p[3])])])}Z`,
        style: { fill: css, fillOpacity: "0.14" },
      }));
    }
    layer.append(svg("path", { d: pathOf(line.map((p) => [sx(p[0]), y(p[1])])), class: "curve", style: { stroke: css, strokeDasharray: dash } }),
      ...line.map((p) => svg("circle", { cx: sx(p[0]), cy: y(p[1]), r: 3.4, style: { fill: css } },
        svg("title", {}, `${label}, ${x} ${plain(p[0], 6)}: ${quantity(p[1], unit)}${p[2] === null ? "" : `, ${quantity(p[2], unit)} to ${quantity(p[3], unit)}`}`))));
    entries.push({ text: label, css, dash });
  }
  return el("figure", { class: "wide" }, legend(entries), root,
    el("p", { class: "soft" }, `Mean over seeds${points.some((p) => p[2] !== null) ? `; bands: ${plain(100 * level)}% interval (Student's t)` : "; no interval, as there is one seed"}.`));
}

// seconds → the unit of an axis; other units as they are, scaled
function axisUnit(unit, size) {
  if (unit === "s") return [[86400 * 365.25, "years"], [86400, "days"], [3600, "h"], [60, "min"], [1, "s"]].find(([s]) => size >= 2 * s) || [1, "s"];
  if (unit === "1" || !unit) return [1, ""];
  return unitFor(unit, size);
}

// Where nothing that was swept is a number: a line a group.
function groupDots(sweep) {
  let metric = 0;
  const place = el("div"), { table } = sweep;
  const show = () => place.replaceChildren(dotChart(table, metric));
  show();
  return el("div", {}, el("div", { class: "toolbar" }, select("Metric", metricChoices(table.metrics), "0", (value) => { metric = Number(value); show(); })), place);
}

function dotChart({ by, rows, metrics, level }, metric) {
  const { name, unit } = metrics[metric], share = unit === SHARE, of = share ? 100 : 1;
  const cells = cutCells(rows, metric);
  const shown = rows.map((row, n) => ({ ...row, cell: cells[n] })).filter((row) => row.cell[0] !== null).slice(0, 60);
  if (!shown.length) return el("p", { class: "soft" }, "No run has a value.");
  const values = shown.flatMap((row) => row.cell.slice(0, 3)).filter((value) => value !== null).map((value) => value * of);
  const [div, sign] = share ? [1, "%"] : axisUnit(unit, Math.max(...values.map(Math.abs)));
  const low = Math.min(0, ...values) / div, high = (Math.max(...values) / div) * 1.05 || 1, left = 250;
  const { root, layer, sx } = chartFrame(`${metricName(name)} by ${by.join(", ") || "group"}`,
    { low, high, ticks: roundTicks(low, high, 6).map((n) => [n, plain(n, 6)]), label: `${metricName(name)}${sign ? ` (${sign})` : ""}` },
    { low: 0, high: 1, ticks: [], label: "" }, { width: 900, height: 70 + 26 * shown.length, left });
  for (const [n, row] of shown.entries()) {
    const y = 26 + 26 * n, [mean, least, most, best] = row.cell, label = row.values.join(" · ") || "all runs";
    if (least !== null) layer.append(svg("line", { x1: sx((least * of) / div), x2: sx((most * of) / div), y1: y, y2: y, class: "curve", style: { stroke: "var(--run-0)" } }));
    layer.append(svg("circle", { cx: sx((mean * of) / div), cy: y, r: 5, style: { fill: "var(--run-0)" } }),
      svg("text", { x: left - 10, y: y + 4, class: `tick end${best ? " strong" : ""}` }, label.length > 38 ? `${label.slice(0, 24)}…${label.slice(-12)}` : label, svg("title", {}, label)));
  }
  return el("figure", { class: "wide" }, root, el("p", { class: "soft" }, `Mean over seeds; lines: ${plain(100 * level)}% interval; best in bold${rows.length > shown.length ? `; ${plain(rows.length - shown.length)} groups not drawn` : ""}.`));
}

function summaryTable({ by, metrics, rows, notes }) {
  const columns = [
    ...by.map((key, n) => ({ name: key, value: (row) => row.numbers[n] ?? row.values[n], text: (row) => row.values[n] })),
    { name: "runs", number: true, value: (row) => row.runs, text: (row) => plain(row.runs) },
    ...metrics.map(({ name, unit }, n) => ({
      name: metricName(name), title: `${name}${unit && unit !== "1" ? `, ${unit}` : ""}`, number: true, value: (row) => row.cells[n][0],
      cell: (row) => {
        const [mean, , most, best, good] = row.cells[n];
        const text = `${quantity(mean, unit)}${most === null || mean === null ? "" : ` ± ${quantity(most - mean, unit)}`}`;
        return best ? el("b", {}, text) : good ? `${text} ~` : text;
      },
    })),
  ];
  return el("div", {}, sortable("Metrics of each group", columns, rows, { most: 60 }),
    notes.map((note) => el("p", { class: "soft" }, `${note.replace("* best", "Bold: best")}.`)));
}

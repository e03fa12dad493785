// Tables that can be sorted, with numbers under each other.

// columns: [{name, title, value(row), text(row), number, cell(row)}]; rows: any objects
function sortable(label, columns, rows, { most = Infinity, sorted = null, descending = true } = {}) {
  let by = sorted, down = descending, all = false;
  const body = el("tbody"), more = el("button", { type: "button", class: "small more", onclick: () => { all = true; fill(); } });
  const heads = columns.map((column, n) => el("th", { scope: "col", class: column.number ? "number" : "", title: column.title || null },
    el("button", {
      type: "button",
      onclick: () => { [by, down] = [n, by === n ? !down : Boolean(column.number)]; fill(); },
    }, column.name)));
  const fill = () => {
    const order = by === null ? rows : [...rows].sort((a, b) => compared(columns[by].value(a), columns[by].value(b), down));
    const shown = all ? order : order.slice(0, most);
    for (const [n, head] of heads.entries()) {
      head.setAttribute("aria-sort", n === by ? (down ? "descending" : "ascending") : "none");
    }
    body.replaceChildren(...shown.map((row) => el("tr", { class: row.class || "" }, columns.map((column, n) => el(n ? "td" : "th", {
      scope: n ? null : "row", class: column.number ? "number" : "",
    }, column.cell ? column.cell(row) : column.text(row))))));
    more.hidden = all || order.length <= most;
    more.textContent = `Show all ${plain(rows.length)} rows`;
  };
  fill();
  return el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": label },
    el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body), more);
}

// Unknown values come last, whichever way the others are sorted.
function compared(a, b, down) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return down ? -order : order;
}

// A bar from the median to the 90th percentile with the mean as a dot and a line to the 99th, on a
// logarithmic scale.
function rangeBar(numbers, low, high, css, text) {
  const [mean, p50, p90, p99] = numbers;
  if (mean === null || mean === undefined) return el("span", { class: "soft" }, "no value");
  const scale = logarithmic(low, high, 4, 196);
  const at = (value) => scale(Math.max(low, value));
  return svg("svg", { viewBox: "0 0 200 16", class: "range", role: "img", "aria-label": text },
    svg("line", { x1: 4, x2: 196, y1: 8, y2: 8, class: "grid" }),
    svg("line", { x1: at(p90), x2: at(p99), y1: 8, y2: 8, style: { stroke: css, strokeWidth: "1.5" } }),
    svg("rect", { x: at(p50), width: Math.max(1.5, at(p90) - at(p50)), y: 4, height: 8, rx: 2, style: { fill: css, fillOpacity: "0.55" } }),
    svg("circle", { cx: at(mean), cy: 8, r: 3.6, style: { fill: "var(--ink)" } }));
}

function signed(value, text) {
  return value === null || value === undefined ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : "±"}${text(Math.abs(value))}`;
}

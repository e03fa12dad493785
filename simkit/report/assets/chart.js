// Charts of lines that do not follow the time axis: distributions and response curves, in SVG.

const CHART = { width: 560, height: 300, left: 62, right: 30, top: 12, bottom: 46 };

// Draws axes and grid; returns the element, the scales and the layer for what is drawn.
// x and y: {low, high, ticks: [[value, label]], label, log}
function chartFrame(title, x, y, size = {}) {
  const box = { ...CHART, ...size };
  const right = box.width - box.right, bottom = box.height - box.bottom;
  const sx = (x.log ? logarithmic : linear)(x.low, x.high, box.left, right);
  const sy = (y.log ? logarithmic : linear)(y.low, y.high, bottom, box.top);
  const layer = svg("g");
  const root = svg("svg", {
    viewBox: `0 0 ${box.width} ${box.height}`, class: "chart", role: "img", "aria-label": title,
  });
  for (const [value, label] of y.ticks) {
    root.append(
      svg("line", { x1: box.left, x2: right, y1: sy(value), y2: sy(value), class: "grid" }),
      svg("text", { x: box.left - 8, y: sy(value) + 4, class: "tick end" }, label));
  }
  for (const [value, label] of x.ticks) {
    root.append(
      svg("line", { x1: sx(value), x2: sx(value), y1: bottom, y2: bottom + 4, class: "axis" }),
      svg("text", { x: sx(value), y: bottom + 18, class: "tick middle" }, label));
  }
  root.append(
    svg("line", { x1: box.left, x2: right, y1: bottom, y2: bottom, class: "axis" }),
    svg("text", { x: (box.left + right) / 2, y: box.height - 8, class: "label middle" }, x.label),
    layer);
  if (y.label) {
    const middle = (box.top + bottom) / 2;
    root.append(svg("text", {
      x: 14, y: middle, class: "label middle", transform: `rotate(-90 14 ${middle})`,
    }, y.label));
  }
  return { root, layer, sx, sy, box };
}

function pathOf(points) {
  return points.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function stepped(points) { // right, then up
  const out = [];
  for (const [n, [x, y]] of points.entries()) {
    if (n) out.push([x, points[n - 1][1]]);
    out.push([x, y]);
  }
  return out;
}

function legend(entries) {
  return el("ul", { class: "legend" }, entries.map(({ text, css, dash, shape }) => el("li", {},
    svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, shape === "box"
      ? svg("rect", { x: 3, width: 20, height: 10, rx: 2, style: { fill: css } })
      : svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, style: { stroke: css, strokeWidth: "2.5", strokeDasharray: dash || "none" } })),
    text)));
}

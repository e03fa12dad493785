// Puts the page together: what needs only numbers first, the charts when their columns are unpacked.

const page = { data: JSON.parse(document.getElementById("data").textContent), clock: null, view: null };

function label(runs) { // runs are told apart by what differs: the policy, the name, or the folder
  const texts = [(run) => run.method, (run) => run.name, (run) => `${run.name}, ${run.method}`, (run) => `seed ${run.seed}`, (run) => run.folder];
  const tell = texts.find((text) => new Set(runs.map(text)).size === runs.length);
  for (const [n, run] of runs.entries()) run.label = runs.length > 1 ? (tell ? tell(run) : `${run.folder} (${n + 1})`) : "";
}

function header(data) {
  const { runs, sweep } = data;
  const names = sweep ? sweep.name : [...new Set(runs.map((run) => run.name))].join(" · ");
  const facts = sweep ? [counted(sweep.runs, "run"), `by ${sweep.table.by.join(", ") || "seed"}`] : runs.length > 1
    ? [counted(runs.length, "run"), page.clock?.period()]
    : [`policy ${runs[0].policy}`, runs[0].estimates && runs[0].estimates !== "requested" ? `estimates ${runs[0].estimates}` : null, countsText(runs[0].counts), page.clock?.period(), `seed ${runs[0].seed}`];
  return el("header", {}, el("div", {}, el("h1", {}, names), el("p", { class: "subtitle" }, facts.filter(Boolean).join(" · "))), el("div", { class: "screen-only" }, themeSwitch()));
}

function navigation(sections) {
  return el("nav", { "aria-label": "Sections", class: "screen-only" }, sections.map((part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent)));
}

function build() {
  const { data } = page, { runs, sweep } = data;
  page.clock = data.clock ? new SiteClock(data.clock) : null;
  label(runs);
  const root = document.getElementById("page"), main = el("main");
  const parts = sweep ? sweepPage(sweep) : runParts(runs, data);
  main.append(...parts.filter(Boolean));
  root.append(header(data), navigation(parts.filter(Boolean)), main,
    el("footer", {}, `simkit ${data.version}. This file holds everything it shows; it loads nothing.`));
  readTheme();
}

function runParts(runs, data) {
  const drawn = runs.filter((run) => !run.empty), several = drawn.length;
  page.timeline = el("div", { class: "timeline" }, el("p", { class: "soft" }, "Unpacking the charts …"));
  page.gantt = el("div", {}, el("p", { class: "soft" }, "Unpacking the bars …"));
  const recorded = recordedFigures(drawn);
  return [
    ...alerts(runs).map((alert) => Object.assign(el("section", { id: "alert" }, el("h2", { class: "hidden" }, "Note"), alert), {})),
    overview(runs),
    several ? section("time", "Over time", page.timeline) : null,
    several ? section("gantt", "Gantt chart", page.gantt) : null,
    several ? longestSection(drawn, showJobLater) : null,
    several ? section("waits", "Waits and slowdowns", distributionCharts(drawn), recorded.length ? el("div", { class: "pair" }, recorded) : null, groupSection(drawn)) : null,
    gainsSection(runs, data.comparisons),
    sourceSection(runs),
  ];
}

let showJob = () => {};
function showJobLater(number, id) { showJob(number, id); }

async function unpackCharts() {
  const { runs } = page.data, drawn = runs.filter((run) => !run.empty);
  if (!drawn.length || page.data.sweep) return;
  const view = new TimeView(page.clock), columns = [];
  page.view = view;
  for (const run of drawn) columns.push(await unpacked(document.getElementById(`block-${runs.indexOf(run)}`), run.columns));
  page.timeline.replaceChildren(...timeCharts(drawn, columns, view), axisStrip(view));
  const gantts = new Map(), place = el("div");
  const show = (number) => {
    for (const one of gantts.values()) one.element.hidden = true;
    if (!gantts.has(number)) {
      gantts.set(number, new Gantt(drawn[number], new Bars(drawn[number].gantt, columns[number]), view));
      place.append(gantts.get(number).element);
    }
    gantts.get(number).element.hidden = false;
    view.repaint();
    return gantts.get(number);
  };
  const tabs = drawn.length > 1 ? choice("Run", drawn.map((run, n) => [n, run.label]), 0, show) : null;
  page.gantt.replaceChildren(...[tabs, place].filter(Boolean));
  show(0);
  showJob = (number, id) => {
    tabs?.querySelectorAll("button")[number].click();
    const gantt = show(number);
    gantt.input.value = id;
    gantt.search();
    document.getElementById("gantt").scrollIntoView();
  };
  // paper gets what is painted before this returns
  theme.listeners.push(() => (matchMedia("print").matches ? view.paint() : view.repaint()));
  addEventListener("resize", () => view.repaint());
}

// Each quantity over time, one chart a run, all with one scale.
function timeCharts(runs, columns, view) {
  const keys = [...new Set(runs.flatMap((run) => run.charts.map((chart) => `${chart.kind} ${chart.title}`)))];
  return keys.flatMap((key) => {
    const found = runs.map((run, n) => [run, n, run.charts.find((chart) => `${chart.kind} ${chart.title}` === key)]).filter(([, , chart]) => chart);
    const top = Math.max(found[0][2].unit === "%" ? 100 : 0, ...found.flatMap(([, , chart]) => chart.lines.map(topOf)));
    return found.map(([run, n, chart]) => typeof chart.constant === "number"
      ? el("p", { class: "constant" }, el("b", {}, run.label ? `${chart.title}: ${run.label}` : chart.title), ` ${plain(chart.constant)} ${chart.unit}, all the time`)
      : timeChart(run, chart, view, columns[n], n, top));
  });
}

build();
requestAnimationFrame(() => setTimeout(() => unpackCharts().then(() => { document.documentElement.dataset.ready = "true"; }, (error) => {
  page.gantt?.replaceChildren(el("p", { class: "alert" }, `The charts could not be unpacked: ${error.message}. Open this file in a current browser.`));
  throw error;
}), 0));

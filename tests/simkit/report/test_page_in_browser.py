"""The page in headless Chromium: it draws, zooms, answers, prints, and runs nobody's code."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from browser import Page, chromium

import simkit
from simkit.report.facts import longest_waits
from simkit.report.over_time import clock_of
from simkit.report.report import write_report
from simkit.results.run_folder import open_run

pytestmark = pytest.mark.thorough
READY = "html[data-ready]"
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser):
    """Return a function that opens a page, and in the end check that all went well on it."""
    pages: list[Page] = []

    def show(file, ready=READY, **options):
        pages.append(Page(browser, file, ready, **options))
        return pages[-1]

    yield show
    for page in pages:
        assert page.problems == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        page.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 300 jobs."""
    place = tmp_path_factory.mktemp("report") / "run"
    load = {"type": "lublin", "jobs": 300, "processors": 64, "users": 8, "offered_load": 1.1}
    simkit.simulate({"workload": load}, output=place)
    return place


@pytest.fixture(scope="module")
def report(folder):
    first = longest_waits(open_run(folder), 1)[0]
    begin, end = first["submit_time_s"], first["start_time_s"]
    middle = (begin + end) / 2
    why = {
        first["job_id"]: [
            (begin, middle, "order", "behind 7 jobs"),
            (middle, end, "room", "9 short"),
        ]
    }
    return write_report(folder, folder.parent / "report.html", explanations=[why])


def colours_of(page, selector="canvas.gantt"):
    """Return how many colours a canvas has."""
    return page.page.locator(selector).first.evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )


def window_of(page):
    page.settle()
    return tuple(float(page.data(name)) for name in ("from", "to", "low", "high"))


def middle_of(page):
    canvas = page.page.locator("canvas.gantt")
    canvas.scroll_into_view_if_needed()
    page.page.wait_for_timeout(300)  # a wheel in the midst of scrolling scrolls on
    box = canvas.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_everything_is_drawn(opened, report):
    page = opened(report)
    canvases = page.page.locator("canvas").count()
    assert canvases == 5  # in use, waiting, axis, Gantt, overview
    for n in range(canvases):
        drawn = (
            page.page.locator("canvas")
            .nth(n)
            .evaluate(
                """canvas => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.buffer)).size;
            }"""
            )
        )
        assert drawn > 2, n
    assert page.data("mode") == "bars"
    text = page.page.locator("main").inner_text()
    for words in ("300 finished", "mean wait time", "drawn, not recorded", "Where this comes from",
                  "simkit explain", "300 jobs"):  # fmt: skip
        assert words in text, words


def test_names_are_labelled_for_those_who_hear_the_page(opened, report):
    page = opened(report).page
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("canvas, svg[role=img], button, input, select, table")]
          .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")))
          .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert page.evaluate("document.documentElement.lang") == "en"


def test_the_wheel_zooms_where_the_pointer_is(opened, report):
    page = opened(report)
    whole = window_of(page)
    x, y = middle_of(page)
    page.page.mouse.move(x, y)
    page.page.mouse.wheel(0, -300)
    closer = window_of(page)
    assert closer[1] - closer[0] < 0.7 * (whole[1] - whole[0])
    assert closer[2:] == whole[2:]
    page.page.keyboard.down("Shift")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Shift")
    rows = window_of(page)
    assert rows[3] - rows[2] < whole[3] - whole[2]
    page.page.mouse.wheel(0, 3000)
    assert window_of(page)[:2] == whole[:2]


def test_dragging_moves_and_the_charts_move_along(opened, report):
    page = opened(report)
    x, y = middle_of(page)
    page.page.mouse.move(x, y)
    page.page.mouse.wheel(0, -600)
    before = window_of(page)
    axis = page.page.locator("canvas.axis-strip").evaluate("c => c.toDataURL()")
    page.page.mouse.down()
    page.page.mouse.move(x + 120, y, steps=4)
    page.page.mouse.up()
    after = window_of(page)
    assert after[0] < before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert page.page.locator("canvas.axis-strip").evaluate("c => c.toDataURL()") != axis
    assert page.page.locator(".detail h3").count() == 0  # a drag keeps no job


def test_keys_move_zoom_and_reset(opened, report):
    page = opened(report)
    page.page.locator("canvas.gantt").focus()
    seen = [window_of(page)]
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "PageUp", "ArrowDown", "PageDown", "+"):
        page.page.keyboard.press(key)
        seen.append(window_of(page))
        assert seen[-1] != seen[-2], key
    page.page.keyboard.press("0")
    assert window_of(page) == seen[0]
    page.page.keyboard.press("/")
    assert page.page.evaluate("document.activeElement.type") == "search"


def test_search_finds_a_job_and_says_all_of_it(opened, report, folder):
    page = opened(report)
    job = open_run(folder).jobs.sort("wait_time_s").row(-1, named=True)
    page.page.get_by_label("Search for a job by its id").fill(str(job["job_id"]))
    page.page.keyboard.press("Enter")
    low, high = window_of(page)[:2]
    assert page.data("job", ".detail") == str(job["job_id"])
    text = page.page.locator(".detail").inner_text()
    assert f"simkit explain {folder} {job['job_id']}" in text
    assert "behind 7 jobs" in text
    assert "9 short" in text
    clock = clock_of([open_run(folder)])
    begin, end = (job[f"{name}_time_s"] - clock.start_s for name in ("submit", "end"))
    assert low * clock.unit_s <= begin < end <= high * clock.unit_s
    assert high - low < clock.ticks
    page.page.get_by_label("Search for a job by its id").fill("no such job")
    page.page.get_by_role("button", name="Find job").click()
    assert "No job no such job in this run" in page.page.locator(".message").inner_text()
    page.page.get_by_label("Search for a job by its id").fill("")
    assert page.page.locator(".message").inner_text() == ""
    page.page.locator("canvas.gantt").focus()
    page.page.keyboard.press("Escape")
    assert page.page.locator(".detail h3").count() == 0


def test_hover_names_the_job_under_the_pointer_and_a_click_keeps_it(opened, report, folder):
    page = opened(report)
    x, y = middle_of(page)
    box = page.page.locator("canvas.gantt").bounding_box()
    jobs = {str(job) for job in open_run(folder).jobs["job_id"]}
    named = ""
    for step in np.linspace(0.15, 0.9, 24):
        page.page.mouse.move(box["x"] + box["width"] * step, y)
        page.settle()
        named = page.page.locator(".tip b").inner_text()
        if named.startswith("Job "):
            break
    assert named.removeprefix("Job ") in jobs
    tip = page.page.locator(".tip").inner_text()
    assert "processor" in tip
    assert "drawn, not recorded" in tip
    page.page.mouse.down()
    page.page.mouse.up()
    assert page.data("job", ".detail") == named.removeprefix("Job ")
    page.page.mouse.move(x, box["y"] - 60)
    page.settle()
    assert page.page.locator(".tip").is_hidden()


def test_colours_follow_what_is_chosen(opened, report):
    page = opened(report)
    seen = set()
    for value in ("wait", "user", "size", "status"):
        page.page.get_by_label("Colour by").select_option(value)
        page.settle()
        seen.add(page.page.locator("canvas.gantt").evaluate("c => c.toDataURL()"))
        assert colours_of(page) > 3
    assert len(seen) == 4


def background(page):
    text = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(n) for n in text.removeprefix("rgb(").removesuffix(")").split(",")]


def test_dark_by_the_system_and_by_choice(opened, report):
    light, dark = opened(report), opened(report, color_scheme="dark")
    assert min(background(light)) > 200
    assert max(background(dark)) < 60
    pictures = [
        p.page.locator("canvas.gantt").evaluate("c => c.toDataURL()") for p in (light, dark)
    ]
    assert pictures[0] != pictures[1]
    dark.page.get_by_role("button", name="Light").click()
    light.page.get_by_role("button", name="Dark").click()
    assert min(background(dark)) > 200
    assert max(background(light)) < 60


def test_it_prints_in_light_colours_without_its_buttons(opened, report):
    page = opened(report, color_scheme="dark")
    page.page.emulate_media(media="print")
    page.settle()
    assert min(background(page)) == 255
    assert not page.page.get_by_role("button", name="Show all").is_visible()
    assert not page.page.locator("nav").is_visible()
    assert page.page.locator("h1").is_visible()
    page.page.set_viewport_size({"width": 760, "height": 1000})  # about A4 without its margins
    page.settle()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 760
    pdf = page.page.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 20_000


@pytest.mark.parametrize("width", [390, 800, 1600])
def test_nothing_sticks_out_at_any_width(opened, report, width):
    page = opened(report, viewport={"width": width, "height": 900})
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_many_bars_become_shades_and_zooming_brings_them_back(
    opened, write_run, random_jobs, tmp_path
):
    folder = write_run("many", random_jobs(30_000, spread_s=2e6), capacity=1500)
    page = opened(write_report(folder, tmp_path / "many.html"))
    assert page.data("mode") == "grid"
    assert colours_of(page) > 20
    x, y = middle_of(page)
    page.page.mouse.move(x, y)
    modes = [page.data("mode")]
    for _ in range(12):
        page.page.mouse.wheel(0, -250)
        page.settle()
        modes.append(page.data("mode"))
    assert modes[-1] == "bars"
    assert int(page.data("bars")) > 0
    page.page.keyboard.press("Home")


CORNERS = """canvas => {
  const scale = canvas.width / canvas.clientWidth, bottom = canvas.clientHeight - 40;
  const plot = canvas.clientWidth - 84 - 14, context = canvas.getContext("2d");
  const pixel = (x, y) => [...context.getImageData((84 + plot * x) * scale, bottom * y * scale, 1, 1).data];
  return [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]].map(([x, y]) => pixel(x, y).slice(0, 3));
}"""


def test_shades_are_what_the_bars_cover(opened, write_run, tmp_path):
    """A quarter of the chart is empty, below on the left; the rest is full, from afar and close."""
    count = 300_000
    jobs = {
        "job_id": np.arange(1, count + 1), "submit_time_s": np.zeros(count),
        "run_time_s": np.full(count, 1 / 16), "processors": np.full(count, 2.0),
        "start_time_s": np.tile(9375 + np.arange(count // 2) / 16, 2),
    }  # fmt: skip
    blocker = {
        "job_id": [0], "submit_time_s": [0.0], "run_time_s": [18750.0], "processors": [4.0],
        "start_time_s": [0.0],
    }  # fmt: skip
    both = pl.concat([pl.DataFrame(part) for part in (blocker, jobs)], how="vertical_relaxed")
    file = write_report(write_run("half", both, capacity=8), tmp_path / "half.html")
    page = opened(file, viewport={"width": 2600, "height": 900})
    canvas = page.page.locator("canvas.gantt")
    x, y = middle_of(page)
    page.page.mouse.move(x + (84 - 14) / 2, y)  # the middle of the plot, right of the labels
    modes = []
    for turn in range(60):
        *full, empty = canvas.evaluate(CORNERS)
        modes.append(page.data("mode"))
        if modes[-1] == "bars":
            break
        assert empty == [255, 255, 255], turn
        assert full == [full[0]] * 3, turn
        assert full[0] != empty
        page.page.mouse.wheel(0, -60)
        page.settle()
    assert list(dict.fromkeys(modes)) == ["grid", "shades", "bars"]


def test_names_of_strangers_are_text(opened, write_run, random_jobs, tmp_path):
    jobs = random_jobs(60)
    names = pl.Series([EVIL, "b\u2028c", "javascript:alert(1)"] * 20)
    folder = write_run("evil", {**jobs, "user": names}, capacity=60)
    info = json.loads((folder / "run.json").read_text())
    info |= {"name": EVIL, "warnings": [EVIL], "seed": 1}
    info["cluster"]["machines"][0]["name"] = EVIL
    info["scenario"] |= {"name": EVIL, "note": EVIL}
    (folder / "run.json").write_text(json.dumps(info))
    page = opened(write_report(folder, tmp_path / "evil.html"))
    assert page.page.title() == EVIL
    assert page.page.locator("h1").inner_text() == EVIL
    assert page.page.locator("img").count() == 0
    assert page.page.locator("script").count() <= 3
    page.page.get_by_label("Colour by").select_option("user")
    assert EVIL in page.page.locator(".keys").inner_text()


def test_an_explanation_of_another_task_than_the_first_says_so(opened, write_run, tmp_path):
    jobs = {
        "job_id": [1, 2, 3], "submit_time_s": [0.0] * 3, "run_time_s": [100.0] * 3,
        "processors": [8.0] * 3, "start_time_s": [0.0, 100.0, 200.0],
    }  # fmt: skip
    why = {
        2: [(0.0, 100.0, "room", "8 short")],
        3: [(0.0, 200.0, "room", "8 short"), (200.0, 1871.0, "order", "behind job 2")],
    }
    page = opened(write_report(write_run("three", jobs), tmp_path / "r.html", explanations=[why]))
    rows = page.page.locator("#longest tbody tr")
    told = {}
    for n in range(2):
        rows.nth(n).locator("summary").click()
        told[rows.nth(n).locator("th").inner_text()] = rows.nth(n).inner_text()
    assert "Of its task that waited longest: 31 min 11 s." in told["3"]
    assert "The job's own wait, 3 min 20 s, ends when its first task starts." in told["3"]
    assert "waited longest" not in told["2"]


@pytest.mark.parametrize(
    ("first_s", "said"), [(552.0, "00:09:12"), (0.0, "00:00:00"), (90061.5, "1 d 01:01:01")]
)
def test_undated_times_say_where_the_clock_of_the_trace_is(
    opened, write_run, random_jobs, tmp_path, first_s, said
):
    jobs = random_jobs(20)
    shift = first_s - np.min(jobs["submit_time_s"])
    jobs |= {f"{name}_time_s": jobs[f"{name}_time_s"] + shift for name in ("submit", "start")}
    page = opened(write_report(write_run("late", jobs), tmp_path / "r.html"))
    text = page.page.locator("#source").inner_text()
    assert f"since the first submit, which is at {said} of the trace's clock" in text


def test_energy_that_cost_nothing_has_no_tile(opened, tmp_path):
    load = {"type": "lublin", "jobs": 20, "processors": 8}
    pages = []
    for price in (0.0, 0.3):
        power = {"machines": {"idle_w": 10, "full_w": 20}, "grid": {"price_per_kwh": price}}
        run = simkit.simulate({"workload": load, "power": power}, output=tmp_path / f"{price}")
        pages.append(opened(write_report(run, tmp_path / f"{price}.html")))
    free, priced = (page.page.locator(".tiles").inner_text() for page in pages)
    assert "energy cost" not in free
    assert "energy cost" in priced


def test_a_cumulative_curve_starts_at_the_share_that_did_not_wait(opened, write_run, tmp_path):
    jobs = {
        "job_id": [1, 2, 3], "submit_time_s": [0.0, 1.0, 2.0], "run_time_s": [100.0] * 3,
        "processors": [8.0] * 3, "start_time_s": [0.0, 100.0, 200.0],
    }  # fmt: skip
    page = opened(write_report(write_run("three", jobs), tmp_path / "r.html"))
    figure = page.page.locator("#waits figure").first
    bottom, top = (
        float(figure.locator("line.grid").nth(n).get_attribute("y1")) for n in (0, 4)
    )  # of 0 and 100 per cent
    path = figure.locator("path.curve").get_attribute("d")
    shares = [(bottom - float(y)) / (bottom - top) for y in re.findall(r"[ML]\S+ ([\d.]+)", path)]
    thirds = [1, 1, 2, 2, 3, 3, 3]  # level, then up
    assert shares == pytest.approx([n / 3 for n in thirds], abs=0.002)


def test_runs_side_by_side(opened, write_run, random_jobs, tmp_path):
    jobs = random_jobs(150)
    later = {**jobs, "start_time_s": jobs["start_time_s"] + 300.0 * (jobs["user"] % 2)}
    folders = [
        write_run(name, j, capacity=80) for name, j in (("a", jobs), ("b", later), ("c", jobs))
    ]
    page = opened(write_report(folders, tmp_path / "three.html"))
    assert page.page.locator(".strip canvas").count() == 6
    text = page.page.locator("#gains").inner_text()
    assert "b instead of a" in text
    assert "c instead of a" in text
    page.page.locator("#gantt .choice button").nth(1).click()
    page.settle()
    assert page.page.locator("canvas.gantt").count() == 2
    assert page.page.locator("canvas.gantt").nth(0).is_hidden()
    page.page.locator("#longest .choice button").nth(2).click()
    page.page.locator("#longest button.link").first.click()
    page.settle()
    assert page.page.locator("canvas.gantt").nth(2).is_visible()


def test_a_sweep_can_be_sorted(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load = {"type": "lublin", "jobs": 30, "processors": 16}
    sweep = {
        "workload.load": [0.5, 1.0, 2.0],
        "policy.backfill": ["none", "easy"],
        "seed": [0, 1, 2],
    }
    simkit.run_sweep({"workload": load, "sweep": sweep}, "sweep")
    page = opened(write_report("sweep", tmp_path / "sweep.html"))
    assert page.page.locator("#curves path.curve").count() == 2
    column = page.page.locator("#table tbody tr > :first-child")
    before = column.all_inner_texts()
    page.page.locator("#table thead button").first.click()
    page.page.locator("#table thead button").first.click()
    assert column.all_inner_texts() == sorted(before, key=float, reverse=True)
    head = page.page.locator("#table thead th").first
    assert head.get_attribute("aria-sort") == "descending"
    page.page.get_by_label("Metric", exact=True).select_option(index=1)
    page.page.get_by_role("button", name="Logarithmic").click()
    assert page.page.locator("#curves path.curve").count() == 2


def test_a_band_of_what_cannot_be_negative_ends_at_zero(opened, tmp_path):
    load = {"type": "lublin", "jobs": 5, "processors": 16}
    sweep = {"workload.load": [0.5, 1.0], "seed": [0, 1, 2]}
    simkit.run_sweep({"workload": load, "sweep": sweep}, tmp_path / "sweep")
    for file in (tmp_path / "sweep").rglob("metrics.json"):  # of which the interval is -93 to 157 s
        wait = {"mean": [1.0, 90.0, 5.0][open_run(file.parent).seed], "unit": "s"}
        metrics = json.loads(file.read_text())
        file.write_text(json.dumps(metrics | {"wait_time_s": metrics["wait_time_s"] | wait}))
    page = opened(write_report(tmp_path / "sweep", tmp_path / "sweep.html"))
    chart = page.page.locator("#curves svg.chart")
    axis = float(chart.locator("line.axis").last.get_attribute("y1"))
    band = chart.locator("g path").first.get_attribute("d")
    heights = [float(y) for y in re.findall(r"[ML]\S+ ([\d.]+)", band)]
    assert max(heights) == pytest.approx(axis, abs=0.1)
    assert "0 s to" in chart.locator("circle title").first.text_content()
    lowest = chart.locator("text.tick.end").all_text_contents()
    assert not any(text.startswith(("-", "−")) for text in lowest)


@pytest.mark.parametrize("jobs", [0, 1])
def test_runs_with_nothing_to_show(opened, write_run, random_jobs, tmp_path, jobs):
    folder = write_run("small", random_jobs(jobs), status="interrupted", error=EVIL)
    page = opened(write_report(folder, tmp_path / "small.html", allow_partial=True))
    assert "this run is interrupted" in page.page.locator("main").inner_text()
    assert EVIL in page.page.locator("main").inner_text()


def test_a_job_that_never_started_can_be_found(opened, write_run, tmp_path):
    jobs = {
        "job_id": ["a", "b c"], "submit_time_s": [0.0, 5.0], "run_time_s": [9.0, 9.0],
        "processors": [8.0, 8.0], "start_time_s": [0.0, None],
    }  # fmt: skip
    page = opened(write_report(write_run("wait", jobs), tmp_path / "r.html"))
    page.page.get_by_label("Search for a job by its id").fill("b c")
    page.page.keyboard.press("Enter")
    page.settle()
    text = page.page.locator(".detail").inner_text()
    assert "it never started" in text
    assert "'b c'" in text  # quoted for the shell


def test_metrics_of_the_user_are_in_the_overview_of_one_run_and_of_several(opened, tmp_path):
    def tail_wait(jobs):
        return 7260.0

    def undefined(jobs):
        return None

    tail_wait.unit = "s"
    load = {"type": "lublin", "jobs": 20, "processors": 8}
    run = simkit.simulate({"workload": load}, output=tmp_path / "a", metrics=[tail_wait, undefined])
    for runs in ([run], [run, simkit.simulate({"workload": load}, output=tmp_path / "b")]):
        page = opened(write_report(runs, tmp_path / f"{len(runs)}.html")).page
        shown = page.locator("#overview").inner_text()
        assert re.search(r"tail wait\s+2 h 1 min", shown)
        assert re.search(r"undefined\s+[–-]", shown)

"""Labels of pictures can be read: plain numbers, whole, apart, and dates that cannot be misread."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.text import Text

import simkit
from simkit.analysis.plot import draw_runs, plot_groups
from simkit.analysis.plot_comparison import plot_comparison
from simkit.analysis.plot_panels import tick_dates, tick_labels
from simkit.analysis.plot_power import draw_power
from simkit.analysis.plot_style import COLOURS, OF_SOURCES, SUN, WIND, styled
from simkit.errors import RunError, SimkitError
from simkit.results.run_folder import open_run
from simkit.training.curves import plot_training
from simkit.training.train import Trained

MINUTE, DAY = 60.0, 86400.0
YEAR = 365.25 * DAY
MARCH = datetime(2026, 3, 3, tzinfo=UTC).timestamp()


def drawn(make):
    """Return a figure that was laid out."""
    with styled():
        figure = make()
        figure.draw_without_rendering()
    return figure


def texts(figure):
    """Yield the texts of a figure that are seen."""
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            yield text


def tick_boxes(figure):
    """Yield the boxes of the labels of each axis that lie within its limits."""
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = min(low, high), max(low, high)
            shown = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
            yield [
                label.get_window_extent()
                for at, label in shown
                if low <= at <= high and label.get_visible() and label.get_text()
            ]


def check(figure):
    """Assert that no label is a formula, cut off, or over another."""
    whole = figure.bbox.padded(1.0)
    for text in texts(figure):
        assert "$" not in text.get_text(), text.get_text()
        assert "mathdefault" not in text.get_text()
    for boxes in tick_boxes(figure):
        for box in boxes:
            assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, box
            assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, box
        for one, other in combinations(boxes, 2):
            assert not one.padded(-1.0).overlaps(other.padded(-1.0))
    ticks = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
             for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))}  # fmt: skip
    others = [text for text in texts(figure) if id(text) not in ticks]
    for text in others:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, text.get_text()
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, text.get_text()
    for text, other in combinations(others, 2):
        one, two = text.get_window_extent(), other.get_window_extent()
        assert not one.padded(-1.0).overlaps(two.padded(-1.0)), (text, other)


@pytest.fixture
def runs(write_run, random_jobs):
    def make(count, spread_s=1e6, **info):
        return [
            open_run(write_run(f"run {n}", random_jobs(120, seed=n, spread_s=spread_s), 60, **info))
            for n in range(count)
        ]

    return make


@pytest.mark.sampled
@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("span_s", [3 * MINUTE, 3000.0, 0.9 * DAY, 20 * DAY, 200 * DAY, 8 * YEAR])
def test_spans_from_minutes_to_years(runs, span_s, dated):
    info = {"epoch_s": MARCH, "time_zone": "Europe/Berlin"} if dated else {}
    check(drawn(lambda: draw_runs(runs(1, span_s, **info))))


@pytest.mark.parametrize("count", [1, 6])
def test_one_run_to_six(runs, count):
    check(drawn(lambda: draw_runs(runs(count))))


@pytest.mark.sampled
@pytest.mark.parametrize("runs_drawn", [1, 3, 6])
@pytest.mark.parametrize("groups", [1, 8, 9, 25, 40])
def test_one_group_to_forty(write_run, random_jobs, groups, runs_drawn):
    opened = []
    for n in range(runs_drawn):
        jobs = random_jobs(200, seed=n) | {"user": np.arange(200) % groups}
        names = [f"someone-with-a-long-name-{user}@place" for user in range(groups)]
        opened.append(
            open_run(write_run(f"r{n}", jobs | {"user": [names[u] for u in jobs["user"]]}))
        )
    check(plot_groups(opened, "user"))


SITE = {
    "machines": {"idle_w": 60, "full_w": 200},
    "align": {"zero": "2019-04-01T00:00:00Z", "zone": "America/Chicago"},
    "sources": {
        "solar-roof": {"signal": {"type": "schedule", "day": {"0:00": 0, "8:00": 9000, "18:00": 0}}},
        "wind": {"signal": {"type": "schedule", "day": {"0:00": 4000, "12:00": 500}}},
    },
    "battery": {"capacity_kwh": 20, "floor": 0.1, "ceiling": 0.9},
    "grid": {
        "import_limit_w": 2000, "export_limit_w": 500,
        "price_per_kwh": {"type": "schedule", "day": {"0:00": 0.1, "7:00": 0.3}},
        "carbon_gco2_per_kwh": {"type": "schedule", "day": {"0:00": 400, "9:00": 150}},
    },
}  # fmt: skip


def powered(order="fcfs", seed=0, **site):
    workload = {"type": "lublin", "jobs": 60, "processors": 32}
    return simkit.simulate(
        {"name": "site", "workload": workload, "policy": {"order": order}, "seed": seed,
         "power": {**SITE, **site}}
    )  # fmt: skip


ORDERS = ("fcfs", "sjf", "saf", "ljf", "laf", "lcfs")


def titles(figure):
    return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_runs_on_power_show_their_supply_battery_price_and_carbon(count):
    runs = [powered("fcfs", seed) for seed in range(count)]
    figure = drawn(lambda: draw_runs(runs))
    check(figure)
    found = " / ".join(titles(figure)).lower()
    for words in ("what the sources could give", "what serves the load", "state of charge",
                  "price of the grid", "carbon intensity", "utilisation", "tasks waiting",
                  "wait time"):  # fmt: skip
        assert words in found, words
    names = {text.get_text().split()[0] for text in texts(figure)}
    assert {"solar-roof", "wind", "battery", "load"} <= names
    check(drawn(lambda: draw_power(runs[0])))


def test_sources_have_colours_of_their_own_and_add_up():
    run = powered()
    figure = drawn(lambda: draw_runs([run]))
    axes = next(a for a in figure.axes if "sources could give" in a.get_title(loc="left"))
    first, second = axes.patches
    assert first.get_facecolor() != second.get_facecolor()
    given = second.get_data()
    end = min(float(run.power["end_s"][-1]), given.edges[-1])
    hours = np.diff(given.edges) * 24  # the axis is dated: days
    kwh = float((given.values * hours).sum())
    recorded = sum(v for k, v in run.info["power"].items() if k.endswith("generation_kwh"))
    assert end > 0
    assert kwh == pytest.approx(recorded, rel=0.01)


def test_what_is_curtailed_does_not_crush_the_load():
    huge = {"sun": {"signal": {"type": "constant", "value": 1e6}}}
    run = powered(sources=huge, grid=None, battery=None)
    figure = drawn(lambda: draw_runs([run]))
    check(figure)
    axes = next(a for a in figure.axes if "serves the load" in a.get_title(loc="left"))
    load_kw = float(run.power["load_w"].max()) / 1000
    assert axes.get_ylim()[1] < 3 * load_kw
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(re.search(r"^curtailed .* \(up to 9\d\d kW, cut off\)$", text) for text in said), (
        said
    )


def test_sources_whose_files_have_changed_are_not_told_apart(tmp_path):
    run = powered()
    run.info["power"]["sources.wind.generation_kwh"] *= 1.01
    figure = drawn(lambda: draw_runs([run]))
    assert "What the sources could give" not in " ".join(titles(figure))
    assert "solar-roof and wind" in " ".join(text.get_text() for text in texts(figure))


@pytest.mark.parametrize("count", [1, 6])
def test_every_resource_is_drawn(count):
    machines = [{"count": 4, "processors": 16, "gpus": 4, "memory_gb": 128}]
    jobs = {
        "job_id": np.arange(40), "submit_time_s": np.arange(40) * 600.0,
        "run_time_s": np.full(40, 4000.0), "processors": np.full(40, 4.0),
        "gpus": np.tile([0.0, 1.0, 2.0, 4.0], 10), "memory_gb": np.full(40, 16.0),
    }  # fmt: skip
    workload = simkit.Workload.from_jobs(jobs, request=("processors", "gpus", "memory_gb"))
    runs = [
        simkit.simulate({
                "name": order,
                "workload": {"type": "lublin", "jobs": 1, "processors": 1},
                "cluster": {"machines": machines},
                "policy": {"order": order},
            },
                        workload=workload)
        for order in ORDERS[:count]
    ]  # fmt: skip
    figure = drawn(lambda: draw_runs(runs))
    check(figure)
    found = " ".join(titles(figure))
    assert all(f"Utilisation: {name}" in found for name in ("processors", "gpus", "memory_gb"))
    assert any(axes.patches for axes in figure.axes if "gpus" in axes.get_title(loc="left"))


@pytest.mark.sampled
@pytest.mark.parametrize("groups", [40, 0, 1, 8])
def test_comparisons(write_run, random_jobs, groups):
    sides = []
    for side in range(2):
        jobs = random_jobs(200, seed=1, spread_s=90 * DAY)
        rng = np.random.default_rng(side)
        jobs["start_time_s"] = jobs["submit_time_s"] + rng.integers(0, 90000, 200)
        users = [f"someone-with-a-long-name-{n % max(groups, 1)}@place" for n in range(200)]
        sides.append(write_run(f"side {side}", jobs | {"user": users}, 60, epoch_s=MARCH))
    found = simkit.compare_runs(*sides, by="user" if groups else None)
    figure = found.plot()
    check(figure)
    assert "interval" in figure.axes[0].get_xlabel()
    seeds = simkit.compare_runs([sides[0]], [sides[1]], metrics=["wait_time_s"])
    check(seeds.plot())


def test_comparisons_of_several_seeds(write_run, random_jobs):
    sides: list[list[Path]] = [[], []]
    for seed in range(3):
        jobs = random_jobs(100, seed=seed)
        for side in range(2):
            shifted = jobs | {"start_time_s": jobs["start_time_s"] + side * (1000.0 + seed)}
            sides[side].append(write_run(f"{side}-{seed}", shifted, 60, seed=seed))
    found = simkit.compare_runs(*sides)
    figure = found.plot()
    check(figure)
    assert "100.0% longer" in titles(figure)[-1]
    assert any("B worse" in text.get_text() for text in texts(figure))


def sweep_runs(write_run, random_jobs, xs, lines, seeds):
    found = []
    for n, x in enumerate(xs):
        for line in range(lines):
            for seed in range(seeds):
                scenario = {"name": "s", "policy": {"order": f"order-number-{line}"},
                            "workload": {"load": x}}  # fmt: skip
                folder = write_run(f"{n}-{line}-{seed}", random_jobs(5, seed=seed), 60, seed=seed,
                                   scenario=scenario)  # fmt: skip
                metric = {"mean": 100.0 * (n + 1) * (line + 1) + 40 * seed, "p50": 1.0, "unit": "s"}
                (folder / "metrics.json").write_text(json.dumps({"wait_time_s": metric}))
                found.append(folder)
    return found


@pytest.mark.parametrize(
    ("xs", "lines"),
    [
        ([0.5, 0.6], 12),
        ([0.1, 1, 10, 100, 1000], 3),
        ([*range(40)], 1),
        ([f"name {n}" for n in range(8)], 3),
        ([f"a long name with number {n}" for n in range(40)], 1),
        ([f"a long name with number {n}" for n in range(9)], 7),
    ],
    ids=["two", "decades", "many", "names", "many names", "names and lines"],
)
def test_sweeps(write_run, random_jobs, xs, lines):
    check(simkit.plot_sweep(sweep_runs(write_run, random_jobs, xs, lines, 1), "workload.load"))


def test_a_sweep_shows_means_and_intervals_over_seeds(write_run, random_jobs):
    runs = sweep_runs(write_run, random_jobs, [1, 2, 3], 2, seeds=3)
    figure = simkit.plot_sweep(runs, "workload.load", "wait_time_s", by="policy")
    (axes,) = figure.axes
    by_seed = np.array([[100, 140, 180], [200, 240, 280], [300, 340, 380]]) / 60
    first = axes.lines[0]
    assert first.get_xdata().tolist() == [1, 2, 3]
    assert first.get_ydata() == pytest.approx(by_seed.mean(axis=1))
    assert "(min)" in axes.get_ylabel()
    bars = axes.collections[1].get_segments()
    half = 4.302653 * np.std(by_seed[0], ddof=1) / np.sqrt(3)  # Student's t, 2 degrees of freedom
    assert (bars[0][1][1] - bars[0][0][1]) / 2 == pytest.approx(half)
    words = " ".join(text.get_text() for text in texts(figure))
    for told in (
        "95% interval of the mean over seeds",
        "3 seeds",
        "order-number-1",
        "lower is better",
    ):
        assert told in words, told


@pytest.mark.parametrize(
    ("x", "y", "by", "told"),
    [
        (
            "workload.laod",
            "wait_time_s",
            (),
            "x: no scenario.*did you mean 'workload.load'.*differ in",
        ),
        (
            "workload.load",
            "wait_time",
            (),
            "y: no run has the metric 'wait_time'; did you mean",
        ),
        ("workload.load", "wait_time_s", "polisy", "by: no scenario.*'polisy'"),
        ("name", "wait_time_s", (), "x: name is s in all 4 runs; they differ in"),
    ],
)
def test_wrong_names_of_a_sweep(write_run, random_jobs, x, y, by, told):
    runs = sweep_runs(write_run, random_jobs, [1, 2], 2, seeds=1)
    with pytest.raises(RunError, match=told):
        simkit.plot_sweep(runs, x, y, by=by)


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_kind_of_picture_is_written_the_same_each_time(
    write_run, random_jobs, tmp_path, ending
):
    runs = sweep_runs(write_run, random_jobs, [1, 2], 2, seeds=1)
    comparison, agent = simkit.compare_runs(runs[0], runs[1]), training("agent", 10, 2)
    for draw in (
        lambda file: simkit.plot_sweep(runs, "workload.load", target=file),
        lambda file: plot_comparison(comparison, file),
        lambda file: plot_training(agent, file),
    ):
        first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
        assert isinstance(draw(first), Figure)
        draw(second)
        assert first.read_bytes() == second.read_bytes()


def test_more_lines_than_can_be_told_apart(write_run, random_jobs):
    runs = sweep_runs(write_run, random_jobs, [1, 2], 13, seeds=1)
    with pytest.raises(RunError, match="make 13 lines, at most 12"):
        simkit.plot_sweep(runs, "workload.load")


def training(name, iterations, metrics, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(iterations + 1):
        row = {"iteration": float(at), "wall_time_s": 1.0, "fixed": 7.0}
        row |= {
            f"a metric with a long name {n}": float(10.0**n * rng.random()) for n in range(metrics)
        }
        if at % 5 == 0:
            row["held_out_slowdown"] = 5.0 + float(rng.random())
        rows.append(row)
    info = {"name": name, "learner": "mine", "seed": seed, "status": "complete",
            "iteration": iterations, "iterations": iterations,
            "scenario": {"learn": {"criterion": "slowdown"}}}  # fmt: skip
    return Trained(Path(name), info, tuple(rows), was_finished=True)


@pytest.mark.sampled
@pytest.mark.parametrize("count", [1, 3, 6])
@pytest.mark.parametrize(("iterations", "metrics"), [(0, 0), (3, 1), (100, 4), (700, 15)])
def test_trainings(count, iterations, metrics):
    trainings = [training(f"agent {n}", iterations, metrics, n) for n in range(count)]
    check(plot_training(trainings))


def test_learning_curves_mark_the_best_and_leave_out_what_never_changes():
    one = training("agent", 20, 1)
    figure = one.plot()
    words = " ".join(text.get_text() for text in texts(figure))
    values = [row["held_out_slowdown"] for row in one.rows if "held_out_slowdown" in row]
    assert f"best: {min(values):,.4g}" in words
    assert f"untrained: {values[0]:,.4g}" in words
    assert "constant: fixed 7" in words
    assert "fixed" not in titles(figure)


def test_colours_stay_apart_however_they_are_seen():
    """For usual eyes and three kinds of colour blindness (G. M. Machado et al., 2009)."""
    seen = {
        "usual": np.eye(3),
        "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                       [-0.003882, -0.048116, 1.051998]],
        "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                         [-0.011820, 0.042940, 0.968881]],
        "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                       [0.004733, 0.691367, 0.303900]],
    }  # fmt: skip
    for colours in (COLOURS, (SUN, WIND, *OF_SOURCES[:1])):
        for kind, matrix in seen.items():
            places = [cie_lab(np.array(matrix) @ linear(colour)) for colour in colours]
            for (one, a), (other, b) in combinations(zip(colours, places, strict=True), 2):
                assert np.linalg.norm(a - b) > 15, (kind, one, other)


def linear(colour):
    """Return linear red, green and blue, 0 to 1, of ``#rrggbb``."""
    parts = np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def cie_lab(rgb):
    """Return L*, a*, b* of linear sRGB; a distance of 2.3 is just noticeable."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_a_run_returns_a_figure_that_keeps_its_style(runs, tmp_path):
    import pickle

    one, other = runs(2)
    figure = one.plot(other)
    assert isinstance(figure, Figure)
    size = figure.axes[0].yaxis.get_ticklabels()[0].get_fontsize()
    figure.savefig(tmp_path / "again.png")
    assert figure.axes[0].yaxis.get_ticklabels()[0].get_fontsize() == size == 9.5
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)
    assert "by user" in " ".join(text.get_text() for text in texts(one.plot(by="user")))
    with pytest.raises(SimkitError, match="power shows one run"):
        one.plot(other, kind="power")
    with pytest.raises(SimkitError, match="kind 'pie'"):
        one.plot(kind="pie")


def test_shares_end_at_all_and_jobs_that_never_started_are_counted(write_run):
    jobs = {
        "job_id": [1, 2, 3], "submit_time_s": [0.0, 1.0, 2.0], "run_time_s": [5.0, 5.0, 5.0],
        "processors": [1.0, 1.0, 1.0], "start_time_s": [0.0, 300.0, None],
    }  # fmt: skip
    figure = drawn(lambda: draw_runs([open_run(write_run("held", jobs))]))
    waits = figure.axes[2]
    line = waits.lines[0]
    assert line.get_ydata()[-1] == 100.0
    assert line.get_xdata()[-1] >= waits.get_xlim()[1]
    assert "1 job never started" in waits.get_legend().get_texts()[0].get_text()


def dates(begin, step, count):
    return [begin + n * step for n in range(count)]


@pytest.mark.parametrize(
    ("found", "labels"),
    [
        (
            dates(datetime(2026, 3, 3, tzinfo=UTC), timedelta(hours=12), 3),
            ["00:00\n3 Mar 2026", "12:00", "00:00\n4 Mar 2026"],
        ),
        (
            dates(datetime(2026, 12, 24, tzinfo=UTC), timedelta(days=7), 3),
            ["24 Dec\n2026", "31 Dec", "7 Jan\n2027"],
        ),
        (
            [datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6, 9)],
            ["Mar\n2026", "Jun", "Sep"],
        ),
        ([datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2028)], ["2026", "2028"]),
        ([], []),
    ],
)
def test_a_date_is_whole_and_its_year_stands_once(found, labels):
    assert tick_labels(found) == labels


@pytest.mark.parametrize("seed", range(40))
def test_dates_of_ticks_are_few_round_and_within(seed):
    rng = np.random.default_rng(seed)
    zone = ZoneInfo(rng.choice(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"]))
    begin = datetime.fromtimestamp(rng.uniform(0, 2e9), zone)
    end = datetime.fromtimestamp(begin.timestamp() + 10 ** rng.uniform(0.5, 9.3), zone)
    found = tick_dates(begin, end)
    assert 1 <= len(found) <= 9
    assert all(one.timestamp() < other.timestamp() for one, other in pairwise(found))
    if len(found) > 1:
        assert begin <= found[0] <= found[-1] <= end
        assert {date.microsecond for date in found} == {0}


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("days", [0.5, 3, 25, 90, 500, 3000])
def test_labels_name_their_instants(runs, days, zone):
    """The label of each tick, read back with the lines above it, is its date in the zone."""
    info = {"epoch_s": MARCH, "time_zone": zone}
    axes = drawn(lambda: draw_runs(runs(1, days * DAY, **info))).axes[1]
    below, seen = "", []
    for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        text, _, new = label.get_text().partition("\n")
        below = new or below
        when = datetime.fromtimestamp(at * DAY, ZoneInfo(zone))
        words = set(re.split(r"[ :]", f"{text} {below}"))
        parts = {str(when.year), when.strftime("%b"), str(when.day), when.strftime("%H")}
        assert words - {"", when.strftime("%M"), when.strftime("%S")} <= parts
        seen.append(f"{text} {below}")
    assert len(seen) >= 2
    assert len({*seen}) == len(seen)
    assert all(one < other for one, other in pairwise(axes.get_xticks()))

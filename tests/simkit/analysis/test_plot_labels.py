"""Labels of pictures can be read: plain numbers, whole, apart, and dates that cannot be misread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import simkit
from simkit.analysis import plot_groups
from simkit.analysis.plot import draw_runs
from simkit.analysis.plot_power import draw_power
from simkit.analysis.plot_style import styled
from simkit.analysis.time_axis import tick_dates, tick_labels
from simkit.results.run_folder import Run, open_run

MINUTE, DAY = 60.0, 86400.0
YEAR = 365.25 * DAY
MARCH = datetime(2026, 3, 3, tzinfo=UTC).timestamp()


def drawn(make: Callable[[], Figure]) -> Figure:
    """Return a figure that was laid out."""
    with styled():
        figure = make()
        figure.draw_without_rendering()
    return figure


def texts(figure: Figure) -> Iterator[Text]:
    """Yield the texts of a figure that are seen."""
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            yield text


def tick_boxes(figure: Figure) -> Iterator[list[Bbox]]:
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


def check(figure: Figure) -> None:
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
def runs(write_run: Any, random_jobs: Any) -> Callable[..., list[Run]]:
    def make(count: int, spread_s: float = 1e6, **info: Any) -> list[Run]:
        return [
            open_run(write_run(f"run {n}", random_jobs(120, seed=n, spread_s=spread_s), 60, **info))
            for n in range(count)
        ]

    return make


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("span_s", [3 * MINUTE, 3000.0, 0.9 * DAY, 20 * DAY, 200 * DAY, 8 * YEAR])
def test_spans_from_minutes_to_years(runs: Any, span_s: float, dated: bool) -> None:
    info = {"epoch_s": MARCH, "time_zone": "Europe/Berlin"} if dated else {}
    check(drawn(lambda: draw_runs(runs(1, span_s, **info))))


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_one_run_to_six(runs: Any, count: int) -> None:
    check(drawn(lambda: draw_runs(runs(count))))


@pytest.mark.parametrize("runs_drawn", [1, 3, 6])
@pytest.mark.parametrize("groups", [1, 8, 9, 25, 40])
def test_one_group_to_forty(write_run: Any, random_jobs: Any, groups: int, runs_drawn: int) -> None:
    opened = []
    for n in range(runs_drawn):
        jobs = random_jobs(200, seed=n) | {"user": np.arange(200) % groups}
        names = [f"someone-with-a-long-name-{user}@place" for user in range(groups)]
        opened.append(
            open_run(write_run(f"r{n}", jobs | {"user": [names[u] for u in jobs["user"]]}))
        )
    frames = [run.metrics_by("user") for run in opened]
    check(drawn(lambda: plot_groups._draw(opened, frames, "user")))


def test_power(tmp_path: Path) -> None:
    run = simkit.simulate(
        "green-quickstart", output=tmp_path / "run", overrides={"workload.jobs": 60}
    )
    check(drawn(lambda: draw_power(run)))


def test_shares_end_at_all_and_jobs_that_never_started_are_counted(write_run: Any) -> None:
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


def dates(begin: datetime, step: timedelta, count: int) -> list[datetime]:
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
def test_a_date_is_whole_and_its_year_stands_once(found: list[datetime], labels: list[str]) -> None:
    assert tick_labels(found) == labels


@pytest.mark.parametrize("seed", range(40))
def test_dates_of_ticks_are_few_round_and_within(seed: int) -> None:
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


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("days", [0.5, 3, 25, 90, 500, 3000])
def test_labels_name_their_instants(runs: Any, days: float, zone: str) -> None:
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

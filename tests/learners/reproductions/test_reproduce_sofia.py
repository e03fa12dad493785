"""The reproduction of the Sofia study: its curves, savings, and the order by both counts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from simkit.learners.reproductions.sofia.curves import TrainingCurve, saving, smooth
from simkit.learners.reproductions.sofia.judge import CUT, at_the_cut
from simkit.learners.reproductions.sofia.study import SofiaRun


def curve(slowdown: list[float], method: str = "natural", seed: int = 0) -> TrainingCurve:
    """Return a curve with a look every 100 decisions, whose return is minus its slowdown."""
    values, looks = np.array(slowdown, float), np.arange(len(slowdown), dtype=float)
    task = SofiaRun(method, 0.01, seed)
    return TrainingCurve(task, looks, 100 * looks, values, -values, (1.0, 1.0), (0.0, 0.0))


def test_a_look_is_averaged_with_those_just_before():
    assert smooth(np.array([3.0, 5, 1, 6, 2])).tolist() == [3, 4, 3, 4, 3]


def test_rows_become_a_curve_of_samples():
    rows = [
        {"iteration": 0.0, "held_out_slowdown": 9.0, "held_out_return": -90.0},
        {"iteration": 1.0, "decisions": 70.0, "load": 1.1, "last_load": 0.5},
        {"iteration": 2.0, "decisions": 80.0, "load": 1.0, "last_load": 0.25,
         "held_out_slowdown": 7.0, "held_out_return": -70.0},
    ]  # fmt: skip
    found = TrainingCurve.of(SofiaRun("natural", 0.01, 1), rows)
    assert found.decisions.tolist() == [0, 150]
    assert found.load == (1.1, 1.0)
    assert found.load_at_cut == (0.5, 0.25)
    assert [(row["iteration"], row["held_out_slowdown"]) for row in found.as_rows()] == [(0, 9.0), (2, 7.0)]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "samples"),
    [
        (9.0, 0),  # untrained already
        (7.0, 200),  # the mean of 9, 7 and 5
        (5.0, 300),  # of 7, 5 and 3; a single look was there before
        (4.9, None),  # never
    ],
)
def test_samples_to_a_level(level, samples):
    assert curve([9, 7, 5, 3]).samples_to(level) == samples


def test_a_saving_is_paired_by_seed():
    found = saving([FAST, FAST], [SLOW, SLOW])
    assert found.shares == (100 / 500, 100 / 500)  # 6 on average: after one look, and after five
    assert found.mean == pytest.approx(0.2)
    assert found.bounds == pytest.approx((0.2, 0.2))
    assert found.ends_better == 2
    turned = saving([SLOW], [FAST])  # the same level, 6: that the fast one ends better is no matter
    assert (turned.shares, turned.ends_better, turned.bounds) == ((5.0,), 0, None)


def test_what_is_finished_at_the_cut():
    jobs = pl.DataFrame(
        {"end_time_s": [150.0, 151.0, None], "turnaround_time_s": [150.0, 151.0, None],
         "trace_run_time_s": [30.0, 3.0, 3.0]}
    )  # fmt: skip
    assert CUT == 150
    assert at_the_cut(jobs) == {"done_at_cut": 1, "sum_at_cut": 150 / 30}


FAST, SLOW = curve([9, 3, 3, 3, 3, 3, 3]), curve([9, 9, 9, 6, 6, 6, 6], "adam")

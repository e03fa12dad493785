"""The study of Sofia: its learning curves, savings of samples, and the count at the cut."""

from __future__ import annotations

import polars as pl
import pytest

from simkit.learners.studies.results import COLUMNS, Results
from simkit.learners.studies.sofia.judge import CUT, HEURISTICS, at_the_cut, candidates
from simkit.learners.studies.sofia.page import change, curve, saving, smooth
from simkit.learners.studies.sofia.trainings import LEARNING, METHODS, looks


class Training:
    """A training whose curve is given."""

    def __init__(self, rows, name="agent"):
        self.curve, self.folder, self.digest = pl.DataFrame(rows), name, name


def learnt(**arms) -> Results:
    """Return curves of slowdowns by seed, with a look every 100 decisions; a return is minus it."""
    rows = []
    for arm, seeds in arms.items():
        for seed, slowdown in enumerate(seeds):
            told = [
                {"iteration": n, "decisions": 100 if n else None, LEARNING[1]: value,
                 LEARNING[2]: -value}
                for n, value in enumerate(map(float, slowdown))
            ]  # fmt: skip
            for row in looks(Training(told)).iter_rows(named=True):
                rows += [
                    (arm, seed, row["case"], row["iteration"], name, row[name]) for name in LEARNING
                ]
    return Results(pl.DataFrame(rows, schema=COLUMNS, orient="row"))


FAST, SLOW = [9, 3, 3, 3, 3, 3, 3], [9, 9, 9, 6, 6, 6, 6]


def test_the_mean_of_the_case_trained_is_the_end_of_the_smooth_curve():
    found = learnt(fast=[FAST, SLOW])
    ends = smooth(curve(found, "held_out_slowdown", "fast"))[:, -1]
    assert found.ask("held_out_slowdown | fast | trained").by_seed == tuple(ends)
    assert found.mean("held_out_slowdown", "fast", "untrained") == 9
    assert curve(found, "decisions", "fast")[1].tolist() == [0, 100, 200, 300, 400, 500, 600]
    assert change(found, "held_out_return", "fast").by_seed == pytest.approx((-200 / 3, -100 / 3))


def test_a_saving_is_paired_by_seed():
    found = saving(learnt(fast=[FAST, FAST], slow=[SLOW, SLOW]), "fast", "slow")
    assert found.by_seed == (100 / 500, 100 / 500)  # 6 on average: after one look, and after five
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.2, 0.2))
    turned = saving(learnt(fast=[FAST], slow=[SLOW]), "slow", "fast")
    assert (turned.value, turned.low) == (pytest.approx(5.0), None)  # the same level, 6


def test_what_is_finished_at_the_cut():
    jobs = pl.DataFrame(
        {"end_time_s": [150.0, 151.0, None], "turnaround_time_s": [150.0, 151.0, None],
         "trace_run_time_s": [30.0, 3.0, 3.0]}
    )  # fmt: skip
    assert CUT == 150
    assert at_the_cut(jobs) == {"done_at_cut": 1, "sum_at_cut": 150 / 30}


def test_some_agents_play_at_all_rates_and_some_greedily_too():
    agents = {arm: [Training([], arm)] for arm in METHODS}
    here, there = ([arm for arm, *_ in candidates(rate, agents)] for rate in (0.7, 0.3))
    agents_here = [arm for arm in here if arm not in HEURISTICS]
    assert len(set(agents_here)) == len(agents_here) == len(METHODS) + 3
    assert [arm for arm in there if arm not in HEURISTICS] == [
        "natural gradient", "natural gradient, greedy", "Adam, tuned", "our recipe",
        "our recipe, greedy",
    ]  # fmt: skip

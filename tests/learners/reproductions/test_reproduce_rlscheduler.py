"""The comparison with RLScheduler: who judges what, and its intervals."""

from __future__ import annotations

import polars as pl
import pytest

from simkit.learners.reproductions.rlscheduler.judge import standings
from simkit.learners.reproductions.rlscheduler.study import JOBS, LOGS, RULES, judge_of

LUBLIN, ARCHIVE = LOGS[0], LOGS[1]


@pytest.mark.parametrize("log", LOGS)
def test_no_agent_judges_what_it_was_trained_on(log):
    for rows in log.windows(100).values():
        for first in rows:
            low, high = log.rows(log.judge_of(first))
            assert first + JOBS <= low or (high is not None and first > high)


def test_windows_across_the_middle_of_a_lublin_log_are_left_out():
    assert LUBLIN.judge_of(5000 - JOBS) == "b"
    assert LUBLIN.judge_of(5000) == "a"
    assert LUBLIN.judge_of(5000 - JOBS + 1) is LUBLIN.judge_of(4999) is None
    assert len(LUBLIN.windows(0)["ten"]) == 8
    assert len(ARCHIVE.windows(0)["ten"]) == 10


def test_agents_of_all_logs_leave_out_the_half_that_they_judge():
    assert judge_of(ARCHIVE, 17, everywhere=False) == "whole"
    assert judge_of(ARCHIVE, 17, everywhere=True) == "a"
    assert judge_of(LUBLIN, 17, everywhere=True) == "b"


def judged(**means: tuple[float, ...]) -> pl.DataFrame:
    """Return a table of candidates with a slowdown for each of some windows."""
    rules = {name: (100.0,) * len(next(iter(means.values()))) for name in RULES}
    rows = [
        {
            "log": "L", "windows": "others", "first_row": 700 * place, "candidate": name,
            "seed": seed, "bounded_slowdown": value * weights[seed], "makespan_s": 10.0 * value,
            "area_weighted_wait_s": 3600.0, "longest_wait_s": 7200.0,
        }
        for name, values in {**rules, **means}.items()
        for weights in [(0.5, 1.5) if name.startswith("scorer") else (1.0,)]
        for seed in range(len(weights))
        for place, value in enumerate(values)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_everyone_is_compared_with_the_rule_of_the_lowest_mean():
    best, found = standings(
        judged(saf=(2.0, 4.0, 8.0, 2.0), scorer=(1.0, 4.0, 2.0, 1.0)), "L", "others"
    )
    (scorer,) = [one for one in found if one.name == "scorer"]
    assert best == "saf"
    assert (scorer.mean, scorer.median, scorer.won) == (2.0, 1.5, 0.75)
    assert scorer.geometric == pytest.approx(8 ** (1 / 4))
    assert scorer.ratio[0] == 0.5
    assert scorer.geometric_ratio[0] == pytest.approx(2**-1)
    assert scorer.ratio[1] < 0.5 < scorer.ratio[2]
    assert scorer.makespan == pytest.approx(2**-1)
    assert (scorer.area_weighted_wait_h, scorer.longest_wait_h) == (1.0, 2.0)
    assert scorer.seeds == (1.0, 3.0)

"""The comparison with RLScheduler: who judges what, and its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from long_tables import made_up

from simkit.learners.studies.rlscheduler import STUDY
from simkit.learners.studies.rlscheduler.logs import JOBS, LOGS, RULES, judge_of
from simkit.learners.studies.rlscheduler.page import geometric_mean, median, standings, windows_won

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


def test_everyone_is_compared_with_the_rule_of_the_lowest_mean():
    slowdown = dict.fromkeys(RULES, (100.0,) * 4) | {"saf": (2.0, 4.0, 8.0, 2.0)}
    scorer = {"scorer": np.outer((0.5, 1.5), (1, 4, 2, 1))}
    table = made_up(slowdown | scorer, "L", "bounded_slowdown", items=range(0, 2800, 700))
    found = STUDY.results(table, {})
    first, second, *_ = standings(found, "L")
    assert (first, second) == ({"arm": "scorer", "best": "saf"}, {"arm": "saf", "best": "saf"})
    assert (windows_won(found, "scorer", "L", "saf"), windows_won(found, "saf", "L", "saf")) == (
        "75%",
        "",
    )
    assert median(found, "scorer", "L") == 1.5
    assert geometric_mean(found, "scorer", "L") == pytest.approx(8**0.25)

"""The comparison with RLScheduler: who judges what."""

from __future__ import annotations

import pytest

from simkit.learners.studies.rlscheduler.logs import JOBS, LOGS

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
    assert ARCHIVE.judge_of(17) == "whole"
    assert ARCHIVE.judge_of(17, everywhere=True) == "a"
    assert LUBLIN.judge_of(17, everywhere=True) == "b"

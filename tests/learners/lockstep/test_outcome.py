"""Outcomes: every job counts, whether it ended, was rejected or still waits."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.agent.slotted import Slotted
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.outcome import outcome

SMALL = Slotted(slots=2, backlog=0)


def one_set(*jobs: tuple[int, int]) -> JobSets:
    """Return a set of jobs (enter, length) that each take the whole pool."""
    enter, length = np.array([jobs]).transpose(2, 0, 1)
    return JobSets(enter, length, np.full((1, len(jobs), 2), 10))


def test_jobs_that_ended_count_with_their_slowdown():
    game = Lockstep(SMALL, one_set((3, 2), (3, 4)))
    for action in (0, 1, *[SMALL.slots] * 6):  # one after the other, from step 3 on
        game.step([action])
    found = outcome(game)
    assert found["slowdown"] == (2 / 2 + 6 / 4) / 2
    assert found["turnaround_steps"] == (2 + 6) / 2
    assert (found["jobs"], found["unfinished"], found["decisions"]) == (2, 0, 8)


def test_an_unfinished_job_counts_up_to_the_end_of_its_episode():
    game = Lockstep(SMALL, one_set((0, 2), (0, 4)), limit=10)
    for action in (0, *[SMALL.slots] * 9):  # the second job is never placed; 9 steps pass
        game.step([action])
    found = outcome(game)
    assert found["unfinished"] == 1
    assert found["slowdown"] == (2 / 2 + 9 / 4) / 2


def test_a_job_that_would_end_after_the_limit_is_unfinished():
    game = Lockstep(SMALL, one_set((0, 5)), limit=2)
    for action in (0, SMALL.slots):
        game.step([action])
    assert outcome(game)["unfinished"] == 1
    assert outcome(game)["slowdown"] == 1  # no slowdown can be less


def test_a_rejected_job_is_unfinished():
    """Two slots and no backlog: the third job that comes at once finds no place."""
    game = Lockstep(SMALL, one_set((0, 1), (0, 1), (0, 1)))
    for action in (0, 1, SMALL.slots, SMALL.slots):
        game.step([action])
    found = outcome(game)
    assert (found["unfinished"], found["slowdown"]) == (1, pytest.approx((1 + 2 + 2) / 3))

"""A small campaign of every family: sums, no policy's own choice, and what happens without blockers."""

from __future__ import annotations

import pytest
from explain_campaign import FAMILIES, STRICT, family_tally
from fuzz_sums import wrong_sums


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_intervals_add_up_and_blockers_block(family):
    tally = family_tally(family, 8, seed=7, per_run=4)
    assert tally.jobs == 8
    assert tally.wrong_sums == []
    assert tally.choices == [] or family.__name__ not in STRICT
    assert tally.started >= 7, tally.exceptions
    assert tally.others_started <= 3


@pytest.mark.parametrize("seed", [0, 2, 26, 41])
def test_waits_of_combined_features_add_up(seed):
    """Clocks, users' limits, late jobs, suspensions, failures, processes, releases."""
    assert wrong_sums(seed) == []


@pytest.mark.parametrize("seed", [3, 55, 56])
def test_waits_of_random_scenarios_add_up(seed):
    assert wrong_sums(seed, combined=False) == []

"""A small campaign of every kind, and the cases that once failed; see `campaign`."""

from __future__ import annotations

import pytest
from campaign import FAILED, READY, combination, scenario, simulation
from random_scenarios import DRAWN

from simkit import plugins
from simkit.scenario.bundled import scenario_path

BLOCKS = range(0, 40, 8)
"""First seeds; `make test` takes one block of eight."""
ONCE_FAILED = (1065, 1792, 2157, 2195, 2286, 2323, 2435, 2716, 2835, 701714)
"""Damaged files whose amounts, times or unasked resources were not refused or not verified."""


NOT_DRAWN = {
    "order": {"rlscheduler-wfp3", "rlscheduler-unicep", "rlscheduler-f1"},
    "backfill": {"hold", "rlscheduler"},
}
"""Kind of policy → the names that random scenarios leave out."""


@pytest.mark.parametrize("kind", DRAWN)
def test_every_policy_is_drawn_or_left_out_by_name(kind):
    left_out = NOT_DRAWN.get(kind, set())
    assert {*plugins.names("simkit.policies", kind)} == DRAWN[kind] | left_out
    assert not DRAWN[kind] & left_out


@pytest.mark.sampled
@pytest.mark.parametrize("first", BLOCKS)
@pytest.mark.parametrize(("case", "least"), [(simulation, 4), (combination, 6)])
def test_random_cases_run_and_are_verified(case, least, first):
    found = [case(seed) for seed in range(first, first + 8)]
    assert [one for one in found if one.kind in FAILED] == []
    assert sum(one.kind == "verified" for one in found) >= least


@pytest.mark.parametrize("seed", [22, 78, 5006, 5011, 5172, 5513])
def test_combinations_that_once_failed(seed):
    """Rows of the timeline at corrections, at ends of stopped work, and as released jobs leave."""
    assert combination(seed).kind == "verified"


def test_damaged_scenarios_are_refused_in_words():
    found = [scenario(seed) for seed in range(40)]
    assert [one for one in found if one.kind in FAILED] == []
    refused = [one.text for one in found if one.kind == "refused"]
    assert len(refused) > 20
    assert not any("Traceback" in text for text in refused)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_damaged_scenarios_that_once_failed(seed):
    assert scenario(seed).kind not in FAILED


@pytest.mark.parametrize("seed", [5035, 187, 700603])
def test_simulations_that_once_failed(seed):
    """Plans for the end of maintenance, rows at corrections, power changing as the run ends."""
    assert simulation(seed).kind == "verified"


def test_a_seed_is_a_case():
    assert simulation(3) == simulation(3)
    assert all(scenario_path(name).exists() for name in READY)

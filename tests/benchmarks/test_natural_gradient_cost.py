"""Processor time of an iteration with the natural gradient, beside one of the plain gradient."""

from __future__ import annotations

import pytest

from simkit.learners.reproductions.sofia.curves import costs
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario

MOST = 2.0
"""Times the cost of a plain iteration; the study's own attempt took four times."""


@pytest.mark.slow
def test_a_natural_iteration_costs_at_most_twice_a_plain_one() -> None:
    found = costs(load_scenario(scenario_path("sofia")), {}, iterations=10)
    plain, natural = found["gradient"], found["natural"]
    print(f"plain {plain.seconds:.2f} s, natural {natural.seconds:.2f} s an iteration")
    print(f"plain {plain.us_a_decision:.1f} us, natural {natural.us_a_decision:.1f} us a decision")
    assert natural.seconds < MOST * plain.seconds
    assert natural.us_a_decision < MOST * plain.us_a_decision

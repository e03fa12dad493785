"""RARE: better than its teacher; its agents do what was trained, on a larger pool too."""

from __future__ import annotations

from typing import Any

from ready_pools import check_acts_as_in_lockstep, ready_scenario
from trainings import small_training

from simkit.learners.agent import load_agent
from simkit.learners.rare import RARETraining
from simkit.scenario import Scenario


def training(where: Scenario | None = None, **arguments: Any) -> RARETraining:
    return small_training("rare", where=where, **arguments)


def test_an_agent_of_sets_knows_a_larger_pool(tmp_path):
    made = training()
    made.step()
    made.write_agent(tmp_path / "agent", {})
    larger = ready_scenario(
        cluster={"machines": [{"count": 1, "processors": 20, "gpu": 20}]},
        workload={"type": "rare", "jobs": 40, "offered_load": 1.2, "units": 20},
    )
    check_acts_as_in_lockstep(made, ready_scenario(), tmp_path / "again")
    assert load_agent(tmp_path / "agent", larger).differences(larger) == []

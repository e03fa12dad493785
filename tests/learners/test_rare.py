"""RARE: better than its teacher; its agents do what was trained, on a larger pool too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ready_pools import POWER, check_acts_as_in_lockstep, ready_scenario
from trainings import small_training

from simkit import simulate
from simkit.errors import ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.lockstep.ready_pool.rules import ORDERS, play
from simkit.learners.rare import RARETraining
from simkit.scenario import Scenario


def training(where: Scenario | None = None, **arguments: Any) -> RARETraining:
    return small_training("rare", where=where, **arguments)


@pytest.mark.thorough
def test_it_learns() -> None:
    """It loses far less than untrained, and less than first come first served, on held-out streams."""
    made = training(
        iterations=8, games=48, decisions=32, hours=400, hidden=32, batch=256, updates=120,
        held_out_games=24, replay=50_000,
        where=ready_scenario(
            admission={"slots": 15, "backlog": 144, "late": "leave"},
            workload={"type": "rare", "jobs": 190, "offered_load": 1.2},
        ),
    )  # fmt: skip
    before = made.held_out()["lost_value_drawn"]
    for _ in range(8):
        made.step()
    rule = made.source.held_out(24)
    play(rule, ORDERS["fcfs"])
    after = made.held_out()
    assert after["lost_value_drawn"] < before - 0.06
    assert after["lost_value"] < 1.0 - float(rule.value_ratio().mean()) - 0.02


@pytest.mark.parametrize(
    ("arguments", "power"), [({}, False), ({"encoder": "small"}, False), ({"reject": True}, True)]
)
def test_its_agent_acts_in_the_simulation_as_in_lockstep(
    arguments: dict[str, Any], power: bool, tmp_path: Path
) -> None:
    where = ready_scenario(**({"power": POWER} if power else {}))
    made = training(where=where, **arguments)
    for _ in range(3):
        made.step()
    check_acts_as_in_lockstep(made, where, tmp_path / "agent")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"teacher": "sjf"}, "teacher"),  # without a warm-up
        ({"warm_up": 9}, "warm_up"),
        ({"decisions": 1}, "decisions"),
        ({"encoder": "large"}, "encoder"),  # too many convolutions for so small an image
    ],
)
def test_what_does_not_suit_is_refused(arguments: dict[str, Any], key: str) -> None:
    with pytest.raises(ScenarioError, match=f"^learn.arguments.{key}: "):
        training(**arguments)


def test_an_agent_of_images_refuses_a_larger_pool(tmp_path: Path) -> None:
    training(encoder="small").write_agent(tmp_path / "agent", {})
    larger = ready_scenario(cluster={"machines": [{"count": 1, "processors": 20, "gpu": 20}]})
    agent = load_agent(tmp_path / "agent", larger)
    with pytest.raises(ScenarioError, match="image of 10 and 10 units, and the cluster has 20 and"):
        simulate(larger, policy=agent)


def test_an_agent_of_sets_knows_a_larger_pool(tmp_path: Path) -> None:
    made = training()
    made.step()
    made.write_agent(tmp_path / "agent", {})
    larger = ready_scenario(
        cluster={"machines": [{"count": 1, "processors": 20, "gpu": 20}]},
        workload={"type": "rare", "jobs": 40, "offered_load": 1.2, "units": 20},
    )
    check_acts_as_in_lockstep(made, ready_scenario(), tmp_path / "again")
    assert load_agent(tmp_path / "agent", larger).differences(larger) == []

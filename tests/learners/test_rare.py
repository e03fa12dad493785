"""RARE: repeatable, resumable, better than its teacher; its agents run as policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ready_pools import POWER, check_acts_as_in_lockstep, ready_scenario
from trainings import check_held_out_changes_nothing, check_resume

from simkit import simulate
from simkit.errors import ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.lockstep.ready_pool.rules import ORDERS, play
from simkit.learners.rare import RARETraining, begin
from simkit.scenario import Scenario

SMALL: dict[str, Any] = {
    "iterations": 4, "games": 6, "decisions": 8, "hours": 150, "held_out_games": 4, "hidden": 8,
    "batch": 32, "updates": 3, "replay": 300,
}  # fmt: skip
SETTINGS: list[dict[str, Any]] = [
    {},
    {"warm_up": 2, "reject": True, "critics": 2, "filter": "exponential", "popart": False},
    {"encoder": "small", "max_start": 12, "advance": "each", "hours": 40, "replay": 60},
]


def training(seed: int = 0, where: Scenario | None = None, **arguments: Any) -> RARETraining:
    made = begin(where or ready_scenario(), {**SMALL, **arguments}, seed=seed)
    assert isinstance(made, RARETraining)
    return made


@pytest.mark.parametrize("arguments", SETTINGS)
def test_resumed_is_as_not_interrupted(arguments: dict[str, Any], tmp_path: Path) -> None:
    check_resume(lambda: training(**arguments), tmp_path)


def test_held_out_changes_nothing() -> None:
    check_held_out_changes_nothing(training)


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


def test_while_it_warms_up_it_imitates_all() -> None:
    made = training(warm_up=2)
    assert [made.step()["imitated"] for _ in range(2)] == [1.0, 1.0]
    assert made.step()["imitated"] < 1.0


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"encoder": "small"}, {"reject": True}])
def test_its_agent_acts_in_the_simulation_as_in_lockstep(
    arguments: dict[str, Any], power: bool, tmp_path: Path
) -> None:
    where = ready_scenario(**({"power": POWER} if power else {}))
    made = training(where=where, **arguments)
    for _ in range(3):
        made.step()
    check_acts_as_in_lockstep(made, where, tmp_path / "agent")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"teacher": "sjf"}, "teacher: plays in the warm-up alone"),
        ({"warm_up": 9}, "warm_up: is 9, more than the 4 iterations"),
        ({"decisions": 1}, "decisions: must be at least 2"),
    ],
)
def test_what_does_not_suit_is_said(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=f"learn.arguments.{text}"):
        training(**arguments)


def test_an_image_that_is_too_small_is_refused() -> None:
    with pytest.raises(ScenarioError, match="large has 4 convolutions, too many for an image of"):
        training(encoder="large")


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

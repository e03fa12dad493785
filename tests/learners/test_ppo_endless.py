"""PPO in games without an end: it learns, within a limit; its agent does what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ready_pools import ready_scenario
from trainings import SMALLEST, small_training

from simkit.agent.ready_pool import ready_set
from simkit.errors import ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.common.multiplier import Gains, Multiplier
from simkit.learners.games.cost_limit import mean_cost
from simkit.learners.games.ready_sizes import GamesOfSizes
from simkit.learners.ppo import EndlessPPO
from simkit.scenario import Scenario

SMALL = SMALLEST["cocorl"].arguments


def training(where: Scenario | None = None, **arguments: Any) -> EndlessPPO:
    return small_training("cocorl", where=where, **arguments)


@pytest.mark.parametrize("gains", [{}, {"derivative": 3.0, "integral": 0.1, "watched": 0}])
def test_the_multiplier_answers_the_dearer_of_drawn_and_likeliest_actions(gains):
    """Costs count in tens; nothing is learned from the games that are watched."""
    made = training(cost_limit=0.5, **gains)
    integral, derivative = gains.get("integral", 1.0), gains.get("derivative", 1.0)
    reference = Multiplier(0.05, Gains(2.0, integral, derivative))
    for _ in range(4):
        logged = made.step()
        dearer = max(logged["cost"], logged.get("cost_watched", 0.0))
        assert logged["multiplier"] == pytest.approx(reference.update(0.1 * dearer))
        assert logged["decisions"] == SMALL["games"] * SMALL["decisions"]
        assert ("cost_watched" in logged) == ("watched" not in gains)
    assert reference.value > 0


@pytest.mark.thorough
def test_a_limit_keeps_jobs_from_waiting():
    """With the limit far below the cost at first, the multiplier rises and the cost falls."""
    told = {"iterations": 25, "games": 32, "decisions": 32, "hours": 400, "hidden": 32,
            "batch": 256, "reject": True}  # fmt: skip
    limited = training(cost_limit=0.3, **told)
    free = training(**told)
    costs = [[made.step()["cost"] for _ in range(25)] for made in (limited, free)]
    assert limited.multiplier.value > 0
    assert free.multiplier.value == 0
    assert np.mean(costs[0][-5:]) < 0.6 * np.mean(costs[1][-5:])


def free_agent(folder: Path, **curve_end: float) -> str:
    """Write an agent that was trained without a limit; return its folder."""
    training().write_agent(folder, curve_end)
    return str(folder)


def test_a_limit_may_be_a_share_of_the_cost_of_another_agent(tmp_path):
    """It is looked up once: whoever resumes has it from the checkpoint, whatever became of it."""
    free = free_agent(tmp_path / "free", held_out_cost_drawn=3.0, held_out_cost=9.0)
    told = {"cost_of": free, "cost_share": 0.5}
    made, stated = training(**told), training(cost_limit=1.5)
    assert made.held_out()["cost_limit"] == 1.5
    for _ in range(2):
        logged = made.step()
        assert logged == stated.step()
    assert logged["cost_limit"] == 1.5
    (tmp_path / "checkpoint").mkdir()
    made.save(tmp_path / "checkpoint")
    (tmp_path / "free" / "agent.json").unlink()
    resumed = training(**told)
    resumed.load(tmp_path / "checkpoint")
    assert resumed.step() == stated.step()
    assert resumed.held_out()["cost_limit"] == 1.5


def test_the_other_agent_is_named_from_the_working_directory(tmp_path, monkeypatch):
    free_agent(tmp_path / "trainings" / "free" / "agent", held_out_cost_drawn=4.0)
    monkeypatch.chdir(tmp_path)
    agents = "trainings/free", "trainings/free/agent"
    assert [mean_cost(agent, "waiting") for agent in agents] == [4.0, 4.0]


def test_what_has_no_cost_of_its_own_is_refused(tmp_path):
    """The first evaluation says so, before a training writes anything."""
    limited = free_agent(tmp_path / "half", held_out_cost_drawn=2.0, held_out_cost_limit=2.0)
    broken_off = free_agent(tmp_path / "broken_off")
    for agent in (str(tmp_path / "none"), "deeprm-70", limited, broken_off):
        with pytest.raises(ScenarioError, match=r"^learn.arguments.cost_of: "):
            training(cost_of=agent, cost_share=0.5).held_out()


def test_an_agent_refuses_another_pool(tmp_path):
    training().write_agent(tmp_path / "agent", {})
    other = ready_scenario(admission={"slots": 5, "late": "stay"}, scheduling={"step": "2h"})
    with pytest.raises(ScenarioError) as caught:
        load_agent(tmp_path / "agent", other)
    assert [text.split()[2] for text in caught.value.problems] == [
        "scheduling.step", "admission.slots", "admission.late",
    ]  # fmt: skip


def test_pools_of_several_sizes_are_played_side_by_side():
    """Each game shows its own pool; the shares of jobs are those of the sizes."""
    made = training(units=[4, 10, 30], games=7)
    assert isinstance(made.games, GamesOfSizes)
    capacities = [part.sets.capacity for part in made.games.parts]
    assert capacities == [(4, 4), (10, 10), (30, 30)]
    assert [len(part.active) for part in made.games.parts] == [3, 2, 2]
    seen = made.games.observe()
    for part, own in zip(made.games.parts, np.split(seen, [3, 5]), strict=True):
        np.testing.assert_array_equal(own, ready_set(part.view(), part.pool))


def test_sizes_learn_as_one_if_they_are_one():
    """With the scenario's own size alone everything is as without the argument."""
    one, other = training(units=[10]), training()
    for _ in range(2):
        assert one.step() == other.step()
    assert one.held_out() == other.held_out()

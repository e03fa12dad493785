"""Actor-critic: what it remembers of rollouts, and its agent runs as in its greedy games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trainings import check_resume, schedqrm_scenario, small_training

from simkit.learners.common.rollouts import roll_out
from simkit.scenario import Scenario
from simkit.training.evaluate import Candidate, evaluate

RUSH = {
    "workload": {
        "type": "poisson", "jobs": 40, "processors": 8, "rate_per_s": 1.0, "mean_run_time_s": 4,
    },
    "cluster": {"processors": 8},
}  # fmt: skip
"""So many jobs at once that it matters which one begins."""


def rush() -> Scenario:
    return Scenario.model_validate(RUSH)


def rolled_out(made: Any) -> Any:
    slices = made.source.draw(np.random.default_rng(0), made.chosen.job_sets)
    games = made.source.games(slices, made.chosen.rollouts)
    return roll_out(games, made.network.actor, np.random.default_rng(1))


@pytest.mark.parametrize("steps", [1, 4, 10_000])
def test_rewards_of_an_episode_add_up_to_its_difference_at_the_first_choice(steps):
    made = small_training("actor-critic", where=rush(), steps=steps)
    rollouts = rolled_out(made)
    difference = made.experience.differences(rollouts)
    rows = made.experience.decisions(rollouts, difference)
    assert (rows["allowed"].sum(axis=1) > 1).all()
    choices = np.flatnonzero(rollouts.allowed.sum(axis=1) > 1)
    played, counts = np.unique(rollouts.episode[choices], return_counts=True)
    for episode, begin, count in zip(played, np.cumsum(counts) - counts, counts, strict=True):
        first = choices[rollouts.episode[choices] == episode][0]
        own = slice(begin, begin + count, steps)  # one stretch of n choices after another
        assert rows["rewards"][own].sum() == pytest.approx(difference[first], abs=1e-4)
        over = rows["over"][begin : begin + count]
        assert over.tolist() == [count - n <= steps for n in range(count)]
        within = np.flatnonzero(~over) + begin
        assert (rows["after"][within] == rows["seen"][within + steps]).all()


def test_differences_of_a_slice_cancel_at_its_first_decision():
    rollouts = rolled_out(made := small_training("actor-critic", where=rush()))
    first = made.experience.differences(rollouts)[rollouts.decision == 0].reshape(4, 3)
    assert first.sum(axis=1) == pytest.approx(np.zeros(4), abs=1e-9)


@pytest.mark.parametrize("seen", [{}, {"observation": "queue-table"}])  # a set, or flat numbers
def test_its_agent_runs_as_in_its_greedy_games(seen, tmp_path):
    made = small_training("actor-critic", where=rush(), **seen)
    for _ in range(2):
        made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    candidate = Candidate("agent", {"agent": str(tmp_path / "agent")})
    found = evaluate(rush(), [candidate], sets=3, workers=1)
    assert found.candidates[0].pooled_mean == pytest.approx(made.held_out()["slowdown"])


@pytest.mark.parametrize("where", [rush(), schedqrm_scenario()])
def test_other_games_resume_as_not_interrupted(where, tmp_path):
    check_resume(lambda: small_training("actor-critic", where=where), tmp_path)

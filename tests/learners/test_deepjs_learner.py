"""The learner deepjs: its advantages by hand, its start at a rule, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from trainings import bags_scenario, small_training

from simkit.errors import RunError, ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.deepjs import SHARPNESS, DeepJSTraining, _refuse_endless, advantages
from simkit.learners.networks.distributions import ragged_log_softmax
from simkit.learners.scorers.agent import PairAgent
from simkit.learners.scorers.pair_model import Trajectory, play
from simkit.learners.scorers.pair_scorer import RULES


def training(**arguments: Any) -> DeepJSTraining:
    return small_training("deepjs", **arguments)


def rollout(tick: list[float], span: float) -> Trajectory:
    none: Any = np.zeros(0)
    first = np.zeros(len(tick), np.int64)
    return Trajectory(none, none, none, first, np.array(tick), first, span)


def plain_advantages(rollouts: list[Trajectory]) -> list[list[float]]:
    """Return the same node by node: lists of (reward, is a decision), as the program keeps them."""
    walks = []
    for one in rollouts:
        nodes: list[tuple[float, bool]] = []
        for tick in range(int(one.makespan)):
            nodes += [(0.0, True)] * int((one.tick == tick).sum()) + [(-1.0, False)]
        walks.append(nodes)
    longest = max(map(len, walks))
    to_go = np.zeros((len(walks), longest))
    for row, nodes in enumerate(walks):
        for at in range(len(nodes)):
            to_go[row, at] = sum(reward for reward, _ in nodes[at:])
    apart = [to_go[row, : len(n)] - to_go.mean(axis=0)[: len(n)] for row, n in enumerate(walks)]
    everything = np.concatenate(apart)
    scaled = [(each - everything.mean()) / everything.std() for each in apart]
    return [
        [float(value) for value, (_, decides) in zip(each, nodes, strict=True) if decides]
        for each, nodes in zip(scaled, walks, strict=True)
    ]


def test_advantages_are_those_of_a_plain_walk():
    some = [rollout([1, 1, 1, 4, 4], 9), rollout([1, 1, 3, 4, 6], 12), rollout([1, 1, 1, 2, 4], 7)]
    for found, expected in zip(advantages(some), plain_advantages(some), strict=True):
        assert found == pytest.approx(expected)


def test_by_tick_what_ends_sooner_is_better_throughout():
    some = [rollout([1, 1, 4], 6), rollout([1, 2, 4], 9)]
    soon, late = advantages(some, by_tick=True)
    assert (soon > 0).all()
    assert (late < 0).all()


def test_a_ragged_softmax_is_one_softmax_after_another():
    logits = torch.tensor([1.0, 2.0, -3.0, 900.0, 0.0, 0.5])
    found = ragged_log_softmax(logits, torch.tensor([0, 0, 0, 1, 2, 2]), 3)
    parts = [torch.log_softmax(part, 0) for part in (logits[:3], logits[3:4], logits[4:])]
    assert torch.allclose(found, torch.cat(parts))


@pytest.mark.thorough
def test_it_learns_to_start_a_long_job_first(tmp_path):
    """In drawn order half of the sixty short ones would start before it."""
    rows = [f"{job},0,0,{120 if job == 30 else 2},1,8,0.1" for job in range(61)]
    header = "job_id,task_id,submit_time,duration,instances_num,cpu,memory"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows, ""]))
    two = {"machines": [{"count": 2, "cpu": 8, "mem": 1}]}
    made = small_training(
        "deepjs", where=bags_scenario(tmp_path / "jobs.csv", cluster=two), jobs=61, iterations=25,
        repeats=25, rollouts=12, learning_rate=0.005, hidden=(6,),
    )  # fmt: skip
    costs = [made.step()["cost"] for _ in range(25)]
    assert np.mean(costs[-5:]) < 0.85 * np.mean(costs[:5])


def test_the_network_and_the_scorer_say_the_same(tmp_path):
    made = training(hidden=[3, 9, 18, 9])
    made.step()
    raw = np.random.default_rng(0).normal(0.0, 20.0, (50, 6))
    seen = torch.from_numpy(((raw - made.blank.shift) / made.blank.scale).astype(np.float32))
    with torch.inference_mode():
        said = made.network(seen)[:, 0].numpy()
    assert made.scorer.scores(raw) == pytest.approx(said, abs=1e-5)
    made.write_agent(tmp_path / "agent", {"iteration": 1})
    agent = load_agent(tmp_path / "agent")
    assert isinstance(agent, PairAgent)
    chunk = made.source.trained[0]
    assert play(chunk, agent.scorer).placed == play(chunk, made.scorer).placed


def test_schedules_without_an_end_are_refused():
    _refuse_endless([3.0, 4.0], "chunk 7")
    with pytest.raises(RunError, match="chunk 7"):
        _refuse_endless([3.0, float("inf")], "chunk 7")


def test_it_begins_at_a_rule():
    made = training(features="terms", start="balance")
    found, rule = made.scorer, RULES["balance"].linear
    np.testing.assert_array_equal(found.linear, SHARPNESS * rule)
    beside = made.scorer.scores(np.eye(len(rule))) - SHARPNESS * rule
    assert np.abs(beside).max() < 1.0  # its network hardly speaks


@pytest.mark.thorough
def test_ppo_without_further_epochs_steps_as_reinforce():
    """The first step of each has the same gradient: at a ratio of 1 nothing is clipped."""
    one, other = (
        training(update=update, rollouts=1, batch=10_000, baseline="tick")
        for update in ("reinforce", "ppo")
    )
    assert [dict(one.step())] == [dict(other.step())]
    np.testing.assert_allclose(one.scorer.flat, other.scorer.flat, atol=1e-6)


def test_parts_that_do_not_fit_are_refused_at_once():
    with pytest.raises(ScenarioError) as caught:
        training(start="balance", epochs=2, hidden=[])
    places = {text.partition(":")[0] for text in caught.value.problems}
    assert places == {f"learn.arguments.{name}" for name in ("hidden", "start", "epochs")}


def test_only_unseen_jobs_judge_before_training():
    made = training(machines=[1, 2], repeats=1, iterations=5)
    rows = [dict(made.step()) for _ in range(5)]
    assert [row["chunk"] for row in rows] == [0, 0, 1, 1, 2]
    assert ["cost_greedy" in row for row in rows] == [True, False, True, False, True]

"""Evolution: it begins at the plain rule, slices count alike, its agent runs as it plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trainings import (
    bags_scenario,
    check_resume,
    deeprm_scenario,
    pool_scenario,
    schedqrm_scenario,
    small_training,
)

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.learners.games.network_search import Genes, gains, play
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape
from simkit.scenario import Scenario
from simkit.training.evaluate import Candidate, evaluate

RUSH = {
    "workload": {
        "type": "poisson", "jobs": 40, "processors": 8, "rate_per_s": 1.0, "mean_run_time_s": 4,
    },
    "cluster": {"processors": 8},
}  # fmt: skip
"""So many jobs at once that it matters which one begins."""


def rush(**changes: Any) -> Scenario:
    return Scenario.model_validate({**RUSH, **changes})


@pytest.mark.parametrize("where", [rush(), schedqrm_scenario()])
def test_untrained_it_takes_the_first_allowed_action(where):
    made = small_training("evolution", where=where)
    games = made.problem.source.games(made.problem.unseen)
    while len(games.active):
        games.step(games.mask().argmax(axis=1))
    found = made.held_out()
    assert {name: found[name] for name in games.outcome()} == games.outcome()


@pytest.mark.parametrize(
    "shape",
    [
        SetScorerShape(
            type="set-scorer", context=3, items=4, features=2, hidden=5, others=1, activation="relu"
        ),
        PerceptronShape(type="perceptron", layers=(11, 3, 5), activation="relu"),
    ],
)
def test_weights_that_are_not_searched_stay_and_the_others_all_count(shape):
    genes = Genes(shape, np.random.default_rng(0))
    seen = np.random.default_rng(1).normal(0, 3, (50, 11)).astype(np.float32)
    assert (genes.network(genes.start).logits(seen) == 0).all()
    base = genes.start + np.random.default_rng(2).normal(0, 1, len(genes.start))
    before = genes.network(base).logits(seen)
    for place in range(len(base)):
        moved = base.copy()
        moved[place] += 0.5
        assert (genes.network(moved).logits(seen) != before).any(), place


def test_a_gain_is_a_share_of_the_larger_return_of_either_sign():
    before = np.array([[-4.0], [0.0], [10.0]])
    returns = np.array([[-2.0, -8.0, -4.0], [0.0, 1.0, -1.0], [20.0, 5.0, -10.0]])
    assert gains(returns, before).tolist() == [
        [0.5, -0.5, 0.0],
        [0.0, 1.0, -1.0],
        [0.5, -0.5, -2.0],
    ]


def test_all_candidates_play_the_same_slices_with_the_same_draws():
    problem = small_training("evolution", job_sets=5).problem
    source, network = problem.source, problem.genes.network(problem.start)
    assert not source.greedy
    games = source.games(source.draw(np.random.default_rng(0), 5), 3)
    played = play(games, [network] * 3, np.random.default_rng(0))
    assert (played.returns == played.returns[:, :1]).all()
    assert len({*played.returns[:, 0]}) > 1


@pytest.mark.parametrize("seen", [{}, {"observation": "queue-table"}])  # a set, or flat numbers
def test_its_agent_runs_as_in_its_greedy_games(seen, tmp_path):
    made = small_training("evolution", where=rush(), **seen)
    for _ in range(3):
        made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    candidate = Candidate("agent", {"agent": str(tmp_path / "agent")})
    found = evaluate(rush(), [candidate], sets=3, workers=1)
    assert found.candidates[0].pooled_mean == pytest.approx(made.held_out()["slowdown"])


@pytest.mark.parametrize("where", [rush(), schedqrm_scenario()])
def test_other_games_resume_as_not_interrupted(where, tmp_path):
    check_resume(lambda: small_training("evolution", where=where), tmp_path)


@pytest.mark.parametrize(
    ("scorer", "where"),
    [
        ("jobs", bags_scenario), ("jobs", deeprm_scenario), ("pairs", pool_scenario),
        ("pairs", deeprm_scenario),
    ],
)  # fmt: skip
def test_what_does_not_suit_a_scorer_is_told_what_takes_it(scorer, where):
    begin = plugins.find("simkit.learners", "evolution")
    with pytest.raises(ScenarioError) as caught:
        begin(where(), {"scorer": scorer}, seed=0)
    (problem,) = caught.value.problems
    assert problem.startswith("learn.arguments.scorer: is for ")
    assert problem.endswith(
        "; take --learner evolution --set learn.arguments.scorer=network, which plays any"
    )


@pytest.mark.thorough
def test_it_learns():
    made = small_training(
        "evolution", where=deeprm_scenario(workload={"type": "deeprm", "offered_load": 1.3,
        "steps": 15}), job_sets=16, candidates=12, hidden=4, held_out_sets=40, iterations=12,
    )  # fmt: skip
    before = made.held_out()["slowdown"]
    for _ in range(12):
        assert np.isfinite([*made.step().values()]).all()
    assert made.held_out()["slowdown"] < 0.8 * before

"""A warm start: the best rule is found, and a network learns to do as it does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.common import imitation
from simkit.learners.common.distributions import log_probability, masked_log_softmax
from simkit.learners.common.imitation import best_rule, imitate, labelled_decisions
from simkit.learners.common.networks import build, seeded
from simkit.learners.games.choice import GamesArguments, games_of
from simkit.scenario.yaml_document import load_scenario


@pytest.fixture(scope="module")
def source():
    chosen = GamesArguments(jobs=60, slots=12)
    return games_of(load_scenario("quickstart"), chosen, "ppo", 4)


@pytest.fixture(autouse=True)
def _few_slices(monkeypatch):
    monkeypatch.setattr(imitation, "SLICES", 8)
    monkeypatch.setattr(imitation, "PASSES", 20)


def slowdown(source, slices, rule):
    games = source.games(slices)
    while len(games.active):
        mask, actions = games.mask(), rule(games)
        assert mask[np.arange(len(actions)), actions].all()
        games.step(actions)
    return games.outcome()["bounded_slowdown"]


def test_the_best_rule_is_found_on_what_is_trained_on(source):
    slices = source.draw(np.random.default_rng(0), 8)
    found = {name: slowdown(source, slices, rule) for name, rule in source.teachers.items()}
    best = best_rule(source, np.random.default_rng(0))
    assert found[best] < 1.1 * min(found.values()) < 0.9 * max(found.values())


def test_a_network_learns_what_a_rule_does(source):
    def rule(games):
        """Take what came last."""
        mask = games.mask()[:, :-1]
        return np.where(mask.any(axis=1), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1), 12)

    with seeded(np.random.default_rng(0)):
        network = build(source.scorer(16))

    def likelihood() -> float:
        """Return the mean log-probability of what the rule does, in the network's own games."""
        games = source.games(source.held_out(6))
        played = labelled_decisions(games, rule, network, np.random.default_rng(2))
        assert (played.allowed.sum(dim=1) > 1).all()
        with torch.inference_mode():
            log_probs = masked_log_softmax(network(played.seen), played.allowed)
        return float(log_probability(log_probs, played.actions).mean())

    before = likelihood()
    told = imitate(network, source, rule, np.random.default_rng(1), 2)
    assert 0.2 < told["imitated"] <= 1
    assert likelihood() > before + 0.2

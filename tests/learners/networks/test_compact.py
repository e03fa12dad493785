"""Scoring only the items that are there gives the logits and summaries of the whole network."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")

from simkit.learners.common import rollouts  # noqa: E402
from simkit.learners.networks.build import ActorCritic, SetScorer  # noqa: E402
from simkit.learners.networks.compact import with_summary  # noqa: E402
from simkit.learners.networks.shapes import SetScorerShape  # noqa: E402

CASES = [
    # games, places, share of them that holds an item, scores of each, other actions
    (23, 64, 0.15, 1, 1),
    (32, 64, 1.0, 1, 1),  # every place
    (4, 40, 0.0, 1, 1),  # none
    (1, 128, 0.1, 1, 0),  # no other action
    (7, 33, 0.4, 2, 2),
    (3, 256, 0.5, 1, 1),
]


def shape_of(places: int, scores: int, others: int) -> SetScorerShape:
    return SetScorerShape(
        type="set-scorer", context=5, items=places, features=7, hidden=64, scores=scores,
        others=others, activation="relu",
    )  # fmt: skip


def decisions(
    games: int, shape: SetScorerShape, share: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return observations, what is allowed, and where there is an item, in no order."""
    rng = np.random.default_rng(games)
    there = rng.random((games, shape.items)) < share
    items = rng.random((games, shape.items, shape.features), np.float32) * there[..., None]
    items[..., 0] = there
    context = rng.random((games, shape.context), np.float32)
    seen = np.concatenate((context, items.reshape(games, -1)), axis=1)
    allowed = np.ones((games, shape.outputs), np.bool_)
    allowed[:, : shape.items * shape.scores] = np.tile(there, shape.scores)
    return seen, allowed, there


def scorer_of(shape: SetScorerShape) -> SetScorer:
    torch.manual_seed(0)
    scorer = SetScorer(shape)
    for weights in scorer.parameters():  # the last layers are almost 0 at first
        weights.data += 0.1 * torch.randn_like(weights)
    return scorer


@pytest.mark.parametrize(("games", "places", "share", "scores", "others"), CASES)
@torch.no_grad()
def test_it_is_the_whole_network(
    games: int, places: int, share: float, scores: int, others: int
) -> None:
    shape = shape_of(places, scores, others)
    scorer = scorer_of(shape)
    seen, allowed, there = decisions(games, shape, share)
    logits, summary = scorer.with_summary(torch.from_numpy(seen))
    found, summarised = with_summary(scorer, seen, allowed)
    assert found.numpy()[allowed] == pytest.approx(logits.numpy()[allowed], abs=1e-5)
    assert summarised.numpy() == pytest.approx(summary.numpy(), abs=1e-5)
    assert not found.numpy()[:, : places * scores][~np.tile(there, scores)].any()


@torch.no_grad()
def test_an_empty_place_that_is_allowed_is_scored() -> None:
    shape = shape_of(40, 2, 1)
    scorer = scorer_of(shape)
    seen, allowed, there = decisions(5, shape, 0.2)
    empty = int(np.flatnonzero(~there[3])[0])
    allowed[3, shape.items + empty] = True  # by its second score
    found, _ = with_summary(scorer, seen, allowed)
    logits = scorer(torch.from_numpy(seen))
    assert found.numpy()[allowed] == pytest.approx(logits.numpy()[allowed], abs=1e-5)


class OneLook:
    """Games that show one decision each."""

    def __init__(self, seen: np.ndarray, allowed: np.ndarray) -> None:
        self.seen, self.allowed = seen, allowed
        self.active, self.steps = np.arange(len(seen)), np.zeros(len(seen), np.int64)

    def observe(self) -> np.ndarray:
        return self.seen

    def mask(self) -> np.ndarray:
        return self.allowed

    def step(self, actions: np.ndarray) -> np.ndarray:
        self.active = self.active[:0]
        self.seen, self.allowed = self.seen[:0], self.allowed[:0]
        return actions.astype(np.float64)


@pytest.mark.parametrize("critic", [False, True])
def test_rollouts_of_large_sets_read_it(critic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shape_of(64, 1, 1)
    network = scorer_of(shape)
    agent = ActorCritic(network) if critic else network
    seen, allowed, _ = decisions(20, shape, 0.2)
    monkeypatch.setattr(
        SetScorer, "with_summary", lambda *_: pytest.fail("the whole network was read")
    )
    fast = rollouts.roll_out(OneLook(seen, allowed), agent, np.random.default_rng(0))
    monkeypatch.undo()
    monkeypatch.setattr(rollouts, "LARGE", range(0))
    whole = rollouts.roll_out(OneLook(seen, allowed), agent, np.random.default_rng(0))
    assert (fast.actions == whole.actions).all()
    assert fast.log_probability == pytest.approx(whole.log_probability, abs=1e-5)
    assert fast.value == pytest.approx(whole.value, abs=1e-5)

"""The warm start: what shortest-job-first does, and that a network learns it."""

from __future__ import annotations

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.learners.common.networks import Network, build, seeded
from simkit.learners.common.rollouts import roll_out
from simkit.learners.games.job_sets import NumberedSlots
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.outcome import outcome
from simkit.learners.lockstep.slot_games import SlotGames
from simkit.learners.warm_start import imitate, labelled_decisions, shortest_first
from simkit.traces.models.deeprm import DeepRMModel

MODEL = Slotted()


def test_the_shortest_that_fits_now_then_the_lowest_slot_then_void():
    #            long  too large after the first  twice as short
    length, size = [[5, 2, 3, 2]], [[[4, 4], [5, 5], [7, 7], [5, 5]]]
    game = Lockstep(MODEL, JobSets(np.zeros((1, 4), int), np.array(length), np.array(size)))
    taken = []
    for _ in range(4):
        taken.append(int(shortest_first(SlotGames(game))[0]))
        game.step([taken[-1]])
    # slots 1 and 3 fill the pool; then nothing fits from now on, though slot 0 could be reserved
    assert taken == [1, 3, MODEL.slots, MODEL.slots]


LAYOUT = NumberedSlots(MODEL, "none", "deeprm-compact")


def some_games(seed: int, sets: int) -> SlotGames:
    drawn = DeepRMModel.of(rate=0.4, steps=20).draw_sets(np.random.default_rng(seed), sets)
    return LAYOUT.games(JobSets(*drawn), 1, "slowdown", 500)


def new_network() -> Network:
    with seeded(np.random.default_rng(1)):
        return build(LAYOUT.scorer(20))


def test_what_is_right_is_asked_in_the_states_that_the_network_comes_to():
    network, played = new_network(), some_games(0, 5)
    observations, actions = labelled_decisions(played, network, np.random.default_rng(3))
    other = some_games(0, 5)
    kept = roll_out(other, network, np.random.default_rng(3))
    assert np.array_equal(observations.numpy(), kept.seen)
    assert not np.array_equal(actions.numpy(), kept.actions)
    assert np.array_equal(played.lockstep.start, other.lockstep.start)


def test_a_network_learns_what_it_is_shown():
    network = new_network()
    rng = np.random.default_rng(2)
    before = outcome_of(network)
    rounds = (some_games(n, 50) for n in range(10))
    right = imitate(network, rounds, rng, batch=64, learning_rate=0.01)
    assert right > 0.65  # an action by chance is right in 1 of 11
    assert outcome_of(network) < 0.85 * before


def outcome_of(network: Network) -> float:
    held_out = some_games(99, 50)
    roll_out(held_out, network, np.random.default_rng(0))
    return outcome(held_out.lockstep)["slowdown"]

"""The warm start: what shortest-job-first does, and that a network learns it."""

from __future__ import annotations

import numpy as np

from simkit.learners.input_layers import make_input_layer
from simkit.learners.job_sets import JobSets
from simkit.learners.lockstep import Lockstep
from simkit.learners.perceptron import small_weights
from simkit.learners.policy_network import PolicyNetwork
from simkit.learners.supervised import imitate, shortest_first, shown
from simkit.slotted import Slotted
from simkit.traces.deeprm import draw_job_sets

MODEL = Slotted()


def test_the_shortest_that_fits_now_then_the_lowest_slot_then_void() -> None:
    #            long  too large after the first  twice as short
    length, size = [[5, 2, 3, 2]], [[[4, 4], [5, 5], [7, 7], [5, 5]]]
    game = Lockstep(MODEL, JobSets(np.zeros((1, 4), int), np.array(length), np.array(size)))
    taken = []
    for _ in range(4):
        taken.append(int(shortest_first(game, game.view())[0]))
        game.step([taken[-1]])
    # slots 1 and 3 fill the pool; then nothing fits from now on, though slot 0 could be reserved
    assert taken == [1, 3, MODEL.slots, MODEL.slots]


def test_a_network_learns_what_it_is_shown() -> None:
    drawn = draw_job_sets(np.random.default_rng(0), sets=20, rate=0.4)
    first, _ = make_input_layer("deeprm-image", MODEL)
    weights = small_weights(np.random.default_rng(1), [first.inputs, 20, MODEL.actions])
    network = PolicyNetwork(first, weights)
    game = Lockstep(MODEL, JobSets(drawn.enter, drawn.length, drawn.size))
    observations, actions = shown(game, network)
    assert len(observations) == len(actions) == game.decisions.sum()
    assert (game.finish[game.job_sets.there] > 0).all()
    most_common = np.bincount(actions).max() / len(actions)
    accuracy = imitate(network, observations, actions, np.random.default_rng(2), epochs=15)
    assert accuracy > most_common + 0.1

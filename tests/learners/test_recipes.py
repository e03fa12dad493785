"""Recipes: an algorithm with other defaults, under a name of its own."""

from __future__ import annotations

from trainings import SMALLEST, deeprm_scenario, weights

from simkit.learners.recipes import Recipe

SMALL = SMALLEST["reinforce"].arguments


def test_a_recipe_is_its_algorithm_with_other_defaults_and_its_own_name():
    mine = Recipe("mine", "reinforce", {**SMALL, "rollouts": 5, "hidden": 4})
    training = mine(deeprm_scenario(), {"rollouts": 2}, seed=0)
    identity = training.identity()
    assert (identity["learner"], identity["arguments"]["hidden"]) == ("mine", 4)
    assert identity["arguments"]["rollouts"] == 2  # as given
    other = Recipe("other", "reinforce", mine.defaults)(deeprm_scenario(), {}, seed=0)
    assert weights(training) != weights(other)  # the random numbers are those of the name

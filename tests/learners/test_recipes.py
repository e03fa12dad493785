"""Recipes: an algorithm with other defaults, under a name of its own."""

from __future__ import annotations

import pytest
from trainings import SMALLEST, deeprm_scenario, weights

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.learners.recipes import Recipe
from simkit.scenario.yaml_document import load_scenario
from simkit.training.train import check_learn

SMALL = SMALLEST["reinforce"].arguments


def test_a_recipe_is_its_algorithm_with_other_defaults_and_its_own_name():
    mine = Recipe("mine", "reinforce", {**SMALL, "rollouts": 5, "hidden": 4})
    training = mine(deeprm_scenario(), {"rollouts": 2}, seed=0)
    identity = training.identity()
    assert (identity["learner"], identity["arguments"]["hidden"]) == ("mine", 4)
    assert identity["arguments"]["rollouts"] == 2  # as given
    other = Recipe("other", "reinforce", mine.defaults)(deeprm_scenario(), {}, seed=0)
    assert weights(training) != weights(other)  # the random numbers are those of the name


RECIPES = ("cocorl", "deeprm", "fitness", "offline", "rare", "rlscheduler", "sofia")
KINDS = {
    "quickstart": {"rlscheduler"}, "cloud-quickstart": set(), "green-quickstart": set(),
    "deeprm": {"deeprm"}, "sofia": {"sofia"}, "schedqrm": set(),
    "rare": {"cocorl", "offline", "rare"},
}  # fmt: skip
"""Bundled scenario, one of each kind → the recipes that are for it."""


def problems_of(scenario, recipe, **arguments):
    learn = {"learner": recipe, "arguments": arguments}
    with pytest.raises(ScenarioError) as caught:
        check_learn(load_scenario(scenario, single=True, overrides={"learn": learn}))
    return caught.value.problems


@pytest.mark.parametrize(
    ("recipe", "scenario"), [(r, s) for s in KINDS for r in RECIPES if r not in KINDS[s]]
)
def test_another_scenario_is_refused_in_one_sentence_that_says_what_would_do(recipe, scenario):
    (problem,) = problems_of(scenario, recipe)
    algorithm = plugins.find("simkit.learners", recipe).algorithm
    assert problem.startswith(f"learn.learner: {recipe} ")
    assert problem.endswith(
        f"; take its algorithm, which plays any scenario: --learner {algorithm}"
    )


def test_what_a_scenario_lacks_is_told_at_once_and_in_short():
    (far,) = problems_of("quickstart", "rare")
    assert (
        "rare sets games: 64, which is for games without an end of a ready pool, which this scenario "
        "is not: scheduling.step, admission.slots, value, workload and estimates differ; "
    ) in far
    (near,) = problems_of("deeprm", "cocorl")
    assert "is not (value: no job is worth anything, so there is nothing to learn); " in near


@pytest.mark.parametrize(
    ("recipe", "scenario", "arguments", "told"),
    [
        ("fitness", "quickstart", {"scorer": "network"},
         "scorer: is network, but fitness is evolution with scorer: pairs; leave it out, or take "),
        ("rlscheduler", "quickstart", {"scorer": "network"}, "scorer: is network, but "),
        ("rare", "rare", {"actor": "soft"}, "actor: is soft, but rare is actor-critic with "),
        ("cocorl", "rare", {"games": None}, "games: is null, but cocorl is ppo with games: 128; "),
    ],
)  # fmt: skip
def test_no_argument_makes_another_learner_of_a_recipe(recipe, scenario, arguments, told):
    (problem,) = problems_of(scenario, recipe, **arguments)
    assert problem.startswith(f"learn.arguments.{told}")


def test_what_does_not_go_with_a_recipes_own_arguments_is_told_in_its_words():
    (problem,) = problems_of("deeprm", "deeprm", observation="queue-set")
    assert problem == (
        "learn.learner: deeprm sets mask: none, which is for job sets in lock-step, but "
        "observation asks for simulations; leave out observation, or take its algorithm, which "
        "plays any scenario: --learner reinforce"
    )
    (problem,) = problems_of("sofia", "sofia", layout="classes")
    assert problem.startswith(
        "learn.learner: sofia sets observation: sofia-shares, mask: none, last_step: 150, which is "
        "for layout: slots; leave out layout, or "
    )


def test_windows_that_are_too_long_come_with_those_that_do():
    (problem,) = problems_of("quickstart", "rlscheduler")
    assert problem.endswith("; give most_jobs: 150 and fewest_jobs: 37, or take a longer log")
    told = load_scenario(
        "quickstart", single=True,
        overrides={"learn": {
            "learner": "rlscheduler", "arguments": {"most_jobs": 150, "fewest_jobs": 37}
        }},
    )  # fmt: skip
    check_learn(told)
    (problem,) = problems_of(
        "quickstart", "rlscheduler", most_jobs=150, fewest_jobs=37, least_slowdown=100
    )
    assert problem.endswith("than 17.9; give 17 or less")

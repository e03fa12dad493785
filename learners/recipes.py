"""Recipes: the algorithm of a paper is one of ours with the arguments that the paper chose.

Where a scenario names no learner, it is the recipe of its workload's paper, or PPO.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simkit.errors import ScenarioError
from simkit.learners.common.arguments import NOT_SO
from simkit.plugins import find
from simkit.scenario import Scenario
from simkit.training import Training

ARGUMENTS: Final = "learn.arguments."
"""How problems with a learner's arguments begin."""


@dataclass(frozen=True)
class Recipe:
    """An algorithm with defaults of its own; an entry point of ``simkit.learners``.

    The algorithm's `begin` takes the recipe's name as the keyword `learner`: trainings, their
    random numbers and messages are under that name. All defaults may be changed but those that make
    the recipe what it is (`fixed`); whoever changes these wants the algorithm itself, and is told
    so, as is whoever gives a scenario or arguments that do not go with the recipe's own ones.
    """

    name: str
    algorithm: str
    """Name of the algorithm, which plays any scenario: another entry point of
    ``simkit.learners``."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ from the algorithm's defaults, and the `fixed` ones."""
    workload: str | None = None
    """The type of the workload that it is for; None: any."""
    fixed: tuple[str, ...] = ()
    """Defaults on which the others rest: a word stays as it is, and a number is not null."""

    def __call__(
        self, scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
    ) -> Training:
        """Return a new training.

        Raises ScenarioError, all problems at once, for another workload, for arguments that undo
        the recipe, and for what the algorithm's `begin` refuses, in the recipe's words.
        """
        if problems := [*self._other_workload(scenario), *self._undone(arguments)]:
            raise ScenarioError(problems)
        begin, given = find("simkit.learners", self.algorithm), {**self.defaults, **arguments}
        try:
            training: Training = begin(scenario, given, seed=seed, device=device, learner=self.name)
        except ScenarioError as error:
            raise ScenarioError(self._explained(error.problems, arguments)) from error
        return training

    @property
    def _instead(self) -> str:
        return f"take its algorithm, which plays any scenario: --learner {self.algorithm}"

    def _other_workload(self, scenario: Scenario) -> Iterator[str]:
        own = scenario.workload.type
        if self.workload not in (None, own):
            yield (
                f"learn.learner: {self.name} is for workload.type {self.workload}, and this "
                f"scenario's is {own}; {self._instead}"
            )

    def _undone(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """Yield which arguments would make another learner of the recipe."""
        for key in self.fixed:
            own, given = self.defaults[key], arguments.get(key, self.defaults[key])
            if given is None or (isinstance(own, str) and given != own):
                yield (
                    f"learn.arguments.{key}: is {_as_yaml(given)}, but {self.name} is "
                    f"{self.algorithm} with {key}: {own}; leave it out, or {self._instead}"
                )

    def _explained(self, problems: Iterable[str], arguments: Mapping[str, Any]) -> list[str]:
        """Return problems, those of arguments that the recipe has set in words for its user."""
        found: dict[str, list[str]] = {}
        others = []
        for problem in problems:
            key, _, text = problem.removeprefix(ARGUMENTS).partition(": ")
            if problem.startswith(ARGUMENTS) and key in self.defaults and key not in arguments:
                found.setdefault(text.rpartition("; ")[0] or text, []).append(key)
            else:
                others.append(problem)
        for text, keys in found.items():
            own = ", ".join(f"{key}: {_as_yaml(self.defaults[key])}" for key in keys)
            named = [] if NOT_SO in text else [key for key in arguments if key in _words(text)]
            remedy = (
                f"leave out {' or '.join(named)}, or {self._instead}" if named else self._instead
            )
            others.insert(0, f"learn.learner: {self.name} sets {own}, which {text}; {remedy}")
        return others


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _as_yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


deeprm = Recipe("deeprm", "reinforce", {
    "iterations": 1000, "rollouts": 20, "observation": "deeprm-image", "mask": "none",
    "max_decisions": 2000, "hidden": 20, "initial_weights": "small", "baseline": "decision",
    "credit": "all", "normalise": False, "update": "gradient", "optimiser": "rmsprop",
    "learning_rate": 0.001, "sets_per_mean": 10,
}, workload="deeprm")  # fmt: skip
"""H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (2016)."""
sofia = Recipe("sofia", "reinforce", {
    "iterations": 1000, "job_sets": 5, "rollouts": 20, "observation": "sofia-shares",
    "mask": "none", "max_decisions": 4000, "held_out_sets": 20, "last_step": 150, "hidden": 20,
    "initial_weights": "glorot", "baseline": "decision", "credit": "all", "kl": 0.01,
    "damping": 0.01, "fisher_share": 0.1, "measured": "sample", "learning_rate": 0.001,
}, workload="sofia")  # fmt: skip
"""Sofia, "Resource management with deep reinforcement learning" (2021), on whose batches the
natural gradient converges with a bound on its steps."""
STREAMS = {"hours": 2000, "held_out_sets": 32}
"""Streams of jobs for games of a ready pool without an end."""
OFF_POLICY = {
    **STREAMS, "games": 64, "hidden": 64, "popart": True, "follow": 0.005, "replay": 50_000,
    "updates": 200, "learning_rate": 0.001,
}  # fmt: skip
"""Off-policy learning from such games."""

rare = Recipe(
    "rare", "actor-critic", {**OFF_POLICY, "critics": 1, "actor": "regression"},
    fixed=("games", "actor"),
)  # fmt: skip
"""Chapter 5, algorithm 6, of the dissertation "RARE" (University of Virginia, 2023)."""
cocorl = Recipe("cocorl", "ppo", {
    **STREAMS, "games": 128, "iterations": 150, "learning_rate": 0.002, "falls": True,
    "entropy": 0.02, "batch": 1024,
}, fixed=("games",))  # fmt: skip
"""Chapter 6 of the same dissertation."""
offline = Recipe(
    "offline", "actor-critic", {**OFF_POLICY, "entropy": 0.5, "entropy_falls": 0.5},
    fixed=("games",),
)  # fmt: skip
"""Launchpad, chapter 7 of the same dissertation."""
fitness = Recipe("fitness", "evolution", {"scorer": "pairs"}, fixed=("scorer",))
"""After F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data
center" (ICBDC 2019); see `simkit.learners.scorers.search`."""
rlscheduler = Recipe("rlscheduler", "evolution", {"scorer": "jobs"}, fixed=("scorer",))
"""After D. Zhang et al., "RLScheduler: an automated HPC batch job scheduler using reinforcement
learning" (SC 2020); see `simkit.learners.scorers.search`."""

USUAL: Final = {recipe.workload: recipe.name for recipe in (deeprm, sofia)}
"""Type of the workload → learner, on a pool in steps. PPO does best on the others."""


def usual_learner(scenario: Scenario) -> str:
    """Return the name of the learner where a scenario names none; the tool ``learn.usual``."""
    if scenario.scheduling.step is None:
        return "ppo"
    return USUAL.get(scenario.workload.type, "ppo")

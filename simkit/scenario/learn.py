"""The scenario's `learn`: which learner trains an agent, and for how long."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.scenario.references import Arguments, PluginName
from simkit.scenario.types import BrokenRulesError, Count, Section

LearnerName = Annotated[str, PluginName("simkit.learners")]


class Learn(Section):
    """How `simkit train` trains an agent; runs of the scenario ignore it."""

    learner: LearnerName
    """Name of a learner: an entry point, package.module:function or file.py:function."""
    iterations: Count | None = None
    """Iterations of the training; null: the learner's default."""
    arguments: Arguments = Field(default_factory=dict)
    """Arguments of the learner, which checks them itself."""
    held_out_every: Count = 10
    """Iterations between evaluations on the held-out job sets; one comes before the first."""
    criterion: str = "slowdown"
    """The held-out metric by which agents are compared; lower must be better."""
    keep: Literal["last", "best"] = "last"
    """Which agent is written: that of the last iteration, or the one with the lowest held-out
    criterion. Its result on these job sets is biased: evaluate it on others."""
    patience: Count | None = None
    """Stop after this many evaluations in a row without a lower criterion; null: never."""

    @model_validator(mode="after")
    def _says_iterations_once(self) -> Self:
        if self.iterations is not None and "iterations" in self.arguments:
            text = "is given twice, here and as learn.iterations; leave one of them out"
            raise BrokenRulesError([(("arguments", "iterations"), text)])
        return self

    @property
    def all_arguments(self) -> dict[str, object]:
        """The learner's arguments, the number of iterations among them."""
        given = {} if self.iterations is None else {"iterations": self.iterations}
        return {**self.arguments, **given}

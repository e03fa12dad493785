"""The section `learn`: what trains an agent on the scenario, and for how long."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simkit.scenario.references import Arguments, PluginName
from simkit.scenario.types import BrokenRulesError, Count, Section

LearnerName = Annotated[str, PluginName("simkit.learners")]


class Learn(Section):
    """How `simkit train` trains an agent; a run of the scenario takes no notice of it."""

    learner: LearnerName
    """Name of a learner: an entry point, package.module:function or file.py:function."""
    iterations: Count | None = None
    """Iterations of the training; null: as many as the learner does if nobody says."""
    arguments: Arguments = Field(default_factory=dict)
    """Arguments of the learner, which checks them itself."""
    held_out_every: Count = 10
    """Iterations from one look at the held-out job sets to the next; one is before the first."""
    criterion: str = "slowdown"
    """The held-out number by which agents are told apart; one of which less is better."""
    keep: Literal["last", "best"] = "last"
    """Which agent is written: that of the last iteration, or of the least held-out criterion. What
    is best on some job sets flatters itself on them: judge it on others."""
    patience: Count | None = None
    """Stop after so many looks in a row without a new least criterion; null: never."""

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

"""What a compiled replay must know of a policy: how it decides, as data.

A policy says so by a method ``decision_rule()``: in a pool, by its order and by who may overtake
(`PoolRule`); on machines, by its order and its fitness (`FitRule`). Orders and fitness declare a
``form``, each class its own: one that derives from it may do something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from simkit.arrays import Floats
from simkit.policy.fitness_formulas import MACHINE
from simkit.policy.formulas import CHANGING, FIXED, first_come

__all__ = [
    "NUMBERS", "ChangingForm", "FitRule", "FixedForm", "MachineForm", "Overtaking", "PairForm",
    "PoolRule", "fit_rule_of", "pool_rule_of",
]  # fmt: skip

Overtaking = Literal["none", "head", "head, shortest first", "all", "all, by start"]
"""Who may pass the head of the queue: nobody; who does not delay that head, tried in queue order or
by estimate; who delays none of all, where tasks move up in queue order or by planned starts."""


class FixedForm(NamedTuple):
    """An order by a number that a task keeps."""

    formula: Callable[[float, float, float, float], float] | None = None
    """One of `formulas.FIXED`; None: the order's ``key(task)``, whose calls change nothing."""


class ChangingForm(NamedTuple):
    """An order by a number that changes while a task waits."""

    formula: Callable[[Any, Any, Any], Any]
    """One of `formulas.CHANGING`."""
    factor: Callable[[Floats], Floats]
    """Processors → the formula's factor."""
    predicts: bool = False
    """Whether r is predicted anew at every decision (`estimates.RecentRunTimes`)."""


Form = FixedForm | ChangingForm


class MachineForm(NamedTuple):
    """A fitness by which machines are chosen for a task in its turn."""

    formula: Callable[[Any, Any, Any, Any], Any] | None = None
    """One of `fitness_formulas.MACHINE`; None: the lowest row that has room."""


class PairForm(NamedTuple):
    """A fitness of pairs of a machine and a task: alignment mixed with shortness, see `mixed`.

    The fitness has an attribute ``srtf`` for the weight of shortness; without one it is 0.
    """


NUMBERS: Final = {f: number for kind in (FIXED, CHANGING, MACHINE) for number, f in enumerate(kind)}
"""Formula → its number among those of its kind."""


@dataclass(frozen=True)
class PoolRule:
    """How a policy decides in a pool of one resource whose jobs are rigid."""

    order: Any
    form: Form
    overtaking: Overtaking


@dataclass(frozen=True)
class FitRule:
    """How a policy by fitness decides on machines."""

    order: Any
    """None: by submission."""
    form: FixedForm
    fitness: Any
    fit: MachineForm | PairForm


def pool_rule_of(policy: Any, kind: type, overtaking: str) -> PoolRule | str:
    """Return a policy's rule, or why no compiled replay knows it.

    Args:
        policy: has an `order` and a `placement`.
        kind: the class that decides by this rule; one that derives from it may not.
        overtaking: one of `Overtaking`, or anything else for a rule of its own.
    """
    order, name = policy.order, type(policy).__name__
    rule = type(policy.backfill).__name__
    if type(policy) is not kind:
        return f"policy {name} has rules of its own"
    form = _form_of(order)
    if form is None:
        return f"order {type(order).__name__} has no compiled form"
    if overtaking not in get_args(Overtaking):
        return f"backfilling by {rule} has no compiled form"
    return PoolRule(order, form, cast("Overtaking", overtaking))


def fit_rule_of(policy: Any, kind: type) -> FitRule | str:
    """Return the rule of a policy by fitness, or why no compiled replay knows it.

    Args:
        policy: has an `order`, which may be None, and a `fitness`.
        kind: the class that decides by this rule; one that derives from it may not.
    """
    order, fitness = policy.order, policy.fitness
    if type(policy) is not kind:
        return f"policy {type(policy).__name__} has rules of its own"
    fit = _form_of(fitness)
    if fit is None:
        name = getattr(fitness, "__name__", type(fitness).__name__)
        return f"fitness {name} has no compiled form"
    form = FixedForm(first_come) if order is None else _form_of(order)
    if not isinstance(form, FixedForm):
        what = "has no compiled form" if form is None else "changes while tasks wait"
        return f"order {type(order).__name__} {what}"
    return FitRule(order, form, fitness, fit)


def _form_of(part: Any) -> Any:
    """Return the form that the class of an order or fitness declares; None if it declares none."""
    return type(part).__dict__.get("form")

"""What a compiled replay of a pool must know of a policy: its order, and who may overtake.

A policy says so by a method ``pool_rule()``. Orders declare a `Form`, each class its own: one that
derives from it may do something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from simkit.arrays import Floats
from simkit.policy.formulas import CHANGING, FIXED

__all__ = ["NUMBERS", "ChangingForm", "FixedForm", "Overtaking", "PoolRule", "rule_of"]

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

NUMBERS: Final = {f: number for kind in (FIXED, CHANGING) for number, f in enumerate(kind)}
"""Formula → its number among those of its kind."""


@dataclass(frozen=True)
class PoolRule:
    """How a policy decides in a pool of one resource whose jobs are rigid."""

    order: Any
    form: Form
    overtaking: Overtaking


def rule_of(policy: Any, kind: type, overtaking: str) -> PoolRule | str:
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
    form = type(order).__dict__.get("form")
    if form is None:
        return f"order {type(order).__name__} has no compiled form"
    if overtaking not in get_args(Overtaking):
        return f"backfilling by {rule} has no compiled form"
    return PoolRule(order, form, cast("Overtaking", overtaking))

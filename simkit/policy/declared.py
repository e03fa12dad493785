"""What a policy, an order or a rule declares of itself, and how a composed policy combines it.

    class Oldest:
        reads_estimates = False  # an order that never asks for estimate_s
        signals = frozenset()    # nor for anything of the site's power

All of these are attributes of a class or an object, and none is required:

- `signals`: which signals of the site's power are read (default: any). A policy that declares them
  is called only when one of these changes.
- `reads_estimates`: whether run-time estimates are read (default: yes). If not, a run is not
  described by its estimates, nor warned of them.
- `metrics`: numbers of a whole run that it brings, a `PolicyMetric` each (default: none).
- `period_s`: the only time between decisions, in s, with which the policy works (default: any).
- `form`: of an order or a fitness, how compiled replays compute it; `decision_rule()`: of a whole
  policy, how it decides as data, or why no compiled replay knows it (default: none does). A class
  that derives from another declares its own: it may do something else.
- `holds_back`: why jobs may wait to the end of a run, with the remedy: a text (default: none).

A subclass inherits all but `form`, so it declares again what it does differently. Composed policies
combine the first three of their parts; `period_s` and `holds_back` are asked of the whole policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policy.formulas import CHANGING, FIXED, MACHINE, first_come
from simkit.policy.state import Foreseen

__all__ = [
    "NO_SIGNALS", "NUMBERS", "ChangingForm", "FitRule", "FixedForm", "MachineForm", "Overtaking",
    "PairForm", "PolicyMetric", "PoolRule", "Signals", "declared_metrics", "declared_signals",
    "fit_rule_of", "pool_rule_of", "reads_estimates",
]  # fmt: skip

Signals = frozenset[Foreseen]
"""The signals that a policy, an order or a rule reads: its attribute `signals`."""
NO_SIGNALS: Final[Signals] = frozenset()


def declared_signals(*parts: object, reads: Iterable[Foreseen] = ()) -> Signals | None:
    """Return the signals that parts of a policy read; None if one of them does not declare it.

    A part that is None reads nothing, nor does an order by a key of the task, which sees no power.
    `reads` are added to those of the parts.

    Raises PolicyError for a name that is no signal.
    """
    found = set(reads)
    for part in parts:
        if part is None or hasattr(part, "key"):
            continue
        if (signals := getattr(part, "signals", None)) is None:
            return None
        if unknown := set(signals) - set(get_args(Foreseen)):
            raise PolicyError(
                f"{type(part).__name__}: signals has {', '.join(map(repr, sorted(unknown)))}; "
                f"they are {', '.join(get_args(Foreseen))}"
            )
        found |= signals
    return frozenset(found)


def reads_estimates(*parts: object) -> bool:
    """Return whether one of the parts of a policy reads estimates; a part that is None does not."""
    return any(getattr(part, "reads_estimates", True) for part in parts if part is not None)


class PolicyMetric(NamedTuple):
    """A number of a whole run that a policy brings, such as the makespan by its own clock."""

    name: str
    unit: str
    formula: str
    """The formula in words, for metrics.json."""
    value: Callable[[Floats, Floats, float], float | None]
    """Function of the start and the end of each allocation, (A,) each, in s, and of the first
    submission in s; an end that is still to come is NaN. None: there is no value."""
    better: Literal["high", "low"] | None = None
    """Which numbers are better; None: neither."""


def declared_metrics(*parts: object) -> tuple[PolicyMetric, ...]:
    """Return the metrics that parts of a policy bring, each once."""
    return tuple(dict.fromkeys(row for part in parts for row in getattr(part, "metrics", ())))


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
    """One of `formulas.MACHINE`; None: the lowest row that has room."""


class PairForm(NamedTuple):
    """A fitness of pairs of a machine and a task, by `formulas.aligned` and `formulas.mixed`.

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

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
- `holds_back`: why jobs may wait to the end of a run, with the remedy: a text (default: none).

A subclass inherits them, so it declares again what it does differently. Composed policies combine
the first three of their parts; the last two are asked of the whole policy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, get_args

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policy.state import Foreseen

__all__ = [
    "NO_SIGNALS", "PolicyMetric", "Signals", "declared_metrics", "declared_signals",
    "reads_estimates",
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

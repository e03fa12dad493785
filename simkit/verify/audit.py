"""What every check speaks in: rounded numbers, and which rules hold, do not apply or are broken.

Numbers are as a run has them: times and amounts on their grids, random streams, sums over time. A
check examines many rows. It counts all violations and keeps the first few: a broken run of a
million jobs must not print a million lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.plugins import entry_points, is_of_simkit
from simkit.text import counted, printable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TICK: Final = 2.0**-20
"""Times of a run are multiples of this, in s."""
KWH: Final = 3.6e6
"""Joules in a kilowatt-hour."""
ENDLESS: Final = 2.0**40
"""What an endless estimate counts as in a formula that needs a number, in s."""
LARGEST: Final = 2.0**33
"""Readers leave out rows with times or amounts that are not below this."""
LARGEST_ID: Final = 2.0**53
"""Readers leave out rows with ids that are not below this."""


def stream(seed: int, component: str) -> np.random.Generator:
    """Return the random numbers of a component of a run with a seed."""
    key = (crc32(component.encode()),)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def on_grid(time_s: float) -> float:
    """Return a time rounded to a multiple of `TICK`."""
    return round(time_s / TICK) * TICK


def amount_on_grid(amount: float) -> float:
    """Return an amount rounded to a multiple of 2**-30."""
    return round(float(amount) * 2**30) / 2**30


def times_on_grid(times: pl.Expr) -> pl.Expr:
    """Return times rounded to multiples of `TICK`."""
    return (times / TICK).round(mode="half_to_even") * TICK


def requests_on_grid(amounts: pl.Expr) -> pl.Expr:
    """Return requests rounded down to multiples of 2**-30; a millionth of a step is noise."""
    return (amounts * 2**30 + 1e-6).floor() / 2**30


def sum_until(
    instants: Floats, amounts: Floats, times: Floats, side: Literal["left", "right"] = "right"
) -> Floats:
    """Return the sum of the amounts at instants up to each time; before it if side is left."""
    order = np.argsort(instants, kind="stable")
    total = np.zeros(len(order) + 1)
    total[1:] = np.cumsum(amounts[order], dtype=np.longdouble)
    at = np.searchsorted(instants[order], times, side=side)
    return total[at]


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where the whole is not above 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


_KEPT = 10
"""Violations that a check keeps for each message."""


@dataclass(frozen=True)
class Violation:
    """One row that breaks a rule."""

    check: str
    """Name of the check that found it, e.g. ``capacity``."""
    message: str
    """What is wrong, in a sentence."""
    row: dict[str, Any]
    """The violating row: column → value, found and expected."""

    def __str__(self) -> str:
        """Return ``causality: starts before its submission (job_id 0, time_s 12, …)``."""
        cells = ", ".join(f"{printable(name)} {_shown(value)}" for name, value in self.row.items())
        return f"{self.check}: {self.message} ({cells})"


def _shown(value: Any) -> str:
    """Return a value for people: numbers in full, ``-`` for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, str):
        return f"'{printable(value)}'"
    return printable(str(value))


@dataclass
class Check:
    """One rule, and the result of checking it."""

    name: str
    rule: str
    """The rule in a sentence."""
    examined: int = 0
    """How many rows (or files, or numbers) were examined."""
    skipped: str = ""
    """Why the check was not done; empty if it was."""
    applies: bool = True
    """Whether the rule is about this run. If it is and the check was skipped, it is not known
    whether the rule holds."""
    found: int = 0
    """How many rows break the rule."""
    violations: list[Violation] = field(default_factory=list)
    """The first of them, at most ten per message."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Remarks, e.g. how many heads had a void bound."""

    def add(self, message: str, row: dict[str, Any]) -> None:
        """Record one violating row."""
        self.found += 1
        if sum(violation.message == message for violation in self.violations) < _KEPT:
            self.violations.append(Violation(self.name, message, row))

    def add_rows(self, message: str, rows: pl.DataFrame) -> None:
        """Record every row of `rows` as a violation."""
        for row in rows.head(_KEPT).iter_rows(named=True):
            self.add(message, row)
        self.found += max(rows.height - _KEPT, 0)

    def add_where(self, message: str, wrong: Bools, columns: Mapping[str, Floats | Ints]) -> None:
        """Record a violation for each entry of (N,) columns that is wrong."""
        for at in np.flatnonzero(wrong).tolist():
            self.add(message, {name: values[at].item() for name, values in columns.items()})


class NotApplicableError(Exception):
    """The rule is not about this run; the message says why."""


class NotAuditedError(Exception):
    """It is not known whether the rule holds in this run; the message says why."""


_Run = TypeVar("_Run")


def rule(judge: Callable[[_Run, Check], None]) -> Callable[[_Run], Check]:
    """Make a rule of a function ``check_…`` that records in a check what breaks it in a run.

    Its name is the rule's, the first line of its docstring the rule in a sentence. It ends early by
    raising NotApplicableError or NotAuditedError; violations that it has found by then count.
    """
    sentence = str(judge.__doc__).partition("\n")[0].rstrip(".")

    @wraps(judge)
    def checked(run: _Run) -> Check:
        check = Check(name_of(judge), sentence[0].lower() + sentence[1:])
        try:
            judge(run, check)
        except (NotApplicableError, NotAuditedError) as reason:
            if not check.found:
                check.skipped, check.applies = str(reason), isinstance(reason, NotAuditedError)
        return check

    return checked


def is_own(group: str, name: str) -> bool:
    """Return whether a name is that of an entry point whose code is simkit's."""
    points = [point for point in entry_points(group) if point.name == name]
    return bool(points) and all(is_of_simkit(point.module) for point in points)


def name_of(judge: Callable[..., object]) -> str:
    """Return the name of a rule: ``machine-power`` for ``check_machine_power``."""
    return judge.__name__.removeprefix("check_").replace("_", "-")


def first_true(reasons: Mapping[str, object]) -> str:
    """Return the first of the reasons that applies; empty if none does."""
    return next((reason for reason, applies in reasons.items() if applies), "")


def not_audited_if(reasons: Mapping[str, object]) -> None:
    """Raise NotAuditedError with the first of the reasons that applies, if one does."""
    if reason := first_true(reasons):
        raise NotAuditedError(reason)


@dataclass(frozen=True)
class Audit:
    """The outcome of `verify_run`."""

    folder: Path
    checks: tuple[Check, ...]
    alike: str = ""
    """Which ids the input repeats, so that only the rules about files were audited; empty: none."""

    @property
    def ok(self) -> bool:
        """Whether no row breaks any rule."""
        return not any(check.found for check in self.checks)

    @property
    def done(self) -> tuple[Check, ...]:
        """The checks that were made."""
        return tuple(check for check in self.checks if not check.skipped)

    @property
    def not_applicable(self) -> dict[str, str]:
        """Name of each rule that does not apply to this run → the reason."""
        return {c.name: c.skipped for c in self.checks if c.skipped and not c.applies}

    @property
    def not_audited(self) -> dict[str, str]:
        """Name of each rule that may apply, but was not audited → the reason."""
        return {c.name: c.skipped for c in self.checks if c.skipped and c.applies}

    @property
    def fully_audited(self) -> bool:
        """Whether every rule that is about this run was audited."""
        return not self.not_audited

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The recorded violations, check by check."""
        return tuple(violation for check in self.checks for violation in check.violations)

    @property
    def found(self) -> dict[str, int]:
        """Name of each violated rule → the number of all its violations."""
        return {check.name: check.found for check in self.checks if check.found}

    def summary(self) -> str:
        """Return a line: whether the rules hold, and how many hold, do not apply, were left out.

        Ids that the input repeats come first: they are why most rules were left out.
        """
        held = len(self.done) - len(self.found)
        counts = [
            f"{counted(held, 'rule holds', 'rules hold')}",
            f"{len(self.not_applicable)} {'does' if len(self.not_applicable) == 1 else 'do'} "
            "not apply",
        ]
        left_out, first = len(self.not_audited), ""
        if self.alike:
            counts = counts[:1]
            first = (
                f"{self.alike}, so {left_out} of {len(self.checks)} rules could not tell the rows "
                "apart and were not audited; "
            )
        elif left_out:
            counts.append(f"{left_out} {'was' if left_out == 1 else 'were'} not audited")
        if not self.ok:
            broken = ", ".join(f"{name} {count:,}" for name, count in self.found.items())
            return f"{first}violated: {broken} ({', '.join(counts)})"
        which = "every rule that was audited holds" if left_out else "every rule holds"
        return f"{first}{which} ({', '.join(counts)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain values for ``simkit verify --json``."""
        return {
            "run": str(self.folder),
            "ok": self.ok,
            "summary": self.summary(),
            "checks": [
                {
                    "name": check.name,
                    "rule": check.rule,
                    "examined": check.examined,
                    "not_applicable": None if check.applies else check.skipped,
                    "not_audited": (check.skipped or None) if check.applies else None,
                    "violations": check.found,
                    "first": [{"message": v.message, "row": v.row} for v in check.violations],
                    "notes": check.notes,
                }
                for check in self.checks
            ],
        }

"""What an audit says: rules that hold, do not apply or were not audited, and rows that break one.

A check looks at many rows and keeps the first few that break its rule, with the count of all of
them: a broken run of a million jobs must not answer with a million lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from simkit.text import counted

KEPT = 10
"""Violations that a check keeps of each kind (one message is one kind); all of them count."""


@dataclass(frozen=True)
class Violation:
    """One row that breaks a rule."""

    check: str
    """Name of the check that found it, e.g. ``capacity``."""
    message: str
    """What is wrong, in a sentence."""
    row: dict[str, Any]
    """The violating row: column → value, with the expected values beside the found ones."""

    def __str__(self) -> str:
        """Return ``capacity: more is allocated than there is (machine_id 0, time_s 12, …)``."""
        cells = ", ".join(f"{name} {_shown(value)}" for name, value in self.row.items())
        return f"{self.check}: {self.message} ({cells})"


def _shown(value: Any) -> str:
    """Return a value as people write it: numbers in full, ``-`` for what there is not."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, str):
        return f"'{value}'"
    return str(value)


@dataclass
class Check:
    """One rule and what came of holding the run against it."""

    name: str
    rule: str
    """The rule in a sentence, as it should hold."""
    examined: int = 0
    """Rows (or files, or numbers) that were looked at."""
    skipped: str = ""
    """Why the check was not done; empty if it was."""
    applies: bool = True
    """Whether the rule is about this run at all; if so and it was skipped, nobody knows whether
    it holds."""
    found: int = 0
    """How many rows break the rule."""
    violations: list[Violation] = field(default_factory=list)
    """The first of them, at most `KEPT` a message."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What a reader should know besides, e.g. how many heads had a void bound."""

    def skip(self, reason: str) -> Check:
        """Say that the rule is not about this run."""
        self.skipped, self.applies = reason, False
        return self

    def leave_out(self, reason: str) -> Check:
        """Say that the rule may be about this run, but is not audited, and why."""
        self.skipped, self.applies = reason, True
        return self

    def add(self, message: str, row: dict[str, Any]) -> None:
        """Record one violating row."""
        self.found += 1
        if sum(violation.message == message for violation in self.violations) < KEPT:
            self.violations.append(Violation(self.name, message, row))

    def add_rows(self, message: str, rows: pl.DataFrame) -> None:
        """Record every row of `rows` as a violation."""
        for row in rows.head(KEPT).iter_rows(named=True):
            self.add(message, row)
        self.found += max(rows.height - KEPT, 0)


@dataclass(frozen=True)
class Audit:
    """The outcome of `verify_run`."""

    folder: Path
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Tell whether no row breaks any rule."""
        return not any(check.found for check in self.checks)

    @property
    def done(self) -> tuple[Check, ...]:
        """Checks that applied to this run."""
        return tuple(check for check in self.checks if not check.skipped)

    @property
    def not_applicable(self) -> dict[str, str]:
        """Name of each rule that is not about this run → the reason."""
        return {c.name: c.skipped for c in self.checks if c.skipped and not c.applies}

    @property
    def not_audited(self) -> dict[str, str]:
        """Name of each rule that may be about this run, but was not audited → the reason."""
        return {c.name: c.skipped for c in self.checks if c.skipped and c.applies}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations kept, check by check."""
        return tuple(violation for check in self.checks for violation in check.violations)

    @property
    def found(self) -> dict[str, int]:
        """Name of each broken check → the number of violations, those not kept included."""
        return {check.name: check.found for check in self.checks if check.found}

    def summary(self) -> str:
        """Say in a line whether the rules hold, how many do, and how many were left out."""
        held = len(self.done) - len(self.found)
        counts = [
            f"{counted(held, 'rule holds', 'rules hold')}",
            f"{len(self.not_applicable)} {'does' if len(self.not_applicable) == 1 else 'do'} "
            "not apply",
        ]
        if left_out := len(self.not_audited):
            counts.append(f"{left_out} {'was' if left_out == 1 else 'were'} not audited")
        if not self.ok:
            broken = ", ".join(f"{name} {count:,}" for name, count in self.found.items())
            return f"violated: {broken} ({', '.join(counts)})"
        which = "every rule that was audited holds" if left_out else "every rule holds"
        return f"{which} ({', '.join(counts)})"

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

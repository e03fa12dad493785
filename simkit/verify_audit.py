"""What an audit says: checks done, checks that do not apply, and the rows that break a rule.

A check looks at many rows and keeps the first few that break its rule, with the count of all of
them: a broken run of a million jobs must not answer with a million lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

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
        """Return ``capacity: more is allocated than there is (machine_id=0, time_s=12.0, …)``."""
        cells = ", ".join(f"{name}={value!r}" for name, value in self.row.items())
        return f"{self.check}: {self.message} ({cells})"


@dataclass
class Check:
    """One rule and what came of holding the run against it."""

    name: str
    rule: str
    """The rule in a sentence, as it should hold."""
    examined: int = 0
    """Rows (or files, or numbers) that were looked at."""
    skipped: str = ""
    """Why the check does not apply to this run; empty if it was done."""
    found: int = 0
    """How many rows break the rule."""
    violations: list[Violation] = field(default_factory=list)
    """The first of them, at most `KEPT` a message."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What a reader should know besides, e.g. how many heads had a void bound."""

    def skip(self, reason: str) -> Check:
        """Mark the check as not applicable."""
        self.skipped = reason
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
        """Name of each check that did not apply → the reason."""
        return {check.name: check.skipped for check in self.checks if check.skipped}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations kept, check by check."""
        return tuple(violation for check in self.checks for violation in check.violations)

    @property
    def found(self) -> dict[str, int]:
        """Name of each broken check → the number of violations, those not kept included."""
        return {check.name: check.found for check in self.checks if check.found}

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain values for ``simkit verify --json``."""
        return {
            "run": str(self.folder),
            "ok": self.ok,
            "checks": [
                {
                    "name": check.name,
                    "rule": check.rule,
                    "examined": check.examined,
                    "not_applicable": check.skipped or None,
                    "violations": check.found,
                    "first": [{"message": v.message, "row": v.row} for v in check.violations],
                    "notes": check.notes,
                }
                for check in self.checks
            ],
        }

"""The tables of the reference's page of metrics, from the rows that define them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from simkit.results.all_metrics import TABLES, facts_of, metrics_of_policies
from simkit.results.metric import MetricFacts

_HOLES = {
    "resource": "RESOURCE", "users": "users", "popular": "", "least": "what is least",
    "in_time": "; in_time: of those whose QoS was not violated",
}  # fmt: skip
"""What stands in the page for the holes of formulas that a run fills."""


class _Tau(float):
    """The bound of bounded slowdowns, whatever its format."""

    def __format__(self, _form: str) -> str:
        return "τ"


def _table(*kinds: str) -> str:
    """Return the rows of some kinds of metrics as one table."""
    rows: list[Any] = [row for kind in kinds for row in TABLES[kind]]
    if "jobs" in kinds:
        rows += [facts_of(name) for name in metrics_of_policies()]
    lines = ["| metric | unit | better | formula | window |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *map(_line, rows)])


def _line(row: MetricFacts) -> str:
    name = row.name.replace("{resource}", "RESOURCE")
    unit = row.unit.replace("{resource}", "RESOURCE")
    formula = (
        row.formula.format(**_HOLES, tau=_Tau())
        .replace("|", "\\|")
        .replace("τ s", "τ")
        .replace("tau τ", "τ")
    )
    parts = ", ".join(f"`{part}` {better}" for part, better in row.parts.items())
    window = getattr(row, "window", "jobs")
    return f"| `{name}` | {unit} | {parts or row.better or ''} | {formula} | {window} |"


METRICS: dict[str, Callable[[], str]] = {
    "metrics_of_jobs": partial(_table, "single jobs"),
    "metrics_of_runs": partial(_table, "jobs", "time", "counts"),
    "metrics_of_value": partial(_table, "value"),
    "metrics_of_energy": partial(_table, "energy"),
    "metrics_of_tasks": partial(_table, "tasks"),
    "metrics_of_suspensions": partial(_table, "suspensions"),
    "metrics_of_machines": partial(_table, "machines"),
}
"""Name of a part of the page → the function that makes its table."""

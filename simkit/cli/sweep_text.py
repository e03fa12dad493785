"""Text about sweeps: a table with a line per run and the most informative metrics that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ruamel.yaml import YAML

from simkit.analysis.summary import USUAL, full_name
from simkit.cli.text import GAP, Blocks, Line, Table, console
from simkit.errors import did_you_mean
from simkit.results.all_metrics import Number, measured, metric_numbers
from simkit.results.metric import custom_names

if TYPE_CHECKING:
    from simkit.experiment.workers import SweepOutcome

VALUE_AND_ENERGY: Final = (
    "value_ratio", "completion_ratio", "qos_violations.share", "deadline_misses.share",
    "renewable_fraction", "carbon_kg", "energy_cost", "grid_kwh.import", "unserved_kwh",
)  # fmt: skip
"""Metrics that it shows if they differ between runs."""
FIRST_LEFT_OUT: Final = (
    "makespan_s", "bounded_slowdown", "grid_kwh.import", "utilisation", "completion_ratio",
    "deadline_misses.share", "unserved_kwh", "energy_cost", "qos_violations.share",
)  # fmt: skip
"""Metrics that are left out, in this order, if the table is too wide."""


NOT_FINISHED: Final = {
    "rejected": ("rejected",),
    "killed": ("killed",),
    "unfinished": ("running", "waiting"),
}
"""Columns of jobs that did not finish, and the states that they count."""


class Column(NamedTuple):
    """A metric of every run, ready to be printed."""

    name: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """Its width in characters."""
        return max(map(len, (self.name, *self.cells)))


def sweep_blocks(
    folder: Path, outcomes: Sequence[SweepOutcome], metrics: Sequence[str] = ()
) -> Blocks:
    """Yield a line per run: its state, the swept values, its main metrics.

    Args:
        folder: the folder of the sweep.
        outcomes: one per run.
        metrics: names of the metrics to show; empty: the most informative ones that fit.
    """
    keys = list(outcomes[0].assignment) if outcomes else []
    named = [Column("Run", tuple(outcome.state for outcome in outcomes))]
    named += [Column(key, tuple(_swept(o.assignment[key]) for o in outcomes)) for key in keys]
    if any(o.estimates and o.estimates != _told(o) for o in outcomes):
        named.append(Column("planned with", tuple(o.estimates for o in outcomes)))
    last = [*_jobs_without_an_end(outcomes), *_seconds(outcomes)]
    found = [metric_numbers(outcome.metrics) for outcome in outcomes]
    left_out: list[str] = []
    if metrics:
        shown = [_column(name, found) for name in metrics]
    else:
        taken = sum(column.width + GAP for column in (*named, *last))
        usual = (*USUAL, *custom_names(*(outcome.metrics for outcome in outcomes)))
        shown, left_out = _chosen(usual, found, console().width + GAP - taken)
    columns = [*named, *shown, *last]
    rows = zip(*(column.cells for column in columns), strict=True)
    yield Table([column.name for column in columns], list(rows), names=len(named))
    yield from _states_blocks(outcomes)
    if left_out:
        yield Line("Left out", f"{', '.join(left_out)}; --metrics names what to show")
    for line in _unknown(metrics, found):
        yield Line("Note", line)
    yield Line("Folder", str(folder))


def _jobs_without_an_end(outcomes: Sequence[SweepOutcome]) -> Iterator[Column]:
    """Yield how many jobs did not finish, by the reason, if there are any in any run.

    They stand beside the means, which they change: a run that rejects long jobs waits less.
    """
    jobs = [outcome.metrics.get("jobs", {}) for outcome in outcomes]
    for name, states in NOT_FINISHED.items():
        counts = [sum(found.get(state, 0) for state in states) for found in jobs]
        if any(counts):
            cells = (f"{n:,}" if found else "-" for n, found in zip(counts, jobs, strict=True))
            yield Column(name, tuple(cells))


def _seconds(outcomes: Sequence[SweepOutcome]) -> Iterator[Column]:
    """Yield how long runs took, if any was done now."""
    if any(outcome.state == "done" for outcome in outcomes):
        took = (f"{o.seconds:.1f}" if o.state == "done" else "" for o in outcomes)
        yield Column("seconds", tuple(took))


def _swept(value: Any) -> str:
    """Return a value as a scenario has it, on one line."""
    if not isinstance(value, dict | list):
        return str(value)
    yaml, text = YAML(typ="rt", pure=True), StringIO()
    yaml.default_flow_style, yaml.width = True, 4096  # on one line
    yaml.dump(value, text)
    return text.getvalue().strip()


def _told(outcome: SweepOutcome) -> str:
    """Return the estimates by the name in the sweep; requests if it does not vary them."""
    value = outcome.assignment.get("estimates", "requested")
    return value if isinstance(value, str) else ""


def _states_blocks(outcomes: Sequence[SweepOutcome]) -> Blocks:
    states = [outcome.state for outcome in outcomes]
    yield Line("Runs", ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states)))


def _chosen(
    usual: Sequence[str], found: Sequence[Mapping[str, Number]], room: int
) -> tuple[list[Column], list[str]]:
    """Return the metrics that fit into a table, and the names of those that do not."""
    informative = [name for name in VALUE_AND_ENERGY if _is_informative(name, found)]
    columns = [_column(name, found) for name in (*usual, *informative)]
    if not informative:
        return columns, []
    left_out = []
    for name in FIRST_LEFT_OUT:
        if sum(column.width + GAP for column in columns) <= room:
            break
        if any(column.name == name for column in columns):
            columns = [column for column in columns if column.name != name]
            left_out.append(name)
    return columns, left_out


def _is_informative(name: str, found: Sequence[Mapping[str, Number]]) -> bool:
    """Return whether a metric differs between runs; of a single run, whether it is not 0."""
    values = [number.value for one in found if (number := _number(one, name)) is not None]
    return len(set(values)) > 1 or (len(values) == 1 and any(values))


def _column(name: str, found: Sequence[Mapping[str, Number]]) -> Column:
    numbers = [_number(one, name) for one in found]
    whole = next((full_name(name, one) for one, n in zip(found, numbers, strict=True) if n), name)
    return Column(
        name, tuple("-" if n is None else measured(whole, n.value, n.unit) for n in numbers)
    )


def _number(found: Mapping[str, Number], name: str) -> Number | None:
    """Return a metric by its name; see `full_name`."""
    return found.get(full_name(name, found))


def _unknown(names: Sequence[str], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for every name that is a metric of no run, unless all runs failed."""
    known = {name for one in found for name in one}
    missing = [n for n in names if known and all(_number(one, n) is None for one in found)]
    return [f"no run has a metric {name!r}{did_you_mean(name, known)}" for name in missing]

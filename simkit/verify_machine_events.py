"""What happens to the machines by the scenario's own files, read by the auditor.

Each machine is described by spans of time: when it is there and with what, when it is down, when
part of it is taken by containers or maintenance. The files are server_event and container_event of
Alibaba's cluster-trace-v2017.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simkit.verify_maintenance import seconds, spans
from simkit.verify_tables import LARGEST, LARGEST_ID, MissingInputError, trace_table

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

Amounts = tuple[float, ...]
"""One number a resource of the cluster, in its order."""


@dataclass
class MachineLife:
    """What happens to one machine; times in s on the trace's clock."""

    installed: list[tuple[float, Amounts]] = field(default_factory=list)
    """(from, what it has): nothing from when it leaves."""
    joins: list[float] = field(default_factory=list)
    faults: list[tuple[float, float]] = field(default_factory=list)
    """(begin, repair)."""
    taken: list[tuple[float, float, Amounts]] = field(default_factory=list)
    """(from, until, amounts) of containers and maintenance."""


def machine_lives(run: RunFolder, horizon: float) -> dict[int, MachineLife]:
    """Return what the scenario says of each machine until the horizon, by its row.

    Raises ValueError for a file that cannot be read, and MissingInputError.
    """
    lives = {machine: MachineLife() for machine in run.capacity}
    section = run.setting("cluster") or {}
    if section.get("trace"):
        _from_trace(run, section, lives)
    else:
        for machine, capacity in run.capacity.items():
            lives[machine].installed.append((-float("inf"), capacity))
    if section.get("containers"):
        _contain(run, section["containers"], lives)
    for window in section.get("maintenance") or ():
        for machine, amounts in _away(run, window).items():
            for begin, end, _ in spans(window, run, horizon, 0.0):
                lives[machine].taken.append((begin, end, amounts))
    return lives


def _rows(run: RunFolder) -> dict[str, int]:
    """Return machine name → row."""
    return {str(m["name"]): int(m["id"]) for m in run.manifest["cluster"]["machines"]}


def _from_trace(run: RunFolder, section: Mapping[str, Any], lives: dict[int, MachineLife]) -> None:
    """Take in server_event: machines that are added, removed, or fail."""
    trace, rows = section["trace"], _rows(run)
    table = trace_table(run, str(trace["path"]), "server_event")
    if table is None:
        raise MissingInputError("server_event is not among the recorded inputs")
    present: set[int] = set()
    for time, name, event, amounts in _server_events(run, table):
        if name not in rows:
            continue  # never added
        row, life = rows[name], lives[rows[name]]
        if event == "add":
            # What is there at the trace's zero was there before.
            begin = time if time > 0 or life.installed else -float("inf")
            life.installed.append((begin, amounts))
            life.joins.append(begin)
            present.add(row)
        elif event == "remove":
            life.installed.append((time, (0.0,) * len(amounts)))
        else:
            repair = trace[event].get("repair")
            until = float("inf") if repair is None else on_grid(time + seconds(repair))
            life.faults.append((time, until))
    for row in lives.keys() - present:
        lives[row].installed.append((-float("inf"), run.capacity[row]))


def _server_events(
    run: RunFolder, table: pl.DataFrame
) -> Iterator[tuple[float, str, str, Amounts]]:
    """Yield (time, machine, event, what it brings) in order of time, over-commit counted."""
    import polars as pl

    event, id_ = pl.col("event").str.to_lowercase(), pl.col("machine")
    sane = (pl.col("time").abs() < LARGEST) & (id_.abs() < LARGEST_ID) & (id_.floor() == id_)
    sizes = [pl.col(name).fill_null(0.0) for name in ("cpu", "mem")]
    sane &= pl.all_horizontal((size >= 0) & (size < LARGEST) for size in sizes)
    bare = (event == "add") & ~pl.any_horizontal(size > 0 for size in sizes)
    known = event.is_in(["add", "remove", "softerror", "harderror"])
    rows = table.filter((sane & known & ~bare).fill_null(value=False))
    rows = rows.sort("time", maintain_order=True)
    factors = run.setting("cluster", "overcommit") or {}
    for row in rows.iter_rows(named=True):
        amounts = tuple(
            _amount_on_grid((row.get(r) or 0.0), float(factors.get(r, 1.0))) for r in run.resources
        )
        yield on_grid(row["time"]), str(int(row["machine"])), row["event"].lower(), amounts


def _amount_on_grid(amount: float, factor: float) -> float:
    """Round to multiples of 2**-30, before and after the over-commit factor, as the run does."""
    return round(round(amount * 2**30) / 2**30 * factor * 2**30) / 2**30


def on_grid(time_s: float) -> float:
    """Round to the run's time grid, 2**-20 s."""
    return round(time_s * 2**20) / 2**20


def _contain(run: RunFolder, section: Mapping[str, Any], lives: dict[int, MachineLife]) -> None:
    """Take in container_event: each container holds its part from creation to removal."""
    table = trace_table(run, str(section["path"]), "container_event")
    if table is None:
        raise MissingInputError("container_event is not among the recorded inputs")
    rows = _rows(run)
    open_: dict[float, tuple[float, str, Amounts]] = {}
    held: dict[str, list[tuple[float, float, Amounts]]] = defaultdict(list)
    for row in _container_events(table):
        time, container = on_grid(row["time"]), row["container"]
        if row["event"].lower() == "remove":
            if container in open_:
                begin, machine, amounts = open_.pop(container)
                held[machine].append((begin, time, amounts))
        elif container not in open_:
            amounts = tuple(_request_on_grid(row.get(r) or 0.0) for r in run.resources)
            begin = time if time > 0 else -float("inf")  # zero: before the trace
            open_[container] = begin, str(int(row["machine"])), amounts
    for begin, machine, amounts in open_.values():
        held[machine].append((begin, float("inf"), amounts))
    for name, taken in held.items():
        if name in rows:
            lives[rows[name]].taken += taken


def _container_events(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    import polars as pl

    event = pl.col("event").str.to_lowercase()
    container, machine = pl.col("container"), pl.col("machine")
    sane = (pl.col("time").abs() < LARGEST) & (container.abs() < LARGEST_ID)
    sane &= container.floor() == container
    sane &= machine.is_null() | ((machine.abs() < LARGEST_ID) & (machine.floor() == machine))
    fits = pl.all_horizontal((pl.col(n) >= 0) & (pl.col(n) < LARGEST) for n in ("cpu", "mem"))
    whole = (event == "remove") | ((event == "create") & machine.is_not_null() & fits)
    rows = table.filter((sane & whole).fill_null(value=False)).sort("time", maintain_order=True)
    return rows.iter_rows(named=True)


def _request_on_grid(amount: float) -> float:
    """Round down to a multiple of 2**-30; a millionth of a step is noise."""
    return float((amount * 2**30 + 1e-6) // 1 / 2**30)


def _away(run: RunFolder, window: Mapping[str, Any]) -> dict[int, Amounts]:
    """Return what a window takes of which machine: whole machines, or processors of a pool."""
    if window.get("processors") is not None:
        taken = tuple(float(window["processors"]) * (r == "processors") for r in run.resources)
        return {next(iter(run.capacity)): taken}
    if window.get("machines") is None:
        return dict(run.capacity)
    groups: dict[str, list[int]] = defaultdict(list)
    row = 0
    for group in run.setting("cluster", "machines") or ():
        for _ in range(int(group.get("count", 1))):
            groups[group.get("name") or ""].append(row)
            row += 1
    return {row: run.capacity[row] for name in window["machines"] for row in groups[name]}

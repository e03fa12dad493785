"""The tables of machines and containers: events, capacities, services, and what they used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.traces.alibaba2017 import tables as names
from simkit.traces.alibaba2017.tables import (
    LINE,
    TableFile,
    find_tables,
    leave_aside,
    lower_text,
    numbers,
    scan_table,
    table_rows,
)
from simkit.traces.columns import ALIBABA2017
from simkit.traces.rules import LARGEST, LARGEST_ID, Tally, first_that_applies, summary
from simkit.workload import RowReport
from simkit.workload.capacity import KINDS, Containers, MachineEvents

AMOUNTS: Final = ("cpu", "mem", "disk")
"""The resources of machines and containers: cores; the others relative to the largest machine's."""
_EVENT_COLUMNS: Final = ("time_s", "machine_id", "event")


def read_machine_events(
    path: str | PathLike[str], *, resources: Sequence[str] = ("cpu", "mem")
) -> MachineEvents:
    """Read server_event: machines that are added or removed, software and hardware errors.

    Events are sorted by time; events at one instant keep the order of the file. In the trace all
    machines are added at 0, which means before its start. Errors have the capacity 0, so the
    machine's capacity is taken from its add.

    Args:
        path: a folder, an archive, or the single table; see `read_alibaba2017`.
        resources: which of cpu, mem and disk count.

    Raises TraceError, with file and line, if there is no such table or no machine in it.
    """
    check_resources(resources)
    return machine_events(find_tables(Path(path), "server_event")["server_event"], resources)


def check_resources(resources: Sequence[str]) -> None:
    """Raise TraceError for a resource that the trace does not have, or that is named twice."""
    for name in resources:
        if name not in AMOUNTS:
            raise TraceError(f"resources: the trace has no {name!r}{did_you_mean(name, AMOUNTS)}")
    if len(set(resources)) != len(resources) or not resources:
        raise TraceError(f"resources: {list(resources)}; name one or more of cpu, mem, disk, once")


def machine_events(file: TableFile, resources: Sequence[str]) -> MachineEvents:
    """Read server_event from a known file; see `read_machine_events`."""
    tally = Tally()
    leave_aside("server_event", (*_EVENT_COLUMNS, *resources), tally)
    blocks = list(table_rows(file, "server_event", (*_EVENT_COLUMNS, *AMOUNTS)))
    if not blocks:
        raise TraceError(f"{file}: no machines: the table is empty; check it")
    events = _Events(pl.concat(blocks), resources)
    kept = events.judge(tally)
    if not (events.kind[kept] == "add").any():
        raise TraceError(
            f"{file}: no machines: none of the {len(events.line)} rows adds one "
            f"({summary(tally.report)}); check the table"
        )
    capacity = events.held(kept, tally)
    return MachineEvents(
        resources=tuple(resources),
        time_s=events.time[kept],
        machine_id=events.machine[kept].astype(np.int64),
        kind=events.kind[kept],
        capacity=capacity,
        report=tally.report,
        inputs=(file.path,),
    )


class _Events:
    """The columns of server_event, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame, resources: Sequence[str]) -> None:
        self.line: Ints = rows[LINE].to_numpy()
        self.time, self.machine = numbers(rows, "time_s"), numbers(rows, "machine_id")
        self.kind: npt.NDArray[Any] = lower_text(rows, "event").to_numpy().astype(object)
        self.capacity = np.column_stack([numbers(rows, name) for name in resources])

    def judge(self, tally: Tally) -> Ints:
        """Count the rows to leave out; return the others in order of time."""
        line, machine, capacity = self.line, self.machine, self.capacity
        is_add = self.kind == "add"
        unusable = ~(np.abs(self.time) < LARGEST) | (np.abs(machine) >= LARGEST_ID)
        unusable |= (np.floor(machine) < machine) | (capacity < 0).any(axis=1)
        unusable |= (capacity >= LARGEST).any(axis=1)
        drops = {
            names.NO_MACHINE: np.isnan(machine),
            names.NOT_A_NUMBER: unusable,
            names.UNKNOWN_EVENT: ~np.isin(self.kind.astype(str), KINDS),
            names.NO_CAPACITY: is_add & ~(capacity > 0).any(axis=1),
        }
        tally.read(len(line))
        left = first_that_applies(drops, line, tally.drop)
        strange: Bools = left & ~np.isin(machine, machine[left & is_add])
        tally.drop(names.UNKNOWN_MACHINE, line[strange])
        return _by_time(np.flatnonzero(left & ~strange), self.time, line, tally)

    def held(self, kept: Ints, tally: Tally) -> Floats:
        """Return (E, R) the capacity of each event's machine.

        An event without capacity takes that of its machine's previous add, or of its first add if
        there is no previous one.
        """
        capacity, machine = np.nan_to_num(self.capacity[kept]), self.machine[kept].tolist()
        kind, line = self.kind[kept].tolist(), self.line[kept]
        size: dict[float, Floats] = {}
        for row in range(len(kind) - 1, -1, -1):
            if kind[row] == "add":
                size[machine[row]] = capacity[row]  # the first add remains
        present: set[float] = set()
        bare, again = np.zeros((2, len(kind)), dtype=bool)
        for row, name in enumerate(machine):
            if kind[row] == "add":
                again[row], size[name] = name in present, capacity[row]
                present.add(name)
                continue
            if kind[row] == "remove":
                present.discard(name)
            if not capacity[row].any():
                bare[row], capacity[row] = True, size[name]
        tally.note(names.ADDED_AGAIN, np.sort(line[again]))
        tally.repair(names.CAPACITY_KNOWN, np.sort(line[bare]))
        tally.accept(int(np.count_nonzero(~bare)))
        return capacity


def _by_time(kept: Ints, time_s: Floats, line: Ints, tally: Tally) -> Ints:
    """Return the kept rows in order of time; note those out of order."""
    time = time_s[kept]
    tally.note(names.EVENT_ORDER, line[kept][time < np.maximum.accumulate(time)])
    return np.asarray(kept[np.argsort(time, kind="stable")])


_COLUMNS: Final = ("time_s", "event", "container_id", "machine_id", *AMOUNTS)


def read_containers(
    path: str | PathLike[str], *, resources: Sequence[str] = ("cpu", "mem")
) -> Containers:
    """Read container_event: each container from its creation to its removal, if it has one.

    The creation and the removal of a container make one row. Containers are sorted by (start,
    container id); a start of 0 means before the trace. Containers on machines that server_event
    lacks, if that table is next to this one, are noted and kept.

    Args:
        path: a folder, an archive, or the single table; see `read_alibaba2017`.
        resources: which of cpu, mem and disk count.

    Raises TraceError, with file and line, if there is no such table, or it is damaged.
    """
    check_resources(resources)
    found, tally = find_tables(Path(path), "container_event"), Tally()
    file = found["container_event"]
    leave_aside("container_event", (*_COLUMNS[: -len(AMOUNTS)], *resources), tally)
    blocks = list(table_rows(file, "container_event", _COLUMNS))
    if not blocks:
        raise TraceError(f"{file}: no containers: the table is empty; check it")
    events = _ContainerEvents(pl.concat(blocks), resources)
    kept = events.judge(tally)
    inputs = [file.path]
    if "server_event" in found:
        events.note_machines(kept, found["server_event"], tally)
        inputs.append(found["server_event"].path)
    start, end = events.paired(kept, tally)
    ended = np.where(end >= 0, events.time[end], np.inf)
    order = np.lexsort((events.container[start], events.time[start]))
    start = start[order]
    return Containers(
        resources=tuple(resources),
        container_id=events.container[start].astype(np.int64),
        machine_id=events.machine[start].astype(np.int64),
        start_time_s=events.time[start],
        end_time_s=ended[order],
        request=events.request[start],
        report=tally.report,
        inputs=tuple(dict.fromkeys(inputs)),
    )


class _ContainerEvents:
    """The columns of container_event, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame, resources: Sequence[str]) -> None:
        self.line: Ints = rows[LINE].to_numpy()
        self.time, self.container = numbers(rows, "time_s"), numbers(rows, "container_id")
        self.machine = numbers(rows, "machine_id")
        kind = lower_text(rows, "event")
        self.is_create: Bools = (kind == "create").to_numpy()
        self.known: Bools = kind.is_in(["create", "remove"]).to_numpy()
        self.request = np.column_stack([numbers(rows, name) for name in resources])

    def judge(self, tally: Tally) -> Ints:
        """Count the rows to leave out; return the others in the order of time."""
        line, create = self.line, self.is_create
        unusable = ~(np.abs(self.time) < LARGEST)
        for ids in (self.container, self.machine):
            unusable |= (np.abs(ids) >= LARGEST_ID) | (np.floor(ids) < ids)
        fits = ((self.request >= 0) & (self.request < LARGEST)).all(axis=1)
        drops = {
            names.NO_CONTAINER: np.isnan(self.container),
            names.NOT_A_NUMBER: unusable,
            names.UNKNOWN_EVENT: ~self.known,
            names.NO_MACHINE: create & np.isnan(self.machine),
            names.BAD_REQUEST: create & ~fits,
        }
        tally.read(len(line))
        kept = np.flatnonzero(first_that_applies(drops, line, tally.drop))
        return _by_time(kept, self.time, line, tally)

    def note_machines(self, kept: Ints, file: TableFile, tally: Tally) -> None:
        """Note creations on machines that the table of machines does not have."""
        machines = machine_events(file, ("cpu", "mem")).machines()
        created = np.sort(kept[self.is_create[kept]])
        strange = ~np.isin(self.machine[created], machines)
        tally.note(names.UNKNOWN_MACHINE, self.line[created][strange])

    def paired(self, kept: Ints, tally: Tally) -> tuple[Ints, Ints]:
        """Return (C,) the row of each creation, and of the removal that ends it, -1 for none."""
        present: dict[float, int] = {}
        end: dict[int, int] = {}
        again, absent = [], []
        for row in kept.tolist():
            container = self.container[row]
            if self.is_create[row]:
                if container in present:
                    again.append(row)
                else:
                    present[container] = row
                    end[row] = -1
            elif container in present:
                end[present.pop(container)] = row
            else:
                absent.append(row)
        tally.drop(names.CREATED_AGAIN, self.line[again])
        tally.drop(names.NOT_CREATED, self.line[absent])
        tally.accept(len(kept) - len(again) - len(absent))
        return np.array(list(end), np.int64), np.array(list(end.values()), np.int64)


Subject = Literal["machines", "containers", "instances"]

_TABLES: Final = {
    "machines": "server_usage",
    "containers": "container_usage",
    "instances": "batch_instance",
}
_SHARES: Final = ("cpu_percent", "mem_percent", "disk_percent")


def read_usage(path: str | PathLike[str], of: Subject = "machines") -> pl.LazyFrame:
    """Return measurements of usage as a lazy frame, as in the trace: no rule is applied.

    Machines: ``time_s``, ``machine_id``, ``cpu_percent``, ``mem_percent``, ``disk_percent``
    (0 … 100 of the machine's), ``load1``, ``load5``, ``load15``. Containers: ``container_id``
    instead of the machine, percentages of what the container requested, besides ``cpi_mean``,
    ``mpki_mean``, ``cpi_max``, ``mpki_max``. Instances: all columns of batch_instance, such as
    ``cpu_max``, ``cpu_mean`` (cores), ``mem_max`` and ``mem_mean`` (relative to the largest
    machine). Times are seconds on the trace's clock, ids Int64, empty fields null; a measurement
    is a mean over 300 s. The trace's description has the details.

    The file is read when the frame is collected, and only the rows and columns that are asked
    for; collect with ``engine="streaming"`` to keep memory small.

    Args:
        path: a folder, an archive, or the single table; see `read_alibaba2017`.
        of: whose usage.

    Raises TraceError if there is no such table; on collecting, for a damaged one, with the line.
    """
    if of not in _TABLES:
        raise TraceError(f"usage of {of!r} is not in the trace{did_you_mean(str(of), _TABLES)}")
    table = _TABLES[of]
    return scan_table(find_tables(Path(path), table)[table], table)


def usage_report(
    path: str | PathLike[str],
    of: Literal["machines", "containers"],
    known: Collection[int] | None = None,
) -> RowReport:
    """Count the oddities of a table of usage, each row under one rule; no row is left out.

    Args:
        path: see `read_usage`.
        of: whose usage.
        known: ids of the machines or containers that the trace's events have; None: not checked.

    Raises TraceError as `read_usage` does.
    """
    rows = read_usage(path, of)
    who = pl.col("machine_id" if of == "machines" else "container_id")
    shares = [pl.col(name) for name in _SHARES]
    outside = pl.any_horizontal((share < 0) | (share > 100) for share in shares)
    rules = {
        names.NO_USER_OF: who.is_null(),
        names.NO_TIME: pl.col("time_s").is_null(),
        names.SHARE_OUTSIDE: outside.fill_null(value=False),
        names.NO_SHARE: pl.any_horizontal(share.is_null() for share in shares),
    }
    if known is not None:
        rules[names.WITHOUT_EVENT] = ~who.is_in(list(known))
    rule = pl.lit(None, dtype=pl.String)
    for name, met in reversed(rules.items()):
        rule = pl.when(met).then(pl.lit(name)).otherwise(rule)
    counts = rows.select(rule.alias("rule")).group_by("rule").len().collect(engine="streaming")
    found = dict(counts.rows())
    count, shown = sum(found.values()), {n: found[n] for n in rules if n in found}
    columns = ALIBABA2017[_TABLES[of]]
    aside = columns.left_aside(("time_s", "machine_id", "container_id", *_SHARES))
    unused = {name: columns[name].holds for name in aside}
    return RowReport(read=count, accepted=count, notes=shown, unread=unused)

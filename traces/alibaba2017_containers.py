"""The table container_event: the services that hold part of an Alibaba trace's machines."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from simkit.containers import Containers
from simkit.errors import TraceError
from simkit.workload import Bools, Floats, Ints

from . import alibaba2017_rules as names
from .alibaba2017_files import TableFile, find_tables
from .alibaba2017_machines import AMOUNTS, check_resources, machine_events
from .alibaba2017_scan import LINE, table_rows
from .job_rules import LARGEST, LARGEST_ID, first_that_applies
from .rules import Tally

if TYPE_CHECKING:
    import polars as pl

_COLUMNS: Final = ("time_s", "event", "container_id", "machine_id", *AMOUNTS)
_EVENTS: Final = {"create": True, "remove": False}


def read_containers(
    path: str | PathLike[str], *, resources: Sequence[str] = ("cpu", "mem")
) -> Containers:
    """Read container_event: each container from its creation to its removal, if it has one.

    A creation and the removal of the same container make one row. Containers are sorted by (start,
    container id); a start of 0 means: before the trace. Machines that server_event lacks, where
    that table lies beside this one, are noted and kept.

    Args:
        path: a folder, an archive, or the single table; see `read_alibaba2017`.
        resources: which of cpu, mem and disk count.

    Raises TraceError, with file and line, if there is no such table, or it is damaged.
    """
    import polars as pl

    check_resources(resources)
    found, tally = find_tables(Path(path), "container_event"), Tally()
    file = found["container_event"]
    blocks = list(table_rows(file, "container_event", _COLUMNS))
    if not blocks:
        raise TraceError(f"{file}: no containers: the table is empty; check it")
    events = _Events(pl.concat(blocks), resources)
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


class _Events:
    """The columns of container_event, NaN where a field is empty."""

    def __init__(self, rows: pl.DataFrame, resources: Sequence[str]) -> None:
        def numbers(name: str) -> Floats:
            return rows[name].fill_null(np.nan).to_numpy()

        self.line: Ints = rows[LINE].to_numpy()
        self.time, self.container = numbers("time_s"), numbers("container_id")
        self.machine = numbers("machine_id")
        kind = rows["event"].fill_null("").str.strip_chars().str.to_lowercase()
        self.is_create: Bools = (kind == "create").to_numpy()
        self.known: Bools = kind.is_in(list(_EVENTS)).to_numpy()
        self.request = np.column_stack([numbers(name) for name in resources])

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
        time = self.time[kept]
        tally.note(names.EVENT_ORDER, line[kept][time < np.maximum.accumulate(time)])
        ordered: Ints = kept[np.argsort(time, kind="stable")]
        return ordered

    def note_machines(self, kept: Ints, file: TableFile, tally: Tally) -> None:
        """Note creations on machines that the table of machines does not have."""
        machines = machine_events(file, ("cpu", "mem")).machines()
        created = np.sort(kept[self.is_create[kept]])
        strange = ~np.isin(self.machine[created], machines)
        tally.note(names.UNKNOWN_MACHINE, self.line[created][strange])

    def paired(self, kept: Ints, tally: Tally) -> tuple[Ints, npt.NDArray[np.int64]]:
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

"""What the jobs of a sacct table ask for: processors, and memory and gpus where these count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.rigid_jobs import Column, Request, RigidJobs
from simkit.traces.rules import Tally
from simkit.traces.sacct.resources import OF_GPUS, OF_MEMORY, OtherResources, ResourceRows
from simkit.traces.sacct.table import LINE
from simkit.traces.sacct.units import units_of_jobs


class Asked:
    """Decides which of memory and gpus jobs ask for, and gathers the amounts block by block."""

    def __init__(
        self,
        path: Path,
        resources: Collection[str],
        *,
        memory: bool | None,
        gpus: bool | None,
        first: Literal["allocated", "requested"],
    ) -> None:
        """Begin a table.

        Args:
            path: the table, for errors.
            resources: of the machines.
            memory: whether jobs ask for memory; None: if the machines have mem, and the table says
                of any job how much, or that it asked for all of its machines'.
            gpus: the same of gpus.
            first: the amounts that count first; the others count where these are missing.
        """
        self._path, self._machines, self._first = path, resources, first
        self._chosen = {"mem": memory, "gpu": gpus}
        self._asked: tuple[str, ...] = ()
        self._other = OtherResources()

    def look_at(self, rows: ResourceRows) -> None:
        """Find out from the columns of the table what jobs may ask for.

        Raises TraceError if they shall ask for something that no column tells.
        """
        asked = []
        for resource, key, columns in (("mem", "memory", OF_MEMORY), ("gpu", "gpus", OF_GPUS)):
            chosen = self._chosen[resource]
            if chosen and not rows.has(*columns):
                raise TraceError(
                    f"{self._path}: {key}: true, but the table has no column "
                    f"{', '.join(columns[:-1])} or {columns[-1]}; print it again with one of them, "
                    f"or leave {key} out"
                )
            if chosen or (chosen is None and resource in self._machines and rows.has(*columns)):
                asked.append(resource)
        self._asked = tuple(asked)
        if "mem" not in asked:
            rows.leave_aside("ReqMem")

    def columns(self, jobs: pl.DataFrame, unchanged: Column, tally: Tally) -> dict[str, Column]:
        """Return the columns of what some jobs ask for besides processors; -1: unknown.

        Args:
            jobs: rows that became jobs.
            unchanged: which of them no rule repaired.
            tally: counts what nothing asks for.
        """
        self._other.add(jobs, tally, gpus="gpu" in self._asked)
        if "mem" not in self._asked and jobs["allocated_gib"].is_not_null().any():
            tally.unread(["mem of AllocTRES"], {"mem of alloctres": "memory allocated"})
        if not self._asked:
            return {}
        first = self._first
        other = "requested" if first == "allocated" else "allocated"
        gib = (pl.when(pl.col(f"{side}_gib") > 0).then(f"{side}_gib") for side in (first, other))
        amounts = jobs.select(
            pl.col("machines").fill_null(-1.0),
            pl.coalesce(f"{first}_gpus", f"{other}_gpus").fill_null(0.0).alias("gpus"),
            pl.coalesce(gib).fill_null(-1.0).alias("gib"),
            (pl.col("requested_gib") == 0).fill_null(value=False).alias("all_memory"),
        )
        names = ["machines"]
        names += ["gib", "all_memory"] if "mem" in self._asked else []
        names += ["gpus"] if "gpu" in self._asked else []
        return {"unchanged": unchanged} | {name: amounts[name].to_numpy() for name in names}

    def request(self, jobs: RigidJobs, tally: Tally) -> Request | None:
        """Return what all jobs ask for, in equal units; None: processors, an instance each.

        Counts jobs whose processors or gpus are rounded up and those whose memory is unknown.
        """
        self._other.settle(tally)
        resources = ("processors", *self._had(jobs))
        if len(resources) == 1:
            return None
        processors, line, size = jobs.column("processors"), jobs.column(LINE), len(jobs)
        has_memory, none = "mem" in resources, np.zeros(size)
        gpus = jobs.column("gpus") if "gpu" in resources else none
        gib = jobs.column("gib") if has_memory else none
        unknown = gib < 0
        whole = unknown | (jobs.column("all_memory") > 0) if has_memory else unknown
        units = units_of_jobs(processors, gpus, jobs.column("machines"), whole)
        each = {"processors": np.ceil(processors / units), "gpu": np.ceil(gpus / units)}
        _count_rounded(jobs, {"processors": processors, "gpu": gpus}, each, units, tally)
        tally.note(rules.MEMORY_UNKNOWN, line[unknown])
        amounts = each | {"mem": np.where(unknown, 0.0, gib / units)}
        table = np.column_stack([amounts[name] for name in resources])
        return Request(resources, units, table, unknown)

    def _had(self, jobs: RigidJobs) -> list[str]:
        """Return which of memory and gpus any job had or asked for, or the scenario says so."""
        telling = {"mem": ("gib", "all_memory"), "gpu": ("gpus",)}
        return [
            name
            for name in self._asked
            if self._chosen[name]
            or any((jobs.column(column) > 0).any() for column in telling[name])
        ]


def _count_rounded(
    jobs: RigidJobs,
    had: Mapping[str, Floats],
    each: Mapping[str, Floats],
    units: Ints,
    tally: Tally,
) -> None:
    """Count jobs whose processors or gpus do not split evenly into units.

    They are repaired, and noted if another rule repaired them before.
    """
    line, unchanged = jobs.column(LINE), jobs.column("unchanged") > 0
    for name, rule in (("processors", rules.UNEVEN), ("gpu", rules.UNEVEN_GPUS)):
        rounded = each[name] * units != had[name]
        if not rounded.any():
            continue
        repaired = rounded & unchanged
        tally.accept(-int(np.count_nonzero(repaired)))
        tally.repair(rule, line[repaired])
        tally.note(rule, line[rounded & ~unchanged])
        unchanged = unchanged & ~rounded
        first = int(np.argmin(np.where(rounded, line, np.inf)))
        tally.show(rule, _split_in_words(had, each, int(units[first]), first))


def _split_in_words(
    had: Mapping[str, Floats], each: Mapping[str, Floats], units: int, row: int
) -> str:
    """Return ``64 processors, 1 gpu: 2 units of 32, 1``: what a job had, and what it asks for."""
    told = ", ".join(f"{amount[row]:g} {name}" for name, amount in had.items() if amount[row] > 0)
    split = ", ".join(f"{each[name][row]:g}" for name in had if had[name][row] > 0)
    return f"{told}: {counted(units, 'unit')} of {split}"

"""What the jobs of a sacct table have and ask for: machines, gpus, memory, in equal units.

``AllocTRES`` and ``ReqTRES`` hold totals of a job:
``billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=1``. ``AllocGRES`` and ``ReqGRES`` of
older releases hold amounts of each of its machines, ``gpu:tesla:2,craynetwork:1``, or, since 19.05,
also of each of something else: ``PER_JOB:gpu:8``, ``PER_TASK:gpu:1``.

A job is a gang of equal instances: 6 processors and 4 gpus on one machine are one instance of both;
16 and 8 on two machines are two of 8 and 4. What does not split evenly is rounded up: 64 processors
and 1 gpu on two machines are two of 32 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from math import gcd
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.columns import SACCT
from simkit.traces.rigid_jobs import Column, Request, RigidJobs
from simkit.traces.rules import Tally
from simkit.traces.sacct.columns import SacctRows
from simkit.traces.sacct.table import LINE, NOTHING, amount_gib, number

TRES_FORM: Final = "cpu=8,gres/gpu=2,mem=16G,node=1"
GRES_FORM: Final = "gpu:2, gpu:tesla:2 or PER_NODE:gpu:2"

_GPU: Final = "gres/gpu"
_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgtp]?)")
_POWERS: Final = {letter: 1024.0**power for power, letter in enumerate(("", *"kmgtp"))}
_SCOPE: Final = re.compile(r"per_([a-z]+):")
SCOPES: Final = ("job", "node", "task", "socket")
"""What gpus of GRES are of: of each of these. If a text has several, the first counts: Slurm holds
them for the same gpus."""
_SITE_WIDE: Final = ("license/", "bb/", "fs/", "ic/")
_OF_A_JOB: Final = re.compile(r"\b(billing|energy)=\d+").pattern
"""Numbers that differ from job to job and say nothing of what it asks for."""


class Told(NamedTuple):
    """What one text says."""

    cpu: float | None = None
    node: float | None = None
    gpu: float | None = None
    gpu_of: str = "job"
    """Which of `SCOPES` has that number of gpus; ``?`` for one that is not known."""
    mem: str | None = None
    """As it stands there, such as 16G."""
    kinds: tuple[str, ...] = ()
    """Further kinds of resources: ``gres/shard``, ``license``, ``billing``."""
    types: tuple[str, ...] = ()
    """Types of gpus."""
    broken: bool = False
    """It has no known form."""


def parse_tres(text: str) -> Told:
    """Return what ``billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=1`` says.

    ``gres/gpu=4`` and ``gres/gpu:a100=4`` in one text are the same gpus; without the first, those
    of all types are added up. What is not named is 0; memory that is not named is unknown.
    """
    amounts = {"cpu": 0.0, "node": 0.0, _GPU: 0.0}
    by_type: dict[str, float] = {}
    kinds, mem, broken = set(), None, False
    for entry in filter(None, text.split(",")):
        key, equals, value = entry.strip().partition("=")
        count = _count(value)
        kind, _, of_type = key.partition(":")
        if kind in amounts:
            broken |= count is None
            if of_type and kind == _GPU:
                by_type[of_type] = by_type.get(of_type, 0.0) + (count or 0.0)
            else:
                amounts[kind] += count or 0.0
        elif kind == "mem":
            mem = value
        else:
            broken |= not (equals and kind)
            kinds.add(_site_wide(kind))
    gpus = max(amounts[_GPU], sum(by_type.values()))
    return Told(
        cpu=amounts["cpu"], node=amounts["node"], gpu=gpus, mem=mem, kinds=tuple(sorted(kinds)),
        types=tuple(by_type), broken=broken,
    )  # fmt: skip


def parse_gres(text: str) -> Told:
    """Return what ``gpu:tesla:2,craynetwork:1`` says: the gpus are those of each machine.

    ``PER_JOB:`` and the like before an entry say of what else they are; they hold for the entries
    after it, too. ``gpu`` without a number is one, ``gpu:2K`` are 2048; what is in parentheses
    (``gpu:2(IDX:0,1)``, ``gpu:(null):2``) is left aside.
    """
    gpus: dict[str, float] = {}
    kinds: set[str] = set()
    types: list[str] = []
    broken, of = False, "node"
    for entry in filter(None, re.sub(r"\([^)]*\)", "", text.lower()).split(",")):
        entry = entry.strip()
        if found := _SCOPE.match(entry):
            of, entry = (found[1] if found[1] in SCOPES else "?"), entry[found.end() :]
        name, *parts = re.split(r"[:=]", re.sub(r"^gres[:/]", "", entry))
        if name != "gpu":
            kinds.add(f"gres/{name}")
            broken |= not name
            continue
        count = _count(parts[-1]) if parts else 1.0
        kind = parts[:-1] if count is not None else parts
        broken |= len(kind) > 1 or (count is None and not parts[-1])
        types += filter(None, kind)
        gpus[of] = gpus.get(of, 0.0) + (1.0 if count is None else count)
    of = next((scope for scope in SCOPES if scope in gpus), "?" if gpus else "node")
    return Told(
        gpu=gpus.get(of, 0.0), gpu_of=of, kinds=tuple(sorted(kinds)), types=tuple(types),
        broken=broken,
    )  # fmt: skip


def _count(text: str) -> float | None:
    """Return the whole number in ``2``, ``2.00`` or ``2k``; None if it is none."""
    if (found := _COUNT.fullmatch(text)) is None:
        return None
    count = float(found[1]) * _POWERS[found[2]]
    return count if count == int(count) else None


def _site_wide(kind: str) -> str:
    """Return ``license`` of ``license/matlab``: those of a site count as one kind."""
    return kind.partition("/")[0] if kind.startswith(_SITE_WIDE) else kind


def told_by(text: pl.Series, parse: Callable[[str], Told]) -> pl.DataFrame:
    """Return what texts say, row by row; equal ones are parsed once.

    Returns columns cpu, node, gpu (Float64, null where a text says nothing), gpu_of (String: one of
    `SCOPES`), mem (Float64, GiB, null where it names none), per (String: the memory is that of each
    processor, ``c``, each machine, ``n``, or the job), kinds and types (lists of String), broken
    (Boolean).
    """
    texts = text.str.strip_chars().str.to_lowercase().str.replace_all(_OF_A_JOB, "$1=1")
    every = texts.alias("text").to_frame()
    different = every.unique()["text"].to_list()
    told = [Told() if one in NOTHING else parse(one) for one in different]
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "cpu": pl.Float64, "node": pl.Float64, "gpu": pl.Float64, "gpu_of": pl.String,
        "mem": pl.String,
        "kinds": pl.List(pl.String), "types": pl.List(pl.String), "broken": pl.Boolean,
    }  # fmt: skip
    columns = {name: [getattr(one, name) for one in told] for name in schema}
    gib, per = amount_gib(pl.col("mem"))
    table = pl.DataFrame(columns, schema=schema).with_columns(
        gib.alias("gib"), per.fill_null("").alias("per"), pl.Series("text", different, pl.String)
    )
    unreadable = pl.col("mem").is_not_null() & pl.col("gib").is_null()
    table = table.with_columns(pl.col("broken") | unreadable, pl.col("gib").alias("mem")).drop(
        "gib"
    )
    return every.join(table, on="text", how="left", maintain_order="left").drop("text")


_TEXTS: Final = {"allocated": ("AllocTRES", "AllocGRES"), "requested": ("ReqTRES", "ReqGRES")}
"""Which amounts → the columns that tell them: of a job (TRES), and of each machine (GRES)."""
_NO_REQUESTS: Final = ("billing", "energy")
UNREAD: Final = "not read, no job asks for it"
NO_REQUEST: Final = "not read, it is no request"
ANY_GPU: Final = "counts as any gpu"
"""What the notes say of a kind of resource, or of a type of gpu."""

_Told = dict[str, pl.DataFrame]
"""Column → what its texts say."""


class ResourceRows(SacctRows):
    """Rows with the machines, gpus and memory of jobs.

    Further columns, Float64, null where the table does not say: machines; and of each job as a
    whole allocated_gpus, requested_gpus, allocated_gib, requested_gib (0: all that its machines
    have, as ``--mem=0`` asks). Boolean: gpus_untold, whether the gpus are those of one machine,
    task or socket, as nothing tells how many of these there were. Lists of String: kinds (other
    kinds of resources), types (of gpus).
    """

    def has(self, *columns: str) -> bool:
        """Return whether the table has one of these columns."""
        return any(name.lower() in self._names for name in columns)

    def leave_aside(self, column: str) -> None:
        """Say that a column was looked at for nothing."""
        self.read.discard(self._names.get(column.lower(), ""))

    def _add_columns(self, time_zone: str | None, tally: Tally) -> None:
        super()._add_columns(time_zone, tally)
        told: _Told = {}
        for tres, gres in _TEXTS.values():
            for column, parse, form in (
                (tres, parse_tres, TRES_FORM),
                (gres, parse_gres, GRES_FORM),
            ):
                if (name := self._name(column)) is not None:
                    told[column] = told_by(self.frame[name], parse)
                    broken = pl.lit(told[column]["broken"]) & ~pl.col(rules.JOB_STEP)
                    self._refuse(broken, name, form)
        self._machines(told)
        for side in _TEXTS:
            self._gpus(side, told)
            self._gib(side, told)
        self._settle_gpus(told)
        for name in ("kinds", "types"):
            lists = [pl.lit(found[name]) for found in told.values()]
            none = pl.lit([], pl.List(pl.String))
            self._add(name, pl.concat_list(lists).list.unique() if lists else none)

    def _machines(self, told: _Told) -> None:
        column = self._name(*SACCT["machines"])
        choices = [number(pl.col(column))] if column else []
        choices += [pl.lit(told[tres]["node"]) for tres, _ in _TEXTS.values() if tres in told]
        above = [pl.when(choice > 0).then(choice) for choice in choices]
        self._add("machines", pl.coalesce(*above, pl.lit(None, pl.Float64)))

    def _gpus(self, side: str, told: _Told) -> None:
        """Add the gpus of each job: by TRES, or by GRES where TRES has none."""
        tres, gres = _TEXTS[side]
        own = pl.lit(told[tres]["gpu"]) if tres in told else pl.lit(None, pl.Float64)
        gpus, untold = own, pl.lit(value=False)
        if gres in told:
            each, of = pl.lit(told[gres]["gpu"]), pl.lit(told[gres]["gpu_of"])
            times = self._times(of, told[gres]["gpu_of"])
            counts = ~(own > 0).fill_null(value=False) & (each > 0).fill_null(value=False)
            gpus = pl.when(counts).then(each * times.fill_null(1.0)).otherwise(own.fill_null(each))
            untold = counts & times.is_null()
        self._add(f"{side}_gpus", gpus)
        self._add(f"{side}_untold", untold)

    def _times(self, of: pl.Expr, every: pl.Series) -> pl.Expr:
        """Return how many machines, tasks, … a job had; null where the table does not say."""
        tasks = self._name("NTasks") if (every == "task").any() else None
        count = number(pl.col(tasks)) if tasks else pl.lit(None, pl.Float64)
        return (
            pl.when(of == "job")
            .then(1.0)
            .when(of == "node")
            .then("machines")
            .when((of == "task") & (count > 0))
            .then(count)
        )

    def _settle_gpus(self, told: _Told) -> None:
        """Let the gpus of ReqGRES count where no TRES names gpus: Slurm may not track them."""
        tres, gres = _TEXTS["requested"]
        untracked = pl.lit(value=False)
        if gres in told:
            untracked = (pl.col("allocated_gpus") == 0) & (pl.lit(told[gres]["gpu"]) > 0)
            if tres in told:
                untracked &= ~(pl.lit(told[tres]["gpu"]) > 0).fill_null(value=False)
        allocated = pl.when(~untracked.fill_null(value=False)).then("allocated_gpus")
        self._add("allocated_gpus", allocated)
        first = pl.col("allocated_gpus").is_not_null()
        by_side = pl.when(first).then("allocated_untold").otherwise("requested_untold")
        self._add("gpus_untold", by_side.fill_null(value=False))

    def _gib(self, side: str, told: _Told) -> None:
        tres, _ = _TEXTS[side]
        choices = [pl.lit(None, pl.Float64)]
        if tres in told:
            choices.insert(0, self._of_job(pl.lit(told[tres]["mem"]), pl.lit(told[tres]["per"])))
        if side == "requested" and (column := self._name("ReqMem")) is not None:
            choices.insert(0, self._of_job(*amount_gib(pl.col(column))))
        self._add(f"{side}_gib", pl.coalesce(choices))

    def _of_job(self, amount: pl.Expr, per: pl.Expr) -> pl.Expr:
        """Return the memory of a job, given as that of each processor, each machine, or its own."""
        processors = pl.coalesce(
            pl.when(pl.col(name) > 0).then(name) for name in ("allocated", "requested")
        )
        return (
            pl.when(per == "c")
            .then(amount * processors.fill_null(1.0))
            .when(per == "n")
            .then(amount * pl.col("machines").fill_null(1.0))
            .otherwise(amount)
        )


class OtherResources:
    """Names what the resources of jobs hold that is not asked for, gathered block by block."""

    def __init__(self) -> None:
        self._types: dict[str, list[int]] = {}

    def add(self, jobs: pl.DataFrame, tally: Tally, *, gpus: bool) -> None:
        """Count the rows of some jobs, which are asked for their gpus or not, in a tally."""
        if not gpus:
            has = pl.max_horizontal("allocated_gpus", "requested_gpus") > 0
            tally.note(rules.GPUS_UNUSED, jobs.filter(has)[LINE].to_numpy())
        else:
            tally.note(rules.GPUS_UNTOLD, jobs.filter("gpus_untold")[LINE].to_numpy())
        for kind, lines in _lines_by(jobs, "kinds").items():
            label = f"{kind}: {NO_REQUEST if kind in _NO_REQUESTS else UNREAD}"
            tally.note(label, pl.Series(lines).to_numpy())
        for kind, lines in _lines_by(jobs, "types").items() if gpus else ():
            self._types.setdefault(kind, []).extend(lines)

    def settle(self, tally: Tally) -> None:
        """Name the types of gpus if there are several."""
        for kind, lines in sorted(self._types.items()) if len(self._types) > 1 else ():
            tally.note(f"gpu of type {kind}: {ANY_GPU}", pl.Series(lines).to_numpy())


def _lines_by(jobs: pl.DataFrame, column: str) -> dict[str, list[int]]:
    """Return what the lists of a column hold → the lines that have it."""
    rows = jobs.select(LINE, column).explode(column).drop_nulls(column).sort(column, LINE)
    found = rows.group_by(column, maintain_order=True).agg(LINE)
    return dict(found.iter_rows())


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
            resources: resources of the machines.
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
        for resource, key in (("mem", "memory"), ("gpu", "gpus")):
            columns = SACCT[resource]
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


def units_of_jobs(processors: Floats, gpus: Floats, machines: Floats, whole: Bools) -> Ints:
    """Return (J,) into how many equal units each job is split.

    Args:
        processors: (J,) of each job, whole, at least 1.
        gpus: (J,) of each job, whole; 0: none.
        machines: (J,) that each job ran on; below 1: unknown.
        whole: (J,) True for jobs that take all memory of their machines.

    A job without gpus is split into processors, or, if it takes whole machines, into those.
    """
    units = processors.astype(np.int64)
    special = np.flatnonzero((gpus > 0) | whole)
    rows = np.column_stack([column[special] for column in (processors, gpus, machines, whole)])
    kinds, kind = np.unique(rows.astype(np.int64), axis=0, return_inverse=True)
    counts = [_units(*row) for row in kinds.tolist()]
    units[special] = np.array(counts, np.int64)[kind.reshape(-1)]
    return units


def _units(processors: int, gpus: int, machines: int, whole: int) -> int:
    """Return the number of units of one job.

    A unit is what one machine had, or less: the fewest units that are at least as many as machines
    and into which processors and gpus split evenly. Where none do, and where units take whole
    machines, each machine is a unit, so that they fit where the job ran. Without a number of
    machines: the smallest units that split evenly.
    """
    if machines < 1 and not whole:
        return gcd(processors, gpus)
    even = [] if whole else [n for n in _divisors(gcd(processors, gpus)) if n >= machines]
    return even[0] if even else min(max(machines, 1), processors)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})

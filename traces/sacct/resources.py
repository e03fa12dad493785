"""What the jobs of a sacct table have and asked for: machines, gpus, memory."""

from __future__ import annotations

from typing import Final

import polars as pl

from simkit.traces import rules
from simkit.traces.rules import Tally
from simkit.traces.sacct.columns import SacctRows
from simkit.traces.sacct.table import LINE, MACHINES, amount_gib, number
from simkit.traces.sacct.tres import GRES_FORM, TRES_FORM, parse_gres, parse_tres, told_by

_TEXTS: Final = {"allocated": ("AllocTRES", "AllocGRES"), "requested": ("ReqTRES", "ReqGRES")}
"""Which amounts → the columns that tell them: of a job (TRES), and of each machine (GRES)."""
OF_MEMORY: Final = ("ReqMem", "AllocTRES", "ReqTRES")
OF_GPUS: Final = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")
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
        column = self._name(*MACHINES)
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

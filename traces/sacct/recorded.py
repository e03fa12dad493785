"""When and on what the jobs of a sacct table ran, as Slurm recorded it."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

import numpy as np
import polars as pl

from simkit.traces.rules import Tally
from simkit.traces.sacct.node_list import NodeLists
from simkit.traces.sacct.resources import ResourceRows
from simkit.workload import Workload
from simkit.workload.recorded import GPU, Recorded

_KEPT: Final = (
    "start_s", "end_s", "run", "requested_time", "machines",
    "allocated_gpus", "requested_gpus", "gpus_untold", "allocated_gib",
)  # fmt: skip


class RecordedRows(ResourceRows):
    """Rows with ``node_list``, the text that names the machines of a job; null if none does."""

    def _add_columns(self, time_zone: str | None, tally: Tally) -> None:
        super()._add_columns(time_zone, tally)
        column = self._name("NodeList")
        self._add("node_list", pl.col(column) if column else pl.lit(None, pl.String))


class RecordedJobs:
    """Collects times, machines, gpus and memory of the rows that became jobs, block by block."""

    def __init__(self, first: Literal["allocated", "requested"]) -> None:
        """Begin a table; of its two numbers of gpus the `first` counts, the other if missing."""
        self._gpus = [f"{side}_gpus" for side in sorted({"allocated", "requested"} - {first})]
        self._gpus.insert(0, f"{first}_gpus")
        self._jobs: list[pl.DataFrame] = []
        self._lists = NodeLists()

    def restart(self) -> Self:
        """Forget all blocks, as the table is read again."""
        self._jobs.clear()
        self._lists = NodeLists()
        return self

    def add(self, rows: pl.DataFrame, kept: pl.DataFrame) -> None:
        """Add a block: all its rows, and those that became jobs."""
        self._jobs.append(kept.select(_KEPT))
        self._lists.add(kept["node_list"])

    def recorded(self, workload: Workload, order: Any) -> Recorded:
        """Return the columns for the jobs of a workload; `order` puts them into its order.

        A job without a start ran until its end, and the other way round. Gpus are told of if any
        job had one, memory if Slurm says how much any job was given: ReqMem is a request.
        """
        start = pl.coalesce("start_s", pl.col("end_s") - pl.col("run"))
        jobs = pl.concat(self._jobs).select(
            start.alias("start"),
            pl.max_horizontal("end_s", start + pl.col("run")).alias("end"),
            pl.when(pl.col("requested_time") > 0).then("requested_time").alias("limit"),
            pl.when(pl.col("machines") > 0).then("machines").alias("machines"),
            pl.when(~pl.col("gpus_untold")).then(pl.coalesce(self._gpus)).alias(GPU),
            pl.when(pl.col("allocated_gib") > 0).then("allocated_gib").alias("mem"),
        )
        column = {name: jobs[name].fill_null(np.nan).to_numpy()[order] for name in jobs.columns}
        held = {"processors": workload.job_request()[:, 0]}
        held |= {name: column[name] for name in ("mem", GPU) if (column[name] > 0).any()}
        nodes = self._lists.nodes(order)
        machines = column["machines"]
        if nodes is not None:
            named = np.diff(nodes.first)
            machines = np.where(named > 0, named, machines)
        return Recorded(
            column["start"] - workload.epoch_s,
            column["end"] - workload.epoch_s,
            held,
            column["limit"],
            machines,
            nodes,
        )

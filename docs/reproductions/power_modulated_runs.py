"""Runs of the power-modulated comparison: one cell of its design, measured."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import polars as pl
import power_modulated_setting as setting

from simkit.analysis.value_bound import BoundJobs, Capacity, value_bound
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.learners.studies.trainings import made
from simkit.policy import Policy
from simkit.policy.estimates import Actual
from simkit.power.site import Site
from simkit.results.job_metrics import value_metrics
from simkit.results.metric import RunWindow, run_window
from simkit.results.run_folder import Run
from simkit.results.run_writer import MemoryWriter
from simkit.results.timeline import timeline_integrals
from simkit.rules import AdmissionRule, Rules
from simkit.workload import Workload

RULES = {
    "5 + 144": Rules(admission=AdmissionRule(slots=setting.READY, backlog=setting.WAITING)),
    "1 + 144": Rules(admission=AdmissionRule(slots=1, backlog=setting.WAITING)),
    "open": Rules(),
}
"""The pools of table B.1: five ready, 144 wait, others are rejected; one ready, which leaves an
order nothing to choose; or every job is ready."""
MEASURES = (
    "jobs", "job_value", "value_ratio", "value_in_time", "completion", "violations", "delay_h",
    "utilisation_processors", "utilisation_gpu", "held_while_waiting", "available", "rejected",
    "unfinished",
)  # fmt: skip
"""What is measured of a run, in the order of the columns."""

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Cell:
    """What all policies are compared on: the same jobs and the same power."""

    seed: int
    log: str
    power: str
    battery: bool
    rate: int
    """Offered load in % of the whole pool."""
    jobs: int | None = 10_000
    """None: the whole log."""
    pools: str = "5 + 144"
    units: int = 10

    def facts(self) -> Row:
        """Return the columns that name it."""
        window = "whole" if self.jobs is None else str(self.jobs)
        battery = "yes" if self.battery else "no"
        told = {**asdict(self), "battery": battery, "window": window}
        return {name: told[name] for name in CELL}


CELL = ("seed", "log", "power", "battery", "rate", "window", "pools", "units")
"""Columns that name a cell."""


def rows_of(cell: Cell, policies: list[str], folder: Path) -> pl.DataFrame:
    """Run policies on a cell and return a row of results each; the work of one process.

    A cell of the design with seed 0 has another row, of what no policy exceeds; not with a battery,
    since with one the capacity depends on the policy.

    Args:
        cell: of the design.
        policies: names in `power_modulated_setting.ALL_POLICIES`.
        folder: of the data.
    """
    jobs = setting.workload(cell.log, cell.rate / 100, cell.seed, cell.jobs, cell.units, folder)
    site = setting.site(cell.power, cell.battery, jobs, cell.seed, folder)
    rows, told = [], {**cell.facts(), "commit": made()["commit"]}
    for name in policies:
        begin = process_time()
        run = replay(jobs, site, setting.ALL_POLICIES[name](), cell)
        seconds = round(process_time() - begin, 3)
        rows.append({**told, "policy": name, **measures(run, cell), "seconds": seconds})
    usual = policies == [*setting.POLICIES] and cell.jobs is not None and cell.seed == 0
    if usual and not cell.battery:
        rows.append({**told, "policy": "bound", **upper_bound(run, jobs)})
    return pl.DataFrame(rows, infer_schema_length=None)


def replay(jobs: Workload, site: Site | None, policy: Policy, cell: Cell) -> Run:
    """Run a policy to the end of all jobs."""
    cluster, units = setting.pool(cell.units), cell.units
    machines = [{"capacity": dict.fromkeys(cluster.resources, units)}]
    shown = {"resources": list(cluster.resources), "machines": machines}
    store = MemoryWriter({"cluster": shown}, digested=False)
    Simulation(
        jobs, cluster, Recorder(jobs, cluster.resources, store), rules=RULES[cell.pools],
        predictor=Actual(), seed=cell.seed, site=site,
    ).run(policy, cell.seed)  # fmt: skip
    store.close_tables()
    return store.results()


def measures(run: Run, cell: Cell) -> Row:
    """Return the measures of one run; the formulas are those of `simkit.results.all_metrics`.

    Value and completion count what has ended by the last submission, when the dissertation's
    simulation ends too; so does utilisation, of the capacity that the power carried.
    """
    jobs, line = run.scan("jobs"), run.scan("timeline")
    window = run_window(jobs, line)
    assert window is not None
    worth = {m.name: m.values for m in value_metrics(jobs, run.scan("allocations"), line, window)}
    found: Row = {
        "jobs": len(run.jobs),
        "job_value": worth["job_value"]["by_last_submit"],
        "value_ratio": worth["value_ratio"]["by_last_submit"],
        "value_in_time": worth["value_ratio"]["in_time"],
        "completion": worth["completion_ratio"]["by_last_submit"],
        "violations": worth["qos_violations"]["share"],
        "delay_h": worth["delay_cost"]["value"],
    }
    found |= _of_resources(line, window, cell.units)
    status = run.jobs["status"]
    found["rejected"] = float((status == "rejected").mean())  # type: ignore[arg-type]
    found["unfinished"] = int((~status.is_in(["finished", "rejected"])).sum())
    return {name: _short(value) for name, value in found.items()}


def _of_resources(line: pl.LazyFrame, window: RunWindow, units: int) -> Row:
    """Return utilisation and the share of the pool that had power, while jobs arrive."""
    span = (window.first_kept_s, window.last_kept_s)
    capacity = {"processors": float(units), "gpu": float(units)}
    (whole,) = timeline_integrals(line, [span], capacity)
    found: Row = {}
    for name in capacity:
        there = whole.area[f"available_{name}"]
        found[f"utilisation_{name}"] = whole.area[f"allocated_{name}"] / there
    found["available"] = whole.area["capacity_processors"] / units / (span[1] - span[0])
    found["held_while_waiting"] = held_while_waiting(line, span)
    return found


def held_while_waiting(line: pl.LazyFrame, span: tuple[float, float]) -> float | None:
    """Return allocated / available processor-seconds, of the time in which a job waits.

    What is missing to 1 are processors that no waiting job can use: the free ones are too few,
    the GPUs beside them are taken, or power is about to fall.
    """
    until = pl.col("time_s").shift(-1).fill_null(span[1])
    seconds = until.clip(*span) - pl.col("time_s").clip(*span)
    held = pl.col("allocated_processors")
    area = line.with_columns(s=seconds).filter(pl.col("waiting") + pl.col("backlog") > 0)
    area = area.select((held * pl.col("s")).sum(), there=(
        pl.max_horizontal("capacity_processors", held) * pl.col("s")).sum())  # fmt: skip
    part, whole = area.collect().row(0)
    return part / whole if whole else None


def upper_bound(run: Run, jobs: Workload) -> Row:
    """Return what no policy exceeds in value by the last submission, with a run's capacity."""
    first, last = float(jobs.submit_time_s[0]), float(jobs.submit_time_s[-1])
    begin = process_time()
    found = value_bound(
        BoundJobs.of_workload(jobs), Capacity.of_run(run), window=(first, last), step_s=6 * 3600.0
    )
    ratio = found.value / float(jobs.value.sum())
    return {"jobs": len(jobs), "job_value": _short(found.value), "value_ratio": _short(ratio),
            "seconds": round(process_time() - begin, 3)}  # fmt: skip


def _short(value: Any) -> Any:
    """Return a number with as many digits as tables need, and None for one that is not."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None

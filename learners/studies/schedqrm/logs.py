"""Logs under predicted run times: is a learned prediction better than the user's last two?

The last part of a log is replayed under EASY many times, each time with slightly shifted submit
times, because one schedule of a log is a single sample: a job submitted a minute later can change
the waits of weeks. Predictions are corrected when a job outlives them, and the shortest job is
backfilled first, as in D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using
system-generated predictions rather than user runtime estimates" (2007). Their prediction, the mean
of the user's last two run times, is the baseline for all others.

Weeks of submission are the items: jobs that wait together wait alike. Each job is averaged over the
replays, which are not further observations: they cover the same weeks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.analysis.intervals import WEEK_S
from simkit.arrays import stream
from simkit.experiment import prepare, replay
from simkit.learners import run_times
from simkit.learners.studies.results import Metric, long
from simkit.learners.studies.trainings import Part, data_file, digest_of, kept_tables
from simkit.results.job_metrics import JOB_METRICS
from simkit.scenario import Scenario
from simkit.traces.swf import read_swf
from simkit.training import Workplace
from simkit.workload import Workload

JITTER_S: Final = 300.0
"""Submit times are shifted by at most this."""
TAU_S: Final = 10.0
"""Floor of the run time in bounded slowdowns."""
(_SLOWDOWN,) = (metric for metric in JOB_METRICS if metric.name == "bounded_slowdown")
LOGS: Final[Mapping[str, str]] = {
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz", "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
}  # fmt: skip
"""Log of the Parallel Workloads Archive → its file."""
MEANS: Final = "user-mean"
"""The baseline for the other candidates."""
CANDIDATES: Final[Mapping[str, Mapping[str, Any]]] = {
    "requested": {"type": "requested"},
    MEANS: {"type": "user-mean"},
    "user-mean, queue": {"type": "user-mean"},
    "learned trees": {"type": "learned", "model": "trees"},
    "learned classes": {"type": "learned", "model": "classes"},
    "actual": {"type": "actual"},
}
"""What predicts run times: section `estimates` of a scenario. All but ``…, queue`` backfill the
shortest job first."""
MEASURES: Final = ("bounded_slowdown", "log_slowdown", "wait_time_s", "error_s", "outlived")
"""Sums over the jobs of a week, as all of a mean; ``error_s``: how far the prediction was off;
``outlived``: jobs that ran longer than predicted."""
METRICS: Final = {f"mean {name}": Metric(name, "jobs") for name in MEASURES}


@dataclass(frozen=True)
class LogSetting:
    """How much to replay."""

    replays: int
    """Replays of each log with each candidate."""
    candidates: tuple[str, ...]
    measured: float
    """Share of a log's jobs that count: its last ones."""
    warm_up: float
    """Share of the jobs before them that are replayed but do not count."""
    every: int = 1000
    """Finished jobs between two fits of a learned model."""
    memory: int = 10_000
    """Finished jobs that a model is fitted to."""
    logs: tuple[str, ...] = tuple(LOGS)


FULL: Final = LogSetting(10, tuple(CANDIDATES), 0.2, 0.05)
QUICK: Final = LogSetting(
    1, tuple(name for name in CANDIDATES if name != "learned classes"), 0.02, 0.01, every=250
)


class Replay(NamedTuple):
    """One pass over the last part of a log: the unit of work."""

    log: str
    candidate: str
    number: int
    """From 0; decides how submit times are shifted, equally for all candidates."""

    def sections(self, setting: LogSetting) -> dict[str, Any]:
        """Return the sections of a scenario that decide the schedule."""
        estimates = {**CANDIDATES[self.candidate], "correction": "tsafrir"}
        if "model" in estimates:
            estimates |= {"every": setting.every, "memory": setting.memory}
        order = "queue" if self.candidate.endswith("queue") else "sjf"
        return {
            "seed": self.number,
            "policy": {"order": "fcfs", "backfill": {"type": "easy", "order": order}},
            "estimates": estimates,
        }

    def part(self, setting: LogSetting) -> Part:
        """Return its result, to be kept; it does not depend on other replays or candidates."""
        key = [self.log, self.sections(setting), setting.measured, setting.warm_up, JITTER_S, TAU_S]
        key += [_sources()] if "model" in CANDIDATES[self.candidate] else []
        name = f"{self.log}, {self.candidate}, {self.number}"
        return Part(name, key, replayed, (self, setting))


@cache
def _sources() -> str:
    """Return a hash of the code of learned estimates: when it changes, results are out of date."""
    folder = Path(run_times.__file__).parent
    names = ("learned_run_times", "burst_classifier", "boosted_trees")
    return digest_of([(folder / f"{name}.py").read_text("utf-8") for name in names])


def path_of(log: str) -> Path:
    """Return where a log is; raises RunError if it is missing."""
    return data_file("schedqrm", f"swf/{LOGS[log]}")


@cache
def _jobs_in(path: Path) -> Workload:
    """Return a log's jobs; requests stay raw, because raised ones reveal run times."""
    return read_swf(path, requested_time="raw").workload


def jittered(jobs: Workload, number: int) -> Workload:
    """Return the jobs of a replay, submitted up to `JITTER_S` later, in their new order."""
    rng = stream(number, "reproduce.schedqrm.jitter")
    submit = jobs.submit_time_s + rng.uniform(0.0, JITTER_S, len(jobs))
    order = np.argsort(submit, kind="stable")
    return jobs.take(order, submit_time_s=submit[order])


def replayed(one: Replay, setting: LogSetting) -> pl.DataFrame:
    """Return a row for each job that counts, in the log's order; all of them finish.

    Columns: ``submit_time_s`` as in the log, ``run_time_s``, ``estimate_s`` at submission,
    ``wait_time_s``, all in s, and ``bounded_slowdown``.
    """
    path = path_of(one.log)
    jobs = _jobs_in(path)
    first = round(len(jobs) * (1.0 - setting.measured - setting.warm_up))
    counted = round(len(jobs) * (1.0 - setting.measured))
    scenario = Scenario.model_validate(
        {"workload": {"type": "swf", "path": str(path)}, **one.sections(setting)}
    )
    moved = jittered(jobs.take(np.arange(first, len(jobs))), one.number)
    found = replay(prepare(scenario, workload=moved), ("jobs",)).jobs
    by_log = {"job_id": jobs.job_id[counted:], "submit_time_s": jobs.submit_time_s[counted:]}
    measures = found.select(
        "job_id", "run_time_s", "estimate_s", "wait_time_s",
        _SLOWDOWN.value(TAU_S, "processors").alias(_SLOWDOWN.name),
    )  # fmt: skip
    table = pl.DataFrame(by_log).join(measures, "job_id", "left", maintain_order="left")
    assert table.height == len(jobs) - counted  # job ids are distinct
    assert not table.null_count().sum_horizontal().item()  # every job has started and ended
    return table.drop("job_id")


def judge_logs(place: Workplace, setting: LogSetting) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Run the replays whose results are not kept yet; return rows of the long table, and facts."""
    every = list(starmap(Replay, product(setting.logs, setting.candidates, range(setting.replays))))
    tables = kept_tables(place, [one.part(setting) for one in every])
    rows = rows_of(pl.concat(
        table.with_columns(case=pl.lit(one.log), arm=pl.lit(one.candidate), replay=one.number)
        for one, table in zip(every, tables, strict=True)
    ))  # fmt: skip
    facts = dict[str, Any]()
    for log in setting.logs:
        weeks = rows.filter(arm=MEANS, case=log)
        jobs, slowdown = (
            weeks.filter(metric=name)["value"] for name in ("jobs", "bounded_slowdown")
        )
        facts |= {f"jobs of {log}": round(jobs.sum())}
        facts |= {f"heaviest week of {log}": (slowdown / slowdown.sum()).max()}
    return rows, facts


def rows_of(replays: pl.DataFrame) -> pl.DataFrame:
    """Return what follows from replays of logs, as a long table.

    Weeks are the items; in a case ``LOG, replays``, these; in ``LOG, all jobs`` there is one.

    Args:
        replays: tables of `replayed` with columns ``case``, the log, ``arm`` and ``replay``.
    """
    estimate, run, submit = (pl.col(f"{one}_s") for one in ("estimate", "run_time", "submit_time"))
    jobs = replays.with_columns(
        week=((submit - submit.min().over("case")) // WEEK_S).cast(pl.Int64), jobs=1.0,
        log_slowdown=pl.col("bounded_slowdown").log(), error_s=(estimate - run).abs(),
        outlived=(run > estimate).cast(pl.Float64), ratio=estimate / run,
    )  # fmt: skip
    sums, own = (*MEASURES, "jobs"), ["case", "arm"]
    count = pl.col("replay").n_unique().over(own)
    weeks = jobs.with_columns(pl.col(sums) / count).group_by(*own, "week").agg(pl.col(sums).sum())
    single = jobs.group_by(*own, "replay").agg(
        pl.col("bounded_slowdown").mean().alias("slowdown of a replay")
    )
    ratio = jobs.group_by(own).agg(pl.col("ratio").median().alias("median ratio"))
    return pl.concat([
        long(weeks.sort(*own, "week"), sums, item=pl.col("week")),
        long(single.sort(*own, "replay"), ("slowdown of a replay",), item=pl.col("replay"),
             case=pl.col("case") + ", replays"),
        long(ratio.sort(own), ("median ratio",), item=0, case=pl.col("case") + ", all jobs"),
    ])  # fmt: skip

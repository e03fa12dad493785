"""Compares two runs of one workload job by job: paired differences with honest intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.bootstrap import Floats, Interval, seed_interval, weekly_interval
from simkit.errors import RunError
from simkit.job_metrics import job_metric
from simkit.metrics import counted_resource
from simkit.pairing import Pair, as_runs, pair_runs
from simkit.run_folder import Run
from simkit.words import counted

if TYPE_CHECKING:
    import polars as pl

DEFAULT_METRICS = ("wait_time_s", "turnaround_time_s", "bounded_slowdown")

Source = Run | str | PathLike[str]


@dataclass(frozen=True)
class Difference:
    """How one metric differs between paired jobs: B - A, so below 0 means that B is better."""

    metric: str
    unit: str
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    """Mean of B - A over the pairs, or over the seeds' means."""
    interval: Interval
    better: float | None
    """Share of pairs where B is lower than A, then equal to it, then higher."""
    equal: float | None
    worse: float | None
    n: int
    """Jobs that have a value in both runs, summed over the seeds."""
    without_value: int
    """Jobs of both runs that are left out, as one run or both give them no value."""


@dataclass(frozen=True)
class Comparison:
    """Two runs, or two sets of runs with the same seeds, compared."""

    a: str
    b: str
    seeds: tuple[int, ...]
    differences: tuple[Difference, ...]
    only_in_a: tuple[Any, ...]
    """Ids of the jobs that run B lacks."""
    only_in_b: tuple[Any, ...]
    unfinished_in_a: tuple[Any, ...]
    """Ids of the jobs of both runs that did not end in A (waiting, running or rejected)."""
    unfinished_in_b: tuple[Any, ...]

    def frame(self) -> pl.DataFrame:
        """Return one row a metric, the interval as columns low, high, level, method, blocks."""
        import polars as pl

        rows = []
        for difference in self.differences:
            row = asdict(difference)
            rows.append({**row, **row.pop("interval")})
        return pl.DataFrame([{k: v for k, v in row.items() if k != "interval"} for row in rows])

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return asdict(self)

    def notes(self) -> list[str]:
        """Say which jobs are left out, a line each; nothing is dropped silently."""
        groups = {
            f"only in A ({self.a})": self.only_in_a,
            f"only in B ({self.b})": self.only_in_b,
            f"not ended in A ({self.a})": self.unfinished_in_a,
            f"not ended in B ({self.b})": self.unfinished_in_b,
        }
        return [
            f"{counted(len(ids), 'job')} {where}: {_first(ids)}"
            for where, ids in groups.items()
            if ids
        ]


def compare_runs(
    a: Source | Sequence[Source],
    b: Source | Sequence[Source],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tau: float = 10.0,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare two runs, or two sets of runs paired by seed, job by job.

    With one run a side the interval is a bootstrap over weeks of submission; with several it is
    a t-interval over the seeds' mean differences.

    Args:
        a: a run, its folder, or several of them with different seeds.
        b: likewise, with the same seeds.
        metrics: names of job metrics (`simkit.job_metrics.JOB_METRICS`).
        tau: floor of the run time in bounded slowdowns, in s.
        level: of confidence, between 0 and 1.
        resamples: resamples of the bootstrap.
        seed: of the bootstrap.

    Raises RunError if the workloads differ, the seeds do not pair, or an argument is out of range.
    """
    if not (0 < level < 1 and resamples >= 1 and tau > 0):
        raise RunError(
            f"compare: level {level!r}, resamples {resamples!r}, tau {tau!r}; the level lies "
            "between 0 and 1, there is at least 1 resample, and tau is above 0 s"
        )
    chosen = [job_metric(name) for name in metrics]
    runs_a, runs_b = as_runs(a), as_runs(b)
    pairs = pair_runs(runs_a, runs_b)
    differences = []
    for metric in chosen:
        columns = [
            pair.values(metric.value(tau, counted_resource(pair.resources))) for pair in pairs
        ]
        means = np.array([float((y - x).mean()) for x, y, _ in columns if len(x)])
        if len(pairs) > 1:
            interval = seed_interval(means, level=level)
        else:
            first, second, submit = columns[0]
            interval = weekly_interval(
                second - first, submit, level=level, resamples=resamples, seed=seed
            )
        lost = sum(pair.size - len(x) for pair, (x, _, _) in zip(pairs, columns, strict=True))
        differences.append(_difference(metric.name, metric.unit, columns, means, interval, lost))
    return Comparison(
        a=_names(runs_a),
        b=_names(runs_b),
        seeds=tuple(pair.seed for pair in pairs),
        differences=tuple(differences),
        **_left_out(pairs),
    )


def _difference(
    name: str,
    unit: str,
    columns: list[tuple[Floats, Floats, Floats]],
    means: Floats,
    interval: Interval,
    lost: int,
) -> Difference:
    first = np.concatenate([x for x, _, _ in columns])
    second = np.concatenate([y for _, y, _ in columns])
    if not len(first):
        nothing = dict.fromkeys(
            ("mean_a", "mean_b", "difference", "better", "equal", "worse"), None
        )
        return Difference(name, unit, **nothing, interval=interval, n=0, without_value=lost)
    by_seed = [(x.mean(), y.mean()) for x, y, _ in columns if len(x)]
    return Difference(
        metric=name,
        unit=unit,
        mean_a=float(np.mean([x for x, _ in by_seed])),
        mean_b=float(np.mean([y for _, y in by_seed])),
        difference=float(means.mean()),
        interval=interval,
        better=float((second < first).mean()),
        equal=float((second == first).mean()),
        worse=float((second > first).mean()),
        n=len(first),
        without_value=lost,
    )


def _left_out(pairs: list[Pair]) -> dict[str, tuple[Any, ...]]:
    names = ("only_in_a", "only_in_b", "unfinished_in_a", "unfinished_in_b")
    return {name: tuple(i for pair in pairs for i in getattr(pair, name)) for name in names}


def _names(runs: Sequence[Run]) -> str:
    """Return the runs' scenarios and policies, each once."""
    return ", ".join(dict.fromkeys(f"{run.name}, {_short(run.policy)}" for run in runs))


def _short(policy: str) -> str:
    """Return a policy without the folder of its file."""
    return policy.rsplit("/", 1)[-1]


def _first(ids: tuple[Any, ...], most: int = 10) -> str:
    shown = ", ".join(str(i) for i in ids[:most])
    return f"{shown}, …" if len(ids) > most else shown

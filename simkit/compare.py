"""Compares two runs of one workload, by jobs or as wholes: differences with honest intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from simkit.difference import Bootstrap, Difference, of_jobs, of_runs
from simkit.errors import RunError
from simkit.paired_metrics import RunMetric, chosen_metrics, default_metrics
from simkit.pairing import Pair, as_runs, pair_runs
from simkit.run_folder import Run
from simkit.words import counted

if TYPE_CHECKING:
    import polars as pl

Source = Run | str | PathLike[str]


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
    metrics: Sequence[str] | None = None,
    tau: float = 10.0,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare two runs, or two sets of runs paired by seed, job by job or as wholes.

    With one run a side the interval of a metric of jobs is a bootstrap over weeks of submission,
    and one of whole runs has none; with several it is a t-interval over the seeds' differences.

    Args:
        a: a run, its folder, or several of them with different seeds.
        b: likewise, with the same seeds.
        metrics: names of metrics of single jobs (`simkit.paired_metrics.PAIRED_METRICS`), or of
            numbers of whole runs (`simkit.metric_numbers`), such as ``carbon_kg`` or
            ``grid_kwh.import``; None: waits, slowdowns, and worth and energy where all runs tell.
        tau: floor of the run time in bounded slowdowns, in s.
        level: of confidence, between 0 and 1.
        resamples: resamples of the bootstrap.
        seed: of the bootstrap.

    Raises RunError if the workloads differ, the seeds do not pair, not all runs have a metric, or
    an argument is out of range.
    """
    if not (0 < level < 1 and resamples >= 1 and tau > 0):
        raise RunError(
            f"compare: level {level!r}, resamples {resamples!r}, tau {tau!r}; the level lies "
            "between 0 and 1, there is at least 1 resample, and tau is above 0 s"
        )
    runs_a, runs_b = as_runs(a), as_runs(b)
    runs = (*runs_a, *runs_b)
    chosen = chosen_metrics(default_metrics(runs) if metrics is None else metrics, runs)
    needed = {name for m in chosen if not isinstance(m, RunMetric) for name in m.needs}
    pairs = pair_runs(runs_a, runs_b, needed)
    bootstrap = Bootstrap(level, resamples, seed)
    differences = [
        of_runs(metric, pairs, level)
        if isinstance(metric, RunMetric)
        else of_jobs(metric, pairs, tau, bootstrap)
        for metric in chosen
    ]
    return Comparison(
        a=_names(runs_a),
        b=_names(runs_b),
        seeds=tuple(pair.seed for pair in pairs),
        differences=tuple(differences),
        **_left_out(pairs),
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

"""Logs under predicted run times: is a learned prediction better than the user's last two?

The last part of a log is replayed under EASY many times, each time with slightly shifted submit
times, because one schedule of a log is a single sample: a job submitted a minute later can change
the waits of weeks. Predictions are corrected when a job outlives them, and the shortest job is
backfilled first, as in D. Tsafrir, Y. Etsion and D. G. Feitelson, "Backfilling using
system-generated predictions rather than user runtime estimates" (2007). Their prediction, the mean
of the user's last two run times, is the baseline for all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from simkit.analysis.intervals import Interval, weekly_interval, weeks_of
from simkit.arrays import Floats, stream
from simkit.experiment import prepare, replay
from simkit.learners import run_times
from simkit.learners.reproductions.common import (
    data_file,
    digest_of,
    in_parallel,
    keep,
    markdown_table,
)
from simkit.results.job_metrics import JOB_METRICS
from simkit.scenario import Scenario
from simkit.traces.swf import read_swf
from simkit.training import Workplace
from simkit.workload import Workload

JITTER_S: Final = 300.0
"""Submit times are shifted by at most this."""
TAU_S: Final = 10.0
"""Floor of the run time in bounded slowdowns."""


@dataclass(frozen=True)
class Log:
    """A log of the Parallel Workloads Archive."""

    name: str
    file: str

    @property
    def path(self) -> Path:
        """Where the log is; raises RunError if it is missing."""
        return data_file("schedqrm", f"swf/{self.file}")


LOGS: Final = (
    Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz"),
    Log("HPC2N", "HPC2N-2002-2.2-cln.swf.gz"),
)


@dataclass(frozen=True)
class Candidate:
    """What predicts run times, and the order of backfilling."""

    estimates: str
    """`estimates.type` of a scenario."""
    model: str | None = None
    """Model of learned estimates."""
    order: Literal["sjf", "queue"] = "sjf"


MEANS: Final = "user-mean"
"""The baseline for the other candidates."""
CANDIDATES: Final[Mapping[str, Candidate]] = {
    "requested": Candidate("requested"),
    MEANS: Candidate("user-mean"),
    "user-mean, queue": Candidate("user-mean", order="queue"),
    "trees": Candidate("learned", "trees"),
    "classes": Candidate("learned", "classes"),
    "actual": Candidate("actual"),
}


@dataclass(frozen=True)
class LogSetting:
    """How much to replay."""

    logs: tuple[Log, ...]
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


FULL: Final = LogSetting(LOGS, 10, tuple(CANDIDATES), 0.2, 0.05)
QUICK: Final = LogSetting(
    LOGS, 2, tuple(name for name in CANDIDATES if name != "classes"), 0.05, 0.02, every=250
)


# --- replays --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """One pass over the last part of a log: the unit of work."""

    log: Log
    candidate: str
    number: int
    """From 0; decides how submit times are shifted, equally for all candidates."""

    def kept_in(self, folder: Path, setting: LogSetting) -> Path:
        """Return the path of its result, which does not depend on other replays or candidates."""
        key = [asdict(self.log), scenario_keys(self, setting), setting.measured, setting.warm_up]
        if CANDIDATES[self.candidate].model is not None:
            key.append(_sources())
        name = f"{self.log.name}-{self.candidate.replace(', ', '-')}-{self.number}"
        return folder / f"{name}-{digest_of([*key, JITTER_S, TAU_S])}.parquet"


@cache
def _sources() -> str:
    """Return a hash of the code of learned estimates: when it changes, results are out of date."""
    folder = Path(run_times.__file__).parent
    names = ("learned_run_times", "burst_classifier", "boosted_trees")
    return digest_of([(folder / f"{name}.py").read_text("utf-8") for name in names])


def require(setting: LogSetting) -> None:
    """Raise RunError if a log is missing."""
    for log in setting.logs:
        assert log.path


def replays(setting: LogSetting) -> Iterator[Replay]:
    """Yield all replays, ordered so that early ones already compare all candidates."""
    for number in range(setting.replays):
        for log in setting.logs:
            yield from (Replay(log, name, number) for name in setting.candidates)


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


def scenario_keys(one: Replay, setting: LogSetting) -> dict[str, Any]:
    """Return the sections of a scenario that decide the schedule."""
    candidate = CANDIDATES[one.candidate]
    estimates: dict[str, Any] = {"type": candidate.estimates, "correction": "tsafrir"}
    if candidate.model is not None:
        estimates |= {
            "model": candidate.model, "every": setting.every, "memory": setting.memory,
        }  # fmt: skip
    return {
        "seed": one.number,
        "policy": {"order": "fcfs", "backfill": {"type": "easy", "order": candidate.order}},
        "estimates": estimates,
    }


def replayed(one: Replay, setting: LogSetting) -> pl.DataFrame:
    """Return a row for each job that counts, in the log's order; all of them finish.

    Columns: ``submit_time_s`` as in the log, ``run_time_s``, ``estimate_s`` at submission,
    ``wait_time_s``, all in s, and ``bounded_slowdown``.
    """
    jobs = _jobs_in(one.log.path)
    first = round(len(jobs) * (1.0 - setting.measured - setting.warm_up))
    counted = round(len(jobs) * (1.0 - setting.measured))
    scenario = Scenario.model_validate(
        {"workload": {"type": "swf", "path": str(one.log.path)}, **scenario_keys(one, setting)}
    )
    moved = jittered(jobs.take(np.arange(first, len(jobs))), one.number)
    found = replay(prepare(scenario, workload=moved), ("jobs",)).jobs
    (slowdown,) = (metric for metric in JOB_METRICS if metric.name == "bounded_slowdown")
    by_log = {"job_id": jobs.job_id[counted:], "submit_time_s": jobs.submit_time_s[counted:]}
    measures = found.select(
        "job_id", "run_time_s", "estimate_s", "wait_time_s",
        slowdown.value(TAU_S, "processors").alias(slowdown.name),
    )  # fmt: skip
    table = pl.DataFrame(by_log).join(measures, "job_id", "left", maintain_order="left")
    assert table.height == len(jobs) - counted  # job ids are distinct
    assert not table.null_count().sum_horizontal().item()  # every job has started and ended
    return table.drop("job_id")


def replay_missing(place: Workplace, setting: LogSetting) -> None:
    """Run the replays whose results are not kept yet, in as many processes as allowed."""
    folder = place.work / "logs"
    folder.mkdir(exist_ok=True)
    todo = [one for one in replays(setting) if not one.kept_in(folder, setting).exists()]
    for name in in_parallel(place, _replay_and_keep, ((one, folder, setting) for one in todo)):
        place.say(f"replayed {name}")


def _replay_and_keep(one: Replay, folder: Path, setting: LogSetting) -> str:
    """Do a replay and keep its result; return its name."""
    keep(one.kept_in(folder, setting), replayed(one, setting).write_parquet)
    return f"{one.log.name}, {one.candidate}, {one.number}"


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replayed:
    """All replays of a log with a candidate: R replays, J jobs that count."""

    submit_time_s: Floats
    """(J,) as in the log."""
    run_time_s: Floats
    """(J,)"""
    estimate_s: Floats
    """(R, J) what was predicted at submission."""
    wait_time_s: Floats
    """(R, J)"""
    bounded_slowdown: Floats
    """(R, J)"""


LogResults = Mapping[str, Replayed]
"""Candidate → its replays of a log."""


def replay_logs(place: Workplace, setting: LogSetting) -> dict[str, LogResults]:
    """Run missing replays; return log → candidate → its replays."""
    replay_missing(place, setting)
    return {
        log.name: {name: _read(place, setting, log, name) for name in setting.candidates}
        for log in setting.logs
    }


def _read(place: Workplace, setting: LogSetting, log: Log, candidate: str) -> Replayed:
    all_replays = [Replay(log, candidate, number) for number in range(setting.replays)]
    tables = [pl.read_parquet(one.kept_in(place.work / "logs", setting)) for one in all_replays]
    first = tables[0]
    varied = ("estimate_s", "wait_time_s", "bounded_slowdown")
    return Replayed(
        first["submit_time_s"].to_numpy(), first["run_time_s"].to_numpy(),
        *(np.stack([table[name].to_numpy() for table in tables]) for name in varied),
    )  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Mean bounded slowdown of a candidate less that of another, over the same jobs."""

    mean: float
    interval: Interval
    """95 % interval of the mean."""
    single: tuple[float, ...]
    """Mean of each replay."""

    @property
    def verdict(self) -> Literal["below", "above", "open", "unknown"]:
        """Where the interval lies: below 0, above 0, or around it (open); unknown without one."""
        low, high = self.interval.low, self.interval.high
        if low is None or high is None:
            return "unknown"
        if high < 0:
            return "below"
        return "above" if low > 0 else "open"


@dataclass(frozen=True)
class Standing:
    """A candidate on a log: its schedules, and the quality of its predictions."""

    candidate: str
    bounded_slowdown: float
    """Mean over jobs and replays."""
    geometric: float
    """Geometric mean of the same, which single bursts of short jobs do not decide."""
    heaviest_week: float
    """Largest share of a single week in the sum of bounded slowdowns."""
    wait_time_s: float
    """Mean wait."""
    to_means: Difference
    """Difference to the mean of the user's last two run times."""
    to_requested: Difference
    """Difference to requested times."""
    error_s: float
    """Mean absolute error of the predictions."""
    ratio: float
    """Median of prediction / run time."""
    outlived: float
    """Share of jobs that ran longer than predicted."""


def difference(mine: Replayed, other: Replayed) -> Difference:
    """Return how two candidates differ.

    Each job's difference is averaged over the replays, and weeks of submission are resampled.
    Replays are not resampled as further observations: they cover the same weeks, whose variation
    the interval must express. What is left of the replays' own variation is in the weeks' means.
    """
    by_job = mine.bounded_slowdown - other.bounded_slowdown
    interval = weekly_interval(by_job.mean(axis=0), mine.submit_time_s)
    return Difference(float(by_job.mean()), interval, tuple(by_job.mean(axis=1).tolist()))


def standings(results: LogResults) -> list[Standing]:
    """Return how each candidate stands on a log, in the order of `results`."""
    return [
        Standing(
            candidate=name,
            bounded_slowdown=float(one.bounded_slowdown.mean()),
            geometric=float(np.exp(np.log(one.bounded_slowdown).mean())),
            heaviest_week=_heaviest_week(one),
            wait_time_s=float(one.wait_time_s.mean()),
            to_means=difference(one, results[MEANS]),
            to_requested=difference(one, results["requested"]),
            error_s=float(np.abs(one.estimate_s - one.run_time_s).mean()),
            ratio=float(np.median(one.estimate_s / one.run_time_s)),
            outlived=float((one.run_time_s > one.estimate_s).mean()),
        )
        for name, one in results.items()
    ]


def _heaviest_week(one: Replayed) -> float:
    by_week = np.bincount(weeks_of(one.submit_time_s), one.bounded_slowdown.mean(axis=0))
    return float(by_week.max() / by_week.sum())


# --- the section of the page ----------------------------------------------------------------------

_VERDICTS: Final = {
    "below": "wholly below 0, so that it is better",
    "above": "wholly above 0, so that it is worse",
    "open": "which holds 0, so that neither is shown to be better",
    "unknown": "without an interval, as there are too few weeks",
}
_ORDERS: Final = {"sjf": "shortest", "queue": "queue"}
"""Order of backfilling → its name on the page."""


def section(results: Mapping[str, LogResults], setting: LogSetting) -> str:
    """Return the section of the page: schedules, the verdict, and the quality of predictions.

    Args:
        results: log → candidate → its replays.
        setting: the setting of the replays.
    """
    rows = [(log, one) for log, candidates in results.items() for one in standings(candidates)]
    parts = (_method(results, setting), _schedules(rows), _verdict(rows), _predictions(rows))
    return "\n\n".join(["## Replays of logs", *parts])


_Rows = Sequence[tuple[str, Standing]]
"""Logs, and the standings of candidates on them."""


def _method(results: Mapping[str, LogResults], setting: LogSetting) -> str:
    jobs = ", ".join(f"{len(one[MEANS].run_time_s):,} of {log}" for log, one in results.items())
    return (
        f"The last {setting.measured:.0%} of each log's jobs ({jobs}) under FCFS with EASY, after "
        f"the {setting.warm_up:.0%} before them as a warm-up, with `requested_time: raw` and "
        f"`correction: tsafrir`; every job counts. In each of {setting.replays} replays all jobs "
        f"are submitted up to {JITTER_S:g} s later than in the log, at random, and alike for all "
        "predictions. Differences of mean bounded slowdowns are paired by job and averaged over "
        "the replays; their intervals of 95 % are a bootstrap over weeks of submission."
    )


def _schedules(rows: _Rows) -> str:
    head = ("log", "predictions", "backfilled first", "mean bounded slowdown", f"to {MEANS}",
            "in single replays", "to requested", "geometric mean", "mean wait, h")  # fmt: skip
    return markdown_table([head, *(_schedules_row(log, one) for log, one in rows)])


def _schedules_row(log: str, one: Standing) -> Sequence[str]:
    is_baseline = one.candidate == MEANS
    return (
        log,
        _name(one),
        _ORDERS[CANDIDATES[one.candidate].order],
        f"{one.bounded_slowdown:.1f}",
        "" if is_baseline else _with_interval(one.to_means),
        "" if is_baseline else " to ".join(map(_signed, _ends(one.to_means.single))),
        "" if one.candidate == "requested" else _with_interval(one.to_requested),
        f"{one.geometric:.2f}",
        f"{one.wait_time_s / 3600:.2f}",
    )


def _verdict(rows: _Rows) -> str:
    """Return whether a learned prediction beats the user's last two, log by log, and how."""
    learned = [(log, one) for log, one in rows if CANDIDATES[one.candidate].model is not None]
    better = [(log, one) for log, one in learned if one.to_means.verdict == "below"]
    names = ", ".join(f"{_name(one)} on {log}" for log, one in better)
    subject = f"Better than the mean of the user's last two: {names}" if better else (
        "No learned prediction is shown to beat the mean of the user's last two"
    )  # fmt: skip
    sentences = [
        f"{_name(one).capitalize()} on {log}: {_with_interval(one.to_means)}, "
        f"{_VERDICTS[one.to_means.verdict]}."
        for log, one in learned
    ]
    means = {log: one for log, one in rows if one.candidate == MEANS}
    sentences += [_difference_in_errors(log, one, means[log]) for log, one in better]
    sentences += [
        f"The same means on {log}, backfilled in the queue's order: {_with_interval(one.to_means)}."
        for log, one in rows
        if one.candidate != MEANS and CANDIDATES[one.candidate].estimates == MEANS
    ]
    sentences += [
        f"One week has {one.heaviest_week:.0%} of all bounded slowdowns on {log} under the means."
        for log, one in means.items()
    ]
    return " ".join([f"**{subject}.**", *sentences])


def _difference_in_errors(log: str, one: Standing, means: Standing) -> str:
    """Return how better predictions differ from the means."""
    return (
        f"On {log} {_name(one)} is off by {one.error_s / 3600:.2f} h on average, the means by "
        f"{means.error_s / 3600:.2f} h; {one.outlived:.0%} of the jobs outlive it, "
        f"{means.outlived:.0%} the means."
    )


def _predictions(rows: _Rows) -> str:
    head = ("log", "predictions", "backfilled first", "mean absolute error, h",
            "median of prediction / run time", "jobs that outlive it")  # fmt: skip
    cells = [
        (
            log, _name(one), _ORDERS[CANDIDATES[one.candidate].order], f"{one.error_s / 3600:.2f}",
            f"{one.ratio:.2f}", f"{one.outlived:.0%}",
        )
        for log, one in rows
    ]  # fmt: skip
    return "How good the predictions are, as made at submission:\n\n" + markdown_table(
        [head, *cells]
    )


def _name(one: Standing) -> str:
    candidate = CANDIDATES[one.candidate]
    return candidate.estimates if candidate.model is None else f"learned {candidate.model}"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _with_interval(found: Difference) -> str:
    low, high = found.interval.low, found.interval.high
    if low is None or high is None:
        return _signed(found.mean)
    return f"{_signed(found.mean)} [{_signed(low)}, {_signed(high)}]"


def _signed(number: float) -> str:
    return f"{number:.1f}".replace("-", "\N{MINUS SIGN}")

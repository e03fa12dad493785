"""Which runs belong together: those of a folder by what differs, and pairs by seed and job."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.errors import RunError, did_you_mean
from simkit.records import ENERGY, JOBS_WITH_VALUE
from simkit.results.group_metrics import By, group_of
from simkit.results.job_metrics import LAST_S
from simkit.results.metric import counted_resource
from simkit.results.output_folder import UNFINISHED
from simkit.results.run_folder import Run, open_run
from simkit.text import counted

_TIMES = (
    "start_time_s", "end_time_s", "wait_time_s", "turnaround_time_s", "run_time_s", "ideal_time_s",
)  # fmt: skip
"""Columns of the jobs that differ between runs; the workload gives the others."""
GROUP: Final = "job_group"
"""Column of the jobs of both runs: the group that a job is in, in run A."""


@dataclass(frozen=True)
class RunPair:
    """Two runs of one workload with the same seed; their jobs joined by id."""

    a: Run
    b: Run
    both: pl.DataFrame
    """Jobs of both runs; columns of run B end in ``_b``."""
    only_in_a: tuple[Any, ...]
    only_in_b: tuple[Any, ...]
    unfinished_in_a: tuple[Any, ...]
    unfinished_in_b: tuple[Any, ...]

    def of_group(self, group: str) -> RunPair:
        """Return the pair with the jobs of a group alone, see `pair_runs`."""
        return replace(self, both=self.both.filter(pl.col(GROUP) == group))

    def values(self, value: pl.Expr) -> tuple[Floats, Floats, Floats]:
        """Return a metric in A and in B, and the submit times, of jobs that have it in both."""
        twice = [name for name in self.both.columns if f"{name}_b" in self.both.columns]
        second = self.both.with_columns(pl.col(f"{name}_b").alias(name) for name in twice)
        frame = pl.DataFrame(
            {
                "a": self.both.select(value.alias("a"))["a"],
                "b": second.select(value.alias("b"))["b"],
                "submit": self.both["submit_time_s"],
            }
        ).drop_nulls()
        a, b, submit = (frame[name].to_numpy().astype(np.float64) for name in frame.columns)
        return a, b, submit


def as_runs(source: Any) -> tuple[Run, ...]:
    """Return the runs of a run, a folder or a sequence of them."""
    single = isinstance(source, (Run, str, PathLike))
    runs = tuple(map(open_run, [source] if single else source))
    if not runs:
        raise RunError("compare: no run on one side; name at least one run folder on each")
    return runs


def pair_runs(
    a: Sequence[Run], b: Sequence[Run], columns: Collection[str] = (), by: By | None = None
) -> list[RunPair]:
    """Pair runs by seed, or one run with one run whatever their seeds.

    Args:
        a: the runs of one side.
        b: the runs of the other side.
        columns: further columns that metrics need; see `JobMetric.needs`.
        by: adds the column `GROUP`; None: it is left out.

    Raises RunError if a seed occurs twice or on one side only, or if the workloads differ.
    """
    if len(a) == len(b) == 1:
        return [_pair(a[0], b[0], columns, by)]
    seeds_a, seeds_b = _by_seed(a), _by_seed(b)
    if alone := sorted(seeds_a.keys() ^ seeds_b.keys()):
        raise RunError(
            f"compare: seed {', '.join(map(str, alone))} was run on one side only; runs are paired "
            "by seed, so give both sides the same seeds"
        )
    if all(len({run.digest for run in side}) == 1 and side[0].digest for side in (a, b)):
        raise RunError(  # an interval over equal runs has no width
            f"compare: the runs of {len(a)} seeds are the same on each side, as nothing in the "
            "scenario is random; compare one run a side, or give the workload `resample: {}` so "
            "that every seed is another workload"
        )
    return [_pair(seeds_a[seed], seeds_b[seed], columns, by) for seed in sorted(seeds_a)]


def _pair(a: Run, b: Run, columns: Collection[str], by: By | None) -> RunPair:
    """Join the jobs of two runs by id."""
    _refuse_other_input(a, b)
    if a.resources != b.resources:
        raise RunError(
            f"{a.folder} and {b.folder}: the resources differ, {', '.join(a.resources)} and "
            f"{', '.join(b.resources)}; compare runs of one workload"
        )
    worth = sorted(JOBS_WITH_VALUE.keys() & set(columns))
    given = ("submit_time_s", "trace_run_time_s", *a.resources, *worth)
    found = (*_TIMES, *sorted(set(columns) - set(worth)))
    jobs_a, jobs_b = (_jobs(run, ("job_id", *given), found) for run in (a, b))
    if jobs_a.schema["job_id"] != jobs_b.schema["job_id"]:
        raise RunError(
            f"{a.folder} and {b.folder}: job ids are numbers in one and text in the other; "
            "compare runs of one workload"
        )
    alike = jobs_a["job_id"].equals(jobs_b["job_id"])
    if alike:  # as usual: the same jobs were submitted at the same times
        both = jobs_a.hstack(jobs_b.drop("job_id").rename(lambda name: f"{name}_b"))
    else:
        both = jobs_a.join(jobs_b, on="job_id", how="inner", suffix="_b", maintain_order="left")
    _refuse_other_jobs(a, b, both, given)
    if by is not None:
        group = group_of(a.scan("jobs"), by, counted_resource(a.resources))
        groups = a.scan("jobs").select("job_id", group.alias(GROUP)).collect()
        both = both.join(groups, on="job_id", how="left", maintain_order="left")
    return RunPair(
        a=a,
        b=b,
        both=both,
        only_in_a=() if alike else _ids(_missing(jobs_a, jobs_b)),
        only_in_b=() if alike else _ids(_missing(jobs_b, jobs_a)),
        unfinished_in_a=_ids(both.filter(pl.col("end_time_s").is_null())),
        unfinished_in_b=_ids(both.filter(pl.col("end_time_s_b").is_null())),
    )


def _by_submission(jobs: pl.DataFrame) -> pl.DataFrame:
    """Sort jobs, column by column: millions of them take memory once, not twice."""
    order = jobs.select(pl.arg_sort_by("submit_time_s", "job_id", maintain_order=True)).to_series()
    return pl.DataFrame([jobs.drop_in_place(name).gather(order) for name in jobs.columns])


def _missing(jobs: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs that are not among others."""
    return jobs.join(others, on="job_id", how="anti", maintain_order="left")


def _jobs(run: Run, given: Sequence[str], found: Sequence[str]) -> pl.DataFrame:
    """Return some columns of a run's jobs, every job once."""
    billed = [name for name in found if name in ENERGY]
    plain = [name for name in found if name not in ENERGY and name != LAST_S]
    frame = _by_submission(run.columns("jobs", *given, *plain))
    if frame["job_id"].n_unique() < len(frame):
        first = frame.filter(frame["job_id"].is_duplicated())["job_id"][0]
        raise RunError(
            f"{run.folder}: job {first} occurs more than once, so jobs cannot be paired; "
            "`simkit verify` shows what is wrong with a run"
        )
    if billed:
        bills = run.scan("energy").select("job_id", *billed).collect()
        frame = frame.join(bills, on="job_id", how="left", maintain_order="left")
    if LAST_S in found:
        frame = frame.with_columns(pl.lit(_last_s(run), pl.Float64).alias(LAST_S))
    return frame


def _last_s(run: Run) -> float | None:
    """Return the last instant of a run, in s; None if nothing ever happened."""
    instants = (
        run.scan(table).select(pl.col(name).max()).collect().item()
        for table, name in (("timeline", "time_s"), ("jobs", "end_time_s"))
    )
    return max((float(time) for time in instants if time is not None), default=None)


def _by_seed(runs: Sequence[Run]) -> dict[int, Run]:
    by_seed: dict[int, Run] = {}
    for run in runs:
        if run.seed in by_seed:
            raise RunError(
                f"{by_seed[run.seed].folder} and {run.folder}: both have seed {run.seed}; runs "
                "are paired by seed, so give each seed once a side"
            )
        by_seed[run.seed] = run
    return by_seed


def _refuse_other_input(a: Run, b: Run) -> None:
    """Refuse two runs whose workload files differ; other inputs, such as policies, may differ."""
    sha_a, sha_b = _workload_sha(a), _workload_sha(b)
    if sha_a and sha_b and sha_a != sha_b:
        raise RunError(
            f"{a.folder} and {b.folder}: the workload's files differ (sha256 {sha_a[:12]}… and "
            f"{sha_b[:12]}…); compare runs of one workload"
        )


def _workload_sha(run: Run) -> str | None:
    """Return the SHA-256 of the workload's file; None if it has none."""
    workload = run.info.get("scenario", {}).get("workload") or {}
    path = workload.get("path") if isinstance(workload, dict) else None
    if not path:
        return None
    named = [
        i for i in run.info.get("inputs", ()) if PurePath(i["path"]).name == PurePath(path).name
    ]
    return str(named[0]["sha256"]) if named else None


def _refuse_other_jobs(a: Run, b: Run, both: pl.DataFrame, given: Sequence[str]) -> None:
    """Refuse two runs that share no job, or whose jobs differ in a column of the workload."""
    if not len(both):
        raise RunError(
            f"{a.folder} and {b.folder}: no job id is in both; compare runs of one workload"
        )
    for column in given:
        other = both.filter(both[column].ne_missing(both[f"{column}_b"]))
        if len(other):
            row = other.row(0, named=True)
            in_a, in_b = (
                "none" if row[name] is None else f"{row[name]:.15g}"
                for name in (column, f"{column}_b")
            )
            without = ", or name metrics that do not need it" * (column in JOBS_WITH_VALUE)
            raise RunError(
                f"{a.folder} and {b.folder}: the workloads differ, {column} in {len(other):,} of "
                f"{counted(len(both), 'job')}, first in job {row['job_id']}: {in_a} and {in_b}; "
                "compare runs of one workload (same trace, window, load and, for a random "
                f"workload, seed){without}"
            )


def _ids(frame: pl.DataFrame) -> tuple[Any, ...]:
    return tuple(frame["job_id"].to_list())


POLICY: Final = "policy"
SEED: Final = "seed"


def runs_below(folders: Iterable[str | os.PathLike[str]]) -> list[Run]:
    """Return the runs in folders and below them, by path; complete or not.

    Raises RunError for a folder without a run.
    """
    found: dict[Path, Run] = {}
    for folder in map(Path, folders):
        places = sorted(
            file.parent
            for file in folder.rglob("run.json")
            if UNFINISHED not in file.relative_to(folder).parts
        )
        if not places:
            raise RunError(
                f"{folder}: there is no run in it or below it; give a run folder, or the folder of "
                "a sweep"
            )
        found |= {place: open_run(place, allow_partial=True) for place in places}
    return list(found.values())


class Settings:
    """What the scenarios of some runs say, by dotted key."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._flat = [dict(_leaves(run.info.get("scenario", {}))) for run in runs]
        keys = dict.fromkeys(key for flat in self._flat for key in flat)
        texts = {key: {_text(flat.get(key)) for flat in self._flat} for key in keys}
        self._vary = [key for key, values in texts.items() if len(values) > 1]
        self._policies = _without_folders([run.policy for run in runs])

    @property
    def keys(self) -> list[str]:
        """Dotted keys that differ between runs."""
        return list(self._vary)

    @property
    def varying(self) -> list[str]:
        """Keys that differ between runs; those of the policy count as ``policy``."""
        return list(dict.fromkeys(_shortened(key) for key in self._vary))

    def values(self, key: str) -> list[str]:
        """Return the value of a key, or of all below it that differ, in each run.

        Raises RunError if no scenario has the key.
        """
        if not any(_is_below(one, key) for flat in self._flat for one in flat):
            names = dict.fromkeys(one for flat in self._flat for one in _with_parents(flat))
            raise RunError(
                f"by: no scenario of these runs has a key {key!r}{did_you_mean(key, names)}; "
                f"they differ in {', '.join(self.varying) or 'nothing'}"
            )
        if key == POLICY and self._labels_tell():
            return self._policies
        if all(key in flat for flat in self._flat):
            return [_text(flat[key]) for flat in self._flat]
        below = [one for one in self._vary if _is_below(one, key)]
        return [
            ", ".join(
                f"{one.removeprefix(key + '.')}={_text(flat[one])}" for one in below if one in flat
            )
            or "-"
            for flat in self._flat
        ]

    def changes(self) -> list[str]:
        """Return what differs between the first run and the last: ``seed 1 → 2``; seeds last."""
        keys = sorted(self.varying, key=lambda key: key == SEED)
        pairs = ((key, self.values(key)) for key in keys)
        return [f"{key} {_short(found[0])} → {_short(found[-1])}" for key, found in pairs]

    def _labels_tell(self) -> bool:
        """Return whether policies that differ have labels that differ."""
        whole = [
            tuple((key, _text(value)) for key, value in flat.items() if _is_below(key, POLICY))
            for flat in self._flat
        ]
        return len(set(self._policies)) == len(set(whole))


def _without_folders(policies: list[str]) -> list[str]:
    """Return policies by the names of their files alone, if that still tells them apart."""
    short = [policy.rsplit("/", 1)[-1] for policy in policies]
    return short if len(set(short)) == len(set(policies)) else policies


def _shortened(key: str) -> str:
    return POLICY if _is_below(key, POLICY) else key


def _is_below(key: str, parent: str) -> bool:
    return key == parent or key.startswith(f"{parent}.")


def _with_parents(keys: Iterable[str]) -> Iterable[str]:
    for key in keys:
        parts = key.split(".")
        yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _short(text: str) -> str:
    """Return a value for a line: numbers with separators, long text and paths cut."""
    if text.isdecimal():
        return f"{int(text):,}"
    if len(text) <= _LONGEST:
        return text
    return f"…{text[1 - _LONGEST :]}" if "/" in text else f"{text[: _LONGEST - 1]}…"


_LONGEST = 48


def _leaves(value: Any, key: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(below, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)

"""Why jobs waited: a run is made again from its run.json and watched.

    simkit.explain("runs/easy", 4711)         # one job
    explain_jobs("runs/easy", [17, 4711])     # several, in one rerun
    explain_summary("runs/easy")              # all waiting time, by cause
    queue_at("runs/easy", 86400.0)            # what waits at a time, and why

docs/howto/explain.md has the table of causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import inf, isfinite
from typing import Any

import polars as pl

from simkit.engine.simulation import Simulation
from simkit.errors import RunError
from simkit.results.run_folder import Run, RunOrFolder
from simkit.why.explanation import Explanation, Overtaker, Wait
from simkit.why.intervals import Interval, IntervalMaker
from simkit.why.rerun import Original, original, rerun
from simkit.why.watcher import MOST_TOLD, Foreseen, JobId, Watcher
from simkit.workload import Workload

__all__ = ["Explanation", "Interval", "Wait", "explain", "explain_jobs", "longest_waits"]

Progress = Callable[[Simulation], None]


def explain(run: RunOrFolder, job: JobId, **options: Any) -> Explanation:
    """Return why a job of a run waited; the run is made again, which takes what it took.

    Args:
        run: a run, or its folder.
        job: its id in the table of jobs.
        options: as for `explain_jobs`.

    Raises RunError for a job that the run does not have, and if the run cannot be made again.
    """
    return explain_jobs(run, [job], **options)[0]


def explain_jobs(
    run: RunOrFolder,
    jobs: Iterable[JobId],
    *,
    allow_partial: bool = False,
    allow_code: bool = True,
    progress: Progress | None = None,
) -> list[Explanation]:
    """Return why jobs of a run waited, in the order given; the run is made again once for all.

    Args:
        run: a run, or its folder.
        jobs: their ids in the table of jobs.
        allow_partial: also explain a run that did not finish, up to its end.
        allow_code: False refuses a run whose scenario names code.
        progress: is called after every decision of the rerun.

    Raises RunError for a job that the run does not have, and if the run cannot be made again.
    """
    first = original(run, allow_partial=allow_partial, allow_code=allow_code)
    workload = first.experiment.trace.workload
    rows = [row_of(workload, job, first.run) for job in jobs]
    ids = [workload.job_id[row : row + 1].tolist()[0] for row in rows]
    end_s, foreseen = first.end_s, Foreseen(first.run, ids)
    policy = first.experiment.policy
    watcher = Watcher(workload, rows, policy, end_s, progress, foreseen, first.clock)
    again = rerun(first, watcher)
    explainer = _Explainer(first, again, watcher, ids)
    return [explainer.of(row) for row in rows]


def longest_waits(run: RunOrFolder, count: int = 20, *, allow_partial: bool = False) -> list[JobId]:
    """Return the ids of the jobs of `longest_waiting`."""
    from simkit.results.run_folder import open_run

    found = longest_waiting(open_run(run, allow_partial=allow_partial), count)
    return found["job_id"].to_list()


def longest_waiting(run: Run, count: int = 20) -> pl.DataFrame:
    """Return the rows of the jobs that waited longest before they started, the longest first.

    Ties are broken by submission and id. Jobs that never started are not among them: nobody knows
    how long they would have waited.
    """
    waited = run.scan("jobs").filter(pl.col("wait_time_s") > 0)
    waited = waited.sort(
        "wait_time_s", "submit_time_s", "job_id",
        descending=[True, False, False], maintain_order=True,
    )  # fmt: skip
    return waited.head(count).collect()


def row_of(workload: Workload, job: JobId, run: Run) -> int:
    """Return the row of a job; raises RunError for an unknown one, with what there is."""
    ids: list[JobId] = workload.job_id.tolist()
    wanted: JobId = job
    if ids and isinstance(ids[0], int) and isinstance(job, str):
        try:
            wanted = int(job)
        except ValueError:
            wanted = job
    try:
        return ids.index(wanted)
    except ValueError:
        pass
    if not ids:
        raise RunError(f"{run.folder}: job {job}: the run has no jobs")
    numbers = [each for each in ids if isinstance(each, int)]
    if isinstance(wanted, int) and numbers:
        near = sorted(sorted(set(numbers), key=lambda other: abs(other - int(wanted)))[:3])
        span = f"{min(numbers)} to {max(numbers)}"
        hint = f"its jobs are {span}, the nearest {', '.join(map(str, near))}"
    else:
        near_names = get_close_matches(str(job), [str(each) for each in ids], 3)
        meant = f"; did you mean {' or '.join(near_names)}?" if near_names else ""
        hint = f"ids are like {ids[0]}{meant}"
    raise RunError(f"{run.folder}: there is no job {job}; {hint}")


class _Explainer:
    """Makes explanations from a watched run and its tables."""

    def __init__(self, first: Original, again: Run, watcher: Watcher, ids: Sequence[JobId]) -> None:
        self._first, self._again, self._watcher = first, again, watcher
        self._workload = first.experiment.trace.workload
        mine = again.jobs.filter(pl.col("job_id").is_in(ids))
        self._jobs: dict[JobId, dict[str, Any]] = {
            row["job_id"]: row for row in mine.iter_rows(named=True)
        }
        rules = first.experiment.rules
        clocked = rules.every_s is not None or rules.step_s is not None
        ends = again.allocations["end_time_s"].drop_nulls().sort().to_numpy() if clocked else None
        self._end_s = watcher.end_s
        names = first.experiment.cluster.resources
        ended = again.jobs.select("job_id", "end_time_s").drop_nulls().rows()
        self._maker = IntervalMaker(watcher, self._workload, names, dict(ended), ends)

    def of(self, row: int) -> Explanation:
        """Return the explanation of the job of a row of the workload."""
        load, run = self._workload, self._again
        job_id = load.job_id[row : row + 1].tolist()[0]
        record = self._jobs.get(job_id, {})
        submit = float(load.submit_time_s[row])
        waits: list[Wait] = []
        for task_row in range(int(load.first_task[row]), int(load.first_task[row + 1])):
            waits += self._waits(task_row, job_id, submit, record)
        count, overtakers = self._overtakers(row, submit, record)
        return Explanation(
            job_id, run.name, str(record.get("status") or "waiting"),
            str(record.get("reason") or ""), submit, tuple(waits), overtakers, count,
            self._first.clock, self._note(), record.get("end_time_s"), self._facts(row, record),
        )  # fmt: skip

    def _note(self) -> str:
        if self._first.complete:
            return ""
        return (
            f"the run is {self._first.run.status}; it is explained up to its end, and no digest "
            "tells whether the rerun is the same"
        )

    def _facts(self, row: int, record: Mapping[str, Any]) -> dict[str, Any]:
        load = self._workload
        task = int(load.first_task[row])
        facts: dict[str, Any] = {}
        if record.get("user") not in (None, -1, "-1"):
            facts["user"] = record["user"]
        if record.get("site_partition"):
            facts["partition"] = record["site_partition"]
        for name in self._again.resources:
            if record.get(name):
                facts[name] = round(record[name], 6)
        estimate = record.get("estimate_s")
        if estimate is not None and isfinite(estimate):
            facts["estimate_s"] = estimate
        if int(load.first_task[row + 1]) - task > 1:
            facts["tasks"] = int(load.first_task[row + 1]) - task
        return facts

    # ---- waits --------------------------------------------------------------------------------

    def _waits(
        self, task_row: int, job_id: JobId, submit: float, record: Mapping[str, Any]
    ) -> list[Wait]:
        if submit > self._end_s:
            return []
        load = self._workload
        task_id = load.task_id[task_row : task_row + 1].tolist()[0]
        pieces = self._allocations(job_id, task_id)
        whole = bool(load.gang[task_row])
        waits: list[Wait] = []
        begin, kind = submit, "first"
        for start, end, outcome in pieces:
            waits.append(self._wait(task_row, task_id, kind, begin, start, True))
            if not whole or outcome not in ("lost", "suspended"):
                return waits
            begin, kind = end, "again" if outcome == "lost" else "suspended"
        end_s = self._over(record, begin)
        if record.get("status") == "rejected" and end_s == begin and not waits:
            return []
        return [*waits, self._wait(task_row, task_id, kind, begin, end_s, False)]

    def _over(self, record: Mapping[str, Any], begin: float) -> float:
        """Return when a task that never started (again) stopped waiting."""
        status, end = record.get("status"), record.get("end_time_s")
        if status == "killed" and end is not None:
            return max(float(end), begin)
        if status == "rejected":
            events = self._again.events.filter(
                (pl.col("kind") == "rejected") & (pl.col("job_id") == record["job_id"])
            )
            times: list[float] = events["time_s"].to_list()
            return max([begin, *times])
        return max(self._end_s, begin)

    def _wait(
        self, row: int, task_id: JobId, kind: str, begin: float, end: float, started: bool
    ) -> Wait:
        found = self._maker.of(row, begin, end)
        return Wait(task_id, kind, begin, end, started, tuple(found))

    def _allocations(self, job_id: JobId, task_id: JobId) -> list[tuple[float, float, str]]:
        """Return (start, end, outcome) of a task's attempts, in order of time."""
        frame = self._again.allocations.filter(
            (pl.col("job_id") == job_id) & (pl.col("task_id") == task_id)
        )
        rows = frame.select("start_time_s", "end_time_s", "outcome").unique().rows()
        return sorted((start, inf if end is None else end, outcome) for start, end, outcome in rows)

    # ---- overtaking ---------------------------------------------------------------------------

    def _overtakers(
        self, row: int, submit: float, record: Mapping[str, Any]
    ) -> tuple[int, tuple[Overtaker, ...]]:
        start = record.get("start_time_s")
        later = pl.col("submit_time_s") > submit
        earlier = pl.col("start_time_s") < (inf if start is None else start)
        found = self._again.jobs.filter(later & earlier).sort("start_time_s", "job_id")
        if record.get("status") == "rejected" or not len(found):
            return 0, ()
        why = self._reasons(row)
        first = found.head(MOST_TOLD).select("job_id", "submit_time_s", "start_time_s").rows()
        told = [Overtaker(job, came, begun, why.get(job, "")) for job, came, begun in first]
        return len(found), tuple(told)

    def _reasons(self, row: int) -> dict[JobId, str]:
        load = self._workload
        told: dict[JobId, str] = {}
        for task_row in range(int(load.first_task[row]), int(load.first_task[row + 1])):
            for job_row, passed in self._watcher.passed.get(task_row, {}).items():
                name = load.job_id[job_row : job_row + 1].tolist()[0]
                told.setdefault(name, passed.why)
        return told

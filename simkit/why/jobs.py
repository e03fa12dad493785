"""Why jobs waited: a run is made again from its run.json and watched.

    simkit.explain("runs/easy", 4711)         # one job
    explain_jobs("runs/easy", [17, 4711])     # several, in one rerun
    explain_summary("runs/easy")              # all waiting time, by cause
    queue_at("runs/easy", 86400.0)            # what waits at a time, and why

docs/howto/explain.md has the table of causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby
from math import inf, isfinite
from typing import Any, NamedTuple

import polars as pl

from simkit.engine.simulation import Simulation
from simkit.errors import RunError
from simkit.results.run_folder import Run, RunOrFolder
from simkit.shown import heading, notes, table
from simkit.text import amount_text, counted, printable
from simkit.units import format_duration
from simkit.why.causes import MEANINGS, Cause
from simkit.why.intervals import Interval, IntervalMaker, few_jobs
from simkit.why.rerun import Original, RunClock, original, rerun
from simkit.why.watcher import MOST_TOLD, Foreseen, JobId, Watcher
from simkit.workload import Workload


class Span(NamedTuple):
    """Intervals in a row with one cause, as one."""

    start_s: float
    end_s: float
    cause: Cause
    sentence: str


@dataclass(frozen=True)
class Wait:
    """A wait of a task: from one instant until it starts, or goes on."""

    task_id: JobId
    kind: str
    """first, again (it starts over after its work was lost), or suspended (it goes on)."""
    start_s: float
    """When it begins, on the trace's clock in s."""
    end_s: float
    """When the task starts or goes on; the run's end if it never does."""
    started: bool
    intervals: tuple[Interval, ...]
    """What blocked it, from the start to the end without gaps; empty if it did not wait."""

    @property
    def length_s(self) -> float:
        """How long it waited, in s; the sum of its intervals, exactly."""
        return self.end_s - self.start_s

    @property
    def spans(self) -> list[Span]:
        """The intervals, neighbours of one cause as one."""
        return [_span(list(group)) for _, group in groupby(self.intervals, lambda i: i.cause)]


def _span(group: Sequence[Interval]) -> Span:
    first, last = group[0], group[-1]
    sentence = first.sentence
    if len({each.sentence for each in group}) > 1:
        jobs = dict.fromkeys(job for each in group for job in each.jobs)
        lacks = last.limit or (_shortages(group) if all(each.short for each in group) else "")
        if lacks and last.jobs:
            parts = [lacks, _in_its_way(list(jobs), last.own)]
            if len(jobs) > 1:
                parts.append(f"at last {few_jobs(last.jobs, last.own)}")
            if first.ahead:
                parts[-1] += f"; tasks ahead: {first.ahead:,} at first, {last.ahead:,} at last"
            sentence = ", ".join(parts)
        else:
            sentence = f"at last: {last.sentence} ({len(group):,} intervals)"
    return Span(first.start_s, last.end_s, first.cause, sentence)


def _in_its_way(jobs: Sequence[JobId], own: JobId | None) -> str:
    if len(jobs) == 1:
        return f"{few_jobs(jobs, own)} in its way"
    others = sum(job != own for job in jobs)
    siblings = " and other tasks of its job" if others < len(jobs) else ""
    return f"{counted(others, 'job')}{siblings} in its way one after another"


def _shortages(group: Sequence[Interval]) -> str:
    """Return ``short by 8 to 68 processors``, of each resource that was short."""
    names = dict.fromkeys(name for each in group for name in each.short)
    shortages = []
    for name in names:
        amounts = [each.short.get(name, 0.0) for each in group]
        low, high = min(amounts), max(amounts)
        least = f"{low:,.10g} to " if low < high else ""
        shortages.append(least + amount_text(high, name))
    return f"short by {' and '.join(shortages)}"


def _fact(name: str, value: Any) -> str:
    """Return ``user 7``, ``64 processors`` or ``expected to run for 04:00:00``."""
    if name == "estimate_s":
        return f"expected to run for {format_duration(value)}"
    return amount_text(value, name) if isinstance(value, float) else f"{name} {value}"


class Overtaker(NamedTuple):
    """A job that was submitted later and started earlier."""

    job_id: JobId
    submit_time_s: float
    start_time_s: float
    why: str
    """Why that was allowed; empty: nobody noted it."""


@dataclass(frozen=True)
class Explanation:
    """Why a job of a run waited; `Explanation.text` is what the command line prints."""

    job_id: JobId
    run: str
    """The run's name."""
    status: str
    """finished, killed, rejected, running or waiting."""
    reason: str
    """Why it was rejected or killed; empty otherwise."""
    submit_time_s: float
    waits: tuple[Wait, ...]
    """All waits, by task, in order of time."""
    overtakers: tuple[Overtaker, ...] = ()
    """The first of those who overtook it."""
    overtaken: int = 0
    """How many overtook it."""
    clock: RunClock = field(default_factory=RunClock)
    """How its times are written."""
    note: str = ""
    """What a reader must know of the run, e.g. that it did not finish."""
    end_time_s: float | None = None
    """When it finished or was killed, in s; None: it did not."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Its user, partition, request and estimate."""

    @property
    def wait(self) -> Wait | None:
        """The wait that explains the job: until the first start of the task that starts last."""
        first = [wait for wait in self.waits if wait.kind == "first"]
        return max(first, key=lambda wait: (not wait.started, wait.end_s), default=None)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The intervals of `wait`."""
        return () if self.wait is None else self.wait.intervals

    def rows(self) -> list[Span]:
        """Return (start_s, end_s, cause, sentence) of `wait`, neighbours of one cause as one."""
        return [] if self.wait is None else self.wait.spans

    def shares(self) -> dict[Cause, float]:
        """Return cause → seconds of all waits, the longest first."""
        totals: dict[Cause, float] = {}
        for wait in self.waits:
            for interval in wait.intervals:
                totals[interval.cause] = totals.get(interval.cause, 0.0) + interval.length_s
        return dict(sorted(totals.items(), key=lambda pair: -pair[1]))

    def as_json(self) -> dict[str, Any]:
        """Return the explanation for scripts."""
        return {
            "job_id": self.job_id, "run": self.run, "status": self.status, "reason": self.reason,
            "submit_time_s": self.submit_time_s, "end_time_s": self.end_time_s,
            "note": self.note, **self.facts,
            "waits": [
                {
                    "task_id": wait.task_id, "kind": wait.kind, "start_s": wait.start_s,
                    "end_s": wait.end_s, "started": wait.started, "wait_s": wait.length_s,
                    "intervals": [interval.as_json() for interval in wait.intervals],
                }
                for wait in self.waits
            ],
            "by_cause_s": {str(cause): seconds for cause, seconds in self.shares().items()},
            "overtaken_by": self.overtaken,
            "overtakers": [each._asdict() for each in self.overtakers],
        }  # fmt: skip

    # ---- for people ---------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """What became of the job, in a sentence."""
        wait, name = self.wait, f"job {self.job_id} of {self.run}"
        if self.status == "rejected" and wait is None:
            return f"{name} was rejected: {self.reason}"
        if wait is None:
            return f"{name} was not submitted before the run's end"
        length = format_duration(wait.length_s)
        waited = f"{name} waited {length}" if wait.length_s else f"{name} started at once"
        if not wait.started:
            waited = f"{name} waited {length} and never started"
        return waited + self._end

    @property
    def _end(self) -> str:
        """How it ended, if it did not finish: ``; it was killed at 00:01:00: …``."""
        if self.status not in ("killed", "rejected"):
            return ""
        at = "" if self.end_time_s is None else f" at {self._time(self.end_time_s)}"
        why = f": {self.reason}" if self.reason else ""
        return f"; {'it' if at else 'then it'} was {self.status}{at}{why}"

    def text(self, *, every: bool = False) -> str:
        """Return the explanation as text.

        Args:
            every: show every interval, not neighbours of one cause as one.
        """
        return "\n".join(printable(line) for line in self._lines(every))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"

    def _lines(self, every: bool) -> Iterator[str]:
        yield self.headline
        if self.note:
            yield f"note: {self.note}"
        if self.facts:
            yield "  " + ", ".join(_fact(name, value) for name, value in self.facts.items())
        yield f"  {self.clock.line}"
        yield f"  submitted at {self._time(self.submit_time_s)}"
        for wait in self.waits:
            if wait.kind == "first" and len(self.waits) == 1 and not wait.length_s:
                continue
            yield ""
            yield self._title(wait)
            for piece in wait.intervals if every else wait.spans:
                length = format_duration(piece.end_s - piece.start_s)
                title = MEANINGS[piece.cause].title
                yield f"  {self._time(piece.start_s):<20} {length:>12}  {title}: {piece.sentence}"
        yield from self._totals()
        yield from self._who_overtook()

    def _title(self, wait: Wait) -> str:
        task = f"task {wait.task_id}: " if self._several else ""
        what = {
            "first": "waited", "again": "waited to start over", "suspended": "was suspended",
        }[wait.kind]  # fmt: skip
        until = "started" if wait.started else "had not started"
        until = "went on" if wait.kind == "suspended" and wait.started else until
        return f"{task}{what} {format_duration(wait.length_s)}, {until} at {self._time(wait.end_s)}"

    @property
    def _several(self) -> bool:
        return len({wait.task_id for wait in self.waits}) > 1

    def _totals(self) -> Iterator[str]:
        shares = self.shares()
        total = sum(shares.values())
        if len(shares) > 1 and total:
            yield ""
            yield "by cause: " + ", ".join(
                f"{MEANINGS[cause].title} {100 * seconds / total:.3g}%"
                for cause, seconds in shares.items()
            )

    def _who_overtook(self) -> Iterator[str]:
        if not self.overtaken:
            return
        yield ""
        yield f"{counted(self.overtaken, 'job')} submitted later started earlier"
        for each in self.overtakers:
            why = f": {each.why}" if each.why else ""
            yield f"  job {each.job_id} at {self._time(each.start_time_s)}{why}"
        if self.overtaken > len(self.overtakers):
            yield f"  and {self.overtaken - len(self.overtakers):,} more"

    def _time(self, time_s: float) -> str:
        return self.clock.text(time_s)

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook."""
        rows = [
            [self._time(each.start_s), format_duration(each.end_s - each.start_s),
             MEANINGS[each.cause].title, each.sentence]
            for wait in self.waits
            for each in wait.spans
        ]  # fmt: skip
        text = table(("from", "for", "why", "what"), rows, text=2) if rows else ""
        lines = [self.clock.line] if rows else []
        lines += [f"{counted(self.overtaken, 'job')} overtook it"] if self.overtaken else []
        return heading(self.headline) + text + notes(lines)


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
        clocked = first.experiment.scenario.scheduling.period_s is not None
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
            f"the run is {self._first.run.status}; it is explained up to its end, but no digest "
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
        shown = [Overtaker(job, came, begun, why.get(job, "")) for job, came, begun in first]
        return len(found), tuple(shown)

    def _reasons(self, row: int) -> dict[JobId, str]:
        load = self._workload
        shown: dict[JobId, str] = {}
        for task_row in range(int(load.first_task[row]), int(load.first_task[row + 1])):
            for job_row, passed in self._watcher.passed.get(task_row, {}).items():
                name = load.job_id[job_row : job_row + 1].tolist()[0]
                shown.setdefault(name, passed.why)
        return shown

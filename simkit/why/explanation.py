"""The explanation of a job: the waits of its tasks in intervals, and who overtook it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from simkit.text import amount_text, counted, printable
from simkit.units import format_duration
from simkit.why.causes import MEANINGS, Cause
from simkit.why.clock import RunClock
from simkit.why.intervals import Interval, few_jobs
from simkit.why.watcher import JobId


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
    told = []
    for name in names:
        amounts = [each.short.get(name, 0.0) for each in group]
        low, high = min(amounts), max(amounts)
        least = f"{low:,.10g} to " if low < high else ""
        told.append(least + amount_text(high, name))
    return f"short by {' and '.join(told)}"


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
        rows = "".join(
            f"<tr><td>{escape(self._time(span.start_s))}</td>"
            f"<td style='text-align:right'>{escape(format_duration(span.end_s - span.start_s))}"
            f"</td><td>{escape(MEANINGS[span.cause].title)}</td>"
            f"<td style='text-align:left'>{escape(printable(span.sentence))}</td></tr>"
            for wait in self.waits
            for span in wait.spans
        )
        clock = f"<p>{escape(self.clock.line)}</p>" if rows else ""
        head = "<tr><th>from</th><th>for</th><th>why</th><th>what</th></tr>"
        over = f"<p>{counted(self.overtaken, 'job')} overtook it</p>" if self.overtaken else ""
        table = f"<table>{head}{rows}</table>" if rows else ""
        return f"<div><b>{escape(printable(self.headline))}</b>{clock}{table}{over}</div>"

"""Windows of a log, which episodes replay.

    SchedulingEnv("quickstart", episode={"jobs": 256, "from": "train", "held_out": 0.2})

Each episode of this environment replays consecutive jobs, a window drawn from the seed of a reset.
No window reaches from one part of the log into the other, so that an agent is judged on jobs that
it has never been trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np
from pydantic import TypeAdapter, ValidationError

from simkit.arrays import stream
from simkit.errors import ScenarioError, did_you_mean
from simkit.scenario import Scenario
from simkit.sections import Jobs
from simkit.text import counted
from simkit.workload import Workload

_WEEK_S = 7 * 86_400.0
Part = Literal["train", "held_out", "all"]
KEYS = ("jobs", "from", "held_out")


@dataclass(frozen=True)
class EpisodeWindows:
    """What episodes replay of a log."""

    jobs: int
    """Consecutive jobs of an episode, in order of submission."""
    part: Part = "train"
    """Where they are drawn from: jobs that are not held out, those that are, or the whole log."""
    held_out: float | str = 0.2
    """The jobs that are held out: the last share of the log, or ``"first..last"`` by rank."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> EpisodeWindows:
        """Return what a mapping with `KEYS` says; raises ScenarioError, all problems at once."""
        if problems := [f"episode{text}" for text in _problems(given)]:
            raise ScenarioError(problems)
        chosen = dict(given) | {"jobs": int(given["jobs"])}
        return cls(part=chosen.pop("from", cls.part), **chosen)


def _problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the keys and values of an argument `episode`."""
    if not isinstance(given, Mapping):
        yield f" is {given!r}; it must be a mapping such as {{'jobs': 256, 'from': 'train'}}"
        return
    for key in given:
        if key not in KEYS:
            yield f".{key}: unknown key{did_you_mean(str(key), KEYS)}"
    jobs = given.get("jobs")
    if isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs < 1:
        yield f".jobs: is {jobs!r}; it must be a whole number, at least 1"
    part = given.get("from", "train")
    if part not in get_args(Part):
        yield f".from: is {part!r}; it must be one of {', '.join(get_args(Part))}"
    held_out = given.get("held_out", 0.5)
    is_share = isinstance(held_out, float) and 0 < held_out < 1
    if not is_share and (not isinstance(held_out, str) or not _is_range(held_out)):
        yield (
            f".held_out: is {held_out!r}; it must be a share above 0 and below 1, or a range of "
            'ranks "first..last"'
        )


def _is_range(text: str) -> bool:
    try:
        TypeAdapter(Jobs).validate_python(text)
    except ValidationError:
        return False
    return True


class LogWindows:
    """All windows of one part of a log."""

    def __init__(self, log: Workload, choice: EpisodeWindows, *, keep_times: bool = False) -> None:
        """Find them.

        Args:
            log: J jobs.
            choice: how many of them an episode has, and the part they come from.
            keep_times: leave submit times on the log's clock; else a window begins at 0.

        Raises ScenarioError if the part is shorter than a window, or lies beyond the log's end.
        """
        self._log, self._jobs, self._keep_times = log, choice.jobs, keep_times
        last = [(begin, end - choice.jobs + 1) for begin, end in _part(log, choice)]
        self._starts: Sequence[range] = [range(*pair) for pair in last if pair[1] > pair[0]]
        if not self._starts:
            longest = max([end - begin for begin, end in _part(log, choice)], default=0)
            raise ScenarioError(
                f"episode: a window has {counted(choice.jobs, 'job')}, and of the log's "
                f"{len(log):,} the part {choice.part!r} has {longest:,} in a row; take fewer jobs, "
                "another held_out, or from: all"
            )

    @property
    def jobs(self) -> int:
        """Jobs of a window."""
        return self._jobs

    def drawn(self, seed: int) -> int:
        """Return the rank of the first job of a seed's window; all windows are equally likely."""
        row = int(stream(seed, "episode").integers(sum(map(len, self._starts))))
        for starts in self._starts:
            if row < len(starts):
                break
            row -= len(starts)
        return starts[row]

    def spread(self, count: int) -> list[int]:
        """Return the ranks of the first jobs of up to `count` windows, spread evenly, ascending."""
        starts = [first for stretch in self._starts for first in stretch]
        rows = np.linspace(0, len(starts) - 1, min(count, len(starts))).round().astype(np.int64)
        return [starts[row] for row in np.unique(rows)]

    def take(self, first: int) -> Workload:
        """Return the window that begins with a job, by rank of submission.

        Raises ScenarioError if that is none of the part's.
        """
        if not any(first in starts for starts in self._starts):
            known = ", ".join(f"{starts[0]} … {starts[-1]}" for starts in self._starts)
            raise ScenarioError(f"first_job is {first!r}; windows begin at job {known}, by rank")
        rows = np.arange(first, first + self._jobs)
        if self._keep_times:
            return self._log.take(rows)
        begin = float(self._log.submit_time_s[first])
        return self._log.take(
            rows,
            submit_time_s=self._log.submit_time_s[rows] - begin,
            epoch_s=self._log.epoch_s + begin,
        )


def _part(log: Workload, choice: EpisodeWindows) -> list[tuple[int, int]]:
    """Return (begin, end) ranks of the stretches that make a part up; the end is exclusive."""
    jobs = len(log)
    if choice.part == "all":
        return [(0, jobs)]
    if isinstance(choice.held_out, str):
        first, last = TypeAdapter(Jobs).validate_python(choice.held_out)
        begin, end = first, last + 1
        if end > jobs:
            raise ScenarioError(
                f"episode.held_out: {choice.held_out} ends beyond the log, whose last job is "
                f"{jobs - 1}; take ranks from 0 to {jobs - 1}"
            )
    else:
        begin, end = jobs - round(choice.held_out * jobs), jobs
    return [(begin, end)] if choice.part == "held_out" else [(0, begin), (end, jobs)]


def goes_by_the_clock(scenario: Scenario) -> bool:
    """Return whether more than the jobs has times on the trace's clock, which windows then keep."""
    section = scenario.cluster
    timed = (scenario.power, scenario.processes, section.trace, section.containers)
    return any(timed) or bool(section.maintenance)


def restarted(scenario: Scenario, jobs: Workload) -> tuple[Scenario, Workload]:
    """Return a scenario with power, and jobs of it, on a clock that starts whole weeks later.

    The first job is submitted in the first week. Weeks, as signals without a date may repeat.
    """
    later_s = float(jobs.submit_time_s[0] // _WEEK_S) * _WEEK_S
    if not later_s or scenario.power is None:
        return scenario, jobs
    align = scenario.power.align
    if isinstance(align.zero, datetime):
        align = align.model_copy(update={"zero": align.zero + timedelta(seconds=later_s)})
    elif align.type == "offset":
        align = align.model_copy(update={"offset": align.offset + later_s})
    power = scenario.power.model_copy(update={"align": align})
    moved = jobs.take(
        np.arange(len(jobs)), submit_time_s=jobs.submit_time_s - later_s,
        epoch_s=jobs.epoch_s + later_s,
    )  # fmt: skip
    return scenario.model_copy(update={"power": power}), moved

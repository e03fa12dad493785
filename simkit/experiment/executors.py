"""Executors: where the runs of a sweep are carried out, here or in processes of this machine.

`simkit.experiment.dask_cluster` has another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from simkit.experiment.workers import Workers
from simkit.text import printable


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of one run of a sweep."""

    assignment: dict[str, Any]
    """Swept key → its value."""
    folder: Path
    state: str
    """``done``, ``skipped`` (already finished) or ``failed``."""
    error: str = ""
    seconds: float = 0.0
    digest: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    estimates: str = ""
    """What the policy's estimates were, if it used any; see `Run.estimates`."""
    warnings: tuple[str, ...] = ()
    """What a reader of the results must know; `warnings` in `run.json`."""

    def __repr__(self) -> str:
        swept = ", ".join(f"{key}={value}" for key, value in self.assignment.items())
        error = f": {self.error.splitlines()[0]}" if self.error else ""
        return printable(f"<{self.state}: {swept or self.folder}{error}>")

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"folder": str(self.folder)}


PlannedRun = tuple[dict[str, Any], dict[str, Any], str]
"""(assignment, scenario as JSON, folder): plain values that can be sent anywhere."""
RunTask = Callable[[PlannedRun], SweepOutcome]
"""Carries out a run; must not raise."""


class Executor(Protocol):
    """Where runs are carried out; implement it to distribute them."""

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        """Yield (row, outcome) of every run as it ends; a lost run has an outcome too."""


class InProcess:
    """Carries runs out one after the other, in this process."""

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        for row, run in enumerate(runs):
            yield row, task(run)


class LocalProcesses:
    """Carries runs out in several processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        with Workers(min(self.workers, max(len(runs), 1))) as pool:
            for row, future in in_turn(
                lambda run: _submit(pool, task, run), runs, lambda: self.workers
            ):
                yield row, _result(pool, future, runs[row])


def in_turn(
    submit: Callable[[PlannedRun], Future[SweepOutcome]],
    runs: Sequence[PlannedRun],
    workers: Callable[[], int],
    look_again_s: float | None = None,
) -> Iterator[tuple[int, Future[SweepOutcome]]]:
    """Give each worker one run at a time; yield (row, future) of every run that has ended.

    So an interrupt leaves no queued run to be ended, and a worker that dies costs one run.

    Args:
        submit: begins a run.
        runs: what is to do, in this order.
        workers: returns how many workers there are now.
        look_again_s: time after which `workers` is asked again although no run has ended.
    """
    waiting = iter(enumerate(runs))
    running: dict[Future[SweepOutcome], int] = {}
    left = len(runs)
    while left:
        for row, run in islice(waiting, max(workers() - len(running), 0)):
            running[submit(run)] = row
        for future in wait(running, look_again_s, return_when=FIRST_COMPLETED).done:
            left -= 1
            yield running.pop(future), future


def _submit(pool: Workers, task: RunTask, run: PlannedRun) -> Future[SweepOutcome]:
    try:
        return pool.submit(task, run)
    except BrokenProcessPool as error:  # a worker has died, and the pool with it
        lost: Future[SweepOutcome] = Future()
        lost.set_exception(error)
        return lost


def _result(pool: Workers, future: Future[SweepOutcome], run: PlannedRun) -> SweepOutcome:
    with suppress(BrokenProcessPool):
        return future.result()
    pool.check_main_guard()
    error = "its process died, perhaps out of memory; use fewer --workers"
    return SweepOutcome(run[0], Path(run[2]), "failed", error)

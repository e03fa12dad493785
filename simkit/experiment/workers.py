"""Processes that work for this one, and end with it: on Ctrl-C, on SIGTERM, and if it is killed.

Workers ignore Ctrl-C, which a terminal sends to every process: this process ends them. A worker
that is ended while it simulates stops after the present decision and marks its run as interrupted.
Each worker also watches its parent, and ends if that is gone, so that none is ever left behind.

`Executor`s say where the runs of a sweep are carried out: here or in processes of this machine;
`simkit.experiment.dask_cluster` has another one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from multiprocessing import (
    connection,
    current_process,
    get_context,
    parent_process,
    resource_tracker,
)
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from simkit.errors import RunError
from simkit.plugins import code_refused, refuses_code
from simkit.text import printable

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

GRACE_S: Final = 5.0
"""Time in which a worker that is ended may mark its run as interrupted."""
NO_GUARD: Final = 113
"""Exit code of a worker that ran into its parent's script, which has no main guard."""
MAIN_GUARD: Final = (
    "its worker processes run this script again from the top; put its statements below "
    '`if __name__ == "__main__":`, or use one worker'
)
"""What is wrong with a script without a main guard, and the remedy."""


class Workers(ProcessPoolExecutor):
    """A pool of fresh interpreters, each started when it is needed.

    A fork would inherit threads and generators. An error in the `with` block, Ctrl-C among them,
    ends the workers too: they are asked to stop, and killed when their tasks have ended, or after
    `grace_s`.
    """

    def __init__(self, workers: int, *, grace_s: float = GRACE_S) -> None:
        end_if_main_runs_again()
        super().__init__(
            workers, mp_context=get_context("spawn"), initializer=_begin,
            initargs=(refuses_code(),),
        )  # fmt: skip
        self._grace_s = grace_s
        self._open: set[Future[Any]] = set()
        self._started: dict[int, Any] = {}

    def submit(self, task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a task; a worker that this starts ignores Ctrl-C from its first moment."""
        with without_ctrl_c(), without_lost_main():
            future = super().submit(_stoppable, task, *args, **kwargs)
        self._started.update(self._processes or {})
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def check_main_guard(self) -> None:
        """Raise RunError if the pool is broken because the script has no main guard."""
        for process in self._started.values():
            process.join(self._grace_s)  # it may have closed its files, but not have ended yet
        if any(process.exitcode == NO_GUARD for process in self._started.values()):
            raise RunError(f"{main_file()}: {MAIN_GUARD}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the pool; after an error, end its workers first, and say if no guard caused it."""
        if kind is not None:
            self._end_workers()
        self.shutdown(cancel_futures=kind is not None)
        if isinstance(error, BrokenProcessPool):
            self.check_main_guard()

    def _end_workers(self) -> None:
        processes = list((self._processes or {}).values())
        try:
            if self._grace_s:
                for process in processes:
                    process.terminate()
                wait(tuple(self._open), self._grace_s)
        finally:  # also at a second Ctrl-C
            for process in processes:
                process.kill()


def end_if_main_runs_again() -> None:
    """End this process if it is a new worker that still imports its parent's script.

    A script without a main guard gets here: it would start workers of its own without end.
    """
    if getattr(current_process(), "_inheriting", False):
        raise SystemExit(NO_GUARD)


def main_file() -> str:
    """Return the script that runs."""
    return str(getattr(sys.modules["__main__"], "__file__", None) or "the script")


@contextmanager
def without_lost_main() -> Iterator[None]:
    """Let workers that start meanwhile not run the main script again if it comes from no file.

    Statements that are piped to Python name ``<stdin>``, which every worker would fail to find.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or os.path.exists(file):  # noqa: PTH110
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = file


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C; a process that starts meanwhile blocks it for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in a worker

_at_work = threading.Event()
"""Set while this worker carries out a task."""
_refuses_code = False
"""Whether tasks must not load code that is named in data; see `code_refused`."""


def _begin(refuse_code: bool) -> None:
    """Begin as a worker: without a task there is nothing to stop, and the parent is watched."""
    global _refuses_code
    _refuses_code = refuse_code
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stoppable(task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Carry out a task that SIGTERM interrupts; a simulation first completes its decision."""
    _at_work.set()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with code_refused(_refuses_code):
            return task(*args, **kwargs)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _at_work.clear()


def _end_with_parent() -> None:
    """Wait until the parent is gone, interrupt a task that is under way, and end this process."""
    parent, main = parent_process(), threading.main_thread().ident
    assert parent is not None
    assert main is not None
    connection.wait([parent.sentinel])
    deadline = monotonic() + GRACE_S
    if os.name == "posix":
        signal.pthread_kill(main, signal.SIGTERM)  # also ends a wait of the main thread
        while _at_work.is_set() and monotonic() < deadline:
            sleep(0.05)
    os._exit(1)


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
    submit: Callable[[S], Future[T]],
    runs: Sequence[S],
    workers: Callable[[], int],
    look_again_s: float | None = None,
) -> Iterator[tuple[int, Future[T]]]:
    """Give each worker one run at a time; yield (row, future) of every run that has ended.

    So an interrupt leaves no queued run to be ended, and a worker that dies costs one run.

    Args:
        submit: begins a run.
        runs: what is to do, in this order.
        workers: returns how many workers there are now.
        look_again_s: time after which `workers` is asked again although no run has ended.
    """
    waiting = iter(enumerate(runs))
    running: dict[Future[T], int] = {}
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

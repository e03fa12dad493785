"""Processes for several trainings at a time, which Ctrl-C ends at once and without a word.

The terminal sends Ctrl-C to every process. Here the workers never see it; the parent does, and ends
them. A training goes on from its last checkpoint, so that nothing is lost but a minute.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TrainingWorkers(ProcessPoolExecutor):
    """A pool of new interpreters, each begun when it is needed.

    What a fork takes along of threads and generators is not wanted. A shutdown that cancels what
    waits kills what runs, too, and so does an error in its `with` block.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, mp_context=get_context("spawn"))

    def submit(self, task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a task done; a worker that this begins is deaf to Ctrl-C from its first moment."""
        with _deaf():
            return super().submit(task, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for process in list((self._processes or {}).values()):
                process.kill()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the pool; after an error or Ctrl-C without what is left to do."""
        self.shutdown(cancel_futures=kind is not None)


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold Ctrl-C back; a process that begins meanwhile holds it back for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""Several trainings at a time, in processes that Ctrl-C ends at once and silently.

The terminal sends Ctrl-C to every process. Here the workers ignore it; the parent kills them. A
training resumes from its last checkpoint, so at most a minute of work is lost.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from simkit.scenario import Scenario
from simkit.training.train import train

P = ParamSpec("P")
T = TypeVar("T")


class TrainingWorkers(ProcessPoolExecutor):
    """A pool of fresh interpreters, each started when it is needed.

    A fork would inherit threads and generators. A shutdown that cancels waiting tasks also kills
    the running ones, and so does an error in the `with` block.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, mp_context=get_context("spawn"))

    def submit(self, task: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a task; a worker that this starts ignores Ctrl-C from its first moment."""
        with _without_ctrl_c():
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
        """End the pool; after an error or Ctrl-C, kill its workers."""
        self.shutdown(cancel_futures=kind is not None)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C; a process that starts meanwhile blocks it for good."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def train_all(
    trainings: Sequence[tuple[Scenario, Path]], *, workers: int, say: Callable[[str], None]
) -> None:
    """Do all trainings that are not complete, each in its folder; `say` is told of each."""
    if workers == 1:
        for scenario, folder in trainings:
            say(f"trained {_train(scenario, folder)}")
        return
    with TrainingWorkers(workers) as pool:
        for done in as_completed([pool.submit(_train, *one) for one in trainings]):
            say(f"trained {done.result()}")


def _train(scenario: Scenario, folder: Path) -> str:
    train(scenario, folder)
    return folder.name

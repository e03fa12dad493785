"""The log of a training while it runs: TensorBoard if it is installed, else none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from simkit import plugins
from simkit.training.folder import Row


class TrainingLog(Protocol):
    """Receives the rows of a training."""

    def add(self, row: Row) -> None:
        """Write the row of an iteration."""

    def close(self) -> None:
        """Write what is buffered."""


class _NoLog:
    def add(self, row: Row) -> None:
        pass

    def close(self) -> None:
        pass


def open_log(folder: Path, iteration: int) -> TrainingLog:
    """Return the log of a training that resumes from an iteration.

    Rows of later iterations that an earlier start has written are discarded.
    """
    if find_spec("tensorboard") is None or find_spec("torch") is None:
        return _NoLog()
    log: TrainingLog = plugins.find("simkit.tools", "training.tensorboard")(folder, iteration)
    return log

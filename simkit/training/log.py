"""Where a training is told as it goes: TensorBoard where that is installed, else nowhere."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from simkit import plugins
from simkit.training.folder import Row

TENSORBOARD: Final = "simkit.learners.tensorboard_log:TensorBoardLog"
"""A class whose objects are a `TrainingLog`, made of (folder, iteration)."""


class TrainingLog(Protocol):
    """Takes the rows of a training."""

    def add(self, row: Row) -> None:
        """Take the row of an iteration."""

    def close(self) -> None:
        """Write what is left."""


class NoLog:
    """Takes rows and tells nobody."""

    def add(self, row: Row) -> None:
        pass

    def close(self) -> None:
        pass


def open_log(folder: Path, iteration: int) -> TrainingLog:
    """Return the log of a training that goes on from an iteration.

    Rows of later iterations that an earlier start has told are taken back.
    """
    if find_spec("tensorboard") is None or find_spec("torch") is None:
        return NoLog()
    log: TrainingLog = plugins.find("simkit.learners", TENSORBOARD)(folder, iteration)
    return log

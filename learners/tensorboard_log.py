"""Logs a training's curves for TensorBoard: ``tensorboard --logdir FOLDER``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class TensorBoardLog:
    """Writes each number of a row as a scalar; a `simkit.training.train.TrainingLog`."""

    def __init__(self, folder: Path, iteration: int) -> None:
        """Open the event files in ``folder/tensorboard``.

        Args:
            folder: the training's folder.
            iteration: the last iteration to keep; later ones in the files are discarded.
        """
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=iteration + 1)

    def add(self, row: Mapping[str, float]) -> None:
        """Write the numbers of an iteration."""
        iteration = int(row["iteration"])
        for name, value in row.items():
            if name != "iteration":
                self._writer.add_scalar(name, value, iteration)

    def close(self) -> None:
        """Write buffered rows and close the files."""
        self._writer.close()

"""Progress of a training: iteration, return, held-out number, decisions a second, time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from simkit.progress import progress_bar
from simkit.training import Training
from simkit.training.folder import Row
from simkit.training.train import HELD_OUT


class TrainingProgress:
    """A progress bar that appears with the first iteration."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._row: Any = None
        self._held_out = ""

    def __call__(self, training: Training, row: Row) -> None:
        """Show an iteration."""
        if self._bar is None:
            self._bar = progress_bar("{task.fields[numbers]}", "{task.fields[rate]}")
            self._row = self._bar.add_task("", total=training.iterations, numbers="", rate="")
            self._bar.start()
        if found := [f"{k} {v:,.4g}" for k, v in row.items() if k.startswith(HELD_OUT)]:
            self._held_out = ", " + found[0].replace("_", " ")
        rate = f"{row['decisions_per_s']:,.0f} decisions/s" if "decisions_per_s" in row else ""
        self._bar.update(
            self._row,
            completed=training.iteration,
            numbers=(f"return {row['return']:,.4g}" if "return" in row else "") + self._held_out,
            rate=rate,
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def training_progress(*, enabled: bool) -> Iterator[Callable[[Training, Row], None] | None]:
    """Yield a function to call after every iteration; None if stderr is not a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    progress = TrainingProgress()
    try:
        yield progress
    finally:
        progress.close()

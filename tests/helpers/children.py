"""Processes that a test starts and interrupts: none of them outlives the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SIMKIT = [sys.executable, "-c", "from simkit.cli import main; main()"]
"""The command `simkit`, by this interpreter."""


@contextmanager
def child(
    command: Sequence[str | Path], folder: Path, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a process in a folder, in a group of its own; in the end kill what is left of them.

    Its number is that of its group, to which ``os.killpg`` sends what a terminal sends to all.
    """
    with subprocess.Popen(
        command, cwd=folder, text=True, start_new_session=True, **options
    ) as process:
        try:
            yield process
        finally:
            _kill_group(process)


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait until something holds; raises AssertionError if it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _kill_group(process: subprocess.Popen[str]) -> None:
    if os.name != "posix":
        process.kill()
        return
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)

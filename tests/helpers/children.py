"""Processes that a test starts and interrupts: none of them outlives the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
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


def _kill_group(process: subprocess.Popen[str]) -> None:
    if os.name != "posix":
        process.kill()
        return
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)

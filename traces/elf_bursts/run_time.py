"""The run time of a program: the processor time of its process, which others disturb least."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import suppress
from math import ceil
from pathlib import Path

from simkit.errors import TraceError

__all__ = ["pin", "processors", "run_time_s"]


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(processor: int) -> None:
    """Keep this thread, and what it starts from now on, on one processor, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {processor})


def run_time_s(path: Path, most_s: float, runs: int) -> list[float] | None:
    """Return the processor times, user and system, of some runs of a program, in seconds.

    None if one was killed because it took `most_s` seconds, rounded up. Raises TraceError if one
    failed.
    """
    found = []
    for _ in range(runs):
        process = subprocess.Popen(
            [path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C must not look like a program that fails
        )  # fmt: skip
        if hasattr(resource, "prlimit"):
            limit = ceil(most_s)
            with suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            return None
        if process.returncode:
            raise TraceError(
                f"elf-bursts: {path.name} failed with exit status {process.returncode}; it may "
                "need more memory than there is"
            )
        found.append(usage.ru_utime + usage.ru_stime)
    return found

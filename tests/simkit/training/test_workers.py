"""Workers of trainings: Ctrl-C, which reaches every process, ends them at once and in silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from children import child

pytestmark = pytest.mark.thorough

SCRIPT = """
import os, sys, time
from pathlib import Path
from simkit.experiment.interrupt import terminated_like_interrupted
from simkit.experiment.workers import Workers

def busy(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)

if __name__ == "__main__":
    try:
        with terminated_like_interrupted(), Workers(2, grace_s=0.0) as pool:
            futures = [pool.submit(busy, sys.argv[1]) for _ in range(3)]
            Path(sys.argv[2]).touch()
            futures[0].result()
    except KeyboardInterrupt:
        sys.exit(130)
"""

COMMAND = [sys.executable, "script.py", "working", "starting"]


@pytest.mark.parametrize("when", ["working", "starting"])
@pytest.mark.skipif(os.name != "posix", reason="signals to a group of processes")
def test_ctrl_c_ends_workers_at_once_and_without_a_word(tmp_path, when):
    (tmp_path / "script.py").write_text(SCRIPT)
    with child(COMMAND, tmp_path, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 40
        while not (tmp_path / when).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)  # the workers would sleep for longer
    assert (process.returncode, told) == (130, "")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sigterm_to_the_command_alone_ends_its_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    worker, deadline = tmp_path / "working", time.monotonic() + 40
    with child(COMMAND, tmp_path) as process:
        while not (worker.exists() and worker.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
        assert process.wait(timeout=30) == 130
        while _lives(int(worker.read_text())) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _lives(int(worker.read_text()))


def _lives(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True

"""Started where Ctrl-C is ignored, as a job in the background: simkit goes on, tests do as ever."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from children import SIMKIT, child, until

from simkit.results.run_folder import open_run

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.name != "posix", reason="signals to processes"),
]

SLOW = """
import pathlib
import polars as pl  # which listens to Ctrl-C itself
class Slow:
    def reset(self, info, rng): pass
    def schedule(self, state):
        pathlib.Path("busy").touch()
        pl.LazyFrame({"a": range(20_000)}).group_by(pl.col("a") % 97).agg(pl.len()).collect()
        for task in list(state.queue):
            if on := state.fit(task):
                yield __import__("simkit").Place(task, on)
"""


def ignore() -> None:
    """Be as a shell makes its jobs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def write(folder: Path, jobs: int, further: str = "") -> None:
    (folder / "slow.py").write_text(SLOW)
    (folder / "s.yaml").write_text(
        f"workload: {{type: lublin, jobs: {jobs}, processors: 16}}\n"
        f"policy: {{path: slow.py:Slow}}\n{further}"
    )


COMMANDS = {
    "run": ["run", "s.yaml", "-o", "out"],
    "sweep": ["sweep", "s.yaml", "-j", "2", "-o", "out"],
    "dask": ["sweep", "s.yaml", "-j", "2", "-o", "out", "--on", "dask"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_simkit_goes_on_to_its_end(command: str, tmp_path: Path) -> None:
    if command == "dask":
        pytest.importorskip("distributed")
    write(tmp_path, 60, "" if command == "run" else "sweep: {seed: [0, 1]}\n")
    with child(
        [*SIMKIT, *COMMANDS[command]], tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=ignore,
    ) as process:  # fmt: skip
        until((tmp_path / "busy").exists, 60)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        _, err = process.communicate(timeout=1)
    assert process.returncode == 0, err
    assert "interrupted" not in err
    runs = [open_run(file.parent) for file in (tmp_path / "out").rglob("run.json")]
    assert [run.status for run in runs] == ["complete"] * (1 if command == "run" else 2)


def test_sigterm_still_ends_a_run(tmp_path: Path) -> None:
    write(tmp_path, 20_000)
    with child(
        [*SIMKIT, *COMMANDS["run"]], tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=ignore,
    ) as process:  # fmt: skip
        until((tmp_path / "busy").exists, 60)
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert open_run(tmp_path / "out", allow_partial=True).status == "interrupted"

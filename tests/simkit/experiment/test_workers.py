"""Nothing is left behind: a sweep's workers end with it, however it ends, and mark their runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from children import SIMKIT, child, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="signals to processes"),
]

SLOW = """
import os, pathlib, time
class Slow:
    def reset(self, info, rng): pass
    def schedule(self, state):
        pathlib.Path(f"busy-{os.getpid()}").touch()
        time.sleep(0.01)
        for task in list(state.queue):
            if on := state.fit(task):
                yield __import__("simkit").Place(task, on)
class Stuck(Slow):
    def schedule(self, state):
        yield from super().schedule(state)
        while True: pass
"""


@pytest.fixture
def sweep(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A sweep whose two workers are at work."""
    (tmp_path / "slow.py").write_text(SLOW)
    policies = f"[{{path: slow.py:{request.param}}}]"
    (tmp_path / "s.yaml").write_text(
        "workload: {type: lublin, jobs: 2000, processors: 16}\n"
        f"sweep: {{policy: {policies}, seed: [0, 1]}}\n"
    )
    with child(
        [*SIMKIT, "sweep", "s.yaml", "-j", "2", "-o", "out"], tmp_path,
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        until(lambda: len(list(tmp_path.glob("busy-*"))) == 2, 120)
        yield process


def gone(folder: Path) -> bool:
    """Return whether no worker is left; one that ended but was not reaped is gone, too."""
    numbers = [int(name.name.removeprefix("busy-")) for name in folder.glob("busy-*")]
    assert numbers
    return not any(
        psutil.pid_exists(n) and psutil.Process(n).status() != psutil.STATUS_ZOMBIE for n in numbers
    )


def statuses(folder: Path) -> list[str]:
    return [json.loads(f.read_text())["status"] for f in folder.rglob("run.json")]


@pytest.mark.thorough
@pytest.mark.parametrize("sweep", ["Slow"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_sweep_that_is_ended_ends_its_workers(
    tmp_path: Path, sweep: subprocess.Popen[str], how: signal.Signals
) -> None:
    sweep.send_signal(how)
    _, told = sweep.communicate(timeout=20)
    assert (sweep.returncode, told) == (
        130,
        "interrupted; finished runs in out will not be repeated\n",
    )
    assert gone(tmp_path)
    assert statuses(tmp_path) == ["interrupted"] * 2
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.thorough
@pytest.mark.parametrize("sweep", ["Stuck"], indirect=True)
def test_a_worker_that_does_not_stop_is_killed(
    tmp_path: Path, sweep: subprocess.Popen[str]
) -> None:
    sweep.terminate()
    sweep.communicate(timeout=20)
    assert sweep.returncode == 130
    assert gone(tmp_path)
    assert statuses(tmp_path) == ["incomplete"] * 2


@pytest.mark.parametrize("sweep", ["Slow"], indirect=True)
def test_workers_do_not_outlive_a_sweep_that_is_killed(
    tmp_path: Path, sweep: subprocess.Popen[str]
) -> None:
    sweep.kill()
    sweep.communicate(timeout=20)  # nobody holds the pipe open
    until(lambda: gone(tmp_path), 10)
    assert statuses(tmp_path) == ["interrupted"] * 2


IDLE = """
import os, sys, time
from pathlib import Path
from simkit.experiment.workers import Workers

def work(_):
    Path(f"busy-{os.getpid()}").touch()
    time.sleep(0.5)

if __name__ == "__main__":
    with Workers(2) as pool:
        list(pool.map(work, range(2)))
        Path("idle").touch()
        time.sleep(60)
"""


@pytest.mark.thorough
def test_idle_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(IDLE)
    with child([sys.executable, "script.py"], tmp_path) as process:
        until((tmp_path / "idle").exists, 120)
        assert not gone(tmp_path)
        process.kill()
        process.wait(20)
        until(lambda: gone(tmp_path), 5)

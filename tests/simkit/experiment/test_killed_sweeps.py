"""A sweep that is killed and given again, and one on Dask that loses a worker: equal digests.

    SIMKIT_DATA=… pytest tests/simkit/experiment/test_killed_sweeps.py -m slow -s

does so with 200 runs of KTH-SP2.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from children import SIMKIT, child

from simkit.errors import RunError
from simkit.experiment.api import simulate
from simkit.results.run_folder import open_run

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.name != "posix", reason="signals to processes"),
]

POLICIES = [{"order": order, "backfill": "easy"} for order in ("fcfs", "sjf", "saf", "f1")]
SMALL = {
    "workload": {"type": "swf", "path": "sample:lublin_1000"},
    "sweep": {"policy": POLICIES, "workload.load": [0.9, 1.1], "seed": [0, 1]},
}
KTH = {
    "workload": {
        "type": "swf",
        "path": "${SIMKIT_DATA}/swf/KTH-SP2-1996-2.1-cln.swf.gz",
        "resample": {},  # users' weeks by the seed
    },
    "sweep": {
        "policy": POLICIES,
        "workload.load": [0.8, 0.9, 1.0, 1.1, 1.2],
        "seed": [*range(10)],
    },
}
SWEEPS = [pytest.param(SMALL, id="small"), pytest.param(KTH, id="kth", marks=pytest.mark.slow)]


class Sweep:
    """The command `simkit sweep` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder

    def wait_for_runs(self, number: int) -> None:
        """Wait until this many runs have written their last file, or begin to."""
        while len(list(self.folder.rglob("run.json"))) < number:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def workers(self) -> list[psutil.Process]:
        """The processes that carry out runs."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in children if "spawn_main" in " ".join(each.cmdline())]

    def runs(self) -> list[dict[str, Any]]:
        """Wait for the end; return the outcomes."""
        out, err = self.process.communicate(timeout=3600)
        assert self.process.returncode == 0, err
        runs: list[dict[str, Any]] = json.loads(out)["runs"]
        return runs


@contextmanager
def sweep(here: Path, *words: str) -> Iterator[Sweep]:
    with child(
        [*SIMKIT, "sweep", "grid.json", "-j", "2", "--json", "-o", *words], here,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield Sweep(process, here / words[0])


def complete(folder: Path) -> list[Path]:
    """Return the folders of the complete runs."""
    found = []
    for file in folder.rglob("run.json"):
        try:
            open_run(file.parent)
        except RunError:
            continue
        found.append(file.parent)
    return found


@pytest.mark.parametrize("scenario", SWEEPS)
def test_what_is_killed_is_finished_with_the_same_digests(
    scenario: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "SIMKIT_DATA" in str(scenario):
        request.getfixturevalue("real_data")
    (tmp_path / "grid.json").write_text(json.dumps(scenario))
    sizes = [len(values) for values in scenario["sweep"].values()]
    runs = sizes[0] * sizes[1] * sizes[2]

    begin = time.perf_counter()
    with sweep(tmp_path, "local") as killed:
        killed.wait_for_runs(runs // 3 + 2)  # the two workers may be at one each
        workers = killed.workers()
        killed.process.kill()
        killed.process.communicate()
        psutil.wait_procs(workers, timeout=60)
    kept = len(complete(tmp_path / "local"))
    assert runs // 3 <= kept < runs
    with sweep(tmp_path, "local") as again:
        local = again.runs()
    assert Counter(run["state"] for run in local) == {"skipped": kept, "done": runs - kept}
    local_s = time.perf_counter() - begin

    begin = time.perf_counter()
    with sweep(tmp_path, "dask", "--on", "dask") as on_dask:
        on_dask.wait_for_runs(runs // 3)
        os.kill(on_dask.workers()[0].pid, signal.SIGKILL)
        dask = on_dask.runs()
    dask_s = time.perf_counter() - begin
    assert [run["assignment"] for run in dask] == [run["assignment"] for run in local]
    assert [run["digest"] for run in dask] == [run["digest"] for run in local]
    assert len({run["digest"] for run in dask}) == len({run["folder"] for run in dask}) == runs

    for row in (0, runs - 1):  # as runs of their own
        alone = simulate(open_run(tmp_path / local[row]["folder"]).info["scenario"])
        assert alone.digest == local[row]["digest"]
    print(
        f"\n{runs} runs: {kept} kept of the killed local sweep, {local_s:.0f} s in all; "
        f"{dask_s:.0f} s on Dask with a worker killed; all {runs} digests equal"
    )

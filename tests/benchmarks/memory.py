"""Measures that memory does not grow with the length of a replay.

    python tests/benchmarks/memory.py [--jobs 100000 1000000]

Generates a log for each number of jobs, replays it with `simkit run` in a process of its own and
prints its peak memory, the size of the trace's own columns, and the difference: what simkit itself
takes. The last line holds the target: the difference of the longest log is at most 1.3 times that
of the shortest, and its peak is below 1 GB; the exit code is 1 if not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np

MOST_GROWTH = 1.3
MOST_BYTES = 1e9


def columns_bytes(log: Path) -> int:
    """Return the size of a workload's columns; a constant one, held once, is nothing."""
    from simkit.traces.swf import read_swf

    workload = read_swf(log).workload
    arrays = [getattr(workload, field.name) for field in fields(workload)]
    return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray) and a.strides[0])


def simkit(*arguments: object) -> str:
    command = [sys.executable, "-c", "from simkit.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(jobs: int, folder: Path) -> tuple[int, int]:
    """Return (peak bytes, bytes of the trace's columns) of one replay."""
    log = folder / f"{jobs}.swf.gz"
    simkit("trace", "generate", "lublin", log, "--jobs", jobs, "--load", 0.6, "--set", "users=50")
    scenario = folder / "scenario.yaml"
    scenario.write_text(f"workload: {{type: swf, path: {log}}}\npolicy: {{backfill: easy}}\n")
    run = folder / f"run-{jobs}"
    simkit("run", scenario, "-o", run)
    info = json.loads((run / "run.json").read_text())
    return int(info["peak_memory_bytes"]), columns_bytes(log)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000])
    sizes = parser.parse_args().jobs
    print(f"{'jobs':>10} {'peak MB':>9} {'columns MB':>11} {'rest MB':>9}")
    rests, peak = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for jobs in sizes:
            peak, columns = measure(jobs, Path(folder))
            rests.append(peak - columns)
            print(f"{jobs:>10,} {peak / 1e6:>9.1f} {columns / 1e6:>11.1f} {rests[-1] / 1e6:>9.1f}")
    growth = rests[-1] / rests[0]
    kept = growth <= MOST_GROWTH and peak < MOST_BYTES
    print(f"growth {growth:.2f} (target: at most {MOST_GROWTH}), {'kept' if kept else 'NOT kept'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

"""Replay of logs that compares every start time with an independent reference schedule.

    python docs/reproductions/hpc_reference_schedules.py FOLDER

FOLDER contains a gzipped CSV for each log, with the columns job_id, submit_time_s, run_time_s,
processors and requested_time_s, and the starts start_fcfs_s, start_easy_s, start_sjf_s and
start_sjf_easy_s. Prints a row of Markdown for each log and policy; the exit code is 1 if a start
differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import simkit

PROCESSORS = {
    "KTH-SP2-1996-2.1-cln": 100,
    "lublin_256": 256,
    "SDSC-SP2-1998-4.2-cln": 128,
    "HPC2N-2002-2.2-cln": 240,
    "SDSC-BLUE-2000-4.2-cln": 1152,
}
POLICIES = {
    "fcfs": ("FCFS", {"order": "fcfs", "backfill": "none"}),
    "easy": ("FCFS + EASY", {"order": "fcfs", "backfill": "easy"}),
    "sjf": ("SJF", {"order": "sjf", "backfill": "none"}),
    "sjf_easy": ("SJF + EASY", {"order": "sjf", "backfill": "easy"}),
}
"""Name in the column of starts → (name for people, policy of the scenario)."""


def compare(path: Path, processors: int) -> bool:
    """Print a row for each policy of a log; return whether every start is equal."""
    reference = pl.read_csv(path)
    equal = True
    for key, (name, policy) in POLICIES.items():
        scenario = {
            "workload": {"type": "jobs", "path": str(path)},
            "cluster": {"processors": processors},
            "policy": policy,
        }
        run = simkit.simulate(scenario)
        both = run.jobs.join(reference, on="job_id", validate="1:1")
        same = int((both["start_time_s"] == both[f"start_{key}_s"]).sum())
        wait, slowdown = (run.metrics[m]["mean"] for m in ("wait_time_s", "bounded_slowdown"))
        log = path.name.removesuffix(".csv.gz")
        cells = (log, name, f"{len(reference):,}", f"{same:,}", f"{wait:.3f}", f"{slowdown:.4f}")
        print(f"| {' | '.join(cells)} |", flush=True)
        equal = equal and same == len(reference)
    return equal


def main() -> int:
    """Compare every log."""
    folder = Path(sys.argv[1])
    found = [compare(folder / f"{log}.csv.gz", size) for log, size in PROCESSORS.items()]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())

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

PROCESSORS = {"KTH-SP2-1996-2.1-cln": 100, "lublin_256": 256, "SDSC-SP2-1998-4.2-cln": 128,
              "HPC2N-2002-2.2-cln": 240, "SDSC-BLUE-2000-4.2-cln": 1152}  # fmt: skip
POLICIES = {"fcfs": ("FCFS", "none"), "easy": ("FCFS", "easy"),
            "sjf": ("SJF", "none"), "sjf_easy": ("SJF", "easy")}  # fmt: skip
"""Name in the column of starts → (order, backfilling)."""


def main(folder: Path) -> int:
    """Compare every log."""
    differ = 0
    for log, processors in PROCESSORS.items():
        reference = pl.read_csv(path := folder / f"{log}.csv.gz")
        for key, (order, backfill) in POLICIES.items():
            run = simkit.simulate({
                "workload": {"type": "jobs", "path": str(path)},
                "cluster": {"processors": processors},
                "policy": {"order": order.lower(), "backfill": backfill},
            })  # fmt: skip
            both = run.jobs.join(reference, on="job_id", validate="1:1")
            same = int((both["start_time_s"] == both[f"start_{key}_s"]).sum())
            wait, slowdown = (run.metrics[m]["mean"] for m in ("wait_time_s", "bounded_slowdown"))
            name = f"{log} | {order}{' + EASY' * (backfill == 'easy')}"
            print(
                f"| {name} | {len(both):,} | {same:,} | {wait:.3f} | {slowdown:.4f} |", flush=True
            )
            differ += len(both) - same
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Comparison of heuristics on a pool powered by wind and solar, for power-modulated.md.

    python docs/reproductions/power_modulated.py FOLDER --rows rows.csv
    python docs/reproductions/power_modulated.py FOLDER --rows rows.csv --page

FOLDER contains swf/ and power/, with the file names in `power_modulated_setting` and
`gleamm_exceedance`. The first command runs everything that is not yet in the rows, and adds one row
per run. It can be stopped at any time. It finishes one seed of all cells before the next seed. The
second command writes the page's tables and figures and the summary power-modulated.csv.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from pathlib import Path

import power_modulated_setting as setting
from power_modulated_runs import CELL, MEASURES, Cell, rows_of

from simkit.learners.studies.trainings import made

RATES = (20, 40, 60, 80, 100, 120)
CHECKED_RATES, CHECKED_LOGS = (60, 80, 100, 120), ("synthetic", "sdsc-sp2", "hpc2n")
SEEDS, CHECKED_SEEDS = 10, 3
JOBS, SAMPLE_JOBS, OPEN_JOBS, QUICK_JOBS = 10_000, 3_000, 2_000, 1_000
COLUMNS = (*CELL, "policy", *MEASURES, "seconds", "commit")
Work = Iterator[tuple[Cell, list[str]]]
"""Cells, and the policies to run on each."""


def design(seeds: int, jobs: int) -> Work:
    """Yield the cells, so that the first so many are of all logs, powers and rates alike."""
    policies = [*setting.POLICIES]
    for seed in range(seeds):
        for rate, log, power, battery in product(
            RATES, setting.LOGS, setting.PLACES, (False, True)
        ):
            size = min(jobs, SAMPLE_JOBS) if log == "intrepid" else jobs
            yield Cell(seed, log, power, battery, rate, size), policies
        for level, rate in product(setting.LEVELS, (100, 120)):
            yield Cell(seed, "synthetic", level, False, rate, jobs), policies
        for rate, log in product(RATES, ("synthetic", "sdsc-sp2")):
            # an endless queue is searched as a whole: fewer jobs, or it never ends
            size = min(jobs, OPEN_JOBS)
            yield Cell(seed, log, "dallas", False, rate, size, "open"), policies
        if seed == 0:
            for log in ("sdsc-sp2", "sdsc-blue", "hpc2n"):
                yield Cell(seed, log, "dallas", True, 80, None), policies


def quick() -> Work:
    """Yield the part of the design that shows its steps in some minutes."""
    for cell, policies in design(2, QUICK_JOBS):
        few = cell.log in ("sdsc-sp2", "synthetic") and cell.power in ("dallas", *setting.LEVELS)
        if few and not cell.battery and cell.jobs:
            yield cell, policies


def checks(seeds: int, jobs: int) -> Work:
    """Yield what tells how much of a difference between policies comes from their order.

    With one ready slot an order has nothing to choose, so what differs is the choice of victims.
    With five, the orders are compared with common victims, and with one action an hour.
    """
    for seed in range(seeds):
        for rate, log in product(CHECKED_RATES, CHECKED_LOGS):
            cell = Cell(seed, log, "dallas", False, rate, jobs)
            yield replace(cell, pools="1 + 144"), [*setting.ORDERS, *setting.COMMON]
            yield cell, [*setting.ORDERS, *setting.COMMON, *setting.STEPWISE]


def campaign(planned: Work, path: Path, folder: Path, workers: int) -> None:
    """Run what is missing of the work, and add its rows to the table cell by cell."""
    done = set()
    if path.exists():
        with path.open(newline="") as file:
            done = {tuple(row[name] for name in (*CELL, "policy")) for row in csv.DictReader(file)}
    with path.open("a", newline="") as file, ProcessPoolExecutor(workers) as pool:
        table = csv.DictWriter(file, COLUMNS)
        if not done:
            table.writeheader()
        running = [
            pool.submit(rows_of, cell, names, folder)
            for cell, policies in planned
            if (names := [name for name in policies if (*cell.key, name) not in done])
        ]
        for number, cell_rows in enumerate(as_completed(running), 1):
            table.writerows({**row, "commit": made()["commit"]} for row in cell_rows.result())
            file.flush()
            print(f"{number} of {len(running)} cells", flush=True)


def main() -> None:
    """Run the comparison, or write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder with swf/ and power/")
    parser.add_argument("--rows", type=Path, required=True, help="table of results, a row a run")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"of a window; default: {JOBS}")
    parser.add_argument("--quick", action="store_true", help="small windows of two logs, 2 seeds")
    parser.add_argument("--checks", action="store_true", help="the noise floor and algorithm 2")
    parser.add_argument("--workers", type=int, default=2, help="processes; default: 2")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    given = parser.parse_args()
    if given.page:
        from power_modulated_page import write_page

        write_page(given.rows, Path(__file__).resolve().parent)
        return
    planned = quick() if given.quick else design(given.seeds, given.jobs)
    if given.checks:
        planned = checks(min(given.seeds, CHECKED_SEEDS), min(given.jobs, QUICK_JOBS))
    campaign(planned, given.rows, given.folder, given.workers)


if __name__ == "__main__":
    main()

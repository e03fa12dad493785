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
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import monotonic

import power_modulated_setting as setting
from power_modulated_runs import MEASURES, Cell, Row, rows_of

RATES = (20, 40, 60, 80, 100, 120)
CHECKED_RATES, CHECKED_LOGS = (60, 80, 100, 120), ("synthetic", "sdsc-sp2", "hpc2n")
SEEDS, CHECKED_SEEDS = 10, 3
JOBS, SAMPLE_JOBS, OPEN_JOBS, QUICK_JOBS = 10_000, 3_000, 2_000, 1_000
COLUMNS = (*Cell(0, "", "", False, 0).facts(), "policy", *MEASURES, "seconds", "commit")
QUICK = {"log": {"sdsc-sp2", "synthetic"}, "power": {"dallas", *setting.LEVELS}, "battery": {"no"}}


def design(seeds: int, jobs: int) -> Iterator[Cell]:
    """Yield the cells, so that the first so many are of all logs, powers and rates alike."""
    for seed in range(seeds):
        for rate, log, power, battery in product(
            RATES, setting.LOGS, setting.PLACES, (False, True)
        ):
            size = min(jobs, SAMPLE_JOBS) if log == "intrepid" else jobs
            yield Cell(seed, log, power, battery, rate, size)
        for level, rate in product(setting.LEVELS, (100, 120)):
            yield Cell(seed, "synthetic", level, False, rate, jobs)
        for rate, log in product(RATES, ("synthetic", "sdsc-sp2")):
            # an endless queue is searched as a whole: fewer jobs, or it never ends
            yield Cell(seed, log, "dallas", False, rate, min(jobs, OPEN_JOBS), "open")
        if seed == 0:
            for log in ("sdsc-sp2", "sdsc-blue", "hpc2n"):
                yield Cell(seed, log, "dallas", True, 80, None)


def checks(seeds: int, jobs: int) -> Iterator[tuple[Cell, list[str]]]:
    """Yield what tells how much of a difference between policies comes from their order.

    With one ready slot an order has nothing to choose, so what differs is the choice of victims.
    With five, the orders are compared with common victims, and with one action an hour.
    """
    for seed in range(seeds):
        for rate, log in product(CHECKED_RATES, CHECKED_LOGS):
            cell = Cell(seed, log, "dallas", False, rate, jobs)
            yield replace(cell, pools="1 + 144"), [*setting.ORDERS, *setting.COMMON]
            yield cell, [*setting.ORDERS, *setting.COMMON, *setting.STEPWISE]


def chosen(cells: Iterable[Cell], only: dict[str, set[str]]) -> list[Cell]:
    """Return the cells whose columns are among the values asked for."""
    return [
        cell for cell in cells
        if all(str(cell.facts()[name]) in values for name, values in only.items())
    ]  # fmt: skip


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table of results, as text."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def run_cell(cell: Cell, policies: list[str], folder: Path, bound: bool) -> list[Row]:
    """Return the rows of a cell; the work of one process."""
    return list(rows_of(cell, policies, folder, bound))


Work = list[tuple[Cell, list[str]]]
"""Cells, and the policies to run on each."""


def campaign(planned: Work, path: Path, folder: Path, workers: int, minutes: float) -> None:
    """Run what is missing of the work and add its rows to the table, until time is up."""
    done = {(*(row[c] for c in Cell(0, "", "", False, 0).facts()), row["policy"])
            for row in read_rows(path)}  # fmt: skip
    missing = [(cell, [p for p in names if (*cell.key, p) not in done])
               for cell, names in planned]  # fmt: skip
    work = iter([(cell, names) for cell, names in missing if names])
    total, begin = sum(bool(names) for _, names in missing), monotonic()
    new, commit, finished = not path.exists(), _commit(), 0
    with path.open("a", newline="") as file, ProcessPoolExecutor(workers) as pool:
        table = csv.DictWriter(file, COLUMNS)
        if new:
            table.writeheader()
        running: set[Future[list[Row]]] = set()
        while True:
            while len(running) < workers and monotonic() - begin < 60 * minutes:
                if (task := next(work, None)) is None:
                    break
                cell, names = task
                usual = names == [*setting.POLICIES] and cell.jobs is not None
                bound = usual and cell.seed == 0
                running.add(pool.submit(run_cell, cell, names, folder, bound))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                table.writerows({**row, "commit": commit} for row in future.result())
                file.flush()
                finished += 1
                print(f"{finished} of {total} cells, {monotonic() - begin:.0f} s", flush=True)


def _commit() -> str:
    """Return the state of the source that runs."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _filters(words: list[str]) -> dict[str, set[str]]:
    """Return column -> values of ``log=hpc2n,sdsc-sp2 rate=60``."""
    columns = Cell(0, "", "", False, 0).facts()
    found = {}
    for word in words:
        name, _, values = word.partition("=")
        if name not in columns or not values:
            raise SystemExit(f"--only {word}: write COLUMN=VALUE,…; columns: {', '.join(columns)}")
        found[name] = set(values.split(","))
    return found


def main() -> int:
    """Run the comparison, or write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder with swf/ and power/")
    parser.add_argument("--rows", type=Path, required=True, help="table of results, a row a run")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"of a window; default: {JOBS}")
    parser.add_argument("--only", nargs="*", default=[], metavar="COLUMN=VALUE,…", help="a part")
    parser.add_argument("--quick", action="store_true", help="small windows of two logs, 2 seeds")
    parser.add_argument("--checks", action="store_true", help="the noise floor and algorithm 2")
    parser.add_argument("--workers", type=int, default=2, help="processes; default: 2")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after so many")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    given = parser.parse_args()
    if given.page:
        from power_modulated_page import write_page

        write_page(read_rows(given.rows), Path(__file__).resolve().parent)
        return 0
    seeds, jobs = (2, QUICK_JOBS) if given.quick else (given.seeds, given.jobs)
    only = {**(QUICK if given.quick else {}), **_filters(given.only)}
    cells = chosen(design(seeds, jobs), only)
    if given.quick:
        cells = [replace(cell, jobs=cell.jobs or jobs) for cell in cells if cell.jobs]
    planned = [(cell, [*setting.POLICIES]) for cell in cells]
    if given.checks:
        planned = list(checks(min(seeds, CHECKED_SEEDS), min(jobs, QUICK_JOBS)))
    campaign(planned, given.rows, given.folder, given.workers, given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())

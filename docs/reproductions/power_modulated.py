"""Comparison of heuristics on a pool powered by wind and solar, for power-modulated.md.

    python docs/reproductions/power_modulated.py FOLDER --pages PAGES --work WORK

FOLDER contains swf/ and power/, with the file names in `power_modulated_setting` and
`gleamm_exceedance`. The command runs everything that is not yet in WORK, and writes the page, its
picture and its tables. It can be stopped at any time. It finishes one seed of all cells before the
next seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import polars as pl
import power_modulated_page as page
import power_modulated_setting as setting
from power_modulated_runs import CELL, Cell, rows_of

from simkit.learners.studies.study import Study
from simkit.learners.studies.trainings import Part, kept_tables
from simkit.training import Workplace

CHECKED_RATES, CHECKED_LOGS = (60, 80, 100, 120), ("synthetic", "sdsc-sp2", "hpc2n")
CHECKED_SEEDS, CHECKED_JOBS = 3, 1_000
SAMPLE_JOBS, OPEN_JOBS = 3_000, 2_000
Work = Iterator[tuple[Cell, list[str]]]
"""Cells, and the policies to run on each."""


@dataclass(frozen=True)
class Size:
    """How much to run."""

    seeds: int
    jobs: int
    """Of a window."""
    folder: Path
    """Of the data."""


def design(seeds: int, jobs: int) -> Work:
    """Yield the cells, so that the first so many are of all logs, powers and rates alike."""
    policies = [*setting.POLICIES]
    for seed in range(seeds):
        for rate, log, power, battery in product(
            setting.RATES, setting.LOGS, setting.PLACES, (False, True)
        ):
            size = min(jobs, SAMPLE_JOBS) if log == "intrepid" else jobs
            yield Cell(seed, log, power, battery, rate, size), policies
        for level, rate in product(setting.LEVELS, (100, 120)):
            yield Cell(seed, "synthetic", level, False, rate, jobs), policies
        for rate, log in product(setting.RATES, ("synthetic", "sdsc-sp2")):
            # an endless queue is searched as a whole: fewer jobs, or it never ends
            size = min(jobs, OPEN_JOBS)
            yield Cell(seed, log, "dallas", False, rate, size, "open"), policies
        if seed == 0:
            for log in ("sdsc-sp2", "sdsc-blue", "hpc2n"):
                yield Cell(seed, log, "dallas", True, 80, None), policies


def is_quick(cell: Cell) -> bool:
    """Return whether a cell is of the part that shows the steps of the design in some minutes."""
    few = cell.log in ("sdsc-sp2", "synthetic") and cell.power in ("dallas", *setting.LEVELS)
    return few and not cell.battery and cell.jobs is not None


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


def measure(place: Workplace, size: Size) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Run what is missing: about thirty hours of one core in the full version."""
    work = [one for one in design(size.seeds, size.jobs) if not place.quick or is_quick(one[0])]
    if not place.quick:
        work += checks(min(size.seeds, CHECKED_SEEDS), min(size.jobs, CHECKED_JOBS))
    parts = [
        Part(f"{cell.log} {number}", [asdict(cell), names], rows_of, (cell, names, size.folder))
        for number, (cell, names) in enumerate(work)
    ]
    runs = pl.concat(kept_tables(place, parts), how="diagonal_relaxed")
    return summary(runs.unique([*CELL, "policy"], keep="first", maintain_order=True))


def summary(runs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the long table and the facts of runs: a row a run."""
    played = runs.filter(pl.col("policy") != "bound")
    commits = ", ".join(f"`{name}`" for name in sorted(set(played["commit"])))
    hours = played["seconds"].sum() / 3600
    return page.long_rows(runs), {"runs": len(played), "hours": hours, "commits": commits}


def study(folder: Path, seeds: int = 10, jobs: int = 10_000) -> Study[Size]:
    """Return the study with the data in a folder."""
    return Study(
        "power-modulated", Size(seeds, jobs, folder), Size(2, 1_000, folder), measure, page=page,
        pictures={"power-modulated": page.draw}, templates=HERE / "templates",
    )  # fmt: skip


HERE: Final = Path(__file__).resolve().parent


def main() -> None:
    """Run the comparison, and write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder with swf/ and power/")
    parser.add_argument("--pages", type=Path, default=HERE, help="receives page and tables")
    parser.add_argument("--work", type=Path, required=True, help="keeps results, a table a cell")
    parser.add_argument("--seeds", type=int, default=10, help="default: 10")
    parser.add_argument("--jobs", type=int, default=10_000, help="of a window; default: 10000")
    parser.add_argument("--quick", action="store_true", help="small windows of two logs, 2 seeds")
    parser.add_argument("--workers", type=int, default=2, help="processes; default: 2")
    given = parser.parse_args()
    place = Workplace(given.pages, given.work, given.quick, given.workers, print)
    for each in (place.pages, place.work):
        each.mkdir(parents=True, exist_ok=True)
    study(given.folder, given.seeds, given.jobs)(place)


if __name__ == "__main__":
    main()

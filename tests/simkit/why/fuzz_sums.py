"""Explain every job of random scenarios that combine features: intervals add up, nothing fails.

python tests/simkit/why/fuzz_sums.py --first 0 --count 300
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from time import monotonic

import numpy as np
import polars as pl

import simkit
from simkit.errors import SimkitError
from simkit.why.jobs import explain_jobs

SLOW_S = 10
FUZZ = str(Path(__file__).parents[2] / "fuzz")
if FUZZ not in sys.path:
    sys.path.insert(0, FUZZ)


def wrong_sums(seed, *, combined=True):
    """Return the waits of a random scenario that do not add up; none if it is refused."""
    from combined_scenarios import combined_scenario
    from random_scenarios import random_scenario

    rng = np.random.default_rng(seed)
    make = combined_scenario if combined else random_scenario
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        try:
            run = simkit.simulate(make(rng, folder), output=folder / "run")
        except SimkitError:
            return []
        ids = run.jobs["job_id"].to_list()
        found = explain_jobs(run, ids)
        return [f"{seed}: {text}" for one in found for text in _wrong(one, run)]


def _wrong(explanation, run):
    row = run.jobs.row(by_predicate=pl.col("job_id") == explanation.job_id, named=True)
    if row["wait_time_s"] is not None:
        starts = [wait.end_s for wait in explanation.waits if wait.kind == "first" and wait.started]
        if min(starts) != row["start_time_s"]:
            yield f"job {explanation.job_id}: first start {min(starts)}"
    for wait in explanation.waits:
        edges = [wait.start_s]
        for each in wait.intervals:
            if each.start_s != edges[-1] or not each.end_s > each.start_s:
                yield f"job {explanation.job_id}: gap at {each.start_s}"
            edges.append(each.end_s)
        if edges[-1] != wait.end_s:
            yield f"job {explanation.job_id} {wait.kind}: {wait.length_s} s, up to {edges[-1]}"
    assert explanation.text()
    assert explanation._repr_html_()
    assert explanation.as_json()


def main():
    """Try scenarios; 1 if a wait does not add up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    bad = 0
    for seed in range(given.first, given.first + given.count):
        begin = monotonic()
        for combined in (True, False):
            try:
                for text in wrong_sums(seed, combined=combined):
                    bad += 1
                    print("combined" if combined else "random", text, flush=True)
            except Exception as error:
                bad += 1
                print(f"{seed} {combined}: {error!r}", flush=True)
        if (took := monotonic() - begin) > SLOW_S:
            print(f"{seed}: {took:.0f} s", flush=True)
    print(f"{given.count:,} seeds, {bad:,} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

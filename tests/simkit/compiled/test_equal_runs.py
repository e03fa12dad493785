"""The compiled engine leaves the same records as SimPy's: the digests are equal.

The scenarios are random and small, with what makes trouble: ties, jobs without length, kills at the
limit, learned and corrected estimates, jobs that are too large, endless requests, maintenance. `slow` are whole
logs, each with every order in scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from bag_scenarios import drawn_bags
from pool_scenarios import BACKFILLS, CHANGING, ESTIMATES, FIXED, Scenario, drawn
from trace_files import real_file

import simkit
from simkit.verify import verify_run

SEEDS = 2000
REFUSALS = " at once, ", "waiting job", "no time limit", "partition p1 allows"
"""What is said of jobs that are refused."""
PART = 50
THOROUGH = 400
"""Random scenarios of `make test-all`; all are played by `make slow`."""
PARTS = [
    pytest.param(first, marks=pytest.mark.thorough if first < THOROUGH else pytest.mark.slow)
    for first in range(PART, SEEDS, PART)
]
one_worker = pytest.mark.xdist_group("compiled")
"""Tests of the quick suite, so that kernels are compiled once."""


KINDS = pytest.mark.parametrize("kind", [drawn, drawn_bags], ids=["pools", "bags"])
"""Random scenarios by their seeds: of pools, and of bags on machines (`test_equal_bags`)."""


def differing(kind: Callable[[int], Scenario], first: int, last: int) -> list[int]:
    """Return the seeds of random scenarios whose digests are not equal."""
    return [
        seed
        for seed in range(first, last)
        if kind(seed).played("compiled").digest != kind(seed).played("simpy").digest
    ]


@one_worker
@KINDS
def test_random_scenarios(kind: Callable[[int], Scenario]) -> None:
    assert differing(kind, 0, PART) == []


@KINDS
@pytest.mark.parametrize("first", PARTS)
def test_more_random_scenarios(kind: Callable[[int], Scenario], first: int) -> None:
    assert differing(kind, first, first + PART) == []


def test_scenarios_have_what_makes_trouble() -> None:
    """Kills, refusals and corrections occur, and every order, backfilling rule and estimate."""
    scenarios = [drawn(seed) for seed in range(400)]
    chosen = [one.overrides for one in scenarios]
    assert {one["policy.order"] for one in chosen} == {*FIXED, *CHANGING}
    assert [b for b in BACKFILLS if all(one["policy.backfill"] != b for one in chosen)] == []
    assert [e for e in ESTIMATES if all(one["estimates"] != e for one in chosen)] == []
    jobs = pl.concat([drawn(seed).played("simpy").jobs for seed in range(40)], how="diagonal")
    assert set(jobs["status"]) == {"finished", "killed", "rejected"}
    assert [why for why in REFUSALS if not jobs["reason"].str.contains(why).any()] == []


@one_worker
def test_the_auditor_finds_nothing(tmp_path: Path) -> None:
    for seed in (3, 11, 14):
        one = drawn(seed)
        workload = {"type": "lublin", "jobs": 300, "processors": 64}
        keys = {"policy.order": "sjf", "policy.backfill": one.overrides["policy.backfill"]}
        scenario = {"workload": workload, "engine": "compiled", "seed": seed}
        folder = tmp_path / str(seed)
        run = simkit.simulate(scenario, overrides=keys, output=folder)
        assert run.info["engine"]["name"] == "compiled"
        assert verify_run(folder).ok


LOGS = (
    "CTC-SP2-1996-3.1-cln", "DOST-ASTI_COARE-Saliksik-2020-cln", "HPC2N-2002-2.2-cln",
    "KTH-SP2-1996-2.1-cln", "LLNL-Thunder-2007-1.1-cln", "NASA-iPSC-1993-3.1-cln",
    "SDSC-BLUE-2000-4.2-cln", "SDSC-SP2-1998-4.2-cln", "lublin2", "lublin_256", "theta_2022",
)  # fmt: skip
PLANNED_JOBS = 4000
"""First jobs of a log under conservative backfilling, which SimPy takes long for."""


def pairs() -> Iterator[Any]:
    """Yield every log with every order and backfilling rule."""
    for log in LOGS:
        for order in (*FIXED, *CHANGING):
            for backfill in BACKFILLS:
                name = backfill if isinstance(backfill, str) else "-".join(backfill.values())
                yield pytest.param(log, order, backfill, id=f"{log}-{order}-{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("log", "order", "backfill"), list(pairs()))
def test_logs(log: str, order: str, backfill: Any) -> None:
    scenario: dict[str, Any] = {
        "workload": {"type": "swf", "path": str(real_file("swf", f"{log}.swf.gz"))},
        "policy": {"order": order, "backfill": backfill},
    }
    if "conservative" in str(backfill):
        scenario["workload"]["window"] = {"jobs": PLANNED_JOBS}
    runs = [simkit.simulate({**scenario, "engine": name}) for name in ("compiled", "simpy")]
    assert runs[0].info["engine"]["name"] == "compiled"
    assert runs[0].digest == runs[1].digest

"""Jobs that still wait at the end of a run are told, with what may be the reason."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

import simkit
from simkit.experiment.run_warnings import waiting_warning
from simkit.results.run_folder import MemoryRun
from simkit.workload import Workload

JOBS = {"type": "poisson", "jobs": 20, "processors": 4, "offered_load": 0.5}
SCENARIO = {"workload": JOBS, "cluster": {"processors": 4}}


class _Idle:
    """Places nothing, or only the first so many tasks."""

    def __init__(self, places: int = 0) -> None:
        self.left = places

    def reset(self, info: Any, rng: Any) -> None:
        """See `Policy.reset`."""

    def schedule(self, state: Any) -> Any:
        """See `Policy.schedule`."""
        for task in list(state.queue):
            if self.left and (on := state.fit(task)):
                self.left -= 1
                yield simkit.Place(task, on)


def test_a_run_without_leftovers_has_no_warning() -> None:
    assert waiting_warning(simkit.simulate(SCENARIO)) == ""


CASES = [
    # tasks that the policy places, what the warning says
    (0, r"warning: all 20 jobs still wait .*_Idle placed nothing in [0-9]+ decisions; .*check_pol"),
    (5, r"warning: 15 of 20 jobs still wait .*_Idle left them in the queue in "),
    (19, r"warning: 1 of 20 jobs still waits "),
]


@pytest.mark.parametrize(("places", "text"), CASES)
def test_a_policy_that_leaves_jobs_waiting(places: int, text: str) -> None:
    assert re.match(text, waiting_warning(simkit.simulate(SCENARIO, policy=_Idle(places))))


CAPS = [
    # arguments of power-cap, what the job exceeds, the remedy
    ({}, "what sources, grid and battery give", "raise the grid's import_limit_w"),
    ({"cap_w": 1400}, "its cap_w of 1,400 W", "raise cap_w"),
]


@pytest.mark.parametrize(("arguments", "cap", "remedy"), CAPS)
def test_a_job_that_needs_more_power_than_the_cap_leaves(
    arguments: dict[str, Any], cap: str, remedy: str
) -> None:
    power = {
        "pue": 1.7, "critical_w": 450, "grid": {"import_limit_w": 1470},
        "machines": {"idle_w": 100, "full_w": 200},
    }  # fmt: skip
    policy = {"backfill": {"type": "power-cap", **arguments}}
    jobs = {"job_id": [1, 2], "submit_time_s": [0, 0], "run_time_s": [60, 60], "processors": [1, 4]}
    run = simkit.simulate(
        {**SCENARIO, "power": power, "policy": policy},
        workload=Workload.from_jobs(jobs),
    )
    assert re.sub(r"\d+ decisions?", "N decisions", waiting_warning(run)) == (
        "warning: 1 of 2 jobs still waits at the end of the run: the policy fcfs + power-cap left "
        "them in the queue in N decisions; backfill power-cap starts a job only if the site's load "
        f"stays within {cap}, and what waits needs more power than that leaves; {remedy}, or make "
        "the jobs smaller"
    )


RULES = [
    # backfill, what the warning says after the number of decisions
    ("easy", "what waits may never have had room until its expected end; compare its request "),
    ("mine.py:Rule", "check that its `schedule` "),
    ({"type": "my.package:Rule", "depth": 3}, "check that its `schedule` "),
]


@pytest.mark.parametrize(("backfill", "text"), RULES)
def test_rules_with_names_are_not_to_be_tested_by_their_user(backfill: Any, text: str) -> None:
    policy = {"order": "fcfs", "backfill": backfill, "placement": "first-fit"}
    run = MemoryRun({"decisions": 3, "scenario": {"policy": policy}}, {"timeline": pl.DataFrame()})
    run.__dict__["metrics"] = {"jobs": {"submitted": 1, "waiting": 1}}
    assert f"placed nothing in 3 decisions; {text}" in waiting_warning(run)


def test_machines_that_are_gone_at_the_end_are_the_reason() -> None:
    machines = [{"id": 0, "capacity": {"processors": 4.0}}]
    info = {"cluster": {"resources": ["processors"], "machines": machines}, "decisions": 3}
    timeline = pl.DataFrame({"time_s": [0.0, 9.0], "capacity_processors": [4.0, 1.0]})
    run = MemoryRun(info, {"timeline": timeline})
    run.__dict__["metrics"] = {"jobs": {"submitted": 1, "waiting": 1}}
    assert waiting_warning(run) == (
        "warning: the only job still waits at the end of the run: the machines hold less than at "
        "the start (processors 1 of 4); check what takes them away"
    )


def test_a_job_longer_than_the_time_between_windows_is_told() -> None:
    window = {"start": 0, "duration": "1h", "every": "1d"}
    run = simkit.simulate(
        {**SCENARIO, "cluster": {"processors": 4, "maintenance": [window]}},
        workload=Workload.from_jobs(
            {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [90_000.0], "processors": [4]}
        ),
    )
    assert waiting_warning(run) == (
        "warning: the only job still waits at the end of the run: maintenance recurs and leaves "
        "23:00:00 in between, and what waits is expected to run for at least 1d 01:00:00; make the windows "
        "rarer or shorter, or let them take less capacity"
    )

"""Jobs that still wait at the end of a run are told, with what may be the reason."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

import simkit
from simkit.analysis.run_warnings import waiting_warning
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

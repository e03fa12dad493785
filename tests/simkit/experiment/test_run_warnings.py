"""Jobs that still wait at the end of a run are told, with what may be the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.experiment.warnings import waiting_warning
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


CASES = [
    # tasks that the policy places, what the warning says
    (0, r"warning: all 20 jobs still wait .*_Idle placed nothing in [0-9]+ decisions; .*check_pol"),
    (5, r"warning: 15 of 20 jobs still wait .*_Idle left them in the queue in "),
    (19, r"warning: 1 of 20 jobs still waits "),
]


@pytest.mark.parametrize(("places", "text"), CASES)
def test_a_policy_that_leaves_jobs_waiting(places: int, text: str) -> None:
    with pytest.warns(simkit.SimkitWarning, match=text.removeprefix("warning: ")) as caught:
        run = simkit.simulate(SCENARIO, policy=_Idle(places))
    assert re.match(text, waiting_warning(run))
    assert run.info["warnings"] == [f"warning: {one.message}" for one in caught]
    assert [one.filename for one in caught] == [__file__]


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
    with pytest.warns(simkit.SimkitWarning, match="1 of 2 jobs still waits"):
        run = simkit.simulate(
            {**SCENARIO, "power": power, "policy": policy},
            workload=Workload.from_jobs(jobs),
        )
    assert re.search(
        f"power-cap starts a job only .* within {cap}, .*; {remedy}", run.info["warnings"][-1]
    )


def two_jobs(run_s: float = 7200.0, processors: int = 4) -> Workload:
    """Return a job that always fits and one that may not."""
    return Workload.from_jobs({
        "job_id": [1, 2], "submit_time_s": [0.0, 0.0], "run_time_s": [60.0, run_s],
        "processors": [1, processors],
    })  # fmt: skip


POWER = {
    "machines": {"idle_w": 50, "full_w": 200}, "grid": {"import_limit_w": 100},
    "supply": {"limit": "resources"},
}  # fmt: skip
DAILY = {"duration": "1h", "every": "1d"}
CAUSES = [
    # the scenario, the run time of the second job, the cause that is told
    ({"power": POWER}, 60.0, "the limited supply of power left only processors 0 of 4 by then; raise"),
    # each window alone would leave 23 hours
    (
        {"maintenance": [{"start": 0, **DAILY}, {"start": "12h", **DAILY}]}, 50_000.0,
        "maintenance recurs and leaves 11:00:00 in between, and what waits is expected to run for ",
    ),
    (
        {"remove": True}, 60.0,
        "'strike' in the table of events left only processors 0 of 4 by then; check what takes",
    ),
]  # fmt: skip


class Strike:
    """Takes everything away and never gives it back."""

    def run(self, view: Any) -> Any:
        yield view.timeout(0.0)
        view.take_away(0, cause="strike")


@pytest.mark.parametrize(("given", "run_s", "text"), CAUSES)
def test_what_has_taken_the_machines_away_is_named(
    given: dict[str, Any], run_s: float, text: str
) -> None:
    given = dict(given)
    processes = [Strike()] if given.pop("remove", False) else None
    windows = given.pop("maintenance", [])
    cluster = {"processors": 4, "maintenance": windows}
    with pytest.warns(simkit.SimkitWarning, match=re.escape(text)):
        run = simkit.simulate(
            {**SCENARIO, "cluster": cluster, **given}, workload=two_jobs(run_s), processes=processes
        )
    assert text in waiting_warning(run)


def test_a_head_that_fits_no_gap_is_the_cause_of_what_waits_behind_it() -> None:
    window = {"start": 100, "duration": "1h", "every": "1d"}
    jobs = {"job_id": [7, 8, 9], "submit_time_s": [0.0, 1.0, 2.0],
            "run_time_s": [60.0, 90_000.0, 60.0], "processors": [4, 4, 4]}  # fmt: skip
    scenario = {**SCENARIO, "cluster": {"processors": 4, "maintenance": [window]}}
    with pytest.warns(simkit.SimkitWarning, match="maintenance recurs"):
        run = simkit.simulate(scenario, policy={"order": "fcfs"}, workload=Workload.from_jobs(jobs))
    assert (
        "23:00:00 in between, and job 8 is expected to run for at least 1d 01:00:00; others may"
        in (waiting_warning(run))
    )


def test_every_warning_is_given_in_python_and_recorded(tmp_path: Path) -> None:
    jobs = {"type": "lublin", "jobs": 90, "processors": 8}
    scenario = {"name": "mine", "seed": 1, "workload": jobs, "cluster": {"processors": 4}}
    with pytest.warns(simkit.SimkitWarning, match="[0-9]+ jobs? rejected\\n  job ") as caught:
        run = simkit.simulate(scenario, output=tmp_path / "run")
    assert simkit.open_run(run.folder).info["warnings"] == [f"warning: {caught[0].message}"]
    with pytest.warns(simkit.SimkitWarning, match="[0-9]+ jobs? rejected"):
        simkit.carry_out(simkit.prepare(simkit.load_scenario(scenario)))
    grid = {**scenario, "sweep": {"cluster.processors": [4, 8]}}
    with pytest.warns(simkit.SimkitWarning, match="processors=4/seed=1: [0-9]+ jobs? rejected$"):
        simkit.run_sweep(grid, tmp_path / "swept", workers=1)

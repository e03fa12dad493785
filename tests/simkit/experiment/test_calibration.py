"""Calibration: it finds the policy that made a log, on weeks that chose nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overfull import count
from trace_files import real_file

import simkit as kit
from simkit.analysis.export import export_swf
from simkit.errors import ScenarioError, TraceError
from simkit.experiment.calibration import (
    PLAIN,
    POLICIES,
    REPLAYED,
    Calibration,
    calibrate,
    first_candidates,
    impossible_rows,
)
from simkit.experiment.calibration_weeks import Score, Split, Week, judged
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.swf import SwfLog
from simkit.workload import Workload
from simkit.workload.recorded import with_recorded_starts

pytestmark = pytest.mark.filterwarnings("ignore::simkit.errors.SimkitWarning")

DAY = 86_400.0
SITE: dict[str, Any] = {
    "workload": {"type": "lublin", "jobs": 1200, "processors": 64, "offered_load": 0.9,
                 "users": 12, "estimates": "modal"},
    "cluster": {"processors": 64},
}  # fmt: skip
SPLIT = Split(DAY, DAY, 4)


def made_by(policy: Any, folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a scenario of the log of a site that ran under a policy."""
    log = folder / "site.swf"
    export_swf(kit.simulate({**SITE, "policy": policy, **changes}, output=folder / "made"), log)
    return {"workload": {"type": "swf", "path": str(log)}, "cluster": {"processors": 64}}


@pytest.fixture(scope="module")
def easy_log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a scenario of the log of a site under EASY."""
    return made_by(PLAIN, tmp_path_factory.mktemp("easy"))


@pytest.fixture(scope="module")
def easy(easy_log: dict[str, Any]) -> tuple[dict[str, Any], Calibration]:
    """Return it, and what calibrates it."""
    return easy_log, calibrate(load_scenario(easy_log), SPLIT, workers=1)


@pytest.mark.thorough
def test_the_policy_that_made_a_log_explains_all_of_it(
    easy: tuple[dict[str, Any], Calibration],
) -> None:
    _, found = easy
    assert found.best.candidate.name == PLAIN
    assert found.best.chooses.share_within == found.best.reports.share_within == 1.0
    assert found.best.reports.weekly_error_s == 0
    others = [row for row in found.rows if row.candidate.name == "sjf"]
    assert all(row.reports.share_within < 0.95 for row in others)
    replayed = next(row for row in found.rows if row.candidate is REPLAYED)
    assert replayed.reports.share_within == 1.0
    no_wait = found.rows[0].reports
    assert no_wait.mean_s == 0
    assert no_wait.weekly_error_s == pytest.approx(no_wait.recorded_mean_s)
    assert found.impossible.starts_over_capacity == found.impossible.too_large == 0


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["sjf+easy", "ljf+easy"])
def test_other_policies_are_found_too(policy: str, tmp_path: Path) -> None:
    log = made_by(policy, tmp_path)
    found = calibrate(load_scenario(log), SPLIT, workers=1)
    assert found.best.candidate.name == policy
    share = found.best.reports.share_within
    assert share > 0.98
    rivals = [row for row in found.rows if row.candidate.name in {*POLICIES} - {policy}]
    assert all(row.reports.share_within < share for row in rivals)


@pytest.mark.thorough
def test_a_limit_of_users_is_found(tmp_path: Path) -> None:
    partitions = [{"name": "all", "max_running_per_user": 2}]
    log = made_by(PLAIN, tmp_path, cluster={"processors": 64, "partitions": partitions})
    found = calibrate(load_scenario(log), SPLIT, workers=1)
    assert found.best.candidate.name == "fcfs+easy, at most 2 running jobs of a user"
    assert found.best.reports.share_within > 0.98
    assert found.scenario.cluster.partitions[0].max_running_per_user == 2


@pytest.mark.thorough
def test_workers_change_nothing(easy: tuple[dict[str, Any], Calibration]) -> None:
    log, found = easy
    again = calibrate(load_scenario(log), SPLIT, workers=2)
    assert json.dumps(again.as_dict()) == json.dumps(found.as_dict())


@pytest.mark.thorough
def test_reporting_weeks_choose_nothing(easy: tuple[dict[str, Any], Calibration]) -> None:
    """Whatever the candidates make of them, the choice stays the same."""
    _, found = easy
    worst = replace(found.best.reports, share_within=0.0, weekly_error_s=1e9)
    rows = tuple(
        replace(row, reports=worst if row is found.best else replace(worst, share_within=1.0))
        for row in found.rows
    )
    again = replace(found, rows=rows)
    assert again.best.candidate == found.best.candidate
    assert again.nearest.candidate == found.nearest.candidate


def test_weeks_take_turns_and_follow_the_warm_up() -> None:
    load = workload([(n * DAY / 4, 0.0, 10.0, 1) for n in range(100)])
    weeks = Split(DAY, 2 * DAY, 5).weeks(load)
    assert [week.chooses for week in weeks] == [True, False, True, False, True]
    assert weeks[0].begin_s == 2 * DAY
    assert all(week.end_s - week.begin_s == DAY for week in weeks)
    assert weeks[-1].end_s <= load.submit_time_s[-1]
    assert len({week.begin_s for week in Split(DAY, 0.0, 1000).weeks(load)}) == 24
    with pytest.raises(TraceError, match="give a shorter --week and --warmup"):
        Split(20 * DAY, DAY).weeks(load)


def workload(jobs: list[tuple[float, float, float, int]]) -> Workload:
    """Return jobs of (submission, wait, run time, processors), with recorded starts."""
    submit, wait, run, size = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    load = Workload.from_jobs(
        {"job_id": np.arange(len(jobs)), "submit_time_s": submit, "run_time_s": run,
         "processors": size.astype(int)}
    )  # fmt: skip
    return load.with_columns(recorded_start_s=submit + wait)


def test_jobs_in_the_system_when_the_warm_up_begins_are_there() -> None:
    load = workload([
        (0, 0, 5 * DAY, 1),      # runs when the warm-up begins
        (0, 0, DAY, 1),          # has ended
        (DAY, 4 * DAY, 10, 1),   # waits
        (3.5 * DAY, 0, 10, 1), (4.5 * DAY, 0, 10, 1), (5.5 * DAY, 0, 10, 1), (7 * DAY, 0, 10, 1),
    ])  # fmt: skip
    week = Week(4 * DAY, 5 * DAY, chooses=True)
    assert Split(DAY, DAY).jobs_around(load, week).tolist() == [0, 2, 3, 4, 5]


def test_scores_count_what_is_unknown() -> None:
    submit = np.zeros(5)
    recorded = np.array([0.0, 1000.0, np.nan, -5.0, 100.0])
    start = np.array([300.0, 500.0, 0.0, 0.0, np.nan])
    found = judged(submit, recorded, start)
    assert (found.jobs, found.within, found.unstarted, found.unknown) == (3, 1, 1, 2)
    assert (found.mean_s, found.recorded_mean_s) == (400.0, 500.0)
    empty = judged(submit[:1], np.array([np.nan]), start[:1])
    score = Score.of([found, empty])
    assert (score.weeks, score.jobs, score.share_within) == (1, 3, 1 / 3)
    assert score.weekly_error_s == 100.0
    nothing = Score.of([empty])
    assert nothing.rank == (2.0, float("inf"))


def test_impossible_rows() -> None:
    load = workload([
        (0, 0, 10, 3), (1, 1, 10, 2),  # 5 in use from 2 s to 10 s
        (20, 0, 5, 9),                 # larger than the machine
        (30, -5, 5, 1),                # before its submission
        (40, np.nan, 5, 1), (50, 0, 0, 5),
    ])  # fmt: skip
    found = impossible_rows(load, 4.0)
    assert found.too_large == 2
    assert found.started_early == 1
    assert found.without_start == 1
    assert found.starts_over_capacity == found.instants_over_capacity == 3
    assert found.time_over_capacity_s == 8 + 5
    assert found.peak == 9


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("log", "capacity"),
    [("KTH-SP2-1996-2.1", 100), ("SDSC-SP2-1998-4.2", 128), ("CTC-SP2-1996-3.1", 338),
     ("HPC2N-2002-2.2", 240)],
)  # fmt: skip
def test_a_second_program_counts_the_same(log: str, capacity: int) -> None:
    """On real logs, where they are."""
    path = real_file("swf", f"{log}-cln.swf.gz")
    trace, past = SwfLog.of(path=path).recorded()
    found = impossible_rows(with_recorded_starts(trace.workload, past), float(capacity)).as_dict()
    expected = count(path, capacity)
    assert {name: found[name] for name in expected} == expected


def test_a_second_program_counts_the_same_in_a_small_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [
        f"{n} {n * 10} {rng.integers(-1, 200)} {rng.integers(1, 300)} {rng.integers(1, 12)} -1 -1 "
        "-1 -1 -1 1 1 1 1 1 1 -1 -1"
        for n in range(1, 300)
    ]
    path = tmp_path / "log.swf"
    path.write_text("\n".join([*lines, ""]))
    trace, past = SwfLog.of(path=path).recorded()
    found = impossible_rows(with_recorded_starts(trace.workload, past), 10.0).as_dict()
    expected = count(path, 10)
    assert expected["instants_over_capacity"] > 0
    assert {name: found[name] for name in expected} == expected


def test_every_policy_that_is_tried_is_one() -> None:
    for candidate in first_candidates():
        load_scenario({**SITE, **candidate.overrides})


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"workload": SITE["workload"]}, ScenarioError, "policy.recorded"),
        ({"workload.load": 2.0}, ScenarioError, "moves the submissions"),
    ],
)
def test_what_is_no_past_is_refused(
    easy_log: dict[str, Any], changes: dict[str, Any], text: str, error: Any
) -> None:
    with pytest.raises(error, match=text):
        calibrate(load_scenario(easy_log, overrides=changes), SPLIT, workers=1)


def test_a_log_without_waits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("1 0 -1 5 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n")
    scenario = {"workload": {"type": "swf", "path": str(path)}, "cluster": {"processors": 4}}
    with pytest.raises(TraceError, match="no waits to explain"):
        calibrate(load_scenario(scenario), SPLIT)

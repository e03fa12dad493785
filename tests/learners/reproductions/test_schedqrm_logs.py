"""The log study of SchedQRM: paired jitter, intervals over weeks, kept replays, and its section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from trainings import workplace

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from simkit.analysis.intervals import WEEK_S, set_interval
from simkit.errors import RunError
from simkit.learners.reproductions.schedqrm import logs
from simkit.learners.reproductions.schedqrm.logs import (
    JITTER_S,
    LOGS,
    MEANS,
    Difference,
    Log,
    LogSetting,
    Replay,
    Replayed,
    difference,
    jittered,
    replay_logs,
    replay_missing,
    replayed,
    replays,
    section,
    standings,
)
from simkit.traces.swf import write_swf
from simkit.training import Workplace
from simkit.workload import Workload

JOBS = 400
TINY = LogSetting(
    logs=(Log("Tiny", "tiny.swf"),),
    replays=2,
    candidates=("requested", MEANS, "user-mean, queue", "trees", "actual"),
    measured=0.6,
    warm_up=0.2,
    every=50,
    memory=200,
)


def some_jobs() -> Workload:
    """Return jobs of four users in ten busy weeks of 16 processors."""
    rng = np.random.default_rng(0)
    run_s = np.ceil(np.exp(rng.normal(9.5, 1.5, JOBS)))
    return Workload.from_jobs(
        {
            "job_id": np.arange(1, JOBS + 1),
            "submit_time_s": np.sort(np.floor(rng.uniform(0, 10 * WEEK_S, JOBS))),
            "run_time_s": run_s,
            "processors": rng.integers(1, 17, JOBS),
            "requested_time_s": np.ceil(run_s * rng.uniform(0.9, 8, JOBS)),
            "user": rng.integers(1, 5, JOBS),
        },
        capacity={"processors": 16.0},
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Return a workplace, with the tiny log where logs are looked for."""
    (tmp_path / "swf").mkdir()
    write_swf(tmp_path / "swf" / "tiny.swf", some_jobs())
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    return workplace(tmp_path)


def said_by(place: Workplace) -> list[str]:
    return place.say.__self__  # type: ignore[attr-defined, no-any-return]


# --- jitter and replays ---------------------------------------------------------------------------


def by_id(jobs: Workload) -> dict[int, float]:
    return dict(zip(jobs.job_id.tolist(), jobs.submit_time_s.tolist(), strict=True))


def test_jitter_moves_all_jobs_a_little_and_sorts_them_again():
    crowded = some_jobs()
    crowded = crowded.with_columns(submit_time_s=np.floor(crowded.submit_time_s / 1000))
    moved = jittered(crowded, 0)
    late = np.array([by_id(moved)[job] - at for job, at in by_id(crowded).items()])
    assert ((late >= 0) & (late <= JITTER_S)).all()
    assert late.mean() == pytest.approx(JITTER_S / 2, rel=0.1)
    assert (np.diff(moved.submit_time_s) >= 0).all()
    assert moved.job_id.tolist() != crowded.job_id.tolist()
    rows = np.argsort(moved.job_id)
    for column in ("run_time_s", "instances", "requested_time_s", "user"):
        assert np.array_equal(getattr(moved, column)[rows], getattr(crowded, column))


def test_all_candidates_of_a_replay_see_the_same_submit_times(place, monkeypatch):
    seen: list[dict[int, float]] = []

    def noted(jobs: Workload, number: int) -> Workload:
        moved = jittered(jobs, number)
        seen.append(by_id(moved))
        return moved

    monkeypatch.setattr(logs, "jittered", noted)
    for one in replays(TINY):
        if one.number == 1:
            replayed(one, TINY)
    assert len(seen) == len(TINY.candidates)
    assert all(one == seen[0] for one in seen)


def test_the_last_part_of_a_log_counts_and_the_part_before_is_replayed(place):
    jobs, (log,) = some_jobs(), TINY.logs
    table = replayed(Replay(log, "requested", 0), TINY)
    counted = slice(round(0.4 * JOBS), None)
    assert np.array_equal(table["submit_time_s"], jobs.submit_time_s[counted])
    assert np.array_equal(table["run_time_s"], jobs.run_time_s[counted])
    # Requests below the run time stay: raised ones would give it away.
    assert np.array_equal(table["estimate_s"], jobs.requested_time_s[counted])
    assert (table["estimate_s"] < table["run_time_s"]).any()
    waited, ran = table["wait_time_s"].to_numpy(), jobs.run_time_s[counted]
    expected = np.maximum(1.0, (waited + ran) / np.maximum(ran, 10.0))
    np.testing.assert_allclose(table["bounded_slowdown"], expected)
    cold = replayed(Replay(log, "requested", 0), replace(TINY, warm_up=0.0))
    assert cold["wait_time_s"].sum() < table["wait_time_s"].sum()  # nothing waits at its begin


def test_actual_run_times_and_the_order_decide_the_schedule(place):
    (log,) = TINY.logs
    tables = {name: replayed(Replay(log, name, 0), TINY) for name in TINY.candidates}
    assert tables["actual"]["estimate_s"].equals(tables["actual"]["run_time_s"])
    assert not tables[MEANS]["wait_time_s"].equals(tables["user-mean, queue"]["wait_time_s"])
    assert not tables[MEANS]["estimate_s"].equals(tables["trees"]["estimate_s"])


# --- intervals ------------------------------------------------------------------------------------

WEEKLY = (3.0, -1.0, 4.0, 0.0, 5.0, 9.0, 2.0, 6.0)
"""Difference of every job of each of eight weeks."""


def ones(slowdowns: npt.ArrayLike, submit_s: npt.ArrayLike) -> Replayed:
    """Return replays with slowdowns; their other numbers do not matter."""
    found, submit = np.array(slowdowns, dtype=float), np.array(submit_s)
    return Replayed(submit, np.full(len(submit), 60.0), found, found, found)


def in_weeks(per_week: Sequence[int], replays: int = 1) -> tuple[Replayed, Replayed]:
    """Return two candidates that differ by `WEEKLY`, with so many jobs in each week."""
    week = np.repeat(np.arange(len(WEEKLY)), per_week)
    submit = week * WEEK_S + 1000.0
    base = np.full((replays, len(week)), 50.0)
    return ones(base + np.array(WEEKLY)[week], submit), ones(base, submit)


def bounds(found: Difference) -> tuple[float | None, float | None]:
    return found.interval.low, found.interval.high


def test_the_interval_is_that_of_the_sums_and_counts_of_weeks():
    per_week = (1, 2, 3, 1, 2, 5, 1, 4)
    found = difference(*in_weeks(per_week))
    expected = set_interval(np.array(WEEKLY) * per_week, np.array(per_week, dtype=float))
    assert found.mean == pytest.approx((3 - 2 + 12 + 0 + 10 + 45 + 2 + 24) / 19)
    assert bounds(found) == pytest.approx((expected.low, expected.high))
    assert found.interval.blocks == 8


def test_jobs_that_are_alike_in_a_week_and_replays_that_are_alike_narrow_nothing():
    once = difference(*in_weeks([1] * 8))
    assert bounds(difference(*in_weeks([100] * 8))) == pytest.approx(bounds(once))
    assert bounds(difference(*in_weeks([1] * 8, replays=10))) == pytest.approx(bounds(once))


def test_replays_are_averaged_job_by_job():
    mine, other = in_weeks([1] * 8)
    noise = np.where(np.arange(8) % 2, 7.0, -7.0)
    noisy = replace(
        mine,
        bounded_slowdown=np.stack([mine.bounded_slowdown[0] + s * noise for s in (1, -1)]),
    )
    twice = replace(other, bounded_slowdown=np.repeat(other.bounded_slowdown, 2, axis=0))
    found = difference(noisy, twice)
    assert bounds(found) == pytest.approx(bounds(difference(mine, other)))
    assert found.single == pytest.approx((3.5, 3.5))


def test_standings_by_hand():
    submit = [0.0, WEEK_S]
    run, hour = np.array([3600.0, 7200.0]), 3600.0

    def candidate(estimates: Sequence[Sequence[float]], slowdown: float) -> Replayed:
        waits = np.full((2, 2), 1800.0)
        found = np.full((2, 2), slowdown)
        return Replayed(np.array(submit), run, np.array(estimates) * hour, waits, found)

    results = {
        "requested": candidate([[4, 4], [4, 4]], 9.0),
        MEANS: candidate([[1, 1], [0.5, 1]], 5.0),
        "trees": candidate([[2, 2], [1, 3]], 4.0),
    }
    requested, means, trees = standings(results)
    assert (requested.ratio, requested.outlived, requested.error_s) == (3.0, 0.0, 2.5 * hour)
    assert (means.ratio, means.outlived, means.error_s) == (0.5, 0.75, 0.625 * hour)
    assert (trees.to_means.mean, trees.to_requested.mean) == (-1.0, -5.0)
    assert trees.to_means.single == (-1.0, -1.0)
    assert trees.to_means.verdict == "unknown"  # two weeks are too few
    assert (means.bounded_slowdown, means.wait_time_s) == (5.0, 1800.0)
    assert means.geometric == pytest.approx(5.0)
    assert means.heaviest_week == 0.5


# --- the study ------------------------------------------------------------------------------------


def test_what_is_kept_is_not_done_again(place):
    small = replace(TINY, replays=1, candidates=("requested", MEANS))
    replay_missing(place, small)
    assert said_by(place) == ["replayed Tiny, requested, 0", "replayed Tiny, user-mean, 0"]
    said_by(place).clear()
    next((place.work / "logs").glob("Tiny-requested-0-*")).unlink()
    replay_missing(place, replace(small, candidates=("requested", MEANS, "actual")))
    assert said_by(place) == ["replayed Tiny, requested, 0", "replayed Tiny, actual, 0"]
    said_by(place).clear()
    replay_missing(place, replace(small, warm_up=0.1))
    assert len(said_by(place)) == 2


def test_a_tiny_study_to_its_section(place):
    results = replay_logs(place, TINY)
    assert len(said_by(place)) == len(list(replays(TINY)))
    found = {one.candidate: one for one in standings(results["Tiny"])}
    assert list(found) == list(TINY.candidates)
    assert found["actual"].error_s == found["actual"].outlived == 0.0
    assert found["actual"].ratio == 1.0
    assert found[MEANS].to_means.interval.high == 0.0
    text = section(results, TINY)
    assert text.count("\n| Tiny | ") == 2 * len(TINY.candidates)
    again = section(replay_logs(place, TINY), TINY)
    assert again == text
    assert len(said_by(place)) == len(list(replays(TINY)))


def test_without_the_logs_it_says_where_they_belong(monkeypatch):
    monkeypatch.delenv("SIMKIT_DATA", raising=False)
    with pytest.raises(RunError, match="set SIMKIT_DATA to the folder"):
        _ = LOGS[0].path

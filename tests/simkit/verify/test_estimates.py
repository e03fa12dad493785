"""Estimates are recomputed, perturbed ones drawn again from the seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
import pytest

from simkit import simulate
from simkit.verify import verify_run
from simkit.verify.audit import Check
from simkit.verify.estimates import check_corrections, user_means


def with_estimates(kit: Any, estimators: Any, estimates: list[float]) -> Any:
    """Four jobs one after the other, 10, 20, 30 and 40 s long, that request 100 s each."""
    jobs = [
        kit.rigid(n, 100 * n, 10 * n, 8, 100)._replace(estimate=estimate)
        for n, estimate in enumerate(estimates, 1)
    ]
    segments = [kit.Segment(n, 0, 0, 0, 8, 100.0 * n, 100.0 * n + 10 * n) for n in range(1, 5)]
    world = kit.build(jobs, segments, [{"processors": 8.0}], estimates=estimators)
    users = pl.lit(7, pl.Int64).alias("user")
    world.tables["jobs"] = world.tables["jobs"].with_columns(users)
    world.metrics["fairness_jain"] = {"value": 1.0}  # there is one user
    return kit.with_utilisation(world)


def perturbed(factor: float, seed: int = 0) -> list[float]:
    """Return the estimates drawn from a seed for run times of 10, 20, 30 and 40 s."""
    own = np.random.SeedSequence(seed, spawn_key=(crc32(b"predictor"),))
    run = np.array([10.0, 20, 30, 40])
    drawn = run * (1.0 + factor * np.random.default_rng(own).random(4))
    return [round(time * 2**20) / 2**20 for time in drawn.tolist()]


ESTIMATES = [
    # estimator, the estimates for run times of 10, 20, 30 and 40 s, whether that is right
    ("requested", [100, 100, 100, 100], True),
    ("requested", [100, 100, 100, 40], False),
    ("actual", [10, 20, 30, 40], True),
    ("actual", [10, 20, 30, 41], False),
    ("user-mean", [100, 100, 15, 25], True),
    ({"type": "user-mean", "last": 3}, [100, 100, 100, 20], True),
    ("user-mean", [100, 100, 15, 15], False),  # the mean of the first two, not of the last
    ("user-mean", [100, 10, 15, 25], False),  # one job is too few
    ({"type": "perturbed", "factor": 2.0}, perturbed(2.0), True),
    ({"type": "perturbed", "factor": 2.0}, perturbed(2.0)[::-1], False),
    ({"type": "perturbed", "factor": 2.0}, perturbed(2.0, seed=1), False),
    ({"type": "perturbed", "factor": 2.0}, [10, 20, 30, 40], False),  # the truth is within bounds
    ({"type": "perturbed", "factor": 2.0}, perturbed(1.0), False),
    ("perturbed", perturbed(5.0), True),  # a factor of 5 unless said otherwise
    ("perturbed", [61, 20, 30, 240], False),
]


@pytest.mark.parametrize(("estimator", "estimates", "right"), ESTIMATES)
def test_estimates_are_those_of_the_estimator(
    estimator: Any, estimates: list[float], right: bool, kit: Any, tmp_path: Path
) -> None:
    audit = verify_run(with_estimates(kit, estimator, estimates).save(tmp_path / "run"))
    assert set(audit.found) == (set() if right else {"estimates"})
    assert "estimates" in {check.name for check in audit.done}


CORRECTED = [
    # correction, corrected_estimate_s of jobs that were told 15, 15, 30 and 0 s and ran for 10, 20,
    # 30 and 400 s, whether that is right; they request 100 s, the last one nothing
    ("tsafrir", [15, 75, 30, 900], True),
    ("tsafrir", [15, 15, 30, 900], False),  # not corrected
    ("tsafrir", [15, 100, 30, 900], False),  # that is the request
    ("tsafrir", [15, 75, 90, 900], False),  # it ended at its estimate
    ("tsafrir", [15, 75, 30, 300], False),  # one step too few
    ("request", [15, 100, 30, 0], True),
    ("request", [15, 75, 30, 0], False),
    ("tsafrir", None, False),  # no such column
]


@pytest.mark.parametrize(("correction", "estimates", "right"), CORRECTED)
def test_corrections_are_recomputed(
    correction: str, estimates: list[float] | None, right: bool
) -> None:
    frame = pl.DataFrame(
        {"estimate_s": [15.0, 15, 30, 0], "run_time_s": [10.0, 20, 30, 400], "gang": [True] * 4,
         "requested_time_s": [100.0, 100, 100, None]}
    )  # fmt: skip
    if estimates is not None:
        frame = frame.with_columns(pl.Series("corrected_estimate_s", estimates, pl.Float64))
    check = Check("estimates", "")
    check_corrections(check, frame, correction)
    assert (check.found == 0) == right


CORRECTED_LOG = """\
job_id,submit_time_s,run_time_s,processors,requested_time_s,user
1,0,10,1,60,1
2,0,10,1,60,1
3,100,2000,2,9000,1
4,200,50,2,60,2
"""
"""Job 3 is told 10 s; it outlives that and the next four estimates."""
SUSPENDED = {"maintenance": [{"start": 1000, "duration": 300, "running": "suspend"}]}


@pytest.mark.parametrize(
    ("cluster", "corrected_s"),
    [({}, [110, 170, 410, 1010, 1910]), (SUSPENDED, [110, 170, 410, 1310, 2210])],
)
def test_the_timeline_has_a_row_for_each_correction_and_no_other(
    cluster: dict[str, Any], corrected_s: list[float], tmp_path: Path
) -> None:
    (tmp_path / "jobs.csv").write_text(CORRECTED_LOG)
    run = simulate(
        {
            "workload": {"type": "jobs", "path": str(tmp_path / "jobs.csv")},
            "cluster": {"processors": 2} | cluster,
            "policy": {"order": "fcfs", "backfill": "easy"},
            "estimates": {"type": "user-mean", "correction": "tsafrir"},
        },
        output=tmp_path / "run",
    )
    rows = run.timeline
    assert set(corrected_s) <= set(rows["time_s"])
    audit = verify_run(tmp_path / "run")
    assert "timeline" in {check.name for check in audit.done}
    assert audit.found == {}
    for wrong in (
        rows.filter(pl.col("time_s") != corrected_s[1]),
        rows.with_columns(pl.col("time_s").replace(corrected_s[1], corrected_s[1] + 1)),
    ):
        wrong.write_parquet(tmp_path / "run" / "timeline.parquet")
        assert "timeline" in verify_run(tmp_path / "run").found


def test_a_custom_estimator_is_not_audited(kit: Any, tmp_path: Path) -> None:
    world = with_estimates(kit, {"type": "mine.py:Guess"}, [1, 2, 3, 4])
    audit = world.audit(tmp_path / "run")
    assert "mine.py:Guess" in audit.not_audited["estimates"]


def ended(*rows: tuple[object, float, float, float]) -> pl.DataFrame:
    """Jobs (user, submit, start, end) in order of end; they request 1000 s."""
    columns = ("user", "submit_time_s", "start_time_s", "end_time_s")
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return frame.with_columns(
        job_id=pl.int_range(pl.len()),
        run_time_s=pl.col("end_time_s") - pl.col("start_time_s"),
        requested_time_s=pl.lit(1000.0),
        trace_run_time_s=pl.lit(1.0),
    )


HISTORIES = [
    # jobs (user, submit, start, end) in order of end, the estimate of the last, by two jobs
    (
        [(1, 0.0, 0.0, 10.0), (1, 0.0, 0.0, 20.0), (1, 20.0, 20.0, 21.0)],
        15.0,
    ),  # ends count immediately
    ([(1, 0.0, 0.0, 10.0), (2, 0.0, 0.0, 20.0), (1, 20.0, 20.0, 21.0)], 1000.0),  # another user's
    ([(-1, 0.0, 0.0, 10.0), (-1, 0.0, 0.0, 20.0), (-1, 20.0, 20.0, 21.0)], 1000.0),  # unknown
    ([("ann", 0.0, 0.0, 10.0), ("ann", 0.0, 0.0, 20.0), ("ann", 20.0, 20.0, 21.0)], 15.0),
    # a job that is submitted and ends at one instant ends after the arrivals of that instant
    ([(1, 0.0, 0.0, 10.0), (1, 20.0, 20.0, 20.0), (1, 20.0, 20.0, 21.0)], 1000.0),
]


@pytest.mark.parametrize(("rows", "estimate"), HISTORIES)
def test_a_user_mean_is_over_what_has_ended(rows: Any, estimate: float) -> None:
    assert user_means(ended(*rows), 2)[-1] == estimate

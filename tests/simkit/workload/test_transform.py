"""Windows, load, processors and resampling: what changes, and what stays as it was."""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.traces.swf import read_swf
from simkit.workload import Workload
from simkit.workload.transform import (
    WEEK_S,
    cap_processors,
    cap_run_times,
    resample,
    scale_load,
    scale_processors,
    scale_run_times,
    scale_to_load,
    window,
)

DATA = Path(os.environ.get("SIMKIT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "swf"


def jobs_at(*submits, user=0, processors=2, **facts):
    size = len(submits)
    return Workload.from_jobs(
        {
            "job_id": np.arange(100, 100 + size),
            "submit_time_s": np.array(submits, float),
            "run_time_s": np.full(size, 60.0),
            "processors": np.broadcast_to(processors, (size,)),
            "user": np.broadcast_to(user, (size,)),
        },
        **facts,
    )


# ---- windows ------------------------------------------------------------------------------------

WINDOWS = [
    # start, end, jobs, ranks of the jobs left of six that come every 100 s from 1000 s on
    (None, None, None, [0, 1, 2, 3, 4, 5]),
    (100, 300, None, [1, 2]),  # the start is in, the end is not
    ("100s", "5m", None, [1, 2]),
    (None, None, 2, [0, 1]),
    (None, None, "1..3", [1, 2, 3]),
    (None, None, (1, 3), [1, 2, 3]),
    (None, None, "2", [0, 1]),
    (100, None, "1..2", [2, 3]),  # ranks count within the window of time
    (None, None, "4..99", [4, 5]),
    ("1970-01-01T00:20:00Z", None, None, [2, 3, 4, 5]),
    (datetime(1970, 1, 1, 0, 20, tzinfo=UTC), None, None, [2, 3, 4, 5]),
]


@pytest.mark.parametrize(("start", "end", "jobs", "ranks"), WINDOWS)
def test_a_window_keeps_the_jobs_inside_and_their_clock(start, end, jobs, ranks):
    log = jobs_at(*range(1000, 1600, 100), epoch_s=0.0)
    cut = window(log, start, end, jobs)
    assert cut.job_id.tolist() == [100 + rank for rank in ranks]
    assert cut.submit_time_s.tolist() == [1000 + 100 * rank for rank in ranks]


BAD_WINDOWS = [
    # start, end, jobs, what the message says
    (600, None, None, "none of the 6 jobs: start 00:10:00; the trace lasts 00:08:20"),
    (300, 300, None, "none of the 6 jobs: start 00:05:00, end 00:05:00; the trace"),
    (600, None, "0..9", "none of the 6 jobs: start 00:10:00, jobs 0..9; the trace"),
    (None, None, 0, "is empty"),
    (None, None, "3..1", "is empty"),
    (None, None, "a..b", "write a number, or first..last"),
    ("soon", None, None, "neither a duration"),
    ("2024-05-01", None, None, "has no time zone"),
    ("2024-05-01T00:00Z", None, None, "does not tell when it began"),
]


@pytest.mark.parametrize(("start", "end", "jobs", "expected"), BAD_WINDOWS)
def test_an_empty_or_malformed_window_is_an_error(start, end, jobs, expected):
    with pytest.raises(TraceError, match=expected):
        window(jobs_at(*range(1000, 1600, 100)), start, end, jobs)


# ---- load and processors ------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=20),
    st.floats(0.1, 10, allow_nan=False),
)
def test_scaling_the_load_divides_times_since_the_first_submit(submits, factor):
    log = jobs_at(*sorted(submits))
    scaled = scale_load(log, factor)
    first = log.submit_time_s[0]
    np.testing.assert_allclose(
        scaled.submit_time_s - first, (log.submit_time_s - first) / factor, atol=1e-6
    )
    assert scaled.submit_time_s[0] == first
    assert (scaled.run_time_s == log.run_time_s).all()


PROCESSORS = [
    # factor, cap, processors of jobs of 1, 2, 3 and 100
    (1, None, [1, 2, 3, 100]),
    (0.5, None, [1, 1, 2, 50]),  # halves up, at least 1
    (0.001, None, [1, 1, 1, 1]),
    (1.5, 128, [2, 3, 5, 128]),
]


@pytest.mark.parametrize(("factor", "cap", "expected"), PROCESSORS)
def test_scaling_processors_rounds_and_keeps_at_least_one(factor, cap, expected):
    log = jobs_at(0, 1, 2, 3, processors=np.array([1, 2, 3, 100]))
    assert scale_processors(log, factor, cap).instances.tolist() == expected


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_factor_must_be_a_finite_number_above_zero(factor):
    with pytest.raises(TraceError, match=r"load: .* finite number above 0"):
        scale_load(jobs_at(0), factor)
    with pytest.raises(TraceError, match=r"processors_scale: .* finite number above 0"):
        scale_processors(jobs_at(0), factor)


def test_a_cap_must_leave_a_processor():
    with pytest.raises(TraceError, match="the cap is 0"):
        scale_processors(jobs_at(0), 1, cap=0)
    with pytest.raises(TraceError, match="processors_max: 0"):
        cap_processors(jobs_at(0), 0)


def timed(*runs, requested) -> Workload:
    log = jobs_at(*range(len(runs)))
    return log.with_columns(run_time_s=np.array(runs), requested_time_s=np.array(requested))


@pytest.mark.parametrize("load", [0.2, 1.2])
def test_arrivals_are_brought_to_an_offered_load(load):
    log = jobs_at(5, 6, 9, 100, processors=[1, 5, 64, 2])
    scaled = scale_to_load(log, load, 10)
    submit = scaled.submit_time_s
    area = (scaled.instances * scaled.run_time_s).sum()
    assert area / (10 * (submit[-1] - submit[0])) == pytest.approx(load, rel=1e-6)
    assert (scaled.instances == log.instances).all()
    gaps = np.diff(submit) / np.diff(log.submit_time_s)
    assert gaps == pytest.approx(gaps[0], rel=1e-4)  # times lie on a grid
    assert submit[0] == 5


@pytest.mark.parametrize(
    ("log", "load", "processors", "expected"),
    [
        (jobs_at(1, 1), 0.5, 10, "within 0 s"),
        (jobs_at(1, 2), 0.0, 10, "target_load: 0.0"),
        (jobs_at(1, 2), 0.5, 0, "a machine of 0 processors"),
    ],
)
def test_a_load_that_cannot_be_reached_is_an_error(log, load, processors, expected):
    with pytest.raises(TraceError, match=expected):
        scale_to_load(log, load, processors)


RUN_TIMES = [
    # what is done, run times and requested times of jobs of 60 s and 300 s
    (lambda log: scale_run_times(log, 0.5), [30, 150], [60, np.nan]),
    (lambda log: cap_run_times(log, 100), [60, 100], [100, np.nan]),
    (lambda log: cap_run_times(log, 1000), [60, 300], [120, np.nan]),
]


@pytest.mark.parametrize(("change", "runs", "requested"), RUN_TIMES)
def test_run_times_and_requested_times_change_together(change, runs, requested):
    changed = change(timed(60.0, 300.0, requested=[120.0, np.nan]))
    assert changed.run_time_s.tolist() == runs
    assert changed.requested_time_s.tolist() == pytest.approx(requested, nan_ok=True)
    assert changed.submit_time_s.tolist() == [0, 1]


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_run_times_need_a_finite_factor_or_limit_above_zero(wrong):
    log = jobs_at(0)
    with pytest.raises(TraceError, match="run_time_scale"):
        scale_run_times(log, wrong)
    with pytest.raises(TraceError, match="run_time_max"):
        cap_run_times(log, wrong)


# ---- resampling ---------------------------------------------------------------------------------


def log_of_users(seed=1, weeks=30):
    """A log with 40 temporary users of one or two weeks and 4 who stay all the time."""
    rng = np.random.default_rng(seed)
    rows = [(user, w * WEEK_S + rng.uniform(0, WEEK_S)) for user in range(4) for w in range(weeks)]
    for user in range(4, 44):
        begin = rng.integers(weeks - 1)
        rows += [(user, begin * WEEK_S + rng.uniform(0, 2 * WEEK_S)) for _ in range(5)]
    submit = np.array([time for _, time in rows])
    order = np.argsort(submit)
    user = np.array([user for user, _ in rows])[order]
    return Workload.from_jobs(
        {
            "job_id": np.arange(len(rows)),
            "submit_time_s": submit[order],
            "run_time_s": np.arange(1, len(rows) + 1),  # a different one a job: tells where from
            "processors": np.ones(len(rows)),
            "user": user,
        },
        labels={"user": tuple(f"u{i}" for i in range(44))},
    )


def test_equal_generators_give_equal_workloads_and_other_seeds_others():
    log = log_of_users()
    one, again, other = (resample(log, 20, np.random.default_rng(s)) for s in (0, 0, 1))
    assert (one.submit_time_s == again.submit_time_s).all()
    assert (one.run_time_s == again.run_time_s).all()
    assert one.submit_time_s.tolist() != other.submit_time_s.tolist()


@given(st.integers(0, 1000), st.integers(1, 60))
def test_jobs_move_by_whole_weeks_within_the_new_log(seed, weeks):
    log = log_of_users()
    new = resample(log, weeks, np.random.default_rng(seed))
    origin = log.submit_time_s[new.run_time_s.astype(int) - 1]
    moved = (new.submit_time_s - origin) / WEEK_S
    np.testing.assert_allclose(moved, np.round(moved), atol=1e-9)
    assert new.submit_time_s.max() < weeks * WEEK_S
    assert new.submit_time_s.min() >= 0
    assert new.job_id.tolist() == list(range(1, len(new) + 1))


def test_each_person_keeps_the_jobs_of_one_user_in_their_order():
    log = log_of_users()
    new = resample(log, 60, np.random.default_rng(3))
    people = new.user.max() + 1
    assert people == len(new.labels["user"]) > 44
    firsts = [int(np.flatnonzero(new.user == person)[0]) for person in range(people)]
    assert firsts == sorted(firsts)
    for person in range(people):
        rows = new.run_time_s[new.user == person].astype(int) - 1
        assert (np.diff(rows) > 0).all()
        name = new.labels["user"][person].partition("#")[0]
        assert {f"u{u}" for u in log.user[rows]} == {name}


def test_the_mean_load_is_the_logs():
    log = log_of_users()
    weekly = len(log) / ((log.submit_time_s[-1] - log.submit_time_s[0]) / WEEK_S)
    counts = [len(resample(log, 10, np.random.default_rng(s))) / 10 for s in range(200)]
    assert np.mean(counts) == pytest.approx(weekly, rel=0.03)


def test_jobs_without_a_user_stay_without():
    log = jobs_at(0, 10, 20, 30, user=np.array([-1, 5, -1, 5]))
    new = resample(log, 8, np.random.default_rng(2))
    unknown = np.isin(new.submit_time_s % WEEK_S, (0, 20))
    assert unknown.any()
    assert (~unknown).any()
    assert (new.user[unknown] == -1).all()
    assert (new.user[~unknown] >= 0).all()


def test_a_log_without_users_or_weeks_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(TraceError, match="tells no user of any job"):
        resample(jobs_at(0, 1, user=-1), 4, rng)
    with pytest.raises(TraceError, match="weeks is 0"):
        resample(jobs_at(0, 1), 0, rng)


def test_ten_seeds_of_a_real_log_are_ten_workloads_of_its_load():
    path = DATA / "KTH-SP2-1996-2.1-cln.swf.gz"
    if not path.exists():
        pytest.skip(f"no {path}; set SIMKIT_DATA to the folder of real logs")
    log = read_swf(path).workload

    def area_per_week(jobs, weeks):
        return (jobs.instances * jobs.run_time_s).sum() / weeks

    length = (log.submit_time_s[-1] - log.submit_time_s[0]) / WEEK_S
    weeks = int(np.ceil(length))
    new = [resample(log, weeks, np.random.default_rng(seed)) for seed in range(10)]
    shares = [area_per_week(w, weeks) / area_per_week(log, length) for w in new]
    assert all(0.9 < share < 1.1 for share in shares)  # measured: 0.99 to 1.02
    assert np.mean(shares) == pytest.approx(1, abs=0.03)
    assert len({w.submit_time_s.tobytes() for w in new}) == 10
    hours = [np.bincount((w.submit_time_s // 3600 % 24).astype(int), minlength=24) for w in new]
    original = np.bincount((log.submit_time_s // 3600 % 24).astype(int), minlength=24)
    for hour in hours:  # the daily cycle stays
        assert np.corrcoef(hour, original)[0, 1] > 0.95


def test_a_cap_on_processors_takes_units_away_and_cuts_one_that_is_larger() -> None:
    log = Workload.from_jobs(
        {
            "job_id": [1, 2, 3, 4],
            "submit_time_s": [0, 1, 2, 3],
            "run_time_s": [9, 9, 9, 9],
            "instances": [4, 1, 30, 3],
            "processors": [8, 24, 1, 64],
            "gpu": [4, 4, 0, 1],
        },
        request=("processors", "gpu"),
    )
    cut = cap_processors(log, 20)
    assert cut.instances.tolist() == [2, 1, 20, 1]
    assert cut.request.tolist() == [[8, 4], [20, 4], [1, 0], [20, 1]]
    assert (cut.instances * cut.request[:, 0]).max() <= 20
    assert log.request[:, 0].tolist() == [8, 24, 1, 64]  # the workload itself stays
    assert cap_processors(log, 200).request.tolist() == log.request.tolist()

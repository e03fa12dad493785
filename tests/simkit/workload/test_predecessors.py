"""Release times and preceding jobs: found by id, checked, and carried by every transformation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.experiment.workload import read_trace
from simkit.scenario import Scenario
from simkit.workload import Workload
from simkit.workload.dependencies import Links
from simkit.workload.transform import (
    cap_processors,
    cap_run_times,
    resample,
    scale_load,
    scale_processors,
    scale_run_times,
    scale_to_load,
    window,
    with_dependencies,
)

COLUMNS = {
    "job_id": [10, 20, 30, 40],
    "submit_time_s": [0.0, 0, 5, 6],
    "run_time_s": [100.0, 50, 50, 10],
    "processors": [4, 4, 4, 1],
    "release_time_s": [np.nan, 0, 7, 106],
    "preceding_job": [-1, 10, 20, np.nan],
    "think_time_s": [0.0, 30, 0, 9],
}


def load(**changes):
    return Workload.from_jobs(COLUMNS | changes)


def links(workload):
    """Return (job id, id of a preceding job, think time) of every link."""
    job = np.repeat(np.arange(len(workload)), np.diff(workload.first_predecessor))
    ids = workload.job_id
    return list(
        zip(ids[job].tolist(), ids[workload.predecessor].tolist(), workload.think_time_s.tolist(),
            strict=True)
    )  # fmt: skip


def test_jobs_are_found_by_id_whatever_the_order_of_rows():
    wanted = [(20, 10, 30), (30, 20, 0)]
    assert links(load()) == wanted
    order = [3, 1, 0, 2]
    shuffled = {name: np.array(column)[order] for name, column in COLUMNS.items()}
    assert links(Workload.from_jobs(shuffled)) == wanted
    assert load().release_time_s.tolist() == [0, 0, 7, 106]


def test_ids_may_be_text():
    ids = np.array(["a", "b", "c", "d"], dtype=object)
    before = np.array([None, "a", "b", ""], dtype=object)
    assert links(load(job_id=ids, preceding_job=before)) == [("b", "a", 30), ("c", "b", 0)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first_predecessor": np.array([0, 1])}, "first_predecessor has shape"),
        ({"first_predecessor": np.array([0, 2, 1, 2, 2])}, "must rise from 0"),
        ({"first_predecessor": np.array([0, 0, 1, 2, 3])}, "must rise from 0"),
        ({"think_time_s": np.zeros(3)}, "think_time_s has shape"),
        ({"predecessor": np.array([0, 4])}, "predecessors must be rows of jobs"),
        ({"predecessor": np.array([0, -1])}, "predecessors must be rows of jobs"),
        ({"release_time_s": np.zeros(3)}, "release_time_s has shape"),
    ],
)
def test_columns_of_another_form_are_refused(changes, words):
    with pytest.raises(TraceError, match=words):
        load().with_columns(**changes)


def test_of_jobs_with_one_id_the_last_before_is_meant():
    ids = np.array([1, 2, 1, 3, 1])
    found = Links.by_id(ids, np.array([1, 3, 4]), np.array([1, 1, 1]), np.zeros(3))
    assert found.predecessor.tolist() == [0, 2, 2]
    first = Links.by_id(ids, np.array([0]), np.array([1]), np.zeros(1))
    assert first.predecessor.tolist() == [0]  # itself: there is none before


@given(st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
))  # fmt: skip
def test_without_the_links_of_loops_there_is_no_loop(drawn):
    jobs, pairs = drawn
    pairs = sorted(pairs)
    job, before = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    found = Links(job, before, np.zeros(len(job)))
    out = found.in_loops(jobs)
    assert (before[out] >= job[out]).all()
    kept = found.of(~out)
    Workload.from_jobs(  # raises TraceError for loops
        {"job_id": np.arange(jobs), "submit_time_s": np.zeros(jobs), "run_time_s": np.ones(jobs),
         "processors": np.ones(jobs)}
    ).with_columns(**kept.columns(jobs))  # fmt: skip
    assert not out.any() or not (before < job).all()


# ---- transformations ---------------------------------------------------------------------------


def test_predecessors_outside_a_window_count_as_ended_and_are_counted():
    part = window(load(), jobs="1..3")
    assert links(part) == [(30, 20, 0)]
    assert part.preceding_left_out == 1
    assert part.release_time_s.tolist() == [0, 7, 106]
    assert window(part, jobs="1..2").preceding_left_out == 2
    assert window(load(), jobs=3).preceding_left_out == 0


def test_release_times_move_with_submissions_and_think_times_stay():
    faster = scale_load(load(), 2.0)
    assert faster.submit_time_s.tolist() == [0, 0, 2.5, 3]
    assert faster.release_time_s.tolist() == [0, 0, 4.5, 103]
    assert links(faster) == links(load())


@pytest.mark.parametrize(
    "change",
    [lambda w: scale_processors(w, 2), lambda w: cap_processors(w, 2),
     lambda w: scale_run_times(w, 3), lambda w: cap_run_times(w, 5),
     lambda w: scale_to_load(w, 0.5, 8)],
    ids=["processors_scale", "processors_max", "run_time_scale", "run_time_max", "target_load"],
)  # fmt: skip
def test_other_transformations_keep_links_and_delays(change):
    before, after = load(), change(load())
    assert links(after) == links(before)
    delay = after.release_time_s - after.submit_time_s
    assert np.allclose(delay, before.release_time_s - before.submit_time_s)


def test_copies_of_a_job_wait_for_the_copies_of_its_predecessor():
    rows = np.array([0, 0, 1, 1, 2])
    times = {"submit_time_s": np.array([0.0, 0, 0, 0, 5])}
    nth = load().take(rows, **times)
    assert nth.predecessor.tolist() == [0, 1, 2]
    given_copy = load().take(rows, copy=np.array([0, 1, 1, 0, 2]), **times)
    assert given_copy.predecessor.tolist() == [1, 0]
    assert given_copy.preceding_left_out == 1  # of the job whose copy has no predecessor


def test_a_resample_keeps_the_links_of_a_persons_jobs():
    week, jobs = 604800.0, 400
    rng = np.random.default_rng(0)
    submit = np.sort(rng.uniform(0, 6 * week, jobs))
    user = rng.integers(0, 20, jobs)
    before = np.full(jobs, -1)
    for row in range(1, jobs):
        own = np.flatnonzero(user[:row] == user[row])
        others = np.flatnonzero(user[:row] != user[row])
        if len(own) and row % 2:
            before[row] = own[-1]
        elif len(others) and row % 10 == 0:
            before[row] = others[-1]
    log = Workload.from_jobs({
        "job_id": np.arange(jobs), "submit_time_s": submit, "run_time_s": np.ones(jobs),
        "processors": np.ones(jobs), "user": user, "preceding_job": before,
        "release_time_s": submit + 60, "think_time_s": np.full(jobs, 5.0),
    })  # fmt: skip
    new = resample(log, 4, np.random.default_rng(1))
    assert np.allclose(new.release_time_s - new.submit_time_s, 60)
    job = np.repeat(np.arange(len(new)), np.diff(new.first_predecessor))
    assert len(job) > 50
    assert (new.user[job] == new.user[new.predecessor]).all()
    assert (new.submit_time_s[new.predecessor] <= new.submit_time_s[job]).all()
    assert new.preceding_left_out > 0


def test_what_becomes_of_dependencies_is_a_choice():
    recorded, ignored = with_dependencies(load(), "recorded"), with_dependencies(load(), "ignore")
    assert with_dependencies(load(), "simulated").predecessor.tolist() == [0, 1]
    assert not len(recorded.predecessor)
    assert recorded.release_time_s.tolist() == [0, 0, 7, 106]
    assert not ignored.has_releases
    with pytest.raises(TraceError, match="dependencies: 'none'; write simulated, recorded, ignore"):
        with_dependencies(load(), "none")


def test_a_report_counts_what_a_window_left_out(tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_time_s,run_time_s,processors,preceding_job\n1,0,5,1,\n2,1,5,1,1\n3,2,5,1,2\n"
    )
    workload = {"type": "jobs", "path": str(table), "window": {"jobs": "1..2"}}
    scenario = Scenario.model_validate({"workload": workload, "cluster": {"processors": 2}})
    trace = read_trace(scenario.workload, 0)
    note = "preceding job outside the window or resample, taken as ended"
    assert trace.report.notes[note] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preceding_job": [-1, 99, -1, -1]}, "job 20 waits for job 99, which does not exist"),
        ({"preceding_job": [-1, "x", -1, -1]}, "preceding_job holds what is no id of a job"),
        ({"preceding_job": [20, 10, -1, -1]}, "jobs wait for each other: "),
        ({"preceding_job": [10, -1, -1, -1]}, "jobs wait for each other: 10 -> 10"),
        ({"think_time_s": [0, -1, 0, 0]}, "think times must be at least 0 and at most 2"),
        ({"think_time_s": [0, np.inf, 0, 0]}, "think times must be at least 0 and at most 2"),
        ({"release_time_s": [0, np.inf, 0, 0]}, "release times must be finite"),
        ({"release_time_s": [0, 1e13, 0, 0]}, "release times must be finite"),
    ],
)
def test_what_cannot_be_is_refused(changes, words):
    if isinstance(changes.get("preceding_job", [0, 0])[1], str):
        changes = {"preceding_job": np.array(changes["preceding_job"], dtype=object)}
    with pytest.raises(TraceError, match=words):
        load(**changes)

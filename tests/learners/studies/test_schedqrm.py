"""The comparison with SchedQRM: its trainings, who is judged on what, and what follows from it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from long_tables import made_up
from trainings import workplace

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from simkit import plugins
from simkit.analysis.intervals import WEEK_S, weekly_interval
from simkit.learners.run_times.burst_classifier import Settings
from simkit.learners.studies.schedqrm import STUDY, logs
from simkit.learners.studies.schedqrm import classifiers as bursts
from simkit.learners.studies.schedqrm.judge import REFERENCE, case_of, taken_for
from simkit.learners.studies.schedqrm.page import below, meet_bar
from simkit.learners.studies.schedqrm.trainings import FULL, KINDS, LOADS, trainings
from simkit.traces.elf_bursts import read_bursts
from simkit.traces.swf import write_swf
from simkit.workload import Workload


def test_every_kind_of_training_can_begin(tmp_path):
    place, names = workplace(tmp_path), set()
    for arriving in (False, True):
        for training in trainings(place, FULL, arriving=arriving).values():
            learn = training.scenario.learn
            names.add(training.folder)
            if training.scenario.seed == 1:
                begin = plugins.find("simkit.learners", learn.learner)
                begin(training.scenario, learn.all_arguments, seed=1, device="cpu")
    assert len(names) == 3 * (len(KINDS) + 2)


def test_a_training_meets_the_bar_if_it_is_level_below_full_load_and_surely_better_above():
    rng = np.random.default_rng(0)
    rule = rng.uniform(2, 5, 40)
    good, unsure = rule - 0.2 + rng.normal(0, 0.001, 40), rule - 0.2 + rng.normal(0, 2.0, 40)
    lost = np.where(np.arange(40) == 3, np.inf, good)
    arms = {"three": [good, unsure, lost], "all": [good, good]}
    found = STUDY.results(pl.concat(
        made_up({arm: np.array(seeds) + 0.205 * (load < 100) for arm, seeds in arms.items()}
                | {REFERENCE: rule}, case_of(load), "slowdown")
        for load in LOADS
    ), {})  # fmt: skip
    assert (meet_bar(found, "three"), meet_bar(found, "all")) == ("1 of 3", "2 of 2")
    assert below(found, "three", case_of(200), REFERENCE) == "1 of 3"


def test_classes_are_mistaken_as_often_as_is_said():
    shares = 0.75 * np.eye(10)
    shares[:, 2] += 0.25
    found = taken_for(np.repeat([[0], [3], [7]], 4000, axis=1), shares, np.random.default_rng(1))
    assert (found[0] == 0).all()  # padding
    assert (found[1] == 3).all()
    assert (found[2] == 7).mean() == pytest.approx(0.75, abs=0.03)
    assert set(found[2].tolist()) == {3, 7}


# --- burst times ----------------------------------------------------------------------------------

SMALL = bursts.BurstSetting(
    {bursts.RANDOM: 2, bursts.SIZE: 1, bursts.KIND: 2, bursts.HEAP: 1}, (0.5,), 200,
    published=Settings((8,), passes=2), tuned=Settings((8,), logarithms=True, passes=3),
    trees={"n_estimators": 5},
)  # fmt: skip


def test_every_model_answers_whatever_is_held_out(tmp_path):
    judged = bursts.judge_classifiers(workplace(tmp_path), read_bursts(), SMALL)
    found = STUDY.results(judged.rows, judged.facts)
    for split, seeds in SMALL.seeds.items():
        for model in bursts.MODELS:
            assert found.values("f1", model, split)[0].shape == (seeds, 10)
    assert found.values("loss", bursts.PAPER, "training")[0].shape == (2, 2)
    assert judged.confusion[bursts.PAPER].sum(axis=1) == pytest.approx(np.ones(10))


@pytest.mark.parametrize("split", bursts.SPLITS)
def test_nothing_that_is_asked_about_was_learned_from(split):
    table = read_bursts()
    heap, kind = table["heap"].to_numpy(), table["kind"].to_numpy()
    (learn, ask), (_, other) = (bursts.parts(table, split, seed) for seed in (0, 1))
    assert not (learn & ask).any()
    assert not np.array_equal(ask, other)
    assert heap[ask].all() if split == bursts.HEAP else not heap[learn | ask].any()
    if split == bursts.KIND:
        assert not set(kind[learn]) & set(kind[ask])
    elif split != bursts.HEAP:
        assert ask.sum() / (learn | ask).sum() == pytest.approx(0.3, abs=0.03)


# --- logs -----------------------------------------------------------------------------------------

JOBS = 400
TINY = logs.LogSetting(
    1, ("requested", logs.MEANS, "user-mean, queue", "learned trees", "actual"), 0.6, 0.2, 50, 200
)


@pytest.fixture
def log(tmp_path, monkeypatch) -> Workload:
    """Put a tiny log where one is looked for, and return its jobs."""
    rng = np.random.default_rng(0)
    run_s = np.ceil(np.exp(rng.normal(9.5, 1.5, JOBS)))
    jobs = Workload.from_jobs(
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
    (tmp_path / "swf").mkdir()
    write_swf(tmp_path / "swf" / "tiny.swf", jobs)
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    monkeypatch.setattr(logs, "LOGS", {"HPC2N": "tiny.swf"})
    return jobs


def test_jitter_moves_all_jobs_a_little_and_sorts_them_again(log):
    crowded = log.with_columns(submit_time_s=np.floor(log.submit_time_s / 1000))
    moved = logs.jittered(crowded, 0)
    order = np.argsort(moved.job_id)
    late = moved.submit_time_s[order] - crowded.submit_time_s
    assert ((late >= 0) & (late <= logs.JITTER_S)).all()
    assert (np.diff(moved.submit_time_s) >= 0).all()
    assert np.array_equal(moved.run_time_s[order], crowded.run_time_s)


def test_the_last_part_of_a_log_counts_under_predictions_and_orders(log):
    tables = {name: logs.replayed(logs.Replay("HPC2N", name, 0), TINY) for name in TINY.candidates}
    table, counted = tables["requested"], slice(round(0.4 * JOBS), None)
    assert np.array_equal(table["submit_time_s"], log.submit_time_s[counted])
    # Requests below the run time stay: raised ones would give it away.
    assert np.array_equal(table["estimate_s"], log.requested_time_s[counted])
    assert (table["estimate_s"] < table["run_time_s"]).any()
    waited, ran = table["wait_time_s"].to_numpy(), log.run_time_s[counted]
    expected = np.maximum(1.0, (waited + ran) / np.maximum(ran, 10.0))
    np.testing.assert_allclose(table["bounded_slowdown"], expected)
    assert tables["actual"]["estimate_s"].equals(tables["actual"]["run_time_s"])
    assert not tables[logs.MEANS]["wait_time_s"].equals(tables["user-mean, queue"]["wait_time_s"])
    assert not tables[logs.MEANS]["estimate_s"].equals(tables["learned trees"]["estimate_s"])


def test_differences_have_the_interval_over_weeks_of_jobs_averaged_over_replays():
    rng, jobs = np.random.default_rng(2), 300
    submit = np.sort(rng.uniform(0, 12 * WEEK_S, jobs))
    slowdown = {arm: rng.uniform(1, 20, (2, jobs)) for arm in ("a", logs.MEANS)}
    found = STUDY.results(logs.rows_of(pl.concat(
        pl.DataFrame({
            "submit_time_s": submit, "run_time_s": 60.0, "estimate_s": 90.0, "wait_time_s": 1800.0,
            "bounded_slowdown": values, "case": "HPC2N", "arm": arm, "replay": replay,
        })
        for arm, replays in slowdown.items() for replay, values in enumerate(replays)
    )), {})  # fmt: skip
    mine = found.ask(f"mean bounded_slowdown | a | HPC2N | less={logs.MEANS}")
    by_job = (slowdown["a"] - slowdown[logs.MEANS]).mean(axis=0)
    expected = weekly_interval(by_job, submit)
    assert (mine.value, mine.low, mine.high) == pytest.approx(
        (by_job.mean(), expected.low, expected.high)
    )
    outlived, ratio = "mean outlived | a | HPC2N", "median ratio | a | HPC2N, all jobs"
    assert (found.ask(outlived).value, found.ask(ratio).value) == (0.0, 1.5)
    single = found.values("slowdown of a replay", "a", "HPC2N, replays")[0]
    assert single[0] == pytest.approx(slowdown["a"].mean(axis=1))

"""Each episode is a window of a log: of one part, by the seed, and as `simkit run` replays it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import simkit
from simkit.env import SchedulingEnv
from simkit.errors import ScenarioError
from simkit.gym.windows import EpisodeWindows, LogWindows
from simkit.workload import Workload

LOG = {
    "name": "log",
    "workload": {"type": "swf", "path": "sample:lublin_1000"},
    "policy": {"order": "fcfs", "backfill": "none"},
}
SITE = {"power": {"machines": {"idle_w": 60, "full_w": 200}, "grid": {}}}


def jobs(count):
    """Return so many jobs, one every 10 s from 50 s on."""
    at = 50.0 + 10.0 * np.arange(count)
    table = {"job_id": np.arange(count), "submit_time_s": at, "run_time_s": np.ones(count)}
    return Workload.from_jobs(table | {"processors": np.ones(count)}, epoch_s=1000.0)


def drawn(windows, seeds=500):
    return {windows.drawn(seed) for seed in range(seeds)}


@pytest.mark.parametrize(
    ("held_out", "train", "judged"),
    [
        (0.25, {*range(12)}, {15, 16}),  # the last 5 of 20; no window crosses job 15
        ("0..4", {*range(5, 17)}, {0, 1}),  # the first 5
        ("8..13", {*range(5), 14, 15, 16}, {8, 9, 10}),  # train before and after them
    ],
)
def test_no_window_reaches_from_one_part_into_the_other(held_out, train, judged):
    length, log = 4, jobs(20)
    found = {
        part: drawn(LogWindows(log, EpisodeWindows(length, part, held_out)))
        for part in ("train", "held_out", "all")
    }
    assert found["train"] == train
    assert found["held_out"] == judged
    assert found["all"] == {*range(17)}
    seen = {first + n for first in found["train"] for n in range(length)}
    assert not seen & {first + n for first in found["held_out"] for n in range(length)}


def test_a_window_begins_at_zero_unless_it_keeps_its_times():
    log = jobs(20)
    moved = LogWindows(log, EpisodeWindows(3)).take(5)
    assert moved.submit_time_s.tolist() == [0.0, 10.0, 20.0]
    assert moved.epoch_s == 1100.0  # the same moments
    kept = LogWindows(log, EpisodeWindows(3), keep_times=True).take(5)
    assert kept.submit_time_s.tolist() == [100.0, 110.0, 120.0]


def test_the_seed_draws_the_window():
    env = SchedulingEnv(LOG, episode={"jobs": 100})
    firsts = [env.reset(seed=seed)[1]["first_job"] for seed in range(30)]
    assert len(set(firsts)) > 25
    assert max(firsts) <= 700
    other = SchedulingEnv(LOG, episode={"jobs": 100})
    assert [other.reset(seed=seed)[1]["first_job"] for seed in range(30)] == firsts
    later = [env.reset()[1] for _ in range(3)]
    assert len({info["first_job"] for info in later}) == 3
    again = other.reset(seed=later[1]["seed"])[1]
    assert again["first_job"] == later[1]["first_job"]


def test_a_window_of_ones_own_choice():
    env = SchedulingEnv(LOG, episode={"jobs": 100, "from": "held_out"}, records=True)
    info = env.reset(options={"first_job": 850})[1]
    assert info["first_job"] == 850
    assert len(env._episode._recorder._submit_time_s) == 100
    with pytest.raises(ScenarioError, match=r"windows begin at job 800 … 900, by rank"):
        env.reset(options={"first_job": 799})


@pytest.mark.parametrize(
    "options", [{"first_job": 5.0}, {"first_job": True}, {"first_job": None}, [1]]
)
def test_options_that_are_none(options):
    with pytest.raises(ScenarioError, match="must be a"):
        SchedulingEnv(LOG, episode={"jobs": np.int64(100)}).reset(options=options)


def played(env, seed):
    """Start the first waiting task as soon as it fits; return the table of jobs."""
    info = env.reset(seed=seed)[1]
    first, over = info["first_job"], False
    while not over:
        action = 0 if info["action_mask"][0] else env.void
        *_, over, _, info = env.step(action)
    return first, env.records().jobs, info["metrics"]


@pytest.mark.parametrize("more", [{}, SITE], ids=["log", "with power"])
@pytest.mark.parametrize("part", ["train", "held_out"])
def test_a_policy_starts_the_jobs_of_a_window_as_the_run_of_that_window(part, more):
    episode = {"jobs": 120, "from": part, "held_out": 0.3}
    env = SchedulingEnv(LOG | more, episode=episode, records=True)
    for seed in range(3):
        first, table, metrics = played(env, seed)
        ranks = f"{first}..{first + 119}"
        run = simkit.simulate(LOG | more, seed=seed, overrides={"workload.window.jobs": ranks})
        mine, theirs = table.sort("job_id"), run.jobs.sort("job_id")
        begin = 0.0 if more else theirs["submit_time_s"].min()
        assert mine["job_id"].equals(theirs["job_id"])
        for column in ("submit_time_s", "start_time_s", "end_time_s"):
            assert mine[column].to_list() == (theirs[column] - begin).to_list(), column
        assert metrics["jobs"] == 120


@pytest.mark.parametrize(
    ("episode", "message"),
    [
        # more than the part has
        ({"jobs": 801}, "801 jobs, and of the log's 1,000 the part 'train' has 800 in a row"),
        ({"jobs": 201, "from": "held_out"}, "the part 'held_out' has 200 in a row"),
        # ranks that the log does not have
        ({"jobs": 5, "held_out": "900..1000"}, "ends beyond the log, whose last job is 999"),
        # everything that is wrong, at once
        ({"jobs": 0, "from": "trian", "held_out": 1.0, "hold_out": 1},
         "(?s)hold_out: unknown key; did you mean 'held_out'.*jobs: is 0.*from: is 'trian'; it "
         "must be one of train, held_out, all.*held_out: is 1.0"),
        ({}, "jobs: is None; it must be a whole number"),
        ({"jobs": 5, "held_out": "9..8"}, "held_out: is '9..8'"),
        (256, "must be a mapping such as"),
    ],
)  # fmt: skip
def test_mistakes_are_told(episode, message):
    with pytest.raises(ScenarioError, match=message):
        SchedulingEnv(LOG, episode=episode)

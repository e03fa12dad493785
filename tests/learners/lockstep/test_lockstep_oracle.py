"""Every recorded episode of the original DeepRM code, replayed action by action."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from trace_files import oracle_file

from simkit.agent.slotted import Slotted
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets


def recorded(rate: str) -> tuple[list[tuple[str, int]], list[np.ndarray], JobSets]:
    """Return (policy, number of its job set), actions and job set of each of 900 episodes."""
    stem = f"unseen_all_done_r{rate}"
    files = (oracle_file("deeprm", f"{stem}_{what}.npz") for what in ("jobsets", "actions"))
    with np.load(next(files)) as arrays, np.load(next(files)) as acts:
        length, size = arrays["nw_len"].astype(np.int64), arrays["nw_size"].astype(np.int64)
        keys = [key.decode().rsplit(":", 1) for key in acts["keys"]]
        actions = np.split(acts["actions"], acts["offsets"][1:-1])
    length[:, 0] = 0  # never delivered
    steps = np.argsort(length == 0, axis=1, kind="stable")
    sets = JobSets(
        enter=steps * (np.take_along_axis(length, steps, 1) > 0),
        length=np.take_along_axis(length, steps, 1),
        size=np.take_along_axis(size, steps[..., None], 1),
    )
    episodes = [(policy, int(number)) for policy, number in keys]
    return episodes, actions, sets.take([number for _, number in episodes])


def table(rate: str, episodes: list[tuple[str, int]], sets: JobSets) -> tuple[np.ndarray, ...]:
    """Return (N, J) starts and finishes as recorded; −1 for jobs that the original dropped."""
    jobs = pl.read_csv(oracle_file("deeprm", f"unseen_all_done_r{rate}_jobs.csv.gz"))
    row = {episode: n for n, episode in enumerate(episodes)}
    place = {
        (n, int(enter)): job
        for n in range(len(sets))
        for job, enter in enumerate(sets.enter[n])
        if sets.length[n, job]
    }
    start = np.full(sets.length.shape, -1)
    finish = start.copy()
    for policy, number, enter, begun, ended in jobs.select(
        "policy", "ex", "enter", "start", "finish"
    ).iter_rows():
        n = row[policy, number]
        start[n, place[n, enter]], finish[n, place[n, enter]] = begun, ended
    return start, finish


@pytest.mark.parametrize("rate", ["0.1", "0.379", "0.596", "0.705", "1"])
@pytest.mark.parametrize("masked", [False, True])  # two ways to the same starts
def test_every_recorded_episode_has_the_same_schedule(rate, masked):
    episodes, actions, sets = recorded(rate)
    first = np.where(sets.jobs > 0, sets.enter[:, 0], 0)
    taken = [acts[skip:] for acts, skip in zip(actions, first, strict=True)]  # before the first job
    script = np.full((len(taken), max(map(len, taken))), -1)
    for n, acts in enumerate(taken):
        script[n, : len(acts)] = acts
    env = Lockstep(Slotted(), sets)
    total = np.zeros(len(sets))
    for decision in range(script.shape[1]):
        games = env.active
        if masked:
            env.mask()
        total[games] += env.step(script[games, decision])
    start, finish = table(rate, episodes, sets)
    assert len(env.active) == 0
    assert (env.start == start).all()
    assert (env.finish == finish).all()
    # The original goes on to step 50 though no job may come any more, and takes one trailing
    # action where its list of running jobs delays the end.
    idle = np.maximum(50 - (first + env.steps), 0)
    trailing = (np.array([len(acts) for acts in taken]) - env.decisions - idle)[sets.jobs > 0]
    assert set(trailing) <= {0, 1}
    assert trailing.sum() == {"0.1": 1, "0.379": 33, "0.596": 33, "0.705": 57, "1": 74}[rate]
    slowdowns = np.where(start >= 0, (finish - sets.enter) / np.maximum(sets.length, 1), 0)
    assert total == pytest.approx(-slowdowns.sum(axis=1), abs=1e-9)

"""Outcomes: how the jobs of lock-step games fared."""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import Lockstep

OUTCOME: Final = (
    "slowdown", "slowdown_of_sets", "turnaround_steps", "jobs", "unfinished", "decisions",
)  # fmt: skip
"""The names that `outcome` returns."""


def outcome(game: Lockstep) -> dict[str, float]:
    """Return figures over all jobs of all episodes, whether or not they were admitted or ended.

    A job that did not end within its episode counts as unfinished, with its slowdown at the
    episode's end, at least 1.
    Where an episode ends when all is placed, it counts up to the last end of what was placed.

    Returns:
        ``slowdown``: mean over all jobs; ``slowdown_of_sets``: mean over the episodes that have
        jobs of their mean slowdowns; ``turnaround_steps``: mean over all jobs, unfinished ones up
        to the episode's end; ``jobs``; ``unfinished``; ``decisions``: mean of an episode.
    """
    length, enter, there = _jobs(game)
    end = enter[:, :1] + game.steps[:, None]  # (N, 1) the step at which an episode is over
    if game.ends_when_placed:
        end = np.maximum(end, game.finish.max(axis=1, keepdims=True))
    done = (game.finish >= 0) & (game.finish <= end)
    until = np.where(done, game.finish, np.maximum(end, enter + length))
    slowdown = np.where(there, (until - enter) / np.maximum(length, 1), 0.0)
    jobs = there.sum(axis=1)
    some = jobs > 0
    return {
        "slowdown": _share(slowdown.sum(), jobs.sum()),
        "slowdown_of_sets": _share((slowdown.sum(axis=1)[some] / jobs[some]).sum(), some.sum()),
        "turnaround_steps": _share(np.where(there, until - enter, 0).sum(), jobs.sum()),
        "jobs": float(jobs.sum()),
        "unfinished": float((there & ~done).sum()),
        "decisions": float(game.decisions.mean()),
    }


def summary(games: Lockstep, replicas: Ints) -> dict[str, Ints | Floats]:
    """Return (K,) counts and means over the jobs of some games of endless play; times in steps.

    They are those of `simkit.gym.episodes.EpisodeRecorder.summary`, and ``decisions``.
    """
    sets, start, finish = games.sets, games.start[replicas], games.finish[replicas]
    enter, length = sets.enter[replicas], sets.length[replicas]
    ended = (start >= 0) & (finish <= games.now[replicas, None])
    jobs, finished = (length > 0).sum(axis=1), ended.sum(axis=1)
    turnaround = (finish - enter) * ended
    some = np.where(finished > 0, finished, np.nan)
    makespan = (finish * ended).max(axis=1) - enter[:, 0]
    return {
        "jobs": jobs,
        "finished": finished,
        "killed": np.zeros_like(jobs),
        "rejected": games.rejected[replicas],
        "unfinished": jobs - finished,
        "slowdown": (turnaround / np.maximum(length, 1)).sum(axis=1) / some,
        "turnaround_time_s": turnaround.sum(axis=1) / some,
        "wait_time_s": ((start - enter) * ended).sum(axis=1) / some,
        "makespan_s": np.where(finished > 0, makespan, np.nan),
        "decisions": games.decisions[replicas],
    }


def _jobs(game: Lockstep) -> tuple[Ints, Ints, Bools]:
    """Return (N, J) lengths and steps of arrival, and whether there is a job, by episode."""
    sets = np.arange(len(game.decisions)) // game.replicas
    return game.sets.length[sets], game.sets.enter[sets], game.sets.there[sets]


def _share(total: float, count: int) -> float:
    return float(total / count) if count else float("nan")

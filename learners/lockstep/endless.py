"""Lock-step games without an end: a replica whose game is over begins another.

The arcade of `Lockstep` switches a cabinet off when its game is over. Here the player inserts
another coin, so that all N replicas go on: `over` says which games the last step ended, and `begin`
puts fresh jobs into some replicas, without touching the others.
"""

from __future__ import annotations

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import NEVER, Lockstep, Objective
from simkit.learners.lockstep.job_sets import JobSets
from simkit.traces.models.synthetic import DrawnSets


class EndlessLockstep(Lockstep):
    """N games of a slotted model; `active` is always 0 … N - 1, and job set n is replica n's own.

    Before its first game, and between the end of a game and the next `begin`, a replica is idle:
    only time passes.
    """

    over: Bools
    """(N,) whether the last step ended the game."""

    def __init__(
        self,
        model: Slotted,
        games: int,
        jobs: int,
        objective: Objective = "slowdown",
        limit: int | None = None,
    ) -> None:
        """Make N = `games` replicas of at most `jobs` jobs; for the others, see `Lockstep`."""
        super().__init__(
            model, JobSets.empty(games, jobs, model.resources), 1, objective, limit
        )  # fmt: skip

    def begin(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Begin a game in some replicas.

        Args:
            replicas: (K,) their numbers.
            fresh: K job sets of J jobs that fit the model, none of them empty.
        """
        self._load(replicas, fresh)
        self._arrive()
        if self._earliest is not None:
            length, size = self._slots.shown(replicas)
            self._earliest[:, replicas] = self._grid.earliest(length, size, replicas)

    def begin_with_next_step(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Begin a game in some replicas with the next `step`, in which they must take action M.

        For them that step ends with the first arrival, and is not counted.
        """
        self._load(replicas, fresh)
        for counter in (self._now, self.decisions, self.steps):
            counter[replicas] -= 1

    def _load(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Put fresh jobs into some replicas; the first of each arrive now."""
        sets = self.job_sets
        sets.enter[replicas], sets.length[replicas] = fresh.enter, fresh.length
        sets.size[replicas] = fresh.size
        self._enter[replicas, :-1] = np.where(fresh.length > 0, fresh.enter, NEVER)
        self._weight[replicas] = self._weights(fresh.length)
        self.start[replicas] = self.finish[replicas] = -1
        self.decisions[replicas] = self.steps[replicas] = self._next[replicas] = 0
        self._now[replicas] = self._next_enter[replicas] = fresh.enter[:, 0]
        self._since[replicas] = self.model.memory
        self._in_system[replicas] = 0.0
        self._grid.clear(replicas)
        self._slots.clear(replicas)

    @property
    def now(self) -> Ints:
        """(N,) the step that begins, on the clock of the job sets."""
        now: Ints = self._now
        return now

    @property
    def done(self) -> Bools:
        """(N,) whether all jobs have come and have ended, or were rejected."""
        idle = (self._slots.waiting == 0) & (self._grid.last_finish <= self._now)
        done: Bools = idle & (self._next_enter == NEVER)
        return done

    @property
    def rejected(self) -> Ints:
        """(N,) jobs that came and were not admitted, in the present game."""
        placed = self.decisions - self.steps  # a decision either places a job or lets a step pass
        rejected: Ints = self._next - self._slots.waiting - placed
        return rejected

    def summary(self, replicas: Ints) -> dict[str, Ints | Floats]:
        """Return (K,) counts and means over the jobs of some replicas' games; times in steps.

        They are those of `simkit.gym.episodes.EpisodeRecorder.summary`, and ``decisions``.
        """
        sets, start, finish = self.job_sets, self.start[replicas], self.finish[replicas]
        enter, length = sets.enter[replicas], sets.length[replicas]
        ended = (start >= 0) & (finish <= self._now[replicas, None])
        jobs, finished = (length > 0).sum(axis=1), ended.sum(axis=1)
        turnaround = (finish - enter) * ended
        some = np.where(finished > 0, finished, np.nan)
        makespan = (finish * ended).max(axis=1) - enter[:, 0]
        return {
            "jobs": jobs,
            "finished": finished,
            "killed": np.zeros_like(jobs),
            "rejected": self.rejected[replicas],
            "unfinished": jobs - finished,
            "slowdown": (turnaround / np.maximum(length, 1)).sum(axis=1) / some,
            "turnaround_time_s": turnaround.sum(axis=1) / some,
            "wait_time_s": ((start - enter) * ended).sum(axis=1) / some,
            "makespan_s": np.where(finished > 0, makespan, np.nan),
            "decisions": self.decisions[replicas],
        }

    def _end(self, moved: Bools) -> None:
        self.over = np.zeros(len(self.active), np.bool_)
        super()._end(moved)

    def _close(self, over: Bools) -> None:
        self.over = over
        self._now[self._now == NEVER] = 0  # replicas without jobs, which are not begun yet

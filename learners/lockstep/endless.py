"""Lock-step games without an end: a replica whose game is over begins another.

The arcade of `Lockstep` switches a cabinet off when its game is over. Here its player puts in the
next coin, so that all N replicas go on: `step` says in `over` whose game has ended, and `begin`
puts fresh jobs into some replicas, without touching the others.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import NEVER, Lockstep, Objective
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learning.slotted import Slotted


class EndlessLockstep(Lockstep):
    """N games of a slotted model; `active` is always 0 … N - 1, and job set n is replica n's own.

    A replica plays nothing until it is begun, and after its game is over until it is begun again:
    steps pass in it.
    """

    over: Bools
    """(N,) whose game has ended with the last step."""

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

    def begin(self, replicas: Ints, fresh: JobSets) -> None:
        """Begin a game in some replicas.

        Args:
            replicas: (K,) their numbers.
            fresh: K job sets that fit the model, none of them empty, as wide as those of before.
        """
        there, sets = fresh.there, self.job_sets
        sets.enter[replicas], sets.length[replicas] = fresh.enter, fresh.length
        sets.size[replicas] = fresh.size
        self._enter[replicas, :-1] = np.where(there, fresh.enter, NEVER)
        self._weight[replicas] = self._weights(fresh.length)
        self.start[replicas] = self.finish[replicas] = -1
        self.decisions[replicas] = self.steps[replicas] = self._next[replicas] = 0
        self._now[replicas] = self._next_enter[replicas] = fresh.enter[:, 0]
        self._since[replicas] = self.model.memory
        self._in_system[replicas] = 0.0
        self._grid.clear(replicas)
        self._slots.clear(replicas)
        self._arrive()
        if self._earliest is not None:
            length, size = self._slots.shown(replicas)
            self._earliest[:, replicas] = self._grid.earliest(length, size, replicas)

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

        They are those of `simkit.learning.episodes.EpisodeRecorder.summary`, and ``decisions``.
        """
        sets, start, finish = (
            self.job_sets.take(replicas),
            self.start[replicas],
            self.finish[replicas],
        )
        ended = (finish >= 0) & (finish <= self._now[replicas, None])
        finished, jobs = ended.sum(axis=1), sets.jobs
        share = np.where(finished > 0, 1.0, np.nan) / np.maximum(finished, 1)

        def mean(values: Ints | Floats) -> Floats:
            total: Floats = np.where(ended, values, 0).sum(axis=1) * share
            return total

        last = np.where(ended, finish, -1).max(axis=1)
        return {
            "jobs": jobs,
            "finished": finished,
            "killed": np.zeros_like(jobs),
            "rejected": self.rejected[replicas],
            "unfinished": jobs - finished,
            "slowdown": mean((finish - sets.enter) / np.maximum(sets.length, 1)),
            "turnaround_time_s": mean(finish - sets.enter),
            "wait_time_s": mean(start - sets.enter),
            "makespan_s": np.where(finished > 0, last - sets.enter[:, 0], np.nan),
            "decisions": self.decisions[replicas],
        }

    def step(self, actions: object) -> Floats:
        self.over = np.zeros(len(self.active), np.bool_)
        return super().step(actions)  # type: ignore[arg-type]

    def _close(self, over: Bools) -> None:
        self.over = over
        self._now[self._now == NEVER] = 0  # replicas without jobs, which are not begun yet

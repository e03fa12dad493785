"""Lock-step games of a ready pool: N replicas of a green datacenter, an hour at a time.

The dissertation on power-modulated datacenters ("RARE", University of Virginia, 2023, chapters 3
and 4). Time stands still while the agent places or rejects jobs; it goes on by an hour when it does
nothing. Where nothing can be done, hours pass by themselves. Each replica plays as the simulation
does with ``SchedulingEnv(actions="ready-pool")``.

Arrays of state have the replica as their last axis, so that they are dense along it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simkit.agent.encoder import Numbers
from simkit.agent.ready_pool import ReadyPool, ReadyView, ready_set
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError
from simkit.learners.lockstep import NEVER
from simkit.learners.lockstep.ready_pool.accounts import COSTS, Accounts, Cost, Hour
from simkit.learners.lockstep.ready_pool.plan import Plan
from simkit.learners.lockstep.ready_pool.streams import JobStreams

__all__ = ["REWARD", "ReadyGames"]


REWARD: Final = "value-at-decision"
"""The account that is the agents' reward."""


class ReadyGames:
    """N games, each of a stream of jobs, until a given hour or until all jobs are placed or gone.

    The results are in `start` and `rejected`, whatever the state of the game. See `Games`.
    """

    active: Ints
    """(A,) games that go on, ascending."""
    start: Ints
    """(N, J) start hour of each job, possibly in the future; -1: none."""
    end: Ints
    """(N, J) hour in which it ends, which may be to come; `NEVER`: it has no place."""
    rejected: Ints
    """(N, J) hour in which each job was rejected; -1: it was not."""
    decisions: Ints
    """(N,) actions taken so far."""
    hours: Ints
    """(N,) hours that have passed."""
    cut: Bools
    """(N,) whether a game was over before its jobs were."""
    passed: Ints
    """(A,) hours that the last step took, in the games that were active before it."""
    accounts: Accounts
    """What the last step brought, part by part."""
    costs: Floats
    """(N,) costs of all steps so far."""

    def __init__(
        self,
        pool: ReadyPool,
        streams: JobStreams,
        replicas: int = 1,
        *,
        hours: int,
        most_decisions: int | None = None,
        late_leave: bool = False,
        reject: bool = False,
        backlog: int | None = 144,
        cost: Cost = "waiting",
        accounts: Collection[str] = (),
        discount: float = 1.0,
    ) -> None:
        """Begin all games.

        Args:
            pool: the dimensions.
            streams: S of them; game n plays stream n // replicas.
            replicas: how many games of each stream.
            hours: a game is over then.
            most_decisions: or after so many decisions; None: any number.
            late_leave: whether jobs that can no longer end in time leave.
            reject: whether jobs may be rejected.
            backlog: jobs that may wait behind the ready pool; None: any number.
            cost: what `cost` and `costs` count; energy needs streams that were drawn for it.
            accounts: further parts that `accounts` has.
            discount: of a step, for the value at the decision.

        Raises ScenarioError for unknown parts.
        """
        self.accounts = Accounts((REWARD, COSTS[cost], *accounts), discount)
        self.pool, self.streams = pool, streams
        self._replicas, self._limit, self._most = replicas, hours, most_decisions
        self._cost: Cost = cost
        self._late_leave, self._rejects = late_leave, reject
        self.count = pool.ready * (2 if reject else 1) + 1
        games, jobs = len(streams) * replicas, streams.enter.shape[1]
        self._backlog = jobs if backlog is None else backlog
        self.active = np.arange(games)
        self.start, self.rejected = np.full((2, games, jobs), -1)
        self.end = np.full((games, jobs), NEVER)
        self.decisions, self.hours = np.zeros((2, games), np.int64)
        self.cut, self.costs = np.zeros(games, np.bool_), np.zeros(games)
        self.passed = np.zeros(games, np.int64)
        never = np.full((len(streams), 1), NEVER)
        self._enter = np.concatenate((streams.enter, never), axis=1)
        self._units = np.array(streams.capacity)
        self._whole_pool = pool.worth * float(sum(streams.capacity))
        self._set = self.active // replicas
        self._next = np.zeros(games, np.int64)  # the job that is submitted next
        self._now = np.zeros(games, np.int64)
        self._job = np.full((pool.ready, games), -1)  # of the ready pool, in order of submission
        self._queue = np.zeros((games, jobs), np.int64)  # read at the head, written at the tail
        self._head = np.zeros(games, np.int64)
        self._behind = np.zeros(games, np.int64)  # jobs in the queue
        self._reserved = np.zeros((pool.horizon, games), np.int64)  # jobs that start then
        self._plan = Plan(self._powered_ahead(np.arange(pool.horizon)[:, None], self.active))
        shape = pool.ready, games
        self._length, self._slack, self._start = np.zeros((3, *shape), np.int64)
        self._size = np.zeros((len(streams.capacity), *shape), np.int64)
        self._arrive(np.arange(games))
        self.accounts.begin(games)
        self._settle(np.zeros(games, np.int64))

    def _powered_ahead(self, ahead: Ints, rows: Ints) -> Ints:
        """Return (R, K, some) units with power some (K, 1) hours ahead of some games."""
        powered = self.streams.powered
        hour = np.minimum(self._now[rows] + ahead, powered.shape[1] - 1)
        return np.moveaxis(powered[self._set[rows], hour], -1, 0)

    @property
    def steps(self) -> Ints:
        """(N,) hours that have passed."""
        return self.hours

    @property
    def cost(self) -> Floats:
        """(A,) what the last step cost, in the games that were active before it."""
        return self.accounts.cost(self._cost)

    # ---- what is seen ---------------------------------------------------------------------------

    def _look(self, rows: Ints) -> None:
        """Note what the jobs of some ready pools ask for, and when each may start."""
        streams, sets = self.streams, self._set[rows]
        job = self._job[:, rows]
        there, job = job >= 0, np.maximum(job, 0)
        length = np.where(there, streams.length[sets, job], 0)
        size = np.moveaxis(streams.size[sets, job], -1, 0)
        last = streams.last_start[sets, job]
        slack = np.minimum(last - self._now[rows], self.pool.horizon)
        slack[last == NEVER] = self.pool.horizon
        self._length[:, rows], self._slack[:, rows] = length, slack
        self._size[:, :, rows] = size
        self._start[:, rows] = self._earliest(rows, length, size, slack)

    def _earliest(self, rows: Ints, length: Ints, size: Ints, slack: Ints) -> Ints:
        """Return (P, K) the first hour ahead at which each job may start; -1: none."""
        found = self._plan.earliest(rows, length, size)
        latest = np.minimum(self.pool.max_start, slack if self._late_leave else self.pool.horizon)
        return np.where(found <= latest, found, -1)

    def observe(self) -> Numbers:
        """Return (A, K) observations; see `ready_set`."""
        return ready_set(self.view(), self.pool)

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait, in the ready pool and behind it."""
        waiting: Ints = (self._job >= 0).sum(axis=0) + self._behind
        return waiting

    def view(self) -> ReadyView:
        """Return what the active games show, with A as the leading axis."""
        units = self._units
        rows, job = self._set, np.maximum(self._job, 0)
        there = self._job >= 0
        return ReadyView(
            free=np.clip(self._plan.free.transpose(2, 1, 0) / units, -1.0, 1.0),
            capacity=self._plan.powered.T / units[0],
            there=there.T,
            size=self.sizes() / units,
            length=self._length.T,
            qos=self.facts("qos"),
            value=self.facts("value") / self._whole_pool,
            waited=np.where(there, self._now - self._enter[rows, job], 0).T,
            slack=np.where(there, self._slack, 0).T,
            start=self._start.T,
            waiting=self._behind,
            suspended=np.zeros(len(self.active), np.int64),
        )

    def jobs(self) -> Ints:
        """Return (A, P) which job of its stream is in each place; -1: none."""
        return self._job.T

    def starts(self) -> Ints:
        """Return (A, P) the first hour ahead in which each may start; -1: none."""
        return self._start.T

    def facts(self, name: Literal["length", "qos", "value", "last_start"]) -> Floats:
        """Return (A, P) a column of the streams of the job in each place; 0 where there is none."""
        column = getattr(self.streams, name)[self._set, np.maximum(self._job, 0)]
        found: Floats = np.where(self._job >= 0, column, 0.0).T
        return found

    def sizes(self) -> Ints:
        """Return (A, P, R) units that each job asks for; 0 where there is none."""
        return np.where(self._job >= 0, self._size, 0).transpose(2, 1, 0)

    def left_over(self) -> Floats:
        """Return (A, P) what stays free when each job starts, as shares, added up.

        For jobs that may not start, what would stay free now.
        """
        begin = np.maximum(self._start, 0)
        free = np.stack([np.take_along_axis(each, begin, axis=0) for each in self._plan.free])
        share: Floats = ((free - self._size).transpose(2, 1, 0) / self._units).sum(axis=-1)
        return share

    def mask(self) -> Bools:
        """Return (A, M) which actions may be taken; the last, to do nothing, always may."""
        ready, mask = self.pool.ready, np.ones((len(self.active), self.count), np.bool_)
        mask[:, :ready] = (self._start >= 0).T
        if self._rejects:
            mask[:, ready : 2 * ready] = (self._job >= 0).T
        return mask

    # ---- what is done ---------------------------------------------------------------------------

    def step(self, actions: npt.ArrayLike) -> Floats:
        """Take one action in every active game; return (A,) rewards, in hours of the whole pool.

        `active` is shorter afterwards where a game is over. A job's value for all hours that it
        will run is paid when it is placed.

        Action m below P places the m-th job as early as it may start; with rejections, the next P
        numbers reject a job. Any other, or what cannot be done, lets an hour pass.

        Raises PolicyError for actions that are not (A,) whole numbers in their range.
        """
        chosen = self._checked(actions)
        ready, start = self.pool.ready, self._start
        place, rows = np.minimum(chosen, ready - 1), np.arange(len(chosen))
        placed = (chosen < ready) & (start[place, rows] >= 0)
        ahead = np.where(placed, start[place, rows], 0)
        turned = np.zeros(len(chosen), np.bool_)
        if self._rejects:
            which = np.clip(chosen - ready, 0, ready - 1)
            turned = (chosen >= ready) & (chosen < 2 * ready) & (self._job[which, rows] >= 0)
            place = np.where(turned, which, place)
        active = self.active
        self.decisions[active] += 1
        self.accounts.begin(len(chosen))
        self._place(np.flatnonzero(placed), place, ahead)
        gone = np.flatnonzero(turned)
        self.rejected[active[gone], self._job[place[gone], gone]] = self._now[gone]
        self._leave(np.flatnonzero(placed | turned), place)
        waited = np.zeros(len(chosen), np.int64)
        self.passed = np.zeros(len(chosen), np.int64)
        self._pass(np.flatnonzero(~(placed | turned)), waited)
        self._settle(waited)
        self.costs[active] += self.cost
        return self.accounts.reward(REWARD) / self._whole_pool

    def _checked(self, actions: npt.ArrayLike) -> Ints:
        chosen = np.asarray(actions)
        if chosen.shape != (len(self.active),) or chosen.dtype.kind not in "iu":
            raise PolicyError(
                f"ready pool: actions are {chosen.dtype} of shape {chosen.shape}; give a whole "
                f"number for each of the {len(self.active)} active games"
            )
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < self.count:
            raise PolicyError(
                f"ready pool: actions range from {chosen.min()} to {chosen.max()}; they are 0 to "
                f"{self.count - 1}"
            )
        return chosen.astype(np.int64, copy=False)

    def _place(self, rows: Ints, place: Ints, ahead: Ints) -> None:
        """Place jobs of the ready pool, in (A,) places, `ahead` hours ahead."""
        if not len(rows):
            return
        place, begin = place[rows], ahead[rows]
        job, length = self._job[place, rows], self._length[place, rows]
        self._plan.hold(rows, begin, length, self._size[:, place, rows])
        self._reserved[begin, rows] += begin > 0
        games, start = self.active[rows], self._now[rows] + begin
        self.start[games, job], self.end[games, job] = start, start + length
        self.accounts.place(rows, self.streams.value[self._set[rows], job], begin, length)

    def _leave(self, rows: Ints, place: Ints) -> None:
        """Remove the jobs in (A,) places of some ready pools, close the gaps, and refill."""
        if not len(rows):
            return
        ready = np.arange(self.pool.ready)[:, None]
        longer = np.concatenate((self._job[:, rows], np.full((1, len(rows)), -1)))
        self._job[:, rows] = np.take_along_axis(longer, ready + (ready >= place[rows]), axis=0)
        self._fill(rows)

    def _fill(self, rows: Ints) -> None:
        """Let waiting jobs into free places of some ready pools; late ones leave instead."""
        ready = self.pool.ready
        while True:
            taken = (self._job[:, rows] >= 0).sum(axis=0)
            some = (taken < ready) & (self._behind[rows] > 0)
            rows, taken = rows[some], taken[some]
            if not len(rows):
                return
            games = self.active[rows]
            job = self._queue[games, self._head[rows]]
            self._head[rows] += 1
            self._behind[rows] -= 1
            late = np.zeros(len(rows), np.bool_)
            if self._late_leave:
                late = self._now[rows] > self.streams.last_start[self._set[rows], job]
                self.rejected[games[late], job[late]] = self._now[rows[late]]
            self._job[taken[~late], rows[~late]] = job[~late]

    def _settle(self, waited: Ints) -> None:
        """Let hours pass where nothing can be done, and close the games that are over.

        Adds to (A,) `waited`, of the games that were active before.
        """
        rows = np.arange(len(self.active))
        while True:
            self._look(rows)
            ended = rows[self._over(rows)]
            if len(ended):
                self._end(ended)
            stuck = (self._start[:, rows] < 0).all(axis=0) & ~self._over(rows)
            if self._rejects:
                stuck &= self._job[0, rows] < 0
            rows = rows[stuck]
            if not len(rows):
                break
            self._pass(rows, waited)
        self.accounts.end(waited)
        over = self._over(np.arange(len(self.active)))
        if over.any():
            self.cut[self.active[over]] = ~self._done(np.flatnonzero(over))
            self._keep(~over)

    def _end(self, rows: Ints) -> None:
        """Finish some games that are over, before they are closed."""

    def _over(self, rows: Ints) -> Bools:
        """Return (K,) whether the time of some games is over, or their jobs have come and gone."""
        over: Bools = self._done(rows) | (self._now[rows] >= self._limit)
        if self._most is not None:
            over |= self.decisions[self.active[rows]] >= self._most
        return over

    def _done(self, rows: Ints) -> Bools:
        """Return (K,) whether the jobs of some games have come and gone."""
        none_to_come = self._enter[self._set[rows], self._next[rows]] == NEVER
        done: Bools = none_to_come & (self._job[0, rows] < 0)
        return done

    def _pass(self, rows: Ints, waited: Ints) -> None:
        """Let an hour pass in some games."""
        if not len(rows):
            return
        waiting = (self._job[:, rows] >= 0).sum(axis=0) + self._behind[rows]
        waited[rows] += waiting + self._reserved[1:, rows].sum(axis=0)
        self.passed[rows] += 1
        if self.accounts.hourly:
            self.accounts.pass_hour(rows, self._hour(rows))
        self.hours[self.active[rows]] += 1
        self._now[rows] += 1
        last = self._powered_ahead(np.array([[self.pool.horizon - 1]]), rows)[:, 0]
        self._plan.advance(rows, last)
        self._reserved[:-1, rows] = self._reserved[1:, rows]
        self._reserved[-1, rows] = 0
        self._arrive(rows)

    def _hour(self, rows: Ints) -> Hour:
        """Return the facts of the hour that is about to pass in some games."""
        return Hour(
            self.streams, rows, self.active[rows], self._set[rows], self._now[rows],
            self._plan.free[:, 0], self.end, self.rejected, int(self._next[rows].max()),
        )  # fmt: skip

    def _arrive(self, rows: Ints) -> None:
        """Take in the jobs that are submitted now; then late ones leave."""
        coming = rows
        while True:
            coming = coming[self._enter[self._set[coming], self._next[coming]] == self._now[coming]]
            if not len(coming):
                break
            job, games = self._next[coming].copy(), self.active[coming]
            self._next[coming] += 1
            taken = (self._job[:, coming] >= 0).sum(axis=0)
            free = (taken < self.pool.ready) & (self._behind[coming] == 0)
            self._job[taken[free], coming[free]] = job[free]
            queued = ~free & (self._behind[coming] < self._backlog)
            some = coming[queued]
            self._queue[games[queued], self._head[some] + self._behind[some]] = job[queued]
            self._behind[some] += 1
            refused = ~free & ~queued
            self.rejected[games[refused], job[refused]] = self._now[coming[refused]]
        if self._late_leave:
            self._let_late_jobs_leave(rows)

    def _let_late_jobs_leave(self, rows: Ints) -> None:
        job = self._job[:, rows]
        last = self.streams.last_start[self._set[rows], np.maximum(job, 0)]
        late = (job >= 0) & (self._now[rows] > last)
        some = late.any(axis=0)
        if not some.any():
            return
        rows, job, late = rows[some], job[:, some], late[:, some]
        _, column = np.nonzero(late)
        self.rejected[self.active[rows[column]], job[late]] = self._now[rows[column]]
        kept = np.where(late, -1, job)
        order = np.argsort(kept < 0, axis=0, kind="stable")  # close ranks
        self._job[:, rows] = np.take_along_axis(kept, order, axis=0)
        self._fill(rows)

    def _keep(self, kept: Bools) -> None:
        """Keep only the state of some games."""
        for name in ("active", "_set", "_next", "_now", "_head", "_behind"):
            setattr(self, name, getattr(self, name)[kept])
        of_places = "_job", "_length", "_size", "_slack", "_start"
        for name in (*of_places, "_reserved"):
            setattr(self, name, getattr(self, name)[..., kept])
        self._plan.keep(kept)

    # ---- results --------------------------------------------------------------------------------

    def outcome(self) -> Mapping[str, float]:
        """Return how all games fared.

        Returns:
            ``lost_value``: share of the value of all jobs that was not brought, or, where late jobs
            leave, not in time; ``cost``: mean cost of an hour, such as the number of waiting jobs;
            ``jobs`` that came; ``unfinished``: those that had not ended by the last hour;
            ``decisions``: mean of a game.
        """
        came, ended = self._came(), self.end <= self._limit
        return {
            "lost_value": 1.0 - float(self.value_ratio(in_time=self._late_leave).mean()),
            "cost": float(self.costs.sum()) / max(int(self.hours.sum()), 1),
            "jobs": float(came.sum()),
            "unfinished": float((came & ~ended).sum()),
            "decisions": float(self.decisions.mean()),
        }

    def _came(self) -> Bools:
        """Return (N, J) which jobs came before the last hour."""
        came: Bools = self.streams.enter[self._rows()] < self._limit
        return came

    def _rows(self) -> Ints:
        """Return (N,) the stream that each game plays."""
        return np.arange(len(self.start)) // self._replicas

    def value_ratio(self, *, in_time: bool = True) -> Floats:
        """Return (N,) the value that was brought over the value that came, before the last hour.

        Brought is the value of jobs that ended by then; with `in_time`, of those that were not
        late.
        """
        streams, rows, came = self.streams, self._rows(), self._came()
        done = self.end <= self._limit
        if in_time:
            done &= self.end - streams.length[rows] <= streams.last_start[rows]
        value = streams.value[rows]
        whole = (value * came).sum(axis=1)
        ratio: Floats = (value * done).sum(axis=1) / np.where(whole > 0, whole, 1.0)
        return ratio

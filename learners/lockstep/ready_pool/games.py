"""Lock-step games of a ready pool: N replicas of a green datacenter, an hour at a time.

The dissertation on power-modulated datacenters ("RARE", University of Virginia, 2023, chapters 3
and 4). Time stands still while the agent places or rejects jobs; it goes on by an hour when it does
nothing. Where nothing can be done, hours pass by themselves. Each replica plays as the simulation
does with ``SchedulingEnv(actions="ready-pool")``.

Arrays of state have the replica as their last axis, so that they are dense along it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from simkit.agent.encoder import Numbers
from simkit.agent.ready_pool import ReadyPool, ReadyView, ready_set
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep.job_sets import NEVER
from simkit.learners.lockstep.layouts import ReadyPlaces
from simkit.learners.lockstep.plan import Plan
from simkit.learners.lockstep.ready_pool.accounts import COSTS, Accounts, Cost, Hour
from simkit.learners.lockstep.ready_pool.streams import JobStreams
from simkit.learners.lockstep.replicas import Replicas

__all__ = ["REWARD", "ReadyGames"]


REWARD: Final = "value-at-decision"
"""The account that is the agents' reward."""


class ReadyGames(Replicas[JobStreams]):
    """N games, each of a stream of jobs, until a given hour or until all jobs are placed or gone.

    In endless play, a game that is over begins another stream at once. What that step tells belongs
    to the game that has begun, but for the hours that had passed by then.
    """

    end: Ints
    """(N, J) hour in which it ends, which may be to come; `NEVER`: it has no place."""
    rejected: Ints
    """(N, J) hour in which each job was rejected; -1: it was not."""
    passed: Ints
    """(A,) hours that the last step took, in the games that were active before it."""
    accounts: Accounts
    """What the last step brought, part by part."""
    costs: Floats
    """(N,) costs of all steps so far."""
    OF_JOBS: ClassVar = {"start": -1, "end": NEVER, "rejected": -1}
    STATE: ClassVar = {**Replicas.STATE, "_start": -1, "_reserved": 0}
    who: ClassVar = "ready pool"

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
        fresh: Callable[[int], JobStreams] | None = None,
    ) -> None:
        """Begin all games.

        Args:
            pool: the dimensions.
            streams: S of them.
            replicas: how many games of each stream; 1 in endless play.
            hours: a game is over then.
            most_decisions: or after so many decisions; None: any number.
            late_leave: whether jobs that can no longer end in time leave.
            reject: whether jobs may be rejected.
            backlog: jobs that may wait behind the ready pool; None: any number.
            cost: what `cost` and `costs` count; energy needs streams that were drawn for it.
            accounts: further parts that `accounts` has.
            discount: of a step, for the value at the decision.
            fresh: in endless play, returns this many streams, always of as many hours; None: games
                end.

        Raises ScenarioError for unknown parts.
        """
        self.accounts = Accounts((REWARD, COSTS[cost], *accounts), discount)
        self.pool, self._hours, self._fresh = pool, hours, fresh
        self._cost: Cost = cost
        self._late_leave, self._rejects = late_leave, reject
        count = pool.ready * (2 if reject else 1) + 1
        super().__init__(streams, replicas, count, most_decisions, endless=fresh is not None)
        self._units = np.array(streams.capacity)
        self._whole_pool = pool.worth * float(sum(streams.capacity))
        games, jobs = len(streams) * replicas, streams.enter.shape[1]
        self._places = ReadyPlaces(pool.ready, backlog, len(streams.capacity), games, jobs)
        self._begin(self._places, Plan(streams.capacity, pool.horizon, games))
        self._plan.begin(self.active, streams.powered_at_first(pool.horizon)[..., self._set])
        self.costs, self.passed = np.zeros(games), np.zeros(games, np.int64)
        self._start = np.full((pool.ready, games), -1)
        self._reserved = np.zeros(games)  # jobs that have a place and start later
        self._arrive(self.active)
        self.accounts.begin(games)
        self._settle(np.zeros(games, np.int64))

    @property
    def begun(self) -> Bools:
        """(N,) in endless play: whether the last step ended with the beginning of another game."""
        return self.over

    @property
    def cost(self) -> Floats:
        """(A,) what the last step cost, in the games that were active before it."""
        return self.accounts.cost(self._cost)

    def _powered(self, ahead: Ints | int) -> Ints:
        """Return (…, A, R) units with power some (…, 1) hours ahead."""
        powered = self.sets.powered
        units: Ints = powered[self._set, np.minimum(self._now + ahead, powered.shape[1] - 1)]
        return units

    # ---- what is seen ---------------------------------------------------------------------------

    def _look(self, rows: Ints | slice) -> None:
        """Note the first hour ahead at which each job of some ready pools may start; -1: none."""
        found = self._plan.earliest(*self._places.shown(rows), rows)
        latest = np.minimum(self.pool.max_start, self._slack(rows) if self._late_leave else NEVER)
        self._start[:, rows] = np.where(found <= latest, found, -1)

    def _slack(self, rows: Ints | slice) -> Ints:
        """Return (P, K) hours, at most H, after which each job can no longer start in time."""
        job = np.maximum(self._places.job[:-1, rows], 0)
        last = self.sets.last_start[self._set[rows], job]
        slack: Ints = np.minimum(last - self._now[rows], self.pool.horizon)
        return slack

    def observe(self) -> Numbers:
        """Return (A, K) observations; see `ready_set`."""
        return ready_set(self.view(), self.pool)

    def view(self) -> ReadyView:
        """Return what the active games show, with A as the leading axis."""
        units, there = self._units, self.jobs() >= 0
        came = self._enter[self._set[:, None], self.jobs()]
        return ReadyView(
            free=np.clip(self._plan.free.transpose(2, 0, 1) / units, -1.0, 1.0),
            capacity=self._powered(np.arange(self.pool.horizon)[:, None])[..., 0].T / units[0],
            there=there,
            size=self.sizes() / units,
            length=self._places.length[:-1].T,
            qos=self.facts("qos"),
            value=self.facts("value") / self._whole_pool,
            waited=np.where(there, self._now[:, None] - came, 0),
            slack=np.where(there, self._slack(slice(None)).T, 0),
            start=self._start.T,
            waiting=self._places.backlog,
            suspended=np.zeros(len(self.active), np.int64),
        )

    def jobs(self) -> Ints:
        """Return (A, P) which job of its stream is in each place; -1: none."""
        return self._places.job[:-1].T

    def starts(self) -> Ints:
        """Return (A, P) the first hour ahead in which each may start; -1: none."""
        return self._start.T

    def facts(self, name: Literal["length", "qos", "value", "last_start"]) -> Floats:
        """Return (A, P) a column of the streams of the job in each place; 0 where there is none."""
        job = self.jobs()
        column = getattr(self.sets, name)[self._set[:, None], np.maximum(job, 0)]
        return np.where(job >= 0, column, 0.0)

    def sizes(self) -> Ints:
        """Return (A, P, R) units that each job asks for; 0 where there is none."""
        return self._places.size[:, :-1].transpose(2, 1, 0)

    def left_over(self) -> Floats:
        """Return (A, P) what stays free when each job starts, as shares, added up.

        For jobs that may not start, what would stay free now.
        """
        begin = np.maximum(self._start, 0)[:, None]  # (P, 1, A)
        free = np.take_along_axis(self._plan.free, begin, axis=0).transpose(2, 0, 1)
        share: Floats = ((free - self.sizes()) / self._units).sum(axis=-1)
        return share

    def mask(self) -> Bools:
        """Return (A, M) which actions may be taken; the last, to do nothing, always may."""
        ready, mask = self.pool.ready, np.ones((len(self.active), self.count), np.bool_)
        mask[:, :ready] = (self._start >= 0).T
        if self._rejects:
            mask[:, ready : 2 * ready] = self.jobs() >= 0
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
        chosen = self.checked(actions)
        active, ready, job = self.active, self.pool.ready, self._places.job
        place, rows = np.minimum(chosen, ready - 1), np.arange(len(chosen))
        ahead = np.where(chosen < ready, self._start[place, rows], -1)
        gone = placed = ahead >= 0
        self.decisions[active] += 1
        self.accounts.begin(len(chosen))
        self._place(placed, place, ahead)
        if self._rejects:
            which = np.clip(chosen - ready, 0, ready - 1)
            turned = (chosen >= ready) & (chosen < 2 * ready) & (job[which, rows] >= 0)
            self.rejected[active[turned], job[which, rows][turned]] = self._now[turned]
            place, gone = np.where(turned, which, place), placed | turned
        left = np.flatnonzero(gone)
        self._places.leave(left, place[left])
        self._fill(left)
        waited, self.passed = np.zeros((2, len(chosen)), np.int64)
        self._pass(np.flatnonzero(~gone), waited)
        self._settle(waited)
        self.costs[active] += self.cost
        return self.accounts.reward(REWARD) / self._whole_pool

    def _place(self, placed: Bools, place: Ints, ahead: Ints) -> None:
        """Place the jobs in (A,) places of some ready pools, `ahead` hours ahead."""
        length, size = self._places.of(place)
        self._plan.hold(ahead, length * placed, size)
        rows = np.flatnonzero(placed)
        job, begin, length = self._places.job[place[rows], rows], ahead[rows], length[rows]
        games, start = self.active[rows], self._now[rows] + begin
        self.start[games, job], self.end[games, job] = start, start + length
        later = begin > 0
        self._reserved[rows] += later
        self._plan.note(rows, start, later.astype(np.float64))
        self.accounts.place(rows, self.sets.value[self._set[rows], job], begin, length)

    def _fill(self, rows: Ints) -> None:
        """Let waiting jobs into free places of some ready pools; late ones leave instead."""
        places, streams = self._places, self.sets
        while len(rows := rows[(places.job[-2, rows] < 0) & (places.backlog[rows] > 0)]):
            job, sets = places.head(rows, self.active[rows]), self._set[rows]
            late = self._is_late(rows, job)
            self._reject(rows[late], job[late])
            places.waiting[rows[late]] -= 1
            some, sets, job = rows[~late], sets[~late], job[~late]
            length, size = streams.length[sets, job], streams.size[sets, job].T
            places.put(some, places.first_free(some), job, length, size)

    def _is_late(self, rows: Ints, job: Ints) -> Bools:
        """Return (…, K) whether jobs of some games have to leave, as they cannot end in time."""
        if not self._late_leave:
            return np.zeros(job.shape, np.bool_)
        late: Bools = self._now[rows] > self.sets.last_start[self._set[rows], job]
        return late

    def _reject(self, rows: Ints, job: Ints) -> None:
        self.rejected[self.active[rows], job] = self._now[rows]

    def _settle(self, waited: Ints) -> None:
        """Let hours pass where nothing can be done, and close the games that are over.

        Adds to (A,) `waited`, of the games that were active before.
        """
        self._look(slice(None))
        rows, begun = np.arange(len(self.active)), np.zeros(len(self.active), np.bool_)
        while True:
            over = self._over(rows)
            if self.endless and over.any():
                self._begin_another(rows[over])
                begun[rows[over]] = True
                over = self._over(rows)
            stuck = (self._start[:, rows] < 0).all(axis=0) & ~over
            if self._rejects:
                stuck &= self._places.job[0, rows] < 0
            rows = rows[stuck]
            if not len(rows):
                break
            self._pass(rows, waited)
            self._look(rows)
        self.accounts.end(waited)
        if self.endless:
            self.over = begun
        else:
            self._close()

    def _begin_another(self, rows: Ints) -> None:
        """Begin another stream in some games that are over."""
        assert self._fresh is not None  # play is endless
        streams = self._fresh(len(rows))
        self._widen(streams.enter.shape[1])
        streams = streams.widened(self.sets.enter.shape[1])
        self.restart(rows, streams, streams.powered_at_first(self.pool.horizon))
        self._arrive(rows)
        self._look(rows)

    def _widen(self, jobs: int) -> None:
        """Make room for streams of `jobs` jobs."""
        more = jobs - self.sets.enter.shape[1]
        if more <= 0:
            return
        self.sets = self.sets.widened(jobs)
        for name, number in {**self.OF_JOBS, "_enter": NEVER}.items():
            wider = np.pad(getattr(self, name), ((0, 0), (0, more)), constant_values=number)
            setattr(self, name, wider)
        self._places.widen(more)

    def done(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return (K,) whether the jobs of some games have come and gone."""
        done: Bools = (self._next_enter[rows] == NEVER) & (self._places.job[0, rows] < 0)
        return done

    def _over(self, rows: Ints | slice) -> Bools:
        over: Bools = super()._over(rows) | (self._now[rows] >= self._hours)
        return over

    def _pass(self, rows: Ints, waited: Ints) -> None:
        """Let an hour pass in some games."""
        if not len(rows):
            return
        waited[rows] += self._places.waiting[rows] + self._reserved[rows].astype(np.int64)
        self.passed[rows] += 1
        if self.accounts.hourly:
            self.accounts.pass_hour(rows, self._hour(rows))
        self.steps[self.active[rows]] += 1
        self._now[rows] += 1
        moved = np.zeros(len(self.active), np.bool_)
        moved[rows] = True
        self._plan.shift(moved, self._powered(self.pool.horizon - 1).T)
        self._reserved[rows] -= self._plan.due(rows, self._now[rows])
        self._arrive(rows)

    def _hour(self, rows: Ints) -> Hour:
        """Return the facts of the hour that is about to pass in some games."""
        return Hour(
            self.sets, rows, self.active[rows], self._set[rows], self._now[rows],
            self._plan.free[0], self.end, self.rejected, int(self._next[rows].max()),
        )  # fmt: skip

    def _arrived(self, rows: Ints, sets: Ints, job: Ints, admitted: Bools) -> None:
        self._reject(rows[~admitted], job[~admitted])

    def _arrive(self, rows: Ints) -> None:
        """Take in the jobs that are submitted now; then late ones leave."""
        super()._arrive(rows)
        if not self._late_leave:
            return
        job = self._places.job[:-1, rows]
        late = (job >= 0) & self._is_late(rows, np.maximum(job, 0))
        some = late.any(axis=0)
        if some.any():
            rows, late = rows[some], late[:, some]
            place, column = np.nonzero(late)
            self._reject(rows[column], job[:, some][place, column])
            self._places.leave_all(rows, late)
            self._fill(rows)

    # ---- results --------------------------------------------------------------------------------

    def outcome(self) -> Mapping[str, float]:
        """Return how all games fared.

        Returns:
            ``lost_value``: share of the value of all jobs that was not brought, or, where late jobs
            leave, not in time; ``cost``: mean cost of an hour, such as the number of waiting jobs;
            ``jobs`` that came; ``unfinished``: those that had not ended by the last hour;
            ``decisions``: mean of a game.
        """
        came, ended = self._came(), self.end <= self._hours
        return {
            "lost_value": 1.0 - float(self.value_ratio(in_time=self._late_leave).mean()),
            "cost": float(self.costs.sum()) / max(int(self.steps.sum()), 1),
            "jobs": float(came.sum()),
            "unfinished": float((came & ~ended).sum()),
            "decisions": float(self.decisions.mean()),
        }

    def _came(self) -> Bools:
        """Return (N, J) which jobs came before the last hour."""
        came: Bools = self.sets.enter[self._rows()] < self._hours
        return came

    def _rows(self) -> Ints:
        """Return (N,) the stream that each game plays."""
        return np.arange(len(self.start)) // self.replicas

    def value_ratio(self, *, in_time: bool = True) -> Floats:
        """Return (N,) the value that was brought over the value that came, before the last hour.

        Brought is the value of jobs that ended by then; with `in_time`, of those that were not
        late.
        """
        streams, rows, came = self.sets, self._rows(), self._came()
        done = self.end <= self._hours
        if in_time:
            done &= self.end - streams.length[rows] <= streams.last_start[rows]
        value = streams.value[rows]
        whole = (value * came).sum(axis=1)
        ratio: Floats = (value * done).sum(axis=1) / np.where(whole > 0, whole, 1.0)
        return ratio

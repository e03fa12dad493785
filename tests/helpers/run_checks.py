"""Whatever a legal policy does, nothing is lost: rules that the records of every run keep."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

from simkit.policy import Cancel, Kill, Place, Resume, Suspend, WakeAt


@dataclass
class Wild:
    """Starts what fits; until it calms down also suspends, starts over and kills at random.

    The rates are probabilities: `mischief` that it does so at a decision, `kills` that it then
    kills a task, `reserves` that it reserves a start instead, and takes some of those back.
    """

    mischief: float
    calm_s: float
    kills: float
    reserves: float = 0.0

    def reset(self, info, rng):
        self.rng = rng

    def schedule(self, state):
        wild = state.now < self.calm_s and self.rng.random() < self.mischief
        if wild:
            yield from self._disturb(state)
        for allocation in state.suspended:
            if not (wild and self.rng.random() < 0.5) and (on := room_for(state, allocation)):
                yield Resume(allocation, on)
        for task in state.queue:
            if (wild and self.rng.random() < 0.3) or not (on := state.fit(task)):
                continue
            later = wild and self.rng.random() < self.reserves
            whole = sum(count for _, count in on) == task.remaining
            at = state.now + float(self.rng.integers(1, 20)) if later and whole else None
            yield Place(task, on, at)
        if (self.reserves or wild) and (state.queue or state.suspended):
            yield WakeAt(state.now + 7.0)

    def _disturb(self, state):
        for allocation in state.running:
            if self.rng.random() < 0.2:
                yield Suspend(allocation, keep_work=bool(self.rng.random() < 0.5))
        for task in list(state.reservations):
            if self.rng.random() < 0.3:
                yield Cancel(task)
        held = (allocation.task for allocation in (*state.running, *state.suspended))
        alive = [*state.queue, *state.reservations, *held]
        if alive and self.rng.random() < self.kills:
            yield Kill(alive[self.rng.integers(len(alive))])


def room_for(state, allocation):
    """Return the old machines if they have room, or else the first that do; None if none have."""
    room = state.room.copy()
    if room.claim(allocation.on, allocation.task.request):
        return allocation.on
    left, on = allocation.count, []
    for machine in allocation.task.machines or range(len(state.capacity)):
        count = 0
        while left and room.claim(((machine, 1),), allocation.task.request):
            count, left = count + 1, left - 1
        if count:
            on.append((machine, count))
    return None if left else tuple(on)


@dataclass
class Piece:
    """A stretch of an instance's work."""

    attempt: int
    start: float
    end: float
    outcome: str


def pieces_of(run):
    """Return (task, instance) → its pieces in order."""
    found = defaultdict(list)
    columns = "task_id first_instance count attempt start_time_s end_time_s outcome"
    for task, first, count, *piece in run.rows("allocations", columns, by="start_time_s"):
        for instance in range(first, first + count):
            found[task, instance].append(Piece(*piece))
    return dict(found)


def check_everyone_is_there(run, load):
    """Every job and task has one row, and its status is that of its tasks."""
    assert sorted(run["jobs"]["job_id"]) == load.job_id.tolist()
    assert sorted(run["tasks"]["task_id"]) == load.task_id.tolist()
    tasks = defaultdict(set)
    for job, status in run.rows("tasks", "job_id status"):
        tasks[job].add(status)
    for job, status in run.rows("jobs", "job_id status"):
        if status in ("finished", "rejected"):
            assert tasks[job] == {status}
        if status == "killed":
            assert "killed" in tasks[job] <= {"killed", "finished"}
        if status in ("waiting", "running"):
            assert tasks[job] & {"waiting", "running"}


def check_instances(run, load, pieces):
    """One attempt of each instance ends well, after just its own run time; or its task did not."""
    begun = np.cumsum(load.instances) - load.instances
    longest = load.longest_run_time_s()
    assert all(instance < load.instances[task] for task, instance in pieces)
    for task, status in run.rows("tasks", "task_id status"):
        ends = []
        for instance in range(load.instances[task]):
            own = longest[task]
            if len(load.instance_run_time_s) and not load.gang[task]:
                own = load.instance_run_time_s[begun[task] + instance]
            mine = pieces.get((task, instance), [])
            for parts in attempts_of(mine):
                if (ends_with := parts[-1].outcome) == "running":
                    continue
                ran = sum(part.end - part.start for part in parts)
                assert ran == own if ends_with == "finished" else ran <= own
            outcomes = [piece.outcome for piece in mine]
            assert not {"finished", "killed"} & {*outcomes[:-1]}
            ends.append(outcomes[-1] if outcomes else None)
        assert (status == "finished") == all(end == "finished" for end in ends)
        if status == "rejected":
            assert set(ends) == {None}
        if status == "waiting":
            assert "running" not in ends
        if status == "killed":
            assert set(ends) <= {"finished", "killed", "suspended", "lost", None}


def attempts_of(pieces):
    """Return the pieces of an instance, attempt by attempt."""
    return [list(parts) for _, parts in itertools.groupby(pieces, lambda piece: piece.attempt)]


def check_retries(run, load, pieces):
    """Attempts follow each other: resumed under the same number, started over under the next."""
    attempts, lost = defaultdict(int), defaultdict(float)
    job_of = np.repeat(load.job_id, np.diff(load.first_task))
    for (task, _), rows in pieces.items():
        job = int(job_of[task])
        assert rows[0].attempt == 1
        for before, after in itertools.pairwise(rows):
            assert before.end <= after.start  # never in two places
            assert before.outcome in ("suspended", "lost")
            assert after.attempt == before.attempt + (before.outcome == "lost")
        attempts[job] = max(attempts[job], rows[-1].attempt)
        for parts in attempts_of(rows):
            if parts[-1].outcome == "lost":
                took = sum(part.end - part.start for part in parts)
                lost[job] += took / load.instances[task]  # of a task, the mean over its instances
    for job, count, lost_s in run.rows("jobs", "job_id attempts lost_time_s"):
        assert count == attempts[job]
        assert lost_s == pytest.approx(lost[job], abs=1e-9)

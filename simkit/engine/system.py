"""The system: the state that all parts of a simulation share, built once and handed to each.

The `Referee` says whether and why an action is illegal, and ends a run that leads nowhere; its
messages name everything that is needed to set things right.
"""

from __future__ import annotations

from collections.abc import Callable

from simkit.engine.admission import Admission
from simkit.engine.bookkeeping import Attempt, Bookkeeping, Observer, Observers
from simkit.engine.events import EventLoop
from simkit.engine.held_back import Releases
from simkit.engine.recorder import Recorder
from simkit.errors import LimitError, PolicyError
from simkit.policy import State, SystemInfo
from simkit.policy.estimates import Predictor
from simkit.policy.queue import TaskQueue
from simkit.policy.room import Room, make_room
from simkit.policy.state import Outlook
from simkit.policy.task import Allocation, Placement, Task
from simkit.rules import AdmissionRule
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload import Workload
from simkit.workload.cluster import Cluster


class Referee:
    """Judges placements, and how long a run goes on."""

    def __init__(self, workload: Workload, cluster: Cluster, clock: EventLoop, room: Room) -> None:
        self.policy = "policy"
        """Name of the policy that is run."""
        self._workload = workload
        self._cluster = cluster
        self._clock = clock
        self._room = room

    def illegal(self, task: Task, what: str) -> PolicyError:
        """Return the error to raise: policy, time, job and task, and what is wrong."""
        return PolicyError(
            f"{self.policy} at {self._clock.now:g} s: job "
            f"{self._workload.job_id[task.job_index]} task "
            f"{self._workload.task_id[task.index]}: {what}"
        )

    def broken(self, what: str) -> PolicyError:
        """Return the error to raise for an action that is about no task."""
        return PolicyError(f"{self.policy} at {self._clock.now:g} s: {what}")

    def no_progress(self, decisions: int) -> LimitError:
        """Return the error to raise when many decisions have led to nothing."""
        return LimitError(
            f"limits.decisions: {self.policy} made {decisions:,} decisions in a row, the last at "
            f"{self._clock.now:g} s, and no job arrived or ended in between; it asks to be woken "
            "too often, the scheduler's step is too short, or what waits can never run: correct "
            "that, or raise limits.decisions"
        )

    def out_of_time(self, simulated_s: float, left: int) -> LimitError:
        """Return the error to raise when the simulated time is over, with jobs `left`."""
        open_jobs = (
            f"{counted(left, 'job')} of those submitted by then {'has' if left == 1 else 'have'} "
            "not ended; to let them end"
            if left
            else "jobs are still to be submitted; to simulate them"
        )
        return LimitError(
            f"limits.simulated_time: {format_duration(simulated_s)} of simulated time are over "
            f"since the first submission, and {open_jobs}, raise limits.simulated_time"
        )

    def too_many_retries(self, task: Task, lost: int) -> LimitError:
        """Return the error to raise when a task loses its work again and again."""
        return LimitError(
            f"limits.retries: job {self._workload.job_id[task.job_index]} task "
            f"{self._workload.task_id[task.index]} has lost its work {counted(lost, 'time')}, the "
            f"last time at {self._clock.now:g} s, so it may never end: let it keep its work "
            "(running: suspend, or checkpoints of the power supply), make machines fail less "
            "often, or raise limits.retries"
        )

    def foreign(self, task: Task) -> PolicyError:
        """Return the error to raise for a task of another run."""
        return PolicyError(
            f"{self.policy} at {self._clock.now:g} s: {task!r} waits in another run, not in this "
            "one; forget all tasks when reset is called"
        )

    def checked_count(self, task: Task, on: Placement) -> int:
        """Return how many instances a placement of a waiting task holds.

        Raises PolicyError unless it is all of a gang, or some of a bag's remaining ones, on
        machines of the task's partition.
        """
        count = sum([pair[1] for pair in on])
        if any(pair[1] % 1 for pair in on):
            raise self.illegal(task, f"placement {on!r} splits an instance; counts are whole")
        if count != task.remaining and (task.gang or not 0 < count < task.remaining):
            kind = "gang: all start together" if task.gang else "bag"
            raise self.illegal(
                task, f"places {count} of {task.remaining} remaining instances ({kind})"
            )
        self.check_partition(task, on)
        return count

    def check_partition(self, task: Task, on: Placement) -> None:
        """Raise PolicyError if a machine is not of the task's partition."""
        if task.machines is None:
            return
        for machine, _ in on:
            if machine not in task.machines:
                partition = self._cluster.partitions[task.partition].name
                raise self.illegal(
                    task, f"is in partition {partition}, which has no machine {machine}"
                )

    def check_form(self, action: object, cause: Exception) -> None:
        """Raise PolicyError if an action that could not be carried out is not well formed."""
        on = getattr(action, "on", None)
        try:
            formed = on is None or all(int(m) == m and int(n) == n for m, n in on)
        except (TypeError, ValueError):
            formed = False
        if not formed or not isinstance(getattr(action, "task", None), Task):
            raise PolicyError(
                f"{self.policy} at {self._clock.now:g} s: {action!r} is not well formed; a "
                "placement is Place(task, ((machine, instances), ...))"
            ) from cause

    def malformed(self, on: Placement) -> str:
        """Say what is wrong with a placement whatever is free; "" if nothing is."""
        names = self._cluster.machine_names
        if not on or len({machine for machine, _ in on}) < len(on):
            return f"placement {on!r} names no machine, or one twice"
        for machine, count in on:
            if not 0 <= machine < len(names):
                return f"there is no machine {machine}; they go from 0 to {len(names) - 1}"
            if count < 1:
                return f"places {count} instances on machine {names[machine]!r}"
        return ""

    def why_not(self, task: Task, on: Placement) -> str:
        """Say which machine of a placement has too little of what; "" if it would fit."""
        if wrong := self.malformed(on):
            return wrong
        names, free = self._cluster.machine_names, self._room.free()
        for machine, count in on:
            for r, resource in enumerate(self._cluster.resources):
                if task.request[r] * count > max(free[machine, r], 0.0):
                    return (
                        f"asks machine {machine} ({names[machine]}) for "
                        f"{task.request[r] * count:g} {resource}, {free[machine, r]:g} are free"
                    )
        return ""


class System:
    """A workload, a cluster, and where they stand; the parts of the engine act on it."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        recorder: Recorder,
        predictor: Predictor,
        rule: AdmissionRule,
        observer: Observer | None,
        powered: bool = False,
    ) -> None:
        self.workload = workload
        self.cluster = cluster
        self.recorder = recorder
        self.changed = False
        """Whether anything has happened since the last decision."""
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        first_change = next(cluster.known_changes(), None)
        self.events = EventLoop(min(0.0, first, first_change.time_s if first_change else first))
        self.info = SystemInfo(
            cluster.resources,
            cluster.machine_names,
            cluster.capacity.copy(),
            cluster.partitions,
            workload.epoch_s,
            first,
            powered,
        )
        self.queue = TaskQueue(len(cluster.resources))
        self.room = make_room(cluster.capacity.copy())
        recorder.capacity = [float(x) for x in cluster.capacity.sum(axis=0)]
        self.running: dict[Allocation, Attempt | None] = {}
        """What runs, oldest first; None: a gang that has not been interrupted."""
        self.suspended: dict[Allocation, Attempt] = {}
        self.admission = Admission(rule, self.queue, cluster.partitions)
        self.releases = Releases.of(workload, self.events)
        """Which jobs are held back until their release; None if no job is."""
        self.watched = observer is not None
        """Whether somebody from outside watches the run."""
        observers = [
            one for one in (self.admission.users, self.releases, observer) if one is not None
        ]
        self.observer = Observers(*observers) if len(observers) > 1 else next(iter(observers), None)
        """Observers, in order: limits of users, releases, then who watches the run."""
        self.outlook = Outlook(cluster.known_steps(), cluster.recurring)
        self.state = State(
            self.info, self.room, self.queue, self.running, self.suspended, self.admission.held,
            self.outlook,
        )  # fmt: skip
        """What policies see."""
        self.state.arrived = self.admission.arrived
        self.note_constraints()
        self.state.refills = rule.slots is not None and rule.refill == "at_once"
        self.books = Bookkeeping(workload, recorder, predictor, self.observer, self.events)
        if self.releases is not None:
            self.books.released_s = recorder.released_s = self.releases.released_s
        self.referee = Referee(workload, cluster, self.events, self.room)

    def note_constraints(self) -> None:
        """Bring `State.constrained` up to date."""
        self.state.constrained = self.outlook.any or bool(self.state.reservations)

    def anyone_waits(self) -> bool:
        """Return whether any task is in the queue, suspended or held back by admission."""
        return bool(self.queue.tasks or self.suspended or self.admission.held)


class Patience:
    """How long tasks are given that wait for what may never come: capacity, machines, power.

    Args:
        system: whose tasks wait.
        limit_s: the longest time without progress.
        progress: returns a number that changes with every progress.
    """

    def __init__(self, system: System, limit_s: float, progress: Callable[[], int]) -> None:
        self._system, self._limit_s, self._progress = system, limit_s, progress
        self._seen, self._since_s = -1, 0.0

    def left(self) -> bool:
        """Return whether anything waits, and the last progress is not too long ago."""
        if not self._system.anyone_waits():
            return False
        now, seen = self._system.events.now, self._progress()
        if seen != self._seen:
            self._seen, self._since_s = seen, now
        return now - self._since_s <= self._limit_s

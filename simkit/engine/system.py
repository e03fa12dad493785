"""The system: the state that all parts of a simulation share, built once and handed to each."""

from __future__ import annotations

from collections.abc import Callable

from simkit.engine.admission import Admission
from simkit.engine.bookkeeping import Attempt, Bookkeeping
from simkit.engine.events import EventLoop
from simkit.engine.held_back import Releases
from simkit.engine.observer import Observer, Observers
from simkit.engine.recorder import Recorder
from simkit.engine.referee import Referee
from simkit.policy import State, SystemInfo
from simkit.policy.estimates import Predictor
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.state import Outlook
from simkit.policy.task import Allocation
from simkit.workload import Workload
from simkit.workload.admission import AdmissionRule
from simkit.workload.cluster import Cluster


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
        told = [one for one in (self.admission.users, self.releases, observer) if one is not None]
        self.observer = Observers(*told) if len(told) > 1 else next(iter(told), None)
        """Who is told of what happens: limits of users first, then who watches the run."""
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

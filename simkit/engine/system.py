"""The system: the state that all parts of a simulation share, built once and handed to each."""

from __future__ import annotations

from simkit.engine.admission import Admission, AdmissionRule
from simkit.engine.bookkeeping import Attempt, Bookkeeping
from simkit.engine.events import EventLoop
from simkit.engine.observer import Observer
from simkit.engine.recorder import Recorder
from simkit.engine.referee import Referee
from simkit.policy import State, SystemInfo
from simkit.policy.estimates import Predictor
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.state import Outlook
from simkit.policy.task import Allocation
from simkit.workload import Workload
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
    ) -> None:
        self.workload = workload
        self.cluster = cluster
        self.recorder = recorder
        self.observer = observer
        self.changed = False
        """Whether anything has happened since the last decision."""
        self.changes = cluster.known_changes()
        """Changes of capacity that are known to the engine, in order of time."""
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        self.events = EventLoop(min([0.0, first, *(change.time_s for change in self.changes)]))
        self.info = SystemInfo(
            cluster.resources,
            cluster.machine_names,
            cluster.capacity.copy(),
            cluster.partitions,
            workload.epoch_s,
            first,
        )
        self.queue = TaskQueue(len(cluster.resources))
        self.room = make_room(cluster.capacity.copy())
        recorder.capacity = [float(x) for x in cluster.capacity.sum(axis=0)]
        self.running: dict[Allocation, Attempt | None] = {}
        """What runs, oldest first; None: a gang that has not been interrupted."""
        self.suspended: dict[Allocation, Attempt] = {}
        self.admission = Admission(rule, self.queue)
        self.outlook = Outlook()
        self.outlook.known_steps = cluster.known_steps()
        self.state = State(
            self.info, self.room, self.queue, self.running, self.suspended, self.admission.held,
            self.outlook,
        )  # fmt: skip
        """What policies see."""
        self.state.arrived = self.admission.arrived
        self.note_constraints()
        self.state.refills = rule.slots is not None and rule.refill == "at_once"
        self.books = Bookkeeping(workload, recorder, predictor, observer, self.events)
        self.referee = Referee(workload, cluster, self.events, self.room)

    def note_constraints(self) -> None:
        """Bring `State.constrained` up to date."""
        ahead = self.outlook.known_steps or self.outlook.foresee
        self.state.constrained = bool(ahead or self.state.reservations)

    def anyone_waits(self) -> bool:
        """Return whether any task is in the queue, suspended or held back by admission."""
        return bool(self.queue.tasks or self.suspended or self.admission.held)

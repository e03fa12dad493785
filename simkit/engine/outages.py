"""Outages: capacity that goes and comes back, and what happens to tasks on it.

`Outages` makes the changes, those of maintenance and of a trace's events too. `MachineFailures` are
random. `Processes` are the user's, SimPy processes that run alongside the engine's own:

    class Cooling:
        def run(self, view):
            while True:
                yield view.timeout(600)
                if too_hot(view):
                    view.take_away(range(8, 16), cause="cooling")

A process sees the simulation through a `SimulationView`. Its events rank with changes of capacity:
after completions, before power, reservations and arrivals. They keep no finished run alive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from simkit.arrays import Floats, stream
from simkit.engine.events import Event, EventLoop, NamedEvent, Rank, error_text
from simkit.engine.execution import Execution
from simkit.engine.system import Patience, System
from simkit.errors import ProcessError
from simkit.plugins import lines_of_author
from simkit.policy.state import Allocations, PowerState, SystemInfo
from simkit.units import TIME_GRID
from simkit.workload.capacity import SWITCHED_OFF, CapacityChange, MachineCapacity, WhenTaken
from simkit.workload.cluster import MAINTENANCE, CapacityStep, Failures


class Outages:
    """Carries out changes of capacity."""

    def __init__(self, system: System, execution: Execution) -> None:
        """Begin without the machines that join later; announce the changes known ahead."""
        self._system = system
        self._execution = execution
        cluster = system.cluster
        self.machines = MachineCapacity(cluster.capacity)
        """What each machine offers, and why."""
        self.machines.leave_out(cluster.absent)
        self.any = bool(
            cluster.absent or cluster.maintenance or cluster.changes or cluster.failures
        )
        """Whether anything but power ever changes capacities."""
        self.on_change: Callable[[], None] | None = None
        """Called when anything but power has changed capacities."""
        self.changes_made = 0
        """Rises whenever capacities change."""
        for machine in cluster.absent:
            self._resize(machine, "drain", "joins later")
        by_instant = groupby(cluster.known_changes(), key=lambda change: change.time_s)
        groups = ((time_s, tuple(group)) for time_s, group in by_instant)
        last_s = cluster.last_single_change_s()
        system.events.at_each(groups, Rank.CAPACITY, self.take_place, last_s)
        if cluster.recurring:
            # A task that starts at none of the instants of one cycle never will.
            patience = Patience(system, system.outlook.cycle_s, lambda: system.state.starts)
            system.events.worth_waiting.append(patience.left)

    def take_place(self, group: Sequence[CapacityChange]) -> None:
        """Make all changes of an instant, then stop tasks that no longer fit."""
        self.change(group)
        if self.on_change is not None:
            self.on_change()
        for change in group:
            if change.running != "drain" and change.takes_away:
                self._evict(change.machine, keep_work=change.running == "suspend")

    def change(self, group: Sequence[CapacityChange], running: str | None = None) -> None:
        """Change capacities and stop nothing; `running` says how the caller will stop tasks."""
        state = self._system.state
        self._system.changed = True
        state.releases += 1
        self.changes_made += 1
        for change in group:
            self.machines.change(change)
            if change.cause == MAINTENANCE:
                self._pass_step(change)
            asker = {"process": change.process, "taken": change.takes_away}
            self._resize(
                change.machine,
                running or change.running,
                change.cause,
                asker if change.process else {},
            )
        self._system.note_constraints()

    def _pass_step(self, change: CapacityChange) -> None:
        """Take a step out of those that lie ahead; one that recurs is not among them."""
        sign = -1.0 if change.takes_away else 1.0
        amounts = tuple([sign * amount for amount in change.amount])
        step = CapacityStep(change.time_s, change.machine, amounts)
        with suppress(ValueError):
            self._system.outlook.known_steps.remove(step)

    def _resize(
        self, machine: int, running: str, cause: str, asker: Mapping[str, object] | None = None
    ) -> None:
        """Give a machine the capacity that it has by now, and record that.

        What a process asks for (`asker`) is recorded even if the capacity stays the same, as when
        the machine is down already.
        """
        system, room, new = self._system, self._system.room, self.machines.of(machine)
        old = room.capacity[machine].tolist()
        if new == old and not asker:
            return
        room.change_capacity(machine, new)
        totals = zip(system.recorder.capacity, old, new, strict=True)
        system.recorder.change_capacity([amount + b - a for amount, a, b in totals])
        names = system.cluster.resources
        facts = {"running": running, "cause": cause, **(asker or {})}
        system.books.capacity(machine, dict(zip(names, new, strict=True)), facts)

    def _evict(self, machine: int, *, keep_work: bool) -> None:
        """Take tasks off a machine until it has what the others hold, youngest first.

        A task that holds nothing of what is short stays.
        """
        for allocation in reversed(self._system.state.running):
            free = self._system.room.free()[machine]
            if (free >= 0).all():
                return
            needs_short = any(
                amount > 0 > left
                for amount, left in zip(allocation.task.request, free, strict=True)
            )
            if needs_short and any(row == machine for row, _ in allocation.on):
                self._execution.stop(allocation, keep_work=keep_work)


FAILURE = "failure"
"""The cause of random failures, in the records."""
_FAULT = -1  # the number of a random fault; a machine has one at a time


class MachineFailures:
    """Machines fail and are repaired at random for as long as anything else happens.

    Every machine draws from a separate stream, so its failures are the same whatever the
    policy does and whichever other machines fail.

    Failures and repairs never end, so they do not keep a run going. When nothing else is
    left, waiting tasks are given the repair of every machine that is down by then, once: one that
    starts on none of them never will.
    """

    def __init__(
        self,
        system: System,
        failures: Failures,
        rng: np.random.Generator,
        outages: Outages,
    ) -> None:
        self._system = system
        self._failures = failures
        self._outages = outages
        self._down: set[int] = set()
        self._awaited: set[int] = set()
        self._started = -1
        machines, failing = len(system.cluster.capacity), system.cluster.failing
        streams = rng.spawn(machines)
        for machine in range(machines) if failing is None else failing:
            system.events.process(self._life(machine, streams[machine]))
        system.events.worth_waiting.append(self._worth_waiting)

    def _worth_waiting(self) -> bool:
        if not self._system.anyone_waits():
            return False
        if self._started != self._system.state.starts:
            self._started = self._system.state.starts
            self._awaited = set(self._down)
        return bool(self._awaited)

    def _life(self, machine: int, rng: np.random.Generator) -> Generator[Event, None, None]:
        """Make one machine fail and be repaired, without end; a SimPy process."""
        failures, events, outages = self._failures, self._system.events, self._outages
        while True:
            yield events.timeout(rng.exponential(failures.mtbf))
            self._down.add(machine)
            down = CapacityChange(
                events.now, machine, "down", FAILURE, (), failures.running, _FAULT
            )
            outages.take_place([down])
            yield events.timeout(rng.exponential(failures.mttr))
            self._down.discard(machine)
            self._awaited.discard(machine)
            outages.take_place([CapacityChange(events.now, machine, "up", FAILURE, fault=_FAULT)])


PATIENCE_S: Final = 366 * 86_400.0
"""How long waiting tasks wait for machines that a process holds while nothing starts."""
RESUMED_AT_ONCE: Final = 100_000
"""How often a process may go on at one instant: one that exceeds it would never let time pass."""
_RESERVED: Final = ("maintenance", "failure", "power")

Steps = Generator[Event, Any, None]


@runtime_checkable
class Process(Protocol):
    """A user process; a generator function of one argument, the view, works as well."""

    def run(self, view: SimulationView) -> Steps:
        """Yield `view.timeout(seconds)` or another event of SimPy, and act when it is over."""


ProcessLike = Process | Callable[["SimulationView"], Steps]


class SimulationView:
    """What a process sees of the simulation at the present instant, and what it may do.

    Everything that is shown is read-only and changes as time passes.
    """

    def __init__(
        self, name: str, fault: int, rng: np.random.Generator, system: System, outages: Outages
    ) -> None:
        self.name = name
        """Name of the process in events and errors."""
        self.rng = rng
        """The process's own random stream, which follows from the scenario's seed."""
        self.info: SystemInfo = system.info
        """What does not change: resources, names of machines, capacities at the start, epoch."""
        self.running: Allocations = system.state.running
        """Allocations that hold resources, oldest first."""
        self._fault, self._system, self._outages = fault, system, outages
        self._away: dict[int, None] = {}

    @property
    def now(self) -> float:
        """Seconds on the trace's clock."""
        return self._system.events.now

    @property
    def capacity(self) -> Floats:
        """(M, R) what each machine offers."""
        return self._system.state.capacity

    @property
    def free(self) -> Floats:
        """(M, R) what is free; below 0 where tasks drain."""
        return self._system.state.free

    @property
    def queue_length(self) -> int:
        """Tasks in the queue, those that admission holds back not included."""
        return len(self._system.queue)

    @property
    def jobs_ended(self) -> int:
        """Jobs that have finished or were killed or rejected."""
        return self._system.books.jobs_ended

    @property
    def power(self) -> PowerState | None:
        """The site's power (``load_w``, ``soc``, …); None where the scenario has none."""
        return self._system.state.power

    @property
    def away(self) -> tuple[int, ...]:
        """Rows of the machines that this process has taken away."""
        return tuple(self._away)

    def timeout(self, seconds: float) -> Event:
        """Return an event that happens after `seconds`, rounded to the grid of times.

        Combine events with ``|`` (either) and ``&`` (both). Raises ProcessError unless the time is
        finite, and 0 or at least one step of the grid: a shorter one could be rounded to 0.
        """
        if not (isinstance(seconds, (int, float, np.number)) and 0 <= seconds < math.inf):
            raise self.error(f"timeout({seconds!r}): give a finite number of seconds, at least 0")
        if 0 < seconds < TIME_GRID:
            raise self.error(
                f"timeout({seconds!r}) is shorter than a step of the grid of times, 2**-20 s "
                f"({TIME_GRID:.2g} s); give 0 or at least 2**-20"
            )
        return self._system.events.timeout(float(seconds))

    def event(self) -> Event:
        """Return an event that happens when a process calls its ``succeed()``."""
        return NamedEvent(self._system.events, self.name)

    def take_away(
        self, machines: int | Iterable[int], running: WhenTaken = "requeue", cause: str = "process"
    ) -> None:
        """Take whole machines away, until they are given back; as a failure does.

        Args:
            machines: rows of machines, or one.
            running: what happens to tasks on them: ``requeue`` (they start over), ``suspend`` or
                ``drain`` (they run on to their end, and nothing else starts).
            cause: for the table of events.

        Raises ProcessError for a machine that does not exist, is not in the cluster now, or has
        been taken away by this process already; nothing has changed then.
        """
        rows = self._rows(machines)
        for row in rows:
            if row in self._away:
                raise self.error(f"machine {row} is taken away already; give it back first")
            if not self._outages.machines.is_there(row):
                raise self.error(f"machine {row} is not in the cluster now; it joins later or left")
        if running not in get_args(WhenTaken):
            raise self.error(f"running is {running!r}; it is drain, requeue or suspend")
        if not isinstance(cause, str) or not cause or cause in _RESERVED:
            raise self.error(f"cause is {cause!r}; give a word other than {', '.join(_RESERVED)}")
        self._away |= dict.fromkeys(rows)
        self._change("down", rows, cause, running)

    def give_back(
        self, machines: int | Iterable[int] | None = None, cause: str = "process"
    ) -> None:
        """Give machines back that this process has taken away; None: all of them.

        Raises ProcessError for a machine that it has not taken away; nothing has changed then.
        """
        rows = list(self._away) if machines is None else self._rows(machines)
        for row in rows:
            if row not in self._away:
                raise self.error(f"machine {row} has not been taken away by this process")
        for row in rows:
            del self._away[row]
        self._change("up", rows, cause, "drain")

    def error(self, what: str) -> ProcessError:
        """Return the error to raise: the process, the time, and what is wrong."""
        return ProcessError(f"process {self.name} at {self.now:g} s: {what}")

    def _rows(self, machines: int | Iterable[int]) -> list[int]:
        given = machines if isinstance(machines, Iterable) else [machines]
        rows, count = list(given), len(self.info.machine_names)
        for row in rows:
            if isinstance(row, bool) or not isinstance(row, (int, np.integer)):
                raise self.error(f"{row!r} is not a machine; give its row, a number from 0 on")
            if not 0 <= row < count:
                raise self.error(f"there is no machine {row}; rows go from 0 to {count - 1}")
        if len(set(rows)) < len(rows):
            raise self.error(f"machines {rows} name one twice")
        return [int(row) for row in rows]

    def _change(
        self, kind: Literal["down", "up"], rows: Sequence[int], cause: str, running: WhenTaken
    ) -> None:
        if rows:
            self._outages.take_place([
                CapacityChange(
                    self.now, row, kind, cause, (), running, self._fault, process=self.name
                )
                for row in rows
            ])  # fmt: skip


class Processes:
    """Starts the user processes, and says whether waiting for them is worthwhile."""

    def __init__(
        self,
        system: System,
        outages: Outages,
        processes: Sequence[ProcessLike],
        seed: int,
    ) -> None:
        self._patience = Patience(system, PATIENCE_S, lambda: system.state.starts)
        self._views: list[SimulationView] = []
        names: dict[str, int] = {}
        for number, process in enumerate(processes):
            name = process_name(process)
            names[name] = names.get(name, 0) + 1
            if names[name] > 1:
                name = f"{name}-{names[name]}"
            rng = stream(seed, f"process {name}")
            view = SimulationView(name, SWITCHED_OFF - 1 - number, rng, system, outages)
            self._views.append(view)
            system.events.process(driven(process, view, system.events))
        system.events.worth_waiting.append(self._worth_waiting)

    def _worth_waiting(self) -> bool:
        """Return whether a task waits that a machine which is given back might let start."""
        return any(view.away for view in self._views) and self._patience.left()


def process_name(process: object) -> str:
    """Return the name of a process's class or function; that of a partial's function."""
    process = getattr(process, "func", process)
    return str(getattr(process, "__name__", type(process).__name__))


def driven(process: ProcessLike, view: SimulationView, loop: EventLoop) -> Steps:
    """Run a process and name it in every error; SimPy sees only events of this simulation."""
    start = process.run if isinstance(process, Process) else process
    instant, resumed = loop.now, 0
    try:
        steps = start(view)
        if not isinstance(steps, Generator):
            raise view.error(f"returned {steps!r}; it must yield events, e.g. view.timeout(60)")
        answer, failure = None, None
        while True:
            if loop.now != instant:
                instant, resumed = loop.now, 0
            resumed += 1
            if resumed > RESUMED_AT_ONCE:
                raise view.error(
                    f"went on {RESUMED_AT_ONCE:,} times at this instant, so time stands still; "
                    "wait for more than 0 s somewhere in its loop"
                )
            try:
                event = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration:  # the process is over
                return
            if not isinstance(event, Event) or event.env is not loop:
                raise view.error(f"yielded {event!r}; yield an event such as view.timeout(60)")
            answer, failure = None, None
            try:
                answer = yield event
            except Exception as error:  # an event of the user's has failed
                failure = error
    except (ProcessError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        lines = lines_of_author(error, process)
        raise view.error("\n".join([error_text(error), *lines])) from error

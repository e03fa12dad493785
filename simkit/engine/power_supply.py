"""Power in the simulation: what is there changes, what may run follows it, and flows are settled.

Power changes after completions and failures and before reservations and arrivals. What machines
may draw is turned into capacity, so that every policy lives with it, and what then runs on
capacity that is gone is stopped as the scenario says. When everything has happened at an instant
and the policy has decided, the flows are settled that hold until the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.engine.events import Occurrence, Rank
from simkit.engine.execution import Execution
from simkit.engine.machines_on import MachineUnits, PoolUnits, Switch
from simkit.engine.outages import Outages
from simkit.engine.power_outlook import (
    MachineLoad,
    PowerOutlook,
    least_of_both,
    machine_steps,
    pool_steps,
)
from simkit.engine.system import Patience, System
from simkit.errors import PolicyError
from simkit.policy import State, SwitchOff, SwitchOn
from simkit.policy.state import Foreseen
from simkit.policy.task import Allocation, Task
from simkit.power.signal import Signal
from simkit.power.site import Site
from simkit.power.system import MOST_NOTES, EnergySystem, LateAccount
from simkit.units import TIME_GRID
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import CapacityStep


class SitePowerView:
    """The site as policies see it: implements `simkit.policy.state.PowerState`."""

    def __init__(self, supply: PowerSupply) -> None:
        self._supply = supply

    @property
    def _energy(self) -> EnergySystem:
        return self._supply.readings

    @property
    def generation_w(self) -> float:
        return self._energy.generation_w

    @property
    def load_w(self) -> float:
        return self._supply.present_load_w()

    @property
    def machines_w(self) -> float:
        return self._supply.present_machines_w()

    @property
    def available_w(self) -> float:
        return self._supply.energy.available_w()

    @property
    def price_per_kwh(self) -> float:
        return self._energy.offer.price_per_kwh

    @property
    def carbon_gco2_per_kwh(self) -> float:
        return self._energy.offer.carbon_gco2_per_kwh

    @property
    def soc(self) -> float:
        battery = self._supply.energy.battery
        return 0.0 if battery is None else battery.soc

    @property
    def horizon_s(self) -> float:
        return self._supply.outlook.horizon_s

    @property
    def step_s(self) -> float:
        return self._supply.outlook.step_s

    def forecast(self, what: Foreseen, start_s: float | None = None) -> Floats:
        now = self._energy.time_s
        if what == "available":
            self._supply.catch_up()  # it depends on what the battery holds
        if start_s is not None and not start_s <= now:
            raise PolicyError(
                f"forecast({what!r}, start_s={start_s!r}) at {now:g} s; a forecast is issued at "
                "the latest now"
            )
        return self._supply.outlook.forecast(what, now if start_s is None else start_s)

    def power_of(self, task: Task) -> float:
        return self._supply.watts_of(task) * self._energy.pue(self._energy.full_w)

    def machine_power_of(self, task: Task) -> float:
        return self._supply.watts_of(task)

    def machines_within(self, site_w: float) -> float:
        return self._energy.within(site_w - self._energy.critical_w)


class _SignalWatch:
    """Tells when any of some signals changes."""

    def __init__(self, signals: Sequence[Signal], now: float) -> None:
        self._signals = signals
        self._values = [signal.value(now) for signal in signals]

    def next_change(self, now: float) -> float:
        """Return the first time in s after now at which any of them may change."""
        return min((signal.next_change(now) for signal in self._signals), default=math.inf)

    def changes(self, now: float) -> bool:
        """Return whether any value has changed since this was last asked."""
        before, self._values = self._values, [signal.value(now) for signal in self._signals]
        return before != self._values


PATIENCE_S: Final = 366 * 86_400.0
"""How long tasks wait for power, or start over as it goes, while no job ends: what has not ended
within a year of sun and wind never will."""


class PowerSupply:
    """Runs a site along with the simulation, in the background: its events never end."""

    def __init__(self, system: System, site: Site, execution: Execution, outages: Outages) -> None:
        self._system, self._state, self._events = system, system.state, system.events
        self._execution, self._outages, self._site = execution, outages, site
        self.started_s = system.events.now
        self._energy = EnergySystem(site, self.started_s, system.recorder.power)
        self._late: LateAccount | None = None
        self._watched: _SignalWatch | None = None
        self.outlook = PowerOutlook(self._energy, site.foresight)
        capacity = system.cluster.capacity
        self._load = MachineLoad(site.models, system.cluster.resources, capacity)
        self._pool: PoolUnits | None = None
        self._units: MachineUnits | None = None
        if len(site.models) == 1 and site.supply.limit != "none":
            self._pool = PoolUnits(site.models[0], capacity[0].tolist(), site.supply)
        else:
            names = system.cluster.machine_names
            self._units = MachineUnits(site.models, names, capacity, site.supply)
        self.victims: Callable[[State], Iterable[Allocation]] = least_valuable_first
        """Who is stopped first when power falls."""
        self._switched = self._initial_states()  # as last recorded
        self._alarms: list[float] = []  # when SimPy will call, besides the signals' own times
        self._followed_at = math.nan
        self._join(system)

    def _initial_states(self) -> dict[int, dict[str, object]]:
        """Return machine → the state of its switch, where that is recorded.

        It is recorded where capacity alone does not tell who is on: machines take time to boot or
        to shut down, or change for other reasons than power.
        """
        models = self._site.models
        if not self._outages.any and not any(
            m.switching.boot or m.switching.shutdown for m in models
        ):
            return {}
        if self._pool is not None:
            return {0: {"on": self._pool.on, "booting": 0.0}}
        return {row: {"state": Switch.ON.value} for row in range(len(models))}

    def _note_state(self, machine: int, state: dict[str, object]) -> None:
        """Record the state of a switch if it has changed."""
        if self._switched.get(machine, state) != state:
            self._switched[machine] = state
            self._system.books.switched(machine, state)

    def _join(self, system: System) -> None:
        """Show the site to policies, and begin to follow its signals."""
        system.state.power = SitePowerView(self)
        if self._site.foresight is not None and self._site.supply.limit != "none":
            system.outlook.foresee = self._foreseen_steps
            system.note_constraints()
        self._outages.on_change = self._capacity_changes
        patience = Patience(system, PATIENCE_S, lambda: system.books.jobs_ended)
        system.events.worth_waiting.append(patience.left)
        self._wake_at(self.started_s, self._signals_change)

    # ---- the course of a run --------------------------------------------------------------------

    def heed(self, signals: Collection[Foreseen] | None) -> None:
        """Let decisions follow these signals alone, as the policy declares before a run; None: all.

        With a limit they also follow those on which it depends. Without one, and if nobody watches
        the run, the rest is accounted for late, and nobody wakes for it.
        """
        if signals is None:
            return
        if self._site.supply.limit == "none":
            if not self._system.watched:
                self._late = LateAccount(self._energy)
        else:
            signals = {*signals, "available"}
        watched = [signal for what in sorted(signals) for signal in self._site.signals_of(what)]
        self._watched = _SignalWatch(tuple(dict.fromkeys(watched)), self.started_s)

    @property
    def energy(self) -> EnergySystem:
        """Where the site stands now; its flows are not kept if the account is late."""
        self.catch_up()
        return self.readings

    @property
    def readings(self) -> EnergySystem:
        """The site with its signals as they are now; what has flowed may be known later."""
        if self._late is not None and self._energy.time_s != (now := self._events.now):
            self._energy.time_s = now
            self._energy.read_signals(now)
        return self._energy

    def catch_up(self) -> None:
        """Account for what has flowed until now."""
        if self._late is not None:
            self._late.catch_up(self._events.now)

    def around(self, happening: Iterable[float]) -> Iterator[float]:
        """Yield instants; account for what flowed before each, and settle the flows after it."""
        if self._late is not None:
            return self._noting(happening, self._late)
        return self._settling(happening)

    def _noting(self, happening: Iterable[float], late: LateAccount) -> Iterator[float]:
        """Yield instants; note the load after each."""
        load, units, notes = self._load, self._units, late.notes
        room, recorder, note = self._system.room, self._system.recorder, late.notes.fromlist
        note([self.started_s, load.standing_w, load.standing_w])
        for now in happening:
            yield now
            if units is not None and units.unsettled:
                self._carry_out(self._settled_units(now))
            standing_w = load.standing_w
            note([now, standing_w + load.dynamic_w(room, recorder.capacity), standing_w])
            if len(notes) >= 3 * MOST_NOTES:
                late.catch_up(now)

    def _settling(self, happening: Iterable[float]) -> Iterator[float]:
        """Yield instants; account for what flowed before each, and settle the flows after it."""
        energy, load = self._energy, self._load
        room, recorder, units = self._system.room, self._system.recorder, self._units
        observer, reported = self._system.observer, energy.flows
        for now in happening:
            energy.advance(now)
            yield now
            if units is not None and units.unsettled:
                self._carry_out(self._settled_units(now))
            if self._pool is not None:
                capacity, free = recorder.capacity, room.total_free()
                held = [c - f for c, f in zip(capacity, free, strict=True)]
                load.set_standing(0, self._pool.standing_w(held))
                if self._switched:
                    self._note_state(0, {"on": self._pool.on, "booting": self._pool.booting})
            standing = load.standing_w
            energy.settle(standing + load.dynamic_w(room, recorder.capacity), standing)
            if observer is not None and energy.flows is not reported:
                reported = energy.flows
                observer.flowing(now, reported)
            if energy.next_event < math.inf:
                self._alarm(energy.next_event)

    def close(self) -> None:
        """Close the ledger."""
        self.catch_up()
        self._energy.close()

    def _wake_at(self, time_s: float, callback: Callable[[Occurrence], None]) -> None:
        time_s = math.ceil(time_s / TIME_GRID) * TIME_GRID
        self._events.in_background(time_s, Rank.POWER, callback)

    def _signals_change(self, _event: Occurrence) -> None:
        """Read sun, wind and prices; then wait for their next change."""
        now = self._events.now
        if self._late is None or self._watched is None:
            self._happens()
            upcoming = self._energy.next_change()
        else:
            if self._watched.changes(now) and self._system.anyone_waits():
                self._system.changed = True
            upcoming = self._watched.next_change(now)
        if upcoming < math.inf:
            self._wake_at(upcoming, self._signals_change)

    def _alarm(self, time_s: float) -> None:
        """Schedule an event by then: the battery is empty, or a boot is over."""
        if not self._alarms or time_s < self._alarms[-1]:
            self._alarms.append(time_s)  # soonest last
            self._wake_at(time_s, self._alarm_rings)

    def _alarm_rings(self, _event: Occurrence) -> None:
        self._alarms.pop()
        self._happens()

    def _capacity_changes(self) -> None:
        """Update the power once an instant, since absent machines need none."""
        now = self._events.now
        if self._units is not None and now != self._followed_at:
            self._followed_at = now
            self._wake_at(now, lambda _event: self._happens())

    def _happens(self) -> None:
        """Bring power up to date, and what may run with it."""
        now = self._events.now
        changed = False
        if self._late is None:
            self._energy.advance(now)
            changed = self._energy.read_signals(now)
            if self._watched is not None:
                changed = self._watched.changes(now)
        changes = self._settled_units(now)
        if self._site.supply.limit != "none" or now == self._followed_at:
            changes += self._aim(now)
        self._carry_out(changes)
        self._stop_what_has_no_power(changes)
        if changed and self._system.anyone_waits():
            self._system.changed = True

    # ---- capacity -------------------------------------------------------------------------------

    def _settled_units(self, now: float) -> list[CapacityChange]:
        """Settle the boots and shutdowns that are over."""
        if self._pool is not None:
            return self._pool.settle(now)
        if self._units is not None and self._units.unsettled:
            room = self._system.room
            changes = self._units.settle(now, room.capacity - room.free())
            self._note_switches()
            return changes
        return []

    def _aim(self, now: float) -> list[CapacityChange]:
        available = self._available_w()
        if self._pool is None:
            return self._aim_machines(available, now)
        changes = self._pool.aim(available, now)
        if self._pool.next_change < math.inf:
            self._alarm(self._pool.next_change)
        return changes

    def _available_w(self) -> float:
        return math.inf if self._site.supply.limit == "none" else self._energy.available_w()

    def _aim_machines(self, available: float, now: float) -> list[CapacityChange]:
        assert self._units is not None
        idle, busy = self._machines_to_spare()
        changes: list[CapacityChange] = []
        useless: list[int] = []
        if self._outages.any:
            outages, rows = self._outages, range(len(self._site.models))
            useless = [row for row in rows if not outages.machines.is_sound(row)]
            for row in useless:
                if not outages.machines.is_there(row):
                    changes += self._units.dismiss(row, now)
        changes += self._units.aim(available, now, idle, busy, useless)
        if changes or self._units.unsettled:
            self._note_switches()
        return changes

    def _machines_to_spare(self) -> tuple[Iterator[int], Iterator[int]]:
        """Return machines without tasks, the last first; and the machines of victims, in order."""
        room, state = self._system.room, self._state

        def idle() -> Iterator[int]:
            held = (room.capacity - room.free()).any(axis=1)
            yield from reversed(np.flatnonzero(~held).tolist())

        def busy() -> Iterator[int]:
            for allocation in self.victims(state):
                for row, _ in allocation.on:
                    yield row

        return idle(), busy()

    def _note_switches(self) -> None:
        """Pass on what switched machines draw without tasks; set an alarm for the next change."""
        units = self._units
        assert units is not None
        for row in units.take_touched():
            switch = units.switches[row]
            self._load.set_standing(row, switch.standing_w())
            self._note_state(row, {"state": switch.switch.value})
        if units.next_change < math.inf:
            self._alarm(units.next_change)

    def _carry_out(self, changes: Sequence[CapacityChange]) -> None:
        if changes:
            self._outages.change(changes, self._site.supply.running)

    def _stop_what_has_no_power(self, changes: Sequence[CapacityChange]) -> None:
        """Stop tasks on capacity that has been switched off, victim by victim."""
        running = self._site.supply.running
        if running == "drain" or not changes:
            return
        state = self._state
        free = self._system.room.free()
        if not (free < 0).any():
            return
        for allocation in tuple(self.victims(state)):
            if allocation not in state.running or not (count := _to_stop(allocation, free)):
                continue
            if count < allocation.count:
                allocation = self._execution.split(allocation, count)
            self._execution.stop(
                allocation,
                keep_work=running != "requeue",
                checkpoints=self._site.supply.checkpoints,
            )
            free = self._system.room.free()
            if not (free < 0).any():
                return

    # ---- switches ------------------------------------------------------------------------------

    def switch_off(self, action: SwitchOff) -> None:
        """Turn an empty machine off, as the policy asks."""
        machine, units = self._checked(action.machine)
        now, room = self._events.now, self._system.room
        if (room.capacity[machine] != room.free()[machine]).any():
            raise self._system.referee.broken(
                f"machine {units.switches[machine].name!r} runs tasks, it cannot be switched off; "
                "suspend them first, or wait"
            )
        self._carry_out(units.switch_off(machine, now))
        self._note_switches()

    def switch_on(self, action: SwitchOn) -> None:
        """Turn a machine on again, as the policy asks; it can be used when it has booted."""
        machine, units = self._checked(action.machine)
        changes = units.switch_on(machine, self._events.now, self._available_w())
        self._carry_out(changes)
        self._note_switches()

    def _checked(self, machine: int) -> tuple[int, MachineUnits]:
        units = self._units
        if units is None:
            raise self._system.referee.broken(
                "the processors of a pool are switched by its power supply; a policy switches "
                "machines, and needs a cluster of machines"
            )
        if not (isinstance(machine, (int, np.integer)) and 0 <= machine < len(units.switches)):
            raise self._system.referee.broken(
                f"there is no machine {machine!r}; rows go from 0 to {len(units.switches) - 1}"
            )
        return int(machine), units

    # ---- what is foreseen ----------------------------------------------------------------------

    def _foreseen_steps(self, known: Sequence[CapacityStep] = ()) -> list[CapacityStep]:
        """Return the changes of capacity that the forecast and what is known lead to, in order."""
        foreseen = self._steps_of_power()
        if not known:
            return foreseen
        if self._pool is None:
            return sorted([*known, *foreseen], key=lambda step: step.time_s)
        limit = self._pool.amounts(self._pool.on)
        return least_of_both(self._outages.machines.untouched(0), limit, known, foreseen)

    def _steps_of_power(self) -> list[CapacityStep]:
        """Return the changes of capacity that the forecast leads to, soonest first."""
        now = self._events.now
        self._energy.advance(now)
        if (pool := self._pool) is not None:
            return self.outlook.capacity_steps(
                now, pool.on, lambda starts, watts: pool_steps(pool, starts, watts, now)
            )
        units, outages = self._units, self._outages
        assert units is not None
        return self.outlook.capacity_steps(
            now,
            outages.changes_made,
            lambda starts, watts: machine_steps(units, outages, starts, watts, now),
        )

    def present_machines_w(self) -> float:
        """Return what machines draw at this point of a decision, in W."""
        load, system = self._load, self._system
        return load.standing_w + load.dynamic_w(system.room, system.recorder.capacity)

    def present_load_w(self) -> float:
        """Return what the site draws at this point of a decision, in W."""
        machines_w = self.present_machines_w()
        site = self.readings
        return site.pue(machines_w) * machines_w + site.critical_w

    def watts_of(self, task: Task) -> float:
        """Return what a task adds to what machines draw, in W."""
        return self._load.of_request(task.request, task.instances)


def least_valuable_first(state: State) -> list[Allocation]:
    """Return what runs in the order in which it is stopped: lowest value density, then youngest."""
    return sorted(state.running, key=lambda a: (a.task.value_density, -a.rank))


def _to_stop(allocation: Allocation, free: Floats) -> int:
    """Return how many instances must go for nothing to be short where an allocation runs.

    All of a gang or none; of a bag, whose instances have nothing to do with each other, no more
    than are short.
    """
    needed = 0
    for row, count in allocation.on:
        for amount, left in zip(allocation.task.request, free[row].tolist(), strict=True):
            if amount > 0 > left:
                needed = max(needed, min(math.ceil(-left / amount), count))
    return allocation.count if needed and allocation.task.gang else needed

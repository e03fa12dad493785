"""Checks of machines over time: their recorded capacities follow from the scenario and its files.

A machine offers its capacity while it is present and up, less what containers and maintenance take,
and never less than nothing. The files are server_event and container_event of Alibaba's
cluster-trace-v2017. Random failures are drawn again from the seed. Power may take machines, or part
of a pool. The user's processes may take whole machines, as their own rows of events say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.scenario.cluster import (
    ContainerTrace,
    MachineGroup,
    MachineTrace,
    MaintenanceSection,
)
from simkit.verify.audit import (
    LARGEST,
    LARGEST_ID,
    Check,
    Floats,
    NotApplicableError,
    NotAuditedError,
    amount_on_grid,
    on_grid,
    requests_on_grid,
    rule,
    stream,
)
from simkit.verify.audited_run import AuditedRun
from simkit.verify.input_tasks import UNREADABLE
from simkit.verify.inputs import trace_table

Amounts = tuple[float, ...]
"""One number per resource of the cluster, in its order."""
_Spans = list[tuple[float, float, Amounts]]
"""(from, until, amounts)."""


class Edge(NamedTuple):
    """An instant at which something of a machine is taken away or given back."""

    time_s: float
    cause: str
    """As the events name it."""
    running: str | None
    """What happens to tasks on what is taken: drain, requeue, suspend; None: it is given back."""


@dataclass
class MachineLife:
    """What happens to one machine; times in s on the trace's clock."""

    installed: list[tuple[float, Amounts]] = field(default_factory=list)
    """(from, its capacity): zero from when it is removed."""
    joins: list[float] = field(default_factory=list)
    faults: list[tuple[float, float]] = field(default_factory=list)
    """(begin, repair)."""
    taken: _Spans = field(default_factory=list)
    """By containers and maintenance."""
    edges: list[Edge] = field(default_factory=list)
    """When something is taken or given back, and why; none before the simulation."""

    def instants(self) -> set[float]:
        """Return the instants at which what it offers may change."""
        ends = {time for fault in self.faults for time in fault}
        ends |= {time for taken in self.taken for time in taken[:2]}
        return ends | {time for time, _ in self.installed}

    def offered(self, times: Floats) -> Floats:
        """Return (T, R): what it offers at each time, changes of that instant included."""
        installed = sorted(self.installed, key=lambda entry: entry[0])
        begins = np.array([begin for begin, _ in installed])
        amounts = np.array([[0.0] * len(installed[0][1]), *(has for _, has in installed)])
        offer = amounts[np.searchsorted(begins, times, side="right")]
        for begin, end, taken in self.taken:
            offer = offer - np.outer((times >= begin) & (times < end), taken)
        offer = np.maximum(offer, 0.0)
        for begin, repair in self.faults:
            # A machine that joins again is as new.
            until = min([repair, *(join for join in self.joins if join > begin)])
            offer[(times >= begin) & (times < until)] = 0.0
        return np.asarray(offer)


def machine_lives(run: AuditedRun, horizon: float) -> dict[int, MachineLife]:
    """Return machine id → what the scenario says of it until the horizon.

    Raises ValueError for a file that cannot be read, and NotAuditedError.
    """
    lives = {machine: MachineLife() for machine in run.capacity}
    section = run.scenario.cluster
    if section.trace is not None:
        _add_trace(run, section.trace, lives)
    else:
        for machine, capacity in run.capacity.items():
            lives[machine].installed.append((-float("inf"), capacity))
    if section.containers is not None:
        _add_containers(run, section.containers, lives)
    for window, machine, spans in _maintenance(run, horizon):
        lives[machine].taken += spans
        lives[machine].edges += _edges_of(spans, "maintenance", window.running)
    _add_processes(run, lives)
    if run.complete:
        _add_failures(run, lives, horizon)
    return lives


def _edges_of(spans: _Spans, cause: str, running: str) -> Iterator[Edge]:
    for begin, end, _ in spans:
        yield Edge(begin, cause, running)
        yield Edge(end, cause, None)


def _add_failures(run: AuditedRun, lives: dict[int, MachineLife], horizon: float) -> None:
    """Draw the random failures again; the simulation begins with what happens first, or at 0."""
    if not (failing := failing_machines(run)):
        return
    known = [edge.time_s for life in lives.values() for edge in life.edges]
    first = [*known, *run.jobs["submit_time_s"].drop_nulls().to_list(), 0.0]
    begin = min(time for time in first if np.isfinite(time))
    running = str(run.setting("cluster", "failures", "running"))
    for machine, faults in drawn_failures(run, sorted(failing), begin, horizon).items():
        lives[machine].faults += faults
        for fails, repaired in faults:
            lives[machine].edges += [
                Edge(fails, "failure", running), Edge(repaired, "failure", None),
            ]  # fmt: skip


def _ids(run: AuditedRun) -> dict[str, int]:
    """Return machine name → id."""
    return {str(m["name"]): int(m["id"]) for m in run.manifest["cluster"]["machines"]}


def _add_trace(run: AuditedRun, trace: MachineTrace, lives: dict[int, MachineLife]) -> None:
    """Read server_event: machines are added, removed, or fail."""
    ids = _ids(run)
    table = trace_table(run, trace.path, "server_event")
    if table is None:
        raise NotAuditedError("server_event is not among the recorded inputs")
    present: set[int] = set()
    for time, name, event, amounts in _server_events(run, table):
        if name not in ids:
            continue  # never added
        life = lives[ids[name]]
        if event == "add":
            # A machine that exists at the trace's zero existed before.
            begin = time if time > 0 or life.installed else -float("inf")
            life.installed.append((begin, amounts))
            life.joins.append(begin)
            # A machine may come back smaller; then what runs on it may end first.
            life.edges += [Edge(begin, "add", None), Edge(begin, "add", "drain")]
            present.add(ids[name])
        elif event == "remove":
            life.installed.append((time, (0.0,) * len(amounts)))
            life.edges.append(Edge(time, "remove", trace.remove))
        else:
            fault = trace.softerror if event == "softerror" else trace.harderror
            until = float("inf") if fault.repair is None else on_grid(time + fault.repair)
            life.faults.append((time, until))
            life.edges += [Edge(time, event, fault.running), Edge(until, event, None)]
    for machine in lives.keys() - present:
        lives[machine].installed.append((-float("inf"), run.capacity[machine]))


def _server_events(
    run: AuditedRun, table: pl.DataFrame
) -> Iterator[tuple[float, str, str, Amounts]]:
    """Yield (time, machine, event, capacity with over-commitment) in order of time."""
    event, id_ = pl.col("event").str.to_lowercase(), pl.col("machine_id")
    sane = (pl.col("time_s").abs() < LARGEST) & (id_.abs() < LARGEST_ID) & (id_.floor() == id_)
    sizes = [pl.col(name).fill_null(0.0) for name in ("cpu", "mem")]
    sane &= pl.all_horizontal((size >= 0) & (size < LARGEST) for size in sizes)
    bare = (event == "add") & ~pl.any_horizontal(size > 0 for size in sizes)
    known = event.is_in(["add", "remove", "softerror", "harderror"])
    rows = table.filter((sane & known & ~bare).fill_null(value=False))
    rows = rows.sort("time_s", maintain_order=True)
    factors = run.scenario.cluster.overcommit
    for row in rows.iter_rows(named=True):
        bare_amounts = [amount_on_grid(row.get(r) or 0.0) for r in run.resources]
        by = [factors.get(r, 1.0) for r in run.resources]
        amounts = tuple(amount_on_grid(a * f) for a, f in zip(bare_amounts, by, strict=True))
        yield on_grid(row["time_s"]), str(int(row["machine_id"])), row["event"].lower(), amounts


def _add_containers(
    run: AuditedRun, section: ContainerTrace, lives: dict[int, MachineLife]
) -> None:
    """Read container_event: each container holds its part from creation to removal."""
    table = trace_table(run, section.path, "container_event")
    if table is None:
        raise NotAuditedError("container_event is not among the recorded inputs")
    open_: dict[float, tuple[float, str, Amounts]] = {}
    held: dict[str, _Spans] = defaultdict(list)
    for row in _container_events(table):
        time, container = on_grid(row["time_s"]), row["container_id"]
        if row["event"].lower() == "remove":
            if container in open_:
                begin, machine, amounts = open_.pop(container)
                held[machine].append((begin, time, amounts))
        elif container not in open_:
            amounts = tuple(row.get(r) or 0.0 for r in run.resources)
            begin = time if time > 0 else -float("inf")  # zero: before the trace
            open_[container] = begin, str(int(row["machine_id"])), amounts
    for begin, machine, amounts in open_.values():
        held[machine].append((begin, float("inf"), amounts))
    first = float(run.jobs["submit_time_s"].min() or 0.0)  # type: ignore[arg-type]
    for name, machine_id in _ids(run).items():
        lives[machine_id].taken += held[name]
        spans = [(max(begin, min(0.0, first)), end, taken) for begin, end, taken in held[name]]
        lives[machine_id].edges += _edges_of(spans, "container", section.running)


def _container_events(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    event = pl.col("event").str.to_lowercase()
    container, machine = pl.col("container_id"), pl.col("machine_id")
    sane = (pl.col("time_s").abs() < LARGEST) & (container.abs() < LARGEST_ID)
    sane &= container.floor() == container
    sane &= machine.is_null() | ((machine.abs() < LARGEST_ID) & (machine.floor() == machine))
    fits = pl.all_horizontal((pl.col(n) >= 0) & (pl.col(n) < LARGEST) for n in ("cpu", "mem"))
    whole = (event == "remove") | ((event == "create") & machine.is_not_null() & fits)
    rows = table.filter((sane & whole).fill_null(value=False)).sort("time_s", maintain_order=True)
    return rows.with_columns(requests_on_grid(pl.col("cpu", "mem"))).iter_rows(named=True)


def _maintenance(run: AuditedRun, horizon: float) -> Iterator[tuple[Window, int, _Spans]]:
    """Yield each window, a machine from which it takes, and what it takes until the horizon.

    Raises ValueError for a window without a place in time.
    """
    for window in maintenance_windows(run):
        start, starts = window.start, [window.start]
        if window.every is not None:
            count = max(int((horizon - start) // window.every) + 1, 0)
            starts = [start + i * window.every for i in range(count)]
        for machine, amounts in window.taken.items():
            yield window, machine, [
                (begin, begin + (window.end - start), amounts) for begin in starts
            ]  # fmt: skip


class Window(NamedTuple):
    """A maintenance window of the scenario, once or again and again; times in s."""

    start: float
    end: float
    every: float | None
    taken: dict[int, Amounts]
    """Machine id → what it takes."""
    running: str = "drain"
    """What happens to running tasks: drain, requeue or suspend."""


def maintenance_windows(run: AuditedRun) -> list[Window]:
    """Return the windows of the scenario; raises ValueError for one without a place in time."""
    windows = []
    for window in run.scenario.cluster.maintenance:
        start = on_grid(_instant(window.start, run))
        if window.duration is not None:
            end = on_grid(start + window.duration)
        else:
            end = on_grid(_instant(window.end, run))
        every = None if window.every is None else on_grid(window.every)
        windows.append(Window(start, end, every, _taken_by(run, window), window.running))
    return windows


def _taken_by(run: AuditedRun, window: MaintenanceSection) -> dict[int, Amounts]:
    """Return what a window takes of which machine: whole machines, or processors of a pool."""
    if window.processors is not None:
        taken = tuple(float(window.processors) * (r == "processors") for r in run.resources)
        return {next(iter(run.capacity)): taken}
    if window.machines is None:
        return dict(run.capacity)
    return {row: run.capacity[row] for row in _of_groups(run, window.machines)}


def _of_groups(run: AuditedRun, names: Sequence[str]) -> list[int]:
    """Return the ids of the machines in these groups, or pools, of the scenario's cluster."""
    machines: list[int] = []
    row = 0
    # Partitions with processors are pools of their own, a machine each.
    pools = [p for p in run.scenario.cluster.partitions if p.processors is not None]
    for group in run.scenario.cluster.machines or pools:
        count = group.count if isinstance(group, MachineGroup) else 1
        if (group.name or "") in names:
            machines += range(row, row + count)
        row += count
    return machines


def _instant(value: float | datetime | None, run: AuditedRun) -> float:
    """Return the time in s on the trace's clock of a duration since its zero, or of a date."""
    if not isinstance(value, datetime):
        return float(value or 0.0)
    epoch = run.manifest.get("epoch_s")
    if epoch is None:
        raise ValueError(f"{value} is a date, but the trace's epoch is unknown")
    return value.timestamp() - float(epoch)


@rule
def check_maintenance(run: AuditedRun, check: Check) -> None:
    """Capacity at each start is what maintenance leaves."""
    if not run.scenario.cluster.maintenance:
        raise NotApplicableError("the scenario has no maintenance")
    if len(run.capacity) != 1 or len(run.resources) != 1:
        raise NotApplicableError("the cluster is not a pool: see the rule machine-capacity")
    starts = run.allocations["start_time_s"].drop_nulls().unique().sort().to_numpy()
    check.examined = len(starts)
    if not len(starts):
        return
    ((machine, capacity),) = run.capacity.items()
    life = MachineLife(installed=[(-float("inf"), capacity)])
    try:
        spans = [s for _, _, spans in _maintenance(run, float(starts[-1])) for s in spans]
    except ValueError as error:
        check.add("a maintenance window has no place in time", {"problem": str(error)})
        return
    life.taken += spans
    _add_processes(run, {machine: life})
    found, expected = run.capacity_at(machine, starts)[:, 0], life.offered(starts)[:, 0]
    # Power may take capacity as well.
    wrong = found > expected if run.power_limits_capacity else found != expected
    columns = {"time_s": starts, "capacity": found, "expected": expected}
    check.add_where("the capacity is not what the maintenance windows leave", wrong, columns)


@rule
def check_machine_capacity(run: AuditedRun, check: Check) -> None:
    """Machines join, leave and fail as the scenario says."""
    if not run.machines_change:
        if not run.capacity_events:
            raise NotApplicableError("the machines do not change")
        if all(event.by_power for event in run.capacity_events):
            raise NotApplicableError("only power changes the capacity: see the rule supply")
        raise NotAuditedError("the scenario does not say how machines change")
    submits = run.jobs["submit_time_s"].drop_nulls().to_numpy()
    if not len(submits) or not run.allocations["start_time_s"].count():
        raise NotApplicableError("nothing starts")
    first, last = float(submits.min()), last_instant(run)
    try:
        lives = machine_lives(run, last)
    except UNREADABLE as error:
        check.add("the files of the machines cannot be read, or a window has no place in time",
                  {"problem": str(error)})  # fmt: skip
        return
    _check_processes(run, check)
    may_fail, pool = set() if run.complete else failing_machines(run), len(run.capacity) == 1
    changes: dict[int, set[float]] = defaultdict(set)
    for step in run.capacity_steps:
        changes[step.machine_id].add(step.time_s)
    for machine, life in lives.items():
        instants = {first, *changes[machine], *life.instants()}
        times = np.array(sorted(time for time in instants if first <= time <= last))
        check.examined += len(times)
        found, expected = run.capacity_at(machine, times), life.offered(times)
        # Power may take any part of a pool, or a whole machine; a failure takes a whole machine.
        part_away = run.power_limits_capacity and pool
        differs = np.greater(found, expected) if part_away else np.not_equal(found, expected)
        wrong = np.asarray(differs.any(axis=1), dtype=np.bool_)
        if machine in may_fail or (run.power_limits_capacity and not pool):
            wrong &= (found != 0).any(axis=1)
        columns = {"machine_id": np.full(len(times), machine), "time_s": times}
        columns |= dict(zip(run.resources, found.T, strict=True))
        columns |= {f"expected_{r}": e for r, e in zip(run.resources, expected.T, strict=True)}
        check.add_where("the machine's capacity is not that of the scenario", wrong, columns)
    if run.scenario.processes:
        raise NotAuditedError("what the user's processes do is known from their own rows alone")
    if may_fail:
        raise NotAuditedError("the run is not complete, so failures are not drawn")


def last_instant(run: AuditedRun) -> float:
    """Return the time until which all that happens is recorded, in s."""
    times = run.only("timeline", "time_s")["time_s"].drop_nulls()
    starts = run.only("allocations", "start_time_s")["start_time_s"].drop_nulls()
    if run.complete and len(times):
        return float(times.max())  # type: ignore[arg-type]
    return float(starts.max()) if len(starts) else 0.0  # type: ignore[arg-type]


def _add_processes(run: AuditedRun, lives: Mapping[int, MachineLife]) -> None:
    """Add what the user's processes took away, as recorded: whole machines, taken then given back.

    Nothing else says what a process does, so its own rows are the source; between them a machine
    must offer nothing, and outside of them what the scenario's files say.
    """
    since: dict[tuple[str, int], float] = {}
    for held, taken, row in _by_processes(run):
        if taken:
            since.setdefault(held, float(row["time_s"]))
        elif held in since:
            _hold(lives[held[1]], since.pop(held), float(row["time_s"]))
    for (_, machine), begin in since.items():
        _hold(lives[machine], begin, float("inf"))


def _by_processes(run: AuditedRun) -> Iterator[tuple[tuple[str, int], bool, dict[str, Any]]]:
    """Yield ((process, machine), whether it was taken away, row) of events of processes."""
    for row, detail in run.capacity_events:
        name, machine = detail.get("process"), row["machine_id"]
        if name is not None and machine in run.capacity:
            yield (str(name), int(machine)), detail.get("taken") is True, row


def _check_processes(run: AuditedRun, check: Check) -> None:
    """Check that processes take a machine away and give it back in turns."""
    away: set[tuple[str, int]] = set()
    for held, taken, row in _by_processes(run):
        if not run.scenario.processes:
            check.add("a process changes capacity, but the scenario has none", row)
        if taken == (held in away):
            what = "takes a machine twice" if taken else "gives back what it has not taken"
            check.add(f"the process {what}", row)
        (away.add if taken else away.discard)(held)


def _hold(life: MachineLife, begin: float, end: float) -> None:
    """Take all of a machine for a time."""
    life.taken.append((begin, end, (1e300,) * len(life.installed[0][1])))


def failing_machines(run: AuditedRun) -> set[int]:
    """Return the machines that may fail at random."""
    section = run.scenario.cluster.failures
    if section is None:
        return set()
    groups = section.machines
    return set(run.capacity) if groups is None else set(_of_groups(run, groups))


@rule
def check_failures(run: AuditedRun, check: Check) -> None:
    """Machines fail as a whole and are repaired before they fail again."""
    may_fail = failing_machines(run)
    down: dict[int, bool] = {}
    for event, detail in run.capacity_events:
        if not isinstance(detail.get("capacity"), dict):
            continue  # the rule "capacity" reports it
        machine, nothing = event["machine_id"], not any(detail["capacity"].values())
        if detail.get("cause") == "failure":
            check.examined += 1
            if machine not in may_fail:
                check.add("fails, but the scenario has no such failure", event)
            elif nothing == down.get(machine, False):
                what = "fails while it is down" if nothing else "is repaired while it is up"
                check.add(f"the machine {what}", event)
        down[machine] = nothing
    if run.scenario.cluster.failures is None and not check.found:
        raise NotApplicableError("the scenario has no random failures")


def drawn_failures(
    run: AuditedRun, machines: Iterable[int], begin_s: float, until_s: float
) -> dict[int, list[tuple[float, float]]]:
    """Return machine → (failure, repair) in s on the trace's clock, for those before `until_s`.

    Args:
        run: with random failures.
        machines: that may fail.
        begin_s: when the simulation began.
        until_s: the last time of interest.
    """
    section = run.scenario.cluster.failures
    assert section is not None
    streams = stream(run.scenario.seed, "failures").spawn(len(run.capacity))
    found: dict[int, list[tuple[float, float]]] = {}
    for machine in machines:
        rng, faults = streams[machine], []
        fails = on_grid(begin_s + rng.exponential(section.mtbf))
        while fails <= until_s:
            repaired = on_grid(fails + rng.exponential(section.mttr))
            faults.append((fails, repaired))
            fails = on_grid(repaired + rng.exponential(section.mtbf))
        found[machine] = faults
    return found

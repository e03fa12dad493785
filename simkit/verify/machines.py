"""What happens to the machines by the scenario's own files, read by the auditor.

Each machine is described by spans of time: when it is there and with what, when it is down, when
part of it is taken by containers or maintenance. The files are server_event and container_event of
Alibaba's cluster-trace-v2017.
"""

from __future__ import annotations

import json
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.capacity import capacity_steps
from simkit.verify.durations import seconds
from simkit.verify.inputs import LARGEST, LARGEST_ID, MissingInputError, trace_table
from simkit.verify.limits import spans

if TYPE_CHECKING:
    from simkit.verify.capacity import CapacityStep
    from simkit.verify.folder import RunFolder


Amounts = tuple[float, ...]
"""One number a resource of the cluster, in its order."""


@dataclass
class MachineLife:
    """What happens to one machine; times in s on the trace's clock."""

    installed: list[tuple[float, Amounts]] = field(default_factory=list)
    """(from, what it has): nothing from when it leaves."""
    joins: list[float] = field(default_factory=list)
    faults: list[tuple[float, float]] = field(default_factory=list)
    """(begin, repair)."""
    taken: list[tuple[float, float, Amounts]] = field(default_factory=list)
    """(from, until, amounts) of containers and maintenance."""


def machine_lives(run: RunFolder, horizon: float) -> dict[int, MachineLife]:
    """Return what the scenario says of each machine until the horizon, by its row.

    Raises ValueError for a file that cannot be read, and MissingInputError.
    """
    lives = {machine: MachineLife() for machine in run.capacity}
    section = run.setting("cluster") or {}
    if section.get("trace"):
        _from_trace(run, section, lives)
    else:
        for machine, capacity in run.capacity.items():
            lives[machine].installed.append((-float("inf"), capacity))
    if section.get("containers"):
        _contain(run, section["containers"], lives)
    for window in section.get("maintenance") or ():
        for machine, amounts in _away(run, window).items():
            for begin, end, _ in spans(window, run, horizon, 0.0):
                lives[machine].taken.append((begin, end, amounts))
    return lives


def _rows(run: RunFolder) -> dict[str, int]:
    """Return machine name → row."""
    return {str(m["name"]): int(m["id"]) for m in run.manifest["cluster"]["machines"]}


def _from_trace(run: RunFolder, section: Mapping[str, Any], lives: dict[int, MachineLife]) -> None:
    """Take in server_event: machines that are added, removed, or fail."""
    trace, rows = section["trace"], _rows(run)
    table = trace_table(run, str(trace["path"]), "server_event")
    if table is None:
        raise MissingInputError("server_event is not among the recorded inputs")
    present: set[int] = set()
    for time, name, event, amounts in _server_events(run, table):
        if name not in rows:
            continue  # never added
        row, life = rows[name], lives[rows[name]]
        if event == "add":
            # What is there at the trace's zero was there before.
            begin = time if time > 0 or life.installed else -float("inf")
            life.installed.append((begin, amounts))
            life.joins.append(begin)
            present.add(row)
        elif event == "remove":
            life.installed.append((time, (0.0,) * len(amounts)))
        else:
            repair = trace[event].get("repair")
            until = float("inf") if repair is None else on_grid(time + seconds(repair))
            life.faults.append((time, until))
    for row in lives.keys() - present:
        lives[row].installed.append((-float("inf"), run.capacity[row]))


def _server_events(
    run: RunFolder, table: pl.DataFrame
) -> Iterator[tuple[float, str, str, Amounts]]:
    """Yield (time, machine, event, what it brings) in order of time, over-commit counted."""
    event, id_ = pl.col("event").str.to_lowercase(), pl.col("machine")
    sane = (pl.col("time").abs() < LARGEST) & (id_.abs() < LARGEST_ID) & (id_.floor() == id_)
    sizes = [pl.col(name).fill_null(0.0) for name in ("cpu", "mem")]
    sane &= pl.all_horizontal((size >= 0) & (size < LARGEST) for size in sizes)
    bare = (event == "add") & ~pl.any_horizontal(size > 0 for size in sizes)
    known = event.is_in(["add", "remove", "softerror", "harderror"])
    rows = table.filter((sane & known & ~bare).fill_null(value=False))
    rows = rows.sort("time", maintain_order=True)
    factors = run.setting("cluster", "overcommit") or {}
    for row in rows.iter_rows(named=True):
        amounts = tuple(
            _amount_on_grid((row.get(r) or 0.0), float(factors.get(r, 1.0))) for r in run.resources
        )
        yield on_grid(row["time"]), str(int(row["machine"])), row["event"].lower(), amounts


def _amount_on_grid(amount: float, factor: float) -> float:
    """Round to multiples of 2**-30, before and after the over-commit factor, as the run does."""
    return round(round(amount * 2**30) / 2**30 * factor * 2**30) / 2**30


def on_grid(time_s: float) -> float:
    """Round to the run's time grid, 2**-20 s."""
    return round(time_s * 2**20) / 2**20


def _contain(run: RunFolder, section: Mapping[str, Any], lives: dict[int, MachineLife]) -> None:
    """Take in container_event: each container holds its part from creation to removal."""
    table = trace_table(run, str(section["path"]), "container_event")
    if table is None:
        raise MissingInputError("container_event is not among the recorded inputs")
    rows = _rows(run)
    open_: dict[float, tuple[float, str, Amounts]] = {}
    held: dict[str, list[tuple[float, float, Amounts]]] = defaultdict(list)
    for row in _container_events(table):
        time, container = on_grid(row["time"]), row["container"]
        if row["event"].lower() == "remove":
            if container in open_:
                begin, machine, amounts = open_.pop(container)
                held[machine].append((begin, time, amounts))
        elif container not in open_:
            amounts = tuple(_request_on_grid(row.get(r) or 0.0) for r in run.resources)
            begin = time if time > 0 else -float("inf")  # zero: before the trace
            open_[container] = begin, str(int(row["machine"])), amounts
    for begin, machine, amounts in open_.values():
        held[machine].append((begin, float("inf"), amounts))
    for name, taken in held.items():
        if name in rows:
            lives[rows[name]].taken += taken


def _container_events(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    event = pl.col("event").str.to_lowercase()
    container, machine = pl.col("container"), pl.col("machine")
    sane = (pl.col("time").abs() < LARGEST) & (container.abs() < LARGEST_ID)
    sane &= container.floor() == container
    sane &= machine.is_null() | ((machine.abs() < LARGEST_ID) & (machine.floor() == machine))
    fits = pl.all_horizontal((pl.col(n) >= 0) & (pl.col(n) < LARGEST) for n in ("cpu", "mem"))
    whole = (event == "remove") | ((event == "create") & machine.is_not_null() & fits)
    rows = table.filter((sane & whole).fill_null(value=False)).sort("time", maintain_order=True)
    return rows.iter_rows(named=True)


def _request_on_grid(amount: float) -> float:
    """Round down to a multiple of 2**-30; a millionth of a step is noise."""
    return float((amount * 2**30 + 1e-6) // 1 / 2**30)


def _away(run: RunFolder, window: Mapping[str, Any]) -> dict[int, Amounts]:
    """Return what a window takes of which machine: whole machines, or processors of a pool."""
    if window.get("processors") is not None:
        taken = tuple(float(window["processors"]) * (r == "processors") for r in run.resources)
        return {next(iter(run.capacity)): taken}
    if window.get("machines") is None:
        return dict(run.capacity)
    groups: dict[str, list[int]] = defaultdict(list)
    row = 0
    for group in run.setting("cluster", "machines") or ():
        for _ in range(int(group.get("count", 1))):
            groups[group.get("name") or ""].append(row)
            row += 1
    return {row: run.capacity[row] for name in window["machines"] for row in groups[name]}


# MERGED The audit of machines over time: their recorded capacities, worked out from the scenario.
# MERGED
# MERGED A machine offers what it has while it is there and up, less what containers and maintenance take,
# MERGED and never less than nothing. Random failures are not foreseeable: they may take a whole machine
# MERGED away, and their own rule holds them together. So has power, which takes machines, or part of a pool.


Floats = npt.NDArray[np.float64]

FAILURE = "failure"
KINDS = ("trace", "containers", "failures", "maintenance")
"""What may happen to machines, by the keys of the scenario's cluster; power is not among them."""


def check_machine_capacity(run: RunFolder) -> Check:
    """At every instant, machines offer what the scenario's files say, until the last start."""
    check = Check("machine-capacity", "machines join, leave and fail as the scenario says")
    if not any(run.setting("cluster", kind) for kind in KINDS):
        if not run.tables["events"]["kind"].eq("capacity").any():
            return check.skip("nothing happens to the machines")
        if _by_power_alone(run):
            return check.skip("power alone takes capacity: the rule supply has it")
        return check.leave_out("the scenario does not say what happens to the machines")
    first, last = _span(run)
    if last is None or first is None:
        return check.skip("nothing starts")
    try:
        lives = machine_lives(run, last)
    except MissingInputError as error:
        return check.leave_out(str(error))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error,
            tarfile.TarError) as error:  # fmt: skip
        return check.leave_out(f"what happens to the machines cannot be worked out: {error}")
    may_fail = failing_machines(run)
    recorded: dict[int, list[CapacityStep]] = {}
    for step in capacity_steps(run):
        recorded.setdefault(step.machine_id, []).append(step)
    power = run.setting("power", "supply", "limit") in ("power", "resources")
    for machine, steps in recorded.items():
        whole = machine in may_fail or (power and len(recorded) > 1)
        part = power and len(recorded) == 1
        _hold(check, run, lives[machine], steps, (first, last), whole_away=whole, part_away=part)
    return check


def _by_power_alone(run: RunFolder) -> bool:
    """Tell whether every change of capacity is one of power."""
    events = run.tables["events"].filter(pl.col("kind") == "capacity")
    causes = events["detail"].str.json_path_match("$.cause")
    return set(causes.to_list()) == {"power"}


def _span(run: RunFolder) -> tuple[float | None, float | None]:
    """Return the first submission and the last start."""
    submits = run.jobs["submit_time_s"].drop_nulls().to_numpy()
    starts = run.allocations["start_time_s"].drop_nulls().to_numpy()
    if not len(submits) or not len(starts):
        return None, None
    return float(submits.min()), float(starts.max())


def failing_machines(run: RunFolder) -> set[int]:
    """Return the machines that may fail at random."""
    section = run.setting("cluster", "failures")
    if not section:
        return set()
    if section.get("machines") is None:
        return set(run.capacity)
    rows, row = set(), 0
    for group in run.setting("cluster", "machines") or ():
        count = int(group.get("count", 1))
        if group.get("name") in section["machines"]:
            rows |= set(range(row, row + count))
        row += count
    return rows


def _hold(
    check: Check,
    run: RunFolder,
    life: MachineLife,
    steps: list[CapacityStep],
    span: tuple[float, float],
    *,
    whole_away: bool,
    part_away: bool,
) -> None:
    """Compare the recorded capacities of a machine with those that follow from its life.

    `whole_away`: it may also be down by chance, or off for lack of power; `part_away`: power may
    take any part of it.
    """
    inside = {span[0], *(step.time_s for step in steps), *_instants(life)}
    times = np.array(sorted(time for time in inside if span[0] <= time <= span[1]))
    check.examined += len(times)
    expected = offered(life, times, len(run.resources))
    at = np.searchsorted([step.time_s for step in steps], times, side="right") - 1
    found = np.array([step.capacity for step in steps])[at]
    wrong = ((found > expected) if part_away else (found != expected)).any(axis=1)
    if whole_away:
        wrong &= (found != 0).any(axis=1)
    for row in np.flatnonzero(wrong).tolist():
        check.add(
            "the machine's capacity is not what the scenario says",
            {"machine_id": steps[0].machine_id, "time_s": float(times[row])}
            | {r: float(a) for r, a in zip(run.resources, found[row], strict=True)}
            | {
                f"expected_{r}": float(a) for r, a in zip(run.resources, expected[row], strict=True)
            },
        )


def _instants(life: MachineLife) -> set[float]:
    ends = {time for fault in life.faults for time in fault}
    ends |= {time for taken in life.taken for time in taken[:2]}
    return ends | {time for time, _ in life.installed}


def offered(life: MachineLife, times: Floats, width: int) -> Floats:
    """Return (T, R): what a machine offers at each time, changes of that instant included."""
    installed = sorted(life.installed, key=lambda entry: entry[0])
    begins = np.array([begin for begin, _ in installed])
    amounts = np.array([[0.0] * width, *(has for _, has in installed)])
    offer = amounts[np.searchsorted(begins, times, side="right")]
    for begin, end, taken in life.taken:
        offer = offer - np.outer((times >= begin) & (times < end), taken)
    offer = np.maximum(offer, 0.0)
    for begin, repair in life.faults:
        # A machine that joins again is as new.
        until = min([repair, *(join for join in life.joins if join > begin)])
        offer[(times >= begin) & (times < until)] = 0.0
    return np.asarray(offer)


def check_failures(run: RunFolder) -> Check:
    """Random failures take a whole machine away, and a repair follows before the next one."""
    check = Check("failures", "machines fail as a whole, and are repaired before they fail again")
    may_fail = failing_machines(run)
    events = run.tables["events"].filter(pl.col("kind") == "capacity")
    down: dict[int, bool] = {}
    for event in events.iter_rows(named=True):
        detail = _detail(event["detail"])
        if detail is None:
            continue  # the rule "capacity" reports it
        machine, nothing = event["machine_id"], not any(detail["capacity"].values())
        if detail.get("cause") == FAILURE:
            check.examined += 1
            if machine not in may_fail:
                check.add("fails, but the scenario says nothing of it", event)
            elif nothing == down.get(machine, False):
                what = "fails while it is down" if nothing else "is repaired while it is up"
                check.add(f"the machine {what}", event)
        down[machine] = nothing
    if not run.setting("cluster", "failures") and not check.found:
        return check.skip("the scenario has no random failures")
    return check


def _detail(text: Any) -> dict[str, Any] | None:
    try:
        detail = json.loads(text)
        return detail if isinstance(detail["capacity"], dict) else None
    except (KeyError, TypeError, ValueError):
        return None

"""The audit of machines over time: their recorded capacities, worked out from the scenario.

A machine offers what it has while it is there and up, less what containers and maintenance take,
and never less than nothing. Random failures are not foreseeable: they may take a whole machine
away, and their own rule holds them together. So has power, which takes machines, or part of a pool.
"""

from __future__ import annotations

import json
import tarfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_capacity import capacity_steps
from simkit.verify_machine_events import MachineLife, machine_lives
from simkit.verify_tables import MissingInputError

if TYPE_CHECKING:
    from simkit.verify_capacity import CapacityStep
    from simkit.verify_folder import RunFolder

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
    import polars as pl

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
    import polars as pl

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

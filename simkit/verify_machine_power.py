"""The audit of what machines draw: it follows from the allocations and the scenario's models.

Idle, booting and switched-off power is not in the allocations; it is held between what all machines
draw when off and what they draw when on and empty, or booting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_power import SLACK, Floats, blame, columns, no_power

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder


@dataclass(frozen=True)
class Model:
    """What one machine draws, in W."""

    least: float
    """Of what it draws by itself."""
    most: float
    idle: float
    """When on and empty."""
    off: float
    """When switched off."""
    added: dict[str, Floats]
    """Resource → W above idle at equal steps of its use, from 0 to 1."""

    @property
    def full(self) -> float:
        """What it draws when all of it is in use."""
        return self.idle + float(sum(watts[-1] for watts in self.added.values()))

    @property
    def straight(self) -> bool:
        """Tell whether power rises in a line with the use of each resource."""
        return all(len(watts) == 2 for watts in self.added.values())


def models(run: RunFolder) -> dict[int, Model]:
    """Return machine id → model.

    Raises KeyError, TypeError or ValueError if the scenario does not tell it.
    """
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    pool = len(machines) == 1 and "processors" in run.resources
    number = float(machines[0]["capacity"]["processors"]) if pool else 1.0
    return {
        int(machine["id"]): _model(run, section, machine["capacity"], number)
        for machine, section in zip(machines, machine_sections(run, machines), strict=True)
    }


def machine_sections(run: RunFolder, machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the scenario says of the power of each machine."""
    section = run.setting("power", "machines")
    if "groups" not in section:
        return [section] * len(machines)
    groups = section["groups"]
    chosen = []
    for machine in machines:
        name = str(machine["name"])
        group = re.sub(r"-\d+$", "", name)
        named = [key for key in groups if key != "default" and key in (name, group)]
        chosen.append(groups[named[0] if named else "default"])
    return chosen


def _model(
    run: RunFolder, section: dict[str, Any], capacity: dict[str, float], number: float
) -> Model:
    if section.get("per_resource") is not None:
        idle = float(section["idle_w"])
        added = {name: [0.0, float(w)] for name, w in section["per_resource"].items()}
    else:
        table = section.get("table") or [section["idle_w"], section["full_w"]]
        idle = float(table[0])
        added = {_resource(run, section): [float(watts) - idle for watts in table]}
    boots = section.get("boot_w")
    own = (idle, float(section.get("off_w") or 0.0), idle if boots is None else float(boots))
    return Model(
        number * min(own),
        number * max(own),
        number * idle,
        number * own[1],
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )


def _resource(run: RunFolder, section: dict[str, Any]) -> str:
    if section.get("resource") is not None:
        return str(section["resource"])
    usual = [name for name in ("cpu", "processors") if name in run.resources]
    return usual[0] if usual else run.resources[0]


def check_machine_power(run: RunFolder) -> Check:
    """At every instant machines draw what their use adds to their own power."""
    check = Check("machine-power", "machines draw what the allocations add to their own power")
    if skipped := no_power(run, check):
        return skipped
    try:
        found = models(run)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return check.leave_out(f"the scenario does not tell what machines draw: {error!r}")
    row = columns(run)
    check.examined = len(row["seconds"])
    least, most = (
        sum(getattr(model, which) for model in found.values()) for which in ("least", "most")
    )
    slack = SLACK * (most + row["machines_w"])
    own = row["standing_w"]
    outside = (own < least - slack) | (own > most + slack)
    blame(check, run, "machines without tasks draw more or less than they can", outside)
    times, added = _added(run, found)
    _compare(check, run, row, times, added, slack)
    return check


def _compare(
    check: Check,
    run: RunFolder,
    row: dict[str, Floats],
    times: Floats,
    added: Floats,
    slack: Floats,
) -> None:
    """What use adds holds from a row's start, and no change lies within a row."""
    dynamic = row["machines_w"] - row["standing_w"]
    levels = np.append(0.0, added)[np.searchsorted(times, row["start_s"], side="right")]
    wrong = ~(np.abs(dynamic - levels) <= slack)
    at = np.searchsorted(row["start_s"], times, side="right") - 1
    inside = (at >= 0) & (times < row["end_s"][at])
    at, within = at[inside], added[inside]
    wrong[at[~(np.abs(dynamic[at] - within) <= slack[at])]] = True
    expected = levels + row["standing_w"]
    blame(check, run, "machines_w is not what runs on them", wrong, machines_w=expected)


def _added(run: RunFolder, found: dict[int, Model]) -> tuple[Floats, Floats]:
    """Return the instants at which use changes, and what all use adds from then on, in W."""
    import polars as pl

    parts: list[tuple[Floats, Floats]] = [(np.empty(0), np.empty(0))]
    held = run.known.filter(pl.col("start_time_s").is_not_null())
    for machine, rows in held.group_by("machine_id", maintain_order=True):
        model = found.get(int(machine[0]))
        for resource, watts in model.added.items() if model else ():
            if resource in run.asked:
                capacity = run.capacity[int(machine[0])][run.resources.index(resource)]
                amount = (rows["count"] * rows[f"one_{resource}"]).to_numpy()
                parts.append(_changes(rows, amount, watts, capacity))
    times, changes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    times, total = times[order], np.cumsum(changes[order].astype(np.longdouble))
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], total[last].astype(np.float64)


def _changes(
    rows: pl.DataFrame, amount: Floats, watts: Floats, capacity: float
) -> tuple[Floats, Floats]:
    """Return the instants at which a resource of a machine changes hands, and the changes in W."""
    start = rows["start_time_s"].to_numpy()
    end = rows["end_time_s"].fill_null(np.inf).to_numpy()
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    used = np.cumsum(np.concatenate((amount, -amount))[order])
    return times[order], np.diff(power_at(watts, used / capacity), prepend=0.0)


def power_at(watts: Floats, use: Floats) -> Floats:
    """Return the power in W at (N,) uses, of straight lines between equal steps from 0 to 1.

    Beyond all that there is, as while work drains, the last line goes on.
    """
    beyond = np.maximum(use - 1.0, 0.0) * (watts[-1] - watts[-2]) * (len(watts) - 1)
    level: Floats = np.interp(use, np.linspace(0.0, 1.0, len(watts)), watts) + beyond
    return level

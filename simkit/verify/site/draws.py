"""What machines draw by the scenario: without tasks, when busy, off, and while they boot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.verify.folder import RunFolder
from simkit.verify.numbers import Floats, seconds


@dataclass(frozen=True)
class MachineDraw:
    """What one machine draws, in W."""

    idle: float
    """When on without tasks, and while it shuts down."""
    off: float
    """When switched off."""
    boot: float
    """While it boots."""
    boot_s: float
    """How long it boots."""
    shutdown_s: float
    """How long it shuts down."""
    added: dict[str, Floats]
    """Resource → W above idle at equal steps of its use, from 0 to 1."""

    @property
    def full(self) -> float:
        """The power when all resources are in use."""
        return self.idle + float(sum(watts[-1] for watts in self.added.values()))

    @property
    def linear(self) -> bool:
        """Whether the power is linear in the use of each resource."""
        return all(len(watts) == 2 for watts in self.added.values())


def machine_draws(run: RunFolder) -> dict[int, MachineDraw]:
    """Return machine id → what it draws."""
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    pool = len(machines) == 1 and "processors" in run.resources
    number = float(machines[0]["capacity"]["processors"]) if pool else 1.0
    return {
        int(machine["id"]): _draw_of(run, section, machine["capacity"], number)
        for machine, section in zip(machines, machine_sections(run, machines), strict=True)
    }


def machine_sections(run: RunFolder, machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scenario's section on the power of each machine."""
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


def _draw_of(
    run: RunFolder, section: dict[str, Any], capacity: dict[str, float], number: float
) -> MachineDraw:
    if section.get("per_resource") is not None:
        idle = float(section["idle_w"])
        added = {name: [0.0, float(w)] for name, w in section["per_resource"].items()}
    else:
        table = section.get("table") or [section["idle_w"], section["full_w"]]
        idle = float(table[0])
        usual = [name for name in ("cpu", "processors") if name in run.resources]
        resource = section.get("resource") or (*usual, run.resources[0])[0]
        added = {str(resource): [float(watts) - idle for watts in table]}
    boot = section.get("boot_w")
    return MachineDraw(
        number * idle,
        number * float(section.get("off_w") or 0.0),
        number * (idle if boot is None else float(boot)),
        seconds(section.get("boot") or 0.0),
        seconds(section.get("shutdown") or 0.0),
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )

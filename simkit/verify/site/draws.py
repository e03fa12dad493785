"""What machines draw by the scenario: without tasks, when busy, off, and while they boot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.scenario.machine_power import (
    GroupedMachines,
    LinearMachine,
    MachineFacts,
    ResourceMachine,
    TableMachine,
)
from simkit.verify.folder import RunFolder
from simkit.verify.numbers import Floats


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
        for machine, section in zip(machines, _sections(run, machines), strict=True)
    }


def _sections(run: RunFolder, machines: list[dict[str, Any]]) -> Sequence[MachineFacts]:
    """Return the scenario's section on the power of each machine."""
    section = run.setting("power", "machines")
    if not isinstance(section, GroupedMachines):
        return [section] * len(machines)
    groups = section.groups
    chosen = []
    for machine in machines:
        name = str(machine["name"])
        group = re.sub(r"-\d+$", "", name)
        named = [key for key in groups if key != "default" and key in (name, group)]
        chosen.append(groups[named[0] if named else "default"])
    return chosen


def _draw_of(
    run: RunFolder, section: MachineFacts, capacity: dict[str, float], number: float
) -> MachineDraw:
    if isinstance(section, ResourceMachine):
        idle = section.idle_w
        added = {name: [0.0, watts] for name, watts in section.per_resource.items()}
    else:
        assert isinstance(section, LinearMachine | TableMachine)
        table: tuple[float, ...] = (
            section.table if isinstance(section, TableMachine) else (section.idle_w, section.full_w)
        )
        idle = table[0]
        usual = [name for name in ("cpu", "processors") if name in run.resources]
        resource = section.resource or (*usual, run.resources[0])[0]
        added = {resource: [watts - idle for watts in table]}
    return MachineDraw(
        number * idle,
        number * section.off_w,
        number * (idle if section.boot_w is None else section.boot_w),
        section.boot,
        section.shutdown,
        {r: number * np.array(watts) for r, watts in added.items() if capacity.get(r)},
    )

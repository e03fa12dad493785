"""What the scenario says of how power becomes capacity, as the auditor reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from simkit.verify_machine_power import Model, machine_sections
from simkit.verify_maintenance import seconds

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

ROUNDING: Final = 1e-9
"""Share of a unit by which power may be short of it."""


class Law(NamedTuple):
    """What the scenario says of how power becomes capacity."""

    by_power: bool
    peak_w: float
    """resources: the power that carries everything."""
    transit_s: float
    """The longest that a machine takes from being called to being on: shutdown and boot."""
    boot_s: float


def limits_capacity(run: RunFolder) -> bool:
    """Tell whether power decides about capacity in this run."""
    return run.setting("power", "supply", "limit") in ("power", "resources")


def law_of(run: RunFolder, found: dict[int, Model]) -> Law:
    """Return the law of a run, whose machines' models are `found`."""
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    sections = machine_sections(run, machines)
    boots = [seconds(section.get("boot") or 0.0) for section in sections]
    shutdowns = [seconds(section.get("shutdown") or 0.0) for section in sections]
    peak = run.setting("power", "supply", "peak_w")
    full = sum(model.full for model in found.values())
    if len(machines) == 1:  # the processors of a pool just go off
        shutdowns = [0.0]
    return Law(
        run.setting("power", "supply", "limit") == "power",
        full if peak is None else float(peak),
        max(b + s for b, s in zip(boots, shutdowns, strict=True)),
        max(boots),
    )

"""What the command line says of a site before it runs: sources, battery, grid, supply, forecast."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from simkit.grid import KWH_J
from simkit.site_source import span_of

if TYPE_CHECKING:
    from simkit.experiment import Experiment
    from simkit.site import Foresight, Site, Supply


def power_words(experiment: Experiment) -> str:
    """Return one line on the site of an experiment; empty if it has none.

    Sources are given with their mean from the first submission until the last job can have ended
    at the earliest: the time for which every signal is known before the run.
    """
    site, section = experiment.site, experiment.scenario.power
    if site is None:
        return ""
    start, end = span_of(experiment.trace.workload)
    means = {source.name: source.power.mean(start, end) for source in site.sources}
    words = [f"{name} {_power(watts)} on average" for name, watts in means.items()]
    if site.battery is not None:
        words.append(f"battery {site.battery.capacity_j / KWH_J:,.10g} kWh")
    words += [_grid(site), _supply(site.supply)]
    kind = None if section is None or section.forecast is None else section.forecast.type
    return ", ".join([*words, _forecast(site.foresight, kind)])


def _power(watts: float) -> str:
    """Return a power for people: ``44.4 kW``."""
    for per, unit in ((1e6, "MW"), (1e3, "kW")):
        if abs(watts) >= per:
            return f"{watts / per:,.4g} {unit}"
    return f"{watts:.4g} W"


def _grid(site: Site) -> str:
    limit = site.grid.import_limit_w
    if not isinstance(limit, (int, float)):
        return "grid with a limit that varies"
    if limit == math.inf:
        return "grid without limit"
    return f"grid up to {_power(limit)}" if limit else "no grid"


def _supply(supply: Supply) -> str:
    if supply.limit == "none":
        return "no limit to what runs"
    return f"limit {supply.limit}, then {supply.running}"


def _forecast(foresight: Foresight | None, kind: str | None) -> str:
    if foresight is None:
        return "no forecast"
    return f"forecast {kind} for {foresight.horizon_s / 3600:g} h" if kind else "a forecast"

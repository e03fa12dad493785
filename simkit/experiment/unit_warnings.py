"""Warnings about resources: requests in another unit than the machines, or none at all."""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.scenario import Scenario
from simkit.workload import Trace
from simkit.workload.cluster import Cluster

_CORES: Final = ("cpu", "cpus", "cores", "processors", "gpu", "gpus")
_MEMORY: Final = ("mem", "memory", "ram", "disk")
_FEWEST_TIMES: Final = 5
"""Fewer run times prove nothing."""


def unit_warnings(scenario: Scenario, trace: Trace, cluster: Cluster) -> list[str]:
    """Return what looks like another unit than that of the machines, with the remedy.

    Only of recorded traces: requests most of which are beyond every machine, and run times that
    are all multiples of 1000.
    """
    if not trace.inputs:
        return []
    workload, found = trace.workload, []
    for column, name in enumerate(workload.resources):
        most = float(cluster.capacity[:, cluster.resources.index(name)].max(initial=0.0))
        asked = workload.request[:, column]
        asked = asked[asked > 0]
        if most and len(asked) and np.median(asked) > most and (odd := _odd(name, asked, most)):
            looks, factor = odd
            found.append(
                f"warning: {name}: instances ask for up to {asked.max():.10g}, and no machine has "
                f"more than {most:.10g}; {looks}: {_remedy(scenario, name, factor)}"
            )
    own = workload.instance_run_time_s
    times = np.unique(own if len(own) else workload.run_time_s)
    if len(times) >= _FEWEST_TIMES and not (times % 1000).any():
        found.append(
            f"warning: run times: all are multiples of 1000, up to {times[-1]:.10g} s; they look "
            f"like milliseconds: {_remedy(scenario, 'run_time_s', '0.001')}"
        )
    return found


def unasked_warnings(scenario: Scenario, trace: Trace, cluster: Cluster) -> list[str]:
    """Return which resources of the scenario's machines no job asks for.

    Machines of a trace may have more than its jobs ask for.
    """
    workload, found = trace.workload, []
    declared = () if cluster.inputs or not len(workload) else cluster.resources
    for name in declared:
        column = workload.resources.index(name) if name in workload.resources else None
        if column is not None and workload.request[:, column].any():
            continue
        source = scenario.workload.source_of(name)
        found.append(
            f"warning: {name}: the machines have {name}, but no job of the workload asks for any"
            + (f" ({source})" if source else "")
        )
    return found


def _odd(name: str, asked: Floats, most: float) -> tuple[str, str] | None:
    """Return what requests look like and their factor; None if no other unit would fit."""
    name = name.lower()
    if name in _CORES and not (asked % 5).any():
        for parts, factor in (("hundredths", 100), ("thousandths", 1000)):
            if asked.max() <= most * factor:
                return f"they look like {parts}", f"{1 / factor:g}"
    if name not in _MEMORY or np.median(asked) < 4 * most:
        return None
    if most <= 1:
        return (
            "they look like an amount, and those of the machines like shares of the largest one",
            "1 / what the largest machine has",
        )
    for unit, size in (("MiB", 2.0**10), ("KiB", 2.0**20), ("bytes", 2.0**30)):
        if asked.max() <= most * size:
            return f"they look like {unit}, and those of the machines like GiB", f"{1 / size:.10g}"
    return None


def _remedy(scenario: Scenario, column: str, factor: str) -> str:
    if hasattr(scenario.workload, "factors"):
        return f"if so, set workload.factors: {{{column}: {factor}}}"
    if column == "run_time_s":
        return f"if so, set workload.run_time_scale: {factor}"
    return f"if so, multiply them by {factor} in the reader"

"""Random failures, drawn again from the seed as the how-to of cloud traces describes.

Each machine has a stream of its own, spawned from the stream "failures" of the seed. It fails after
an exponentially distributed time, and is repaired after another, again and again from the begin of
the simulation: from zero, or from the first submission or known change before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import on_grid, stream


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

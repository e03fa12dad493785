"""From energies to power: a file of kWh for each interval holds as many kWh when it is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkit.arrays import Ints
from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace, intervals
from simkit.traces.power import rules
from simkit.traces.rules import Tally

_SAME = 1e-6
"""Share of the step by which an interval may differ: the last digits of a time."""


def power_of_energy(trace: PowerTrace, line: Ints) -> PowerTrace:
    """Return the mean power of each interval, from the energy in it.

    An interval goes to the next row, or from the one before where times are ends, whatever its
    length; next to a gap, and at the end of the trace, it is as long as the regular step. Intervals
    of another length than the step are noted in the trace's report.

    Args:
        trace: energies in J as its values.
        line: (n,) the line of each row, for the report.

    Raises TraceError for readings at an instant, in which there is no energy.
    """
    if trace.sampling == "instant":
        raise TraceError(
            f"{trace.name}: an energy is that of an interval, not a reading at an instant; leave "
            "sampling: instant out, or give the unit of a power"
        )
    starts, ends, energy_j = intervals(trace)
    seconds = ends - starts
    other = np.abs(seconds - trace.step_s) > _SAME * trace.step_s
    if trace.report is not None:
        tally = Tally()
        tally.report = trace.report
        tally.note(rules.OTHER_LENGTH, line[other])
    return replace(trace, value=energy_j * (1 / seconds))

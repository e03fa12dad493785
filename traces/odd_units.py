"""Columns that look as if they were in another unit than ours: what a note or an error says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.traces.rigid_jobs import LARGEST
from simkit.units import LONGEST_S

_SINCE_1970: Final = (("milliseconds", 1e-3), ("microseconds", 1e-6), ("nanoseconds", 1e-9))
_EARLIEST_S, _LATEST_S = 3e8, LONGEST_S
"""Unix times of traces, from 1979 on."""


class OddUnit(NamedTuple):
    """A column with values beyond its range that would do in another unit."""

    beyond: Bools
    """(n,) the values beyond the range."""
    hint: str
    """What they look like, and the remedy."""


def odd_units(columns: Mapping[str, Floats], resources: Sequence[str]) -> Iterator[OddUnit]:
    """Yield submit times that look like milliseconds, and requests that look like bytes.

    Args:
        columns: name → (n,) numbers as they are read, NaN where empty.
        resources: the columns that are requests.
    """
    times = columns["submit_time_s"]
    if (beyond := np.abs(times) > LONGEST_S).any():
        middle = float(np.median(times[beyond]))
        for unit, factor in _SINCE_1970:
            if _EARLIEST_S <= middle * factor <= _LATEST_S:
                yield OddUnit(beyond, (
                    f"submit_time_s looks like {unit} since 1970 (such as {middle:.10g}); set "
                    f"factors: {{submit_time_s: {factor:g}}}, and the same for run_time_s and "
                    "requested_time_s if they are in this unit, too; or time_format: "
                    f"{unit}, which makes dates of the submit times"
                ))  # fmt: skip
    for name in resources:
        values = columns[name]
        if (beyond := (values >= LARGEST) & (values < np.inf)).any():
            yield OddUnit(beyond, (
                f"{name} looks like bytes (such as {values[beyond][0]:.10g}); give it the unit of "
                f"the machines, for GiB with factors: {{{name}: {2.0**-30:.10g}}}"
            ))  # fmt: skip

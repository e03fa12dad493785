"""The battery of the RARE dissertation, its algorithm 5: as printed, and corrected.

V. Venkataswamy, "Scheduling to Ensure Performance and Cost Effectiveness in Power-Modulated
Datacenters", dissertation, University of Virginia, 2023. The table in docs/reference/power.md says
line by line what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def algorithm_5(
    renewable: Sequence[float], *, load: float, capacity: float, c_rate: float, e_rate: float,
    level: float = 0.0, printed: bool = False,
) -> tuple[list[float], list[float]]:  # fmt: skip
    """Return the power for the datacenter in each step, and the level at its end.

    All is in one unit of power, and a level is power times one step. As `printed` it has its errors
    and levels may be negative; corrected, the battery gives what it has and takes what it can.
    """
    supply, levels = list[float](), list[float]()
    for power in renewable:
        needed, given = load - power, load
        if needed <= 0:
            level += min(-needed, math.inf if printed else c_rate, capacity - level)
        else:
            available = min(e_rate, level)
            if not (printed and available < needed):
                given = power + (available if printed else min(available, needed))
            level -= needed if printed else min(available, needed)
        supply.append(given)
        levels.append(level)
    return supply, levels

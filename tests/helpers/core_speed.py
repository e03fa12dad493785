"""How fast a core is at the moment: bars of benchmarks are scaled by it."""

from __future__ import annotations

import time


def additions_s() -> float:
    """Return the processor time of a million additions."""
    begin, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begin

"""Seeds: one number in the scenario, one independent random stream for each named component.

A stream depends on the seed and the component's name alone, so adding a component shifts no
other, and the workload's stream never depends on the policy: comparisons are paired.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np


def stream(seed: int, component: str) -> np.random.Generator:
    """Return the generator of `component` under `seed` (0 is a seed like any other)."""
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(crc32(component.encode()),))
    )

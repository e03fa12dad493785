"""Windows of free steps: found in the bits of one number as step by step."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.lockstep import replicas


@pytest.mark.parametrize("steps", [1, 7, 24, 25, 48, 49, 63, 64])
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_bits_find_the_windows_that_a_pass_over_the_steps_finds(steps, share):
    rng = np.random.default_rng(steps)
    free = rng.random((steps, 5, 200)) < share
    length = rng.integers(0, steps + 2, (5, 200)).astype(np.int16)
    bits = replicas.first_run(replicas.packed(free), length)
    passed = replicas.first_run_of_many(free.astype(np.int16), length)
    assert (bits == passed).all()


def test_no_replica_at_all():
    free, length = np.zeros((7, 0), np.bool_), np.zeros(0, np.int16)
    assert replicas.first_run(replicas.packed(free), length).shape == (0,)

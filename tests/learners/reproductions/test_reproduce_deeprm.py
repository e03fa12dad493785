"""The comparison with DeepRM: a gain is of all jobs, and paired."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.reproductions.deeprm.figures import estimate_ratio


def test_a_gain_is_of_all_jobs_and_paired():
    agent, rule = np.array([10.0, 30.0, 20.0]), np.array([20.0, 40.0, 40.0])
    found = estimate_ratio(agent, rule, 1.0, -1.0)
    assert found.value == pytest.approx(0.4)
    assert found.low <= found.value <= found.high
    alike = estimate_ratio(0.5 * rule, rule, 1.0, -1.0)  # half in every set: nothing is uncertain
    assert (alike.low, alike.value, alike.high) == pytest.approx((0.5, 0.5, 0.5))

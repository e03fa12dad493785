"""Fragmentation of idle time and of what is free, against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from simkit.results import machine_metrics as fragmentation
from simkit.results.machine_metrics import Fragmentation, popular
from simkit.results.machine_records import Segments


def one_machine(*stretches):
    """Segments of a machine: (seconds, instances, free cpu, free gpu), one after the other."""
    seconds, instances, *free = np.array(stretches, dtype=float).T
    amounts = np.column_stack(free)
    return Segments(
        machine=np.zeros(len(seconds), np.int64),
        start_s=np.cumsum(seconds) - seconds,
        seconds=seconds,
        instances=instances,
        allocated=np.zeros_like(amounts),
        capacity=amounts,
    )


BUSY, IDLE, AWAY = (1, 1, 1), (0, 1, 1), (0, 0, 0)
"""(instances, cpu, gpu)"""


def test_a_workload_that_always_fits_fragments_nothing_at_all():
    measure = Fragmentation(("cpu",), 1, np.array([[1.0], [0.5], [0.25]]), np.array([1, 3, 7.0]))
    measure.add(one_machine((10, 0, 1)))
    assert measure.unusable.tolist() == [0]  # exactly: no rounding is left over


def test_of_very_many_requests_the_most_popular_are_looked_at(monkeypatch):
    amounts = np.arange(1.0, 101.0)[:, None] * [1, 1]
    weights = np.arange(100.0, 0.0, -1.0)
    monkeypatch.setattr(fragmentation, "CELLS", 30 * 30)
    kept = popular(amounts, weights)
    assert kept.tolist() == list(range(len(kept)))
    assert 15 < len(kept) < 30
    measure = Fragmentation(("cpu", "mem"), 1, amounts, weights)
    assert measure.covered == pytest.approx(weights[kept].sum() / weights.sum())
    assert f"{measure.covered:.1%}" in str(measure.found(measure.resources[0]).holes["popular"])


amounts = st.floats(0, 4, allow_nan=False).map(lambda x: round(x, 1))


def test_an_empty_workload_has_no_fragmentation_of_its_own():
    measure = Fragmentation(("cpu",), 1, np.empty((0, 1)), np.empty(0))
    measure.add(one_machine((10, 0, 4)))
    assert [measure.found(name).values for name in measure.resources] == [1]

"""Fragmentation of idle time and of what is free, against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.results import machine_metrics as fragmentation
from simkit.results.machine_metrics import FitTable, Fragmentation, IdleGaps, popular
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

GAPS = [
    # a machine's stretches; 1 - sum(g^2) / (sum g)^2 of its gaps
    ([(10, *BUSY)], 0),  # no gap
    ([(4, *BUSY), (6, *IDLE)], 0),  # one gap
    ([(3, *IDLE), (4, *BUSY), (3, *IDLE)], 1 / 2),  # two equal ones
    ([(1, *IDLE), (6, *BUSY), (3, *IDLE)], 1 - (1 + 9) / 16),
    ([(2, *IDLE), (1, 0, 2, 2), (7, *BUSY)], 0),  # the capacity changes: still one gap
    ([(2, *IDLE), (5, *AWAY), (3, *IDLE)], 1 - (4 + 9) / 25),  # away is not idle
    ([(10, *AWAY)], 0),
]


@pytest.mark.parametrize(("stretches", "share"), GAPS)
def test_idle_time_in_pieces(stretches, share):
    gaps = IdleGaps(1)
    gaps.add(one_machine(*stretches))
    assert gaps.shares().tolist() == pytest.approx([share])


def test_gaps_of_two_machines_do_not_join():
    part = one_machine((5, *BUSY), (5, *IDLE), (5, *IDLE), (5, *BUSY))
    gaps = IdleGaps(2)
    both = Segments(
        np.array([0, 0, 1, 1]), part.start_s, part.seconds, part.instances,
        part.allocated, part.capacity,
    )  # fmt: skip
    gaps.add(both)
    assert gaps.gaps == 2
    assert gaps.idle_s.tolist() == [5, 5]


WORKLOAD = np.array([[1, 0], [2, 1], [8, 2]], dtype=float), np.array([5.0, 3.0, 2.0])
"""Requests of (cpu, gpu): half of the instances ask no gpu, 30 % one, 20 % two with 8 cores."""

USELESS = [
    # free cpu and gpu; expected share of the free cpu, and of the free gpu, that is of no use
    ((8, 2), 0, 0.5),  # everything fits, but who asks no gpu leaves the gpus unused
    ((8, 1), 0.2, 0.7),  # one gpu is too little for the largest
    ((4, 2), 0.2, 0.7),  # so are four cores
    ((1, 2), 0.5, 1),  # only the first fits: nobody can use the gpus
    ((0, 2), None, 1),  # no core: nobody fits, and there is no free cpu
    ((0.5, 0), 1, None),
]


@pytest.mark.parametrize(("free", "cpu", "gpu"), USELESS)
def test_free_capacity_that_the_next_instance_cannot_use(free, cpu, gpu):
    measure = Fragmentation(("cpu", "gpu"), 1, *WORKLOAD)
    measure.add(one_machine((10, 1, *free)))
    values = [measure.found(name).values for name in measure.resources]
    assert values == pytest.approx([cpu, gpu])


def test_amounts_add_up_over_time_and_machines():
    measure = Fragmentation(("cpu", "gpu"), 1, *WORKLOAD)
    measure.add(one_machine((6, 1, 8, 2), (4, 1, 1, 2)))
    assert measure.unusable.tolist() == pytest.approx([4 * 1 * 0.5, 6 * 2 * 0.5 + 4 * 2 * 1])
    assert measure.free.tolist() == [6 * 8 + 4 * 1, 10 * 2]


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
vectors = st.lists(st.tuples(amounts, amounts, amounts), min_size=1, max_size=8)


@given(vectors, vectors, st.integers(0, 2))
def test_the_table_agrees_with_asking_each_request(requests, free, resource):
    asked, left = np.array(requests), np.array(free)
    weights = np.arange(1.0, len(asked) + 1)
    fits = (left[:, None, :] >= asked).all(axis=2) & (asked[:, resource] > 0)
    expected = (~fits * weights).sum(axis=1) / weights.sum()
    assert FitTable(asked, weights, resource).unfit(left) == pytest.approx(expected)


def test_an_empty_workload_has_no_fragmentation_of_its_own():
    measure = Fragmentation(("cpu",), 1, np.empty((0, 1)), np.empty(0))
    measure.add(one_machine((10, 0, 4)))
    assert [measure.found(name).values for name in measure.resources] == [1]

"""Terms of a machine and a task: by hand, and the same for one pair as for many."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy.remaining_work import (
    FIT_TERMS,
    URGENCY_TERMS,
    fit_terms,
    on_grid,
    urgency_terms,
)

HALF = (0.5, 0.5)


def urgency(
    hold_s: Any, left: Any, request: Any, free: Any, share: Any, work_s: Any
) -> dict[str, Any]:
    found = urgency_terms(
        hold_s, left, np.array(request), np.array(free), share, np.array(work_s)
    )  # fmt: skip
    return dict(zip(URGENCY_TERMS, found, strict=True))


def fit(
    hold_s: Any, left: Any, request: Any, free: Any, work_s: Any, longest_s: float
) -> dict[str, Any]:
    found = fit_terms(hold_s, left, np.array(request), np.array(free), np.array(work_s), longest_s)
    return dict(zip(FIT_TERMS, found, strict=True))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # The horizon is 40 s. One instance: as urgent as it is long; 10 s · 0.05 of the cluster.
        (
            (10.0, 1, HALF, HALF, 0.05, (40.0, 20.0)),
            {"time": 0.25, "work": 0.0125, "urgency": 0.25},
        ),
        # 100 instances need 50 s of the cluster: more urgent than it is long.
        (
            (10.0, 100, HALF, HALF, 0.05, (40.0, 20.0)),
            {"time": 0.25, "work": 1.25, "urgency": 1.25},
        ),
        # The horizon is a second at least.
        ((0.5, 1, HALF, HALF, 0.1, (0.1, 0.1)), {"time": 0.5, "work": 0.05, "urgency": 0.5}),
        # Nothing counts for more than three times the horizon.
        ((900.0, 99, HALF, HALF, 0.1, (2.0, 1.0)), {"time": 3.0, "work": 3.0, "urgency": 3.0}),
        # A third more work of the first; two thirds of the request are of it: 1/3 · 1/3.
        ((1.0, 1, (0.5, 0.25), HALF, 0.1, (40.0, 20.0)), {"balance": 1 / 9}),
        # The same the other way round.
        ((1.0, 1, (0.25, 0.5), HALF, 0.1, (40.0, 20.0)), {"balance": -1 / 9}),
        # All work is of a resource of three, and so is the request: R - 1.
        ((1.0, 1, (0.2, 0, 0), (1, 1, 1), 0.1, (30.0, 0, 0)), {"balance": 2.0}),
        # … or it asks for another one alone: -1.
        ((1.0, 1, (0, 0.2, 0), (1, 1, 1), 0.1, (30.0, 0, 0)), {"balance": -1.0}),
        # One resource is always in balance, and every machine has its shape.
        ((1.0, 1, (0.2,), (0.7,), 0.1, (30.0,)), {"balance": 0.0, "cosine": 1.0}),
        # Free amounts of the request's shape, of another one, and at right angles.
        ((1.0, 1, (0.1, 0.2), (0.4, 0.8), 0.1, (1.0, 1.0)), {"cosine": 1.0}),
        ((1.0, 1, (0.3, 0.4), (1.0, 0.0), 0.1, (1.0, 1.0)), {"cosine": 0.6}),
        ((1.0, 1, (0.0, 0.4), (1.0, 0.0), 0.1, (1.0, 1.0)), {"cosine": 0.0}),
        # It asks for nothing.
        (
            (5.0, 9, (0.0, 0.0), HALF, 0.0, (2.0, 1.0)),
            {"time": 2.5, "work": 0.0, "urgency": 2.5, "balance": 0.0, "cosine": 0.0},
        ),
        # Nothing remains, so the same remains of all.
        (
            (0.0, 1, (0.5, 0.2), (1.0, 1.0), 0.1, (0.0, 0.0)),
            {"time": 0.0, "work": 0.0, "urgency": 0.0, "balance": 0.0},
        ),
    ],
)
def test_urgency_by_hand(arguments: Any, expected: dict[str, float]) -> None:
    found = urgency(*arguments)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Half as long as the longest, 6 left, of which one leaves (0.4, 0.1) free.
        (
            (20.0, 6, (0.5, 0.2), (0.9, 0.3), (40.0, 20.0), 40.0),
            {
                "log_time": log(20) / 7, "relative_time": 0.5, "log_left": log(7) / 7,
                "largest_share": 1 + log(0.5) / 5, "skew": 3 / 7,
                "free_after": 0.25, "least_free_after": 0.1, "imbalance_after": 0.3,
                "balance_after": 1 / 3 * 0.8 - 1 / 3 * 0.2,
                "work_skew": 1 / 3, "log_horizon": log(40) / 7,
            },
        ),
        # What asks for nothing, for no time, and leaves nothing free; no work remains.
        (
            (0.0, 1, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), 0.0),
            {
                "log_time": 0, "relative_time": 0, "log_left": log(2) / 7,
                "largest_share": 1 + log(1e-4) / 5, "skew": -1,
                "free_after": 0, "least_free_after": 0, "imbalance_after": 0, "balance_after": 0,
                "work_skew": 0, "log_horizon": 0,
            },
        ),
        # Three resources, of which the last is the busiest and the scarcest.
        (
            (1.0, 1, (0.1, 0.2, 0.3), (1.0, 0.6, 0.5), (1.0, 2.0, 3.0), 1.0),
            {
                "log_time": 0, "relative_time": 1, "log_left": log(2) / 7,
                "largest_share": 1 + log(0.3) / 5, "skew": 0.5,
                "free_after": 0.5, "least_free_after": 0.2, "imbalance_after": 0.7,
                "balance_after": -0.5 * 0.9 / 1.5 + 0.5 * 0.2 / 1.5,
                "work_skew": 0.5, "log_horizon": log(3) / 7,
            },
        ),
    ],
)  # fmt: skip
def test_fit_by_hand(arguments: Any, expected: dict[str, float]) -> None:
    assert fit(*arguments) == pytest.approx(expected)


AMOUNT = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])
TIME = st.sampled_from([0.0, 0.5, 1.0, 7.0, 3600.0])


@given(cpu=AMOUNT, mem=AMOUNT, work_cpu=TIME, work_mem=TIME)
def test_balance_of_two_resources_is_a_product(
    cpu: float, mem: float, work_cpu: float, work_mem: float
) -> None:
    """β·b: how far memory is ahead of cores in the work, and in the request."""
    beta = (work_mem - work_cpu) / (work_mem + work_cpu or 1.0)
    b = (mem - cpu) / (mem + cpu or 1.0)
    found = urgency(1.0, 1, (cpu, mem), (1.0, 1.0), 0.1, (work_cpu, work_mem))
    assert found["balance"] == pytest.approx(beta * b)


@given(data=st.data(), pairs=st.integers(1, 6), resources=st.integers(1, 3))
def test_many_pairs_are_as_one_by_one_and_finite(
    data: st.DataObject, pairs: int, resources: int
) -> None:
    def column(of: st.SearchStrategy[float], rows: int) -> Any:
        return np.array(data.draw(st.lists(of, min_size=rows, max_size=rows)))

    hold_s, share = column(TIME, pairs), column(AMOUNT, pairs)
    left = column(st.integers(1, 9).map(float), pairs)
    request = column(AMOUNT, resources * pairs).reshape(resources, pairs)
    free = request + column(AMOUNT, resources * pairs).reshape(resources, pairs)
    work_s, longest_s = column(TIME, resources), data.draw(TIME)
    together = [
        *urgency_terms(hold_s, left, request, free, share, work_s),
        *fit_terms(hold_s, left, request, free, work_s, longest_s),
    ]
    assert np.isfinite(together).all()
    for p in range(pairs):
        pair = float(hold_s[p]), float(left[p]), request[:, p], free[:, p]
        alone = [
            *urgency_terms(*pair, float(share[p]), work_s),
            *fit_terms(*pair, work_s, longest_s),
        ]
        assert [term[p] for term in together] == pytest.approx(alone, rel=1e-12, abs=1e-12)


def test_work_on_the_grid_is_the_same_in_any_order() -> None:
    forth, back = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert forth != back
    assert on_grid(forth) == on_grid(back) == pytest.approx(0.6, abs=2**-20)
    assert on_grid(np.array([1.0, sqrt(2)])) * 2**20 % 1 == pytest.approx([0, 0])

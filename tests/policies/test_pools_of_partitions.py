"""Partitions with machines of their own: each is scheduled as if it were alone.

Alone means the same jobs on one partition's machine, those of the others refused: so ranks, the
first submission and every draw stay what they are.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_gang, make_jobs, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit import plugins
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import Rules, Scheduling
from simkit.workload.cluster import Cluster, Maintenance, Partition

SIZES = (6.0, 4.0, 9.0)
ORDERS = {
    name: order
    for name in plugins.names("simkit.policies", "order")
    if hasattr(order := plugins.find("simkit.policies", name, kind="order")(), "key")
}
"""Orders by a number that a task keeps."""
CHANGING = ("hrrn", "wfp3", "unicef", "least-slack")
"""Orders that change with time, by what a task is alone; others compare users of all partitions."""
RULES = {
    "none": lambda order: OrderedPolicy(order),
    "easy": lambda order: OrderedPolicy(order, Easy()),
    "easy, the shortest first": lambda order: OrderedPolicy(order, Easy("sjf")),
    "conservative": lambda order: Conservative().compose(order),
    "conservative, by planned starts": lambda order: Conservative("completion").compose(order),
}
JOBS = st.lists(
    st.tuples(
        st.integers(0, 6),  # seconds after the job before
        st.integers(0, 40),  # run time
        st.integers(1, 9),  # processors; those that fit nowhere are refused
        st.sampled_from([1.0, 1.0, 1.5, 4.0, 0.5]),  # requested time in run times
        st.integers(0, 2),  # partition
    ),
    max_size=40,
)
WINDOWS = st.none() | st.tuples(st.integers(0, 90), st.integers(1, 30), st.integers(0, 2))


def partition(number, machine):
    return Partition(f"p{number}", machines=(machine,), queues=frozenset({number}))


def cluster(sizes, partitions, window=None, machine=None):
    maintenance = ()
    if window is not None and machine is not None:
        begin, length, _ = window
        maintenance = (Maintenance(begin, begin + length, machine, (sizes[machine],), "drain"),)
    names = tuple(f"m{row}" for row in range(len(sizes)))
    return Cluster(
        ("processors",), names, np.array(sizes).reshape(-1, 1), tuple(partitions), maintenance
    )


def workload(rows, *, late=True):
    submit = np.cumsum([row[0] for row in rows]).tolist()
    jobs = [
        (at, a_gang(size, run, max(run * factor, run * (not late))))
        for at, (_, run, size, factor, _) in zip(submit, rows, strict=True)
    ]
    return make_jobs(*jobs, queue=[row[4] for row in rows])


def check(rows, policy, window=None, *, late=False, **facts):
    """Compare a run on three pools with each of them alone."""
    load = workload(rows, late=late)
    together = cluster(
        SIZES, [partition(n, n) for n in range(3)], window, None if window is None else window[2]
    )
    starts = simulate(policy(), load, together, **facts).starts()
    for number, size in enumerate(SIZES):
        own = window is not None and window[2] == number
        alone = cluster((size,), [partition(number, 0)], window, 0 if own else None)
        expected = simulate(policy(), load, alone, **facts).starts()
        mine = [job for job, row in enumerate(rows) if row[4] == number]
        assert [starts[job] for job in mine] == pytest.approx(
            [expected[job] for job in mine], abs=0, nan_ok=True
        )


@pytest.mark.parametrize("rule", RULES)
@given(rows=JOBS.filter(bool), order=st.sampled_from(sorted(ORDERS)), window=WINDOWS)
def test_each_pool_is_scheduled_as_if_it_were_alone(rule, rows, order, window):
    check(rows, lambda: RULES[rule](ORDERS[order]), window)


@pytest.mark.parametrize("rule", RULES)
@given(rows=JOBS.filter(bool), order=st.sampled_from([*CHANGING, *sorted(ORDERS)]))
def test_so_are_tasks_that_overrun_and_orders_that_change_if_decisions_come_together(
    rule, rows, order
):
    # What changes with time alone is seen at every decision, also at one that another pool causes.
    made = plugins.find("simkit.policies", order, kind="order")
    clock = Rules(scheduling=Scheduling(step=5.0))
    check(rows, lambda: RULES[rule](made()), late=True, rules=clock)

"""Nothing is lost: random workloads, clusters and rules under policies that do all they may.

Whatever a legal policy does, every instance ends well exactly once or its job says why not, no
machine holds more than it has, and the records add up. All of it is checked on the records alone.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from engine_runs import simulate
from hypothesis import given
from hypothesis import strategies as st
from run_checks import (
    Wild,
    attempts_of,
    check_everyone_is_there,
    check_instances,
    check_retries,
    pieces_of,
)

from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF
from simkit.policy.estimates import Actual, Perturbed, Requested, UserMean
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import AdmissionRule, Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance, Partition

RESOURCES = ("cpu", "mem")
LONGEST = 2000.0  # after this the wild policy calms down, so that runs end


def wild(mischief: float) -> Wild:
    return Wild(mischief, LONGEST, kills=0.2, reserves=0.2)


POLICIES = {
    "calm": lambda: wild(0.0),
    "wild": lambda: wild(0.5),
    "mad": lambda: wild(1.0),
    "easy": lambda: OrderedPolicy(FCFS(), Easy()),
    "conservative": lambda: Conservative().compose(SJF(), None),
}


@st.composite
def workloads(draw):
    jobs = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tasks = rng.integers(1, draw(st.sampled_from([2, 4])), jobs, endpoint=False)
    total = int(tasks.sum())
    run = rng.choice([0.0, 1.0, 2.5, 5.0, 10.0, 33.0], total)
    return Workload(
        resources=RESOURCES,
        job_id=np.arange(jobs) * 10,
        submit_time_s=np.cumsum(rng.choice([0.0, 0.0, 1.0, 4.0, 5.0, 50.0], jobs)),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.choice([1, 1, 2, 3, 6, 9], total),
        request=rng.choice([0.0, 0.2, 1 / 3, 0.5, 1.0, 2.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.where(
            rng.random(total) < 0.1,
            np.nan,
            np.maximum(run + rng.choice([-3, 0, 0, 5, 40], total), 0),
        ),
        gang=rng.random(total) < 0.5,
        user=rng.integers(-1, 3, jobs),
        queue=rng.integers(0, 3, jobs),
    )


@st.composite
def clusters(draw):
    machines = draw(st.integers(1, 3))
    capacity = np.array(
        draw(st.lists(st.sampled_from([1, 2, 4]), min_size=2 * machines, max_size=2 * machines))
    )
    capacity = capacity.reshape(machines, 2).astype(float)
    partitions = draw(
        st.sampled_from(
            [
                (Partition("all"),),
                (Partition("first", machines=(0,), queues=frozenset({0}), max_time_s=20), Partition("rest")),
                (Partition("first", machines=(0,), queues=frozenset({0})),
                 Partition("last", machines=(machines - 1,), priority=2.0)),
                (Partition("named", queues=frozenset({0, 1})),),
            ]
        )
    )  # fmt: skip
    windows = []
    for machine in range(machines):  # one after the other, touching now and then
        start = 0.0
        for gap, length in draw(
            st.lists(st.tuples(st.sampled_from([0, 3, 5]), st.sampled_from([2, 5])), max_size=3)
        ):
            start += gap
            shares = draw(st.sampled_from([(0.5, 0.5), (1, 1), (1, 0), (0, 0.5)]))
            amount = tuple((capacity[machine] * shares).tolist())
            running = draw(st.sampled_from(["drain", "requeue", "suspend"]))
            windows.append(Maintenance(start, start + length, machine, amount, running))
            start += length
    names = tuple(f"m{row}" for row in range(machines))
    return Cluster(RESOURCES, names, capacity, partitions, tuple(windows))


PERIODS = [{}, {}, {"every": 2.5}, {"every": 10.0}, {"step": 5.0}]
RULES = st.builds(
    Rules,
    walltime=st.sampled_from(["ignore", "kill"]),
    scheduling=st.sampled_from(PERIODS),
    admission=st.builds(
        AdmissionRule,
        slots=st.sampled_from([None, None, 1, 3]),
        backlog=st.sampled_from([None, 2]),
        refill=st.sampled_from(["at_once", "next_decision"]),
    ),
)
PREDICTORS = st.sampled_from([Requested, Actual, Perturbed, UserMean])


@given(
    workloads(),
    clusters(),
    RULES,
    PREDICTORS,
    st.sampled_from(sorted(POLICIES)),
    st.integers(0, 99),
)
def test_nothing_is_lost(load, cluster, rules, predictor, policy, seed):
    run = simulate(POLICIES[policy](), load, cluster, rules=rules, predictor=predictor(), seed=seed)
    pieces = pieces_of(run)
    check_everyone_is_there(run, load)
    check_instances(run, load, pieces)
    check_retries(run, load, pieces)
    check_ends(run, load, rules, pieces)
    check_capacity(run, load, cluster)
    check_times(run, load)
    check_timeline(run, load, cluster)


def check_ends(run, load, rules, pieces):
    """All runs come to an end, and no attempt outlives its request where that is the rule."""
    for reason, status in run.rows("jobs", "reason status"):
        assert status in ("finished", "killed", "rejected")
        assert (reason == "") == (status == "finished")
    assert run.simulation.jobs_ended == len(load)
    for (task, _), mine in pieces.items():
        if rules.walltime == "kill" and load.requested_time_s[task] >= 0:
            for parts in attempts_of(mine):
                assert sum(part.end - part.start for part in parts) <= load.requested_time_s[task]


def check_capacity(run, load, cluster):
    """No machine holds more than it has, unless it drains; gangs start and stop as one."""
    changes = []  # (time, order, machine, (R,) change); ends and capacity first
    columns = "task_id machine_id count start_time_s end_time_s"
    for task, machine, count, start, end in run.rows("allocations", columns):
        if end > start:
            changes += [(start, 1, machine, load.request[task] * count)]
            changes += [(end, 0, machine, -load.request[task] * count)]
        else:  # held for no time: must have fitted alone at least
            assert (load.request[task] * count <= cluster.capacity[machine]).all()
    drains = {w.machine for w in cluster.maintenance if w.running == "drain"}
    for window in cluster.maintenance:
        for time, machine, change in window.steps():
            changes.append((time, 0, machine, -np.array(change)))
    held = np.zeros_like(cluster.capacity)
    changes.sort(key=lambda change: change[:2])
    for position, (time, order, machine, change) in enumerate(changes):
        held[machine] += change
        last = position + 1 == len(changes) or changes[position + 1][:2] != (time, order)
        if last and order:
            over = (held > cluster.capacity).any(axis=1)
            assert not set(np.flatnonzero(over)) - drains
    gangs = set(np.flatnonzero(load.gang))
    pieces = defaultdict(int)
    for task, count, attempt, start, end in run.rows(
        "allocations", "task_id count attempt start_time_s end_time_s"
    ):
        if task in gangs:
            pieces[task, attempt, start, end] += count
    for (task, *_), count in pieces.items():
        # a gang suspended at the instant of its start may have further pieces of no length
        assert count % load.instances[task] == 0


def check_times(run, load):
    submit = dict(zip(load.job_id.tolist(), load.submit_time_s.tolist(), strict=True))
    columns = "job_id start_time_s end_time_s wait_time_s turnaround_time_s status attempts"
    first = defaultdict(lambda: np.inf)
    for job, start in run.rows("allocations", "job_id start_time_s"):
        first[job] = min(first[job], start)
    for job, start, end, wait, turnaround, status, attempts in run.rows("jobs", columns):
        assert (start is None) == (job not in first)
        assert (attempts == 0) == (start is None)
        if start is not None:
            assert start == first[job] >= submit[job]
            assert wait == start - submit[job]
            assert end >= start
        if status == "rejected":
            assert end is None
        else:
            assert turnaround == end - submit[job]
    assert (run["jobs"]["suspended_time_s"] >= 0).all()
    times = [time for (time,) in run.rows("events", "time_s")]
    assert times == sorted(times)


def check_timeline(run, load, cluster):
    """After each decision the timeline says what the allocations say."""
    changes = defaultdict(lambda: np.zeros(2))
    for task, count, start, end in run.rows("allocations", "task_id count start_time_s end_time_s"):
        changes[start] += load.request[task] * count
        changes[end] -= load.request[task] * count
    times = np.array(sorted(changes))
    held = np.cumsum([changes[time] for time in times], axis=0) if len(times) else np.zeros((0, 2))
    last = {row[0]: row[1:] for row in run.rows("timeline", "time_s allocated_cpu allocated_mem")}
    for time, allocated in last.items():
        at = np.searchsorted(times, time, side="right") - 1
        expected = held[at] if at >= 0 else np.zeros(2)
        assert np.array_equal(np.array(allocated), expected)
    assert all(
        row[1:] == (0, 0, 0) for row in run.rows("timeline", "time_s waiting backlog running")[-1:]
    )

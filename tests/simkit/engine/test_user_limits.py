"""Limits of users in a partition: how many of their jobs run, and how many wait."""

from __future__ import annotations

import numpy as np
from engine_runs import a_bag, a_gang, greedy, make_jobs, pool, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF
from simkit.policy import Kill, Place
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Partition

ONE_EACH = Partition("one", max_running_per_user=1)


def test_jobs_without_a_user_are_not_limited():
    load = make_jobs(*((t, a_gang(1, 10)) for t in range(3)))
    assert simulate(greedy, load, pool(8, ONE_EACH)).starts() == {0: 0, 1: 1, 2: 2}


def test_what_is_held_back_waits_in_the_timeline_and_at_the_end():
    load = make_jobs(*((0, a_gang(1, 10)) for _ in range(3)), user=[1] * 3)
    seen = []

    def never(state):
        seen.append((len(state.queue), state.backlog))
        yield from ()

    run = simulate(never, load, pool(8, ONE_EACH))
    assert seen == [(1, 2)]
    assert run.rows("timeline", "time_s waiting backlog") == [(0, 1, 2)]
    assert run.rows("jobs", "status") == [("waiting",)] * 3


def test_a_job_of_several_tasks_counts_once_until_its_last_end():
    load = make_jobs((0, a_gang(1, 5), a_gang(1, 9)), (1, a_gang(1, 3)), user=[1, 1])
    assert simulate(greedy, load, pool(8, ONE_EACH)).starts() == {0: 0, 1: 9}


def test_a_job_that_is_held_back_can_be_killed():
    load = make_jobs(*((0, a_gang(1, 10)) for _ in range(3)), user=[1] * 3)
    tasks = []

    class Watch:
        def submitted(self, time_s, of_job):
            tasks.extend(of_job)

        def rejected(self, time_s, of_job): ...
        def reserved(self, time_s, place): ...
        def started(self, time_s, allocation): ...
        def released(self, time_s, allocation): ...
        def ended(self, time_s, task, *, killed): ...
        def flowing(self, time_s, flows): ...

    def schedule(state):
        if state.now == 0 and tasks[1].remaining:
            yield Kill(tasks[1], "not needed")
        for task in state.queue:
            yield Place(task, ((0, 1),))

    run = simulate(schedule, load, pool(8, ONE_EACH), observer=Watch())
    assert run.starts() == {0: 0, 1: None, 2: 10}


TWO_WAIT = Partition("few", max_waiting_per_user=2)


def test_who_has_too_many_jobs_waiting_goes_to_the_next_partition():
    load = make_jobs(
        (0, a_gang(4, 10)), *((t, a_gang(4, 10)) for t in (1, 2, 3, 4)), user=[1] * 4 + [2]
    )
    alone = simulate(greedy, load, pool(4, TWO_WAIT))
    assert alone.rows("jobs", "job_id status reason", by="job_id")[3] == (
        3, "rejected", "user 1 has 2 waiting jobs in partition few, which allows 2 a user",
    )  # fmt: skip
    assert alone.starts() == {0: 0, 1: 10, 2: 20, 3: None, 4: 30}
    both = simulate(greedy, load, pool(4, TWO_WAIT, Partition("rest")))
    places = both.rows("jobs", "job_id site_partition", by="job_id")
    assert places == [(0, "few"), (1, "few"), (2, "few"), (3, "rest"), (4, "few")]


def test_a_job_waits_no_longer_once_its_first_instance_has_started():
    load = make_jobs((0, a_bag(8, 10)), (1, a_bag(1, 1)), (2, a_bag(1, 1)), user=[1] * 3)
    one = Partition("one", max_waiting_per_user=1)
    # At 2 s the first job runs in part, the second waits: one waiting job, so the third is refused.
    assert simulate(greedy, load, pool(4, one)).rows("jobs", "job_id status", by="job_id") == [
        (0, "finished"), (1, "finished"), (2, "rejected"),
    ]  # fmt: skip


def reference(submit, run, user, most):
    """Starts if only the limit of users holds jobs back: each takes the place that ends first."""
    ends: dict[int, list[float]] = {}
    starts = []
    for at, length, who in zip(submit, run, user, strict=True):
        mine = ends.setdefault(who, [])
        begin = at if len(mine) < most else max(at, sorted(mine)[-most])
        starts.append(float(begin))
        mine.append(begin + length)
    return starts


JOBS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2)), min_size=1)


@settings(max_examples=60, deadline=None)
@given(rows=JOBS, most=st.integers(1, 3))
def test_on_an_empty_machine_a_user_is_a_queue_with_as_many_servers_as_jobs_may_run(rows, most):
    submit, run, user = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    load = make_jobs(*((t, a_gang(1, r)) for t, r in zip(submit, run, strict=True)), user=user)
    where = pool(1000, Partition("p", max_running_per_user=most))
    found = simulate(OrderedPolicy(FCFS()), load, where).starts()
    assert list(found.values()) == reference(submit, run, user, most)


@settings(max_examples=60, deadline=None)
@given(
    rows=JOBS, most=st.integers(1, 3), slots=st.none() | st.integers(1, 3),
    order=st.sampled_from([FCFS, SJF]),
)  # fmt: skip
def test_no_user_ever_has_more_jobs_running_and_all_end(rows, most, slots, order):
    submit, run, user = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    load = make_jobs(
        *((t, a_gang(1 + n % 3, r)) for n, (t, r) in enumerate(zip(submit, run, strict=True))),
        user=user,
    )
    where = pool(3, Partition("p", max_running_per_user=most))
    rules = Rules(admission=AdmissionRule(slots=slots))
    done = simulate(OrderedPolicy(order(), Easy()), load, where, rules=rules)
    jobs = done["jobs"].sort("job_id")
    assert set(jobs["status"]) == {"finished"}
    start, end, users = (jobs[c].to_numpy() for c in ("start_time_s", "end_time_s", "user"))
    for at in start:
        running = (start <= at) & (end > at)
        assert max(np.bincount(users[running], minlength=1)) <= most


def late_leave(**rule) -> Rules:
    return Rules(admission=AdmissionRule(late="leave", **rule))


def test_late_jobs_that_the_limit_lets_in_one_after_the_other_leave_in_one_decision():
    """However many they are: the job that may still end in time starts in that decision."""
    jobs = 3000
    load = make_jobs(
        (0, a_gang(1, 100)), *((1, a_gang(1, 10)) for _ in range(jobs)), (2, a_gang(1, 5)),
        user=[7] * (jobs + 2), deadline_s=[1e6] + [50.0] * jobs + [1e6],
    )  # fmt: skip
    run = simulate(greedy, load, pool(8, ONE_EACH), rules=late_leave())
    starts = run.starts()
    assert (starts[0], starts[jobs + 1]) == (0, 100)
    assert {start for job, start in starts.items() if 0 < job <= jobs} == {None}
    assert {time for (time,) in run.rows("events", "time_s")} == {100}


def test_a_late_job_that_a_kill_lets_in_is_not_shown():
    seen = []

    def schedule(state):
        for allocation in list(state.running):
            if state.now == 20:
                yield Kill(allocation.task, "makes room")
        for task in state.queue:
            seen.append((state.now, task.index))
            if on := state.fit(task):
                yield Place(task, on)

    load = make_jobs(
        (0, a_gang(1, 99)), (1, a_gang(1, 9)), (2, a_gang(1, 9), a_gang(1, 9)), (20, a_gang(1, 1)),
        user=[7, 7, 7, 8], deadline_s=[1e6, 15.0, 16.0, 1e6],
    )  # fmt: skip
    for slots in (None, 3):
        seen.clear()
        run = simulate(schedule, load, pool(8, ONE_EACH), rules=late_leave(slots=slots))
        assert seen == [(0, 0), (20, 4)]
        assert run.starts() == {0: 0, 1: None, 2: None, 3: 20}


def test_the_limit_is_that_of_each_partition():
    short = Partition("short", max_time_s=5, max_running_per_user=1)
    long = Partition("long", max_running_per_user=2)
    load = make_jobs(
        (0, a_gang(1, 5)), (0, a_gang(1, 5)), *((0, a_gang(1, 9)) for _ in range(3)), user=[1] * 5
    )
    run = simulate(greedy, load, pool(8, short, long))
    assert run.starts() == {0: 0, 1: 5, 2: 0, 3: 0, 4: 9}

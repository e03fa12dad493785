"""RLScheduler's rules: by hand, against a loop like that of its code, and by its published table.

The published table and every window's score are in the folder of oracles, the logs among the data.
"""

from __future__ import annotations

from math import isclose, log2, log10

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import oracle_file, real_file

import simkit
from simkit.errors import ScenarioError
from simkit.policies.orderings import FCFS, HRRN, LJF, SAF, SJF
from simkit.policies.rlscheduler import (
    RLScheduler,
    RLSchedulerF1,
    RLSchedulerPolicy,
    RLSchedulerUNICEP,
    RLSchedulerWFP3,
)
from simkit.policy.task import Task
from simkit.traces.swf import RLSchedulerLog
from simkit.workload.transform import window

ORDERS = {
    "fcfs": (FCFS, "fcfs"),
    "wfp3": (RLSchedulerWFP3, "rlscheduler-wfp3"),
    "uni": (RLSchedulerUNICEP, "rlscheduler-unicep"),
    "sjf": (SJF, "sjf"),
    "f1": (RLSchedulerF1, "rlscheduler-f1"),
}
"""Name in the oracle → its class, and its name in scenarios."""
TRACES = ("Lublin-1", "SDSC-SP2", "HPC2N", "Lublin-2")


# --- the published table ------------------------------------------------------------------------


def table(name):
    return pl.read_csv(oracle_file("rlscheduler", f"{name}.csv"))


def mean_bounded_slowdown(jobs):
    wait = jobs["start_time_s"] - jobs["submit_time_s"]
    run = jobs["end_time_s"] - jobs["start_time_s"]
    return ((wait + run) / run.clip(10.0)).clip(1.0).mean()


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("backfilling", [False, True], ids=["none", "backfill"])
@pytest.mark.parametrize("trace", TRACES)
def test_the_published_table_and_every_window(trace, backfilling, simulate):
    here = (pl.col("trace") == trace), (pl.col("backfilling") == backfilling)
    windows = table("windows").filter(here[0]).rows(named=True)
    expected = table("windows_scores").filter(*here)
    published = table("published").filter(*here).row(0, named=True)
    workload = RLSchedulerLog.of(path=real_file("swf", f"{windows[0]['file']}.gz")).read().workload
    for name, (order, _) in ORDERS.items():
        scores = []
        for row in windows:
            first, last = row["first_row"], row["first_row"] + row["jobs"] - 1
            jobs = window(workload, jobs=(first, last))
            assert jobs.job_id[0] == row["first_job_id"]
            policy = RLSchedulerPolicy(order(), backfilling=backfilling)
            scores.append(mean_bounded_slowdown(simulate(policy, jobs, row["processors"])["jobs"]))
        mine = expected.filter(policy=name).sort("window")["mean_bounded_slowdown"]
        assert scores == pytest.approx(mine.to_list(), rel=1e-7, abs=1e-6)
        assert round(np.mean(scores), 2) == published["unicep" if name == "uni" else name]


def test_a_scenario_gives_the_score_of_a_window():
    path = real_file("swf", "SDSC-SP2-1998-4.2-cln.swf.gz")
    row = table("windows").filter(trace="SDSC-SP2", window=2).row(0, named=True)
    expected = table("windows_scores").filter(trace="SDSC-SP2", window=2, policy="uni")
    for backfilling in (False, True):
        run = simkit.simulate(
            {
                "name": "rlscheduler",
                "workload": {
                    "type": "plugin",
                    "reader": "simkit.traces.swf:RLSchedulerLog",
                    "args": {"path": str(path)},
                    "window": {"jobs": f"{row['first_row']}..{row['first_row'] + 1023}"},
                },
                "cluster": {"processors": row["processors"]},
                "policy": {
                    "order": "rlscheduler-unicep",
                    "backfill": {"type": "rlscheduler", "backfilling": backfilling},
                },
            }
        )
        (score,) = expected.filter(backfilling=int(backfilling))["mean_bounded_slowdown"]
        assert run.metrics["bounded_slowdown"]["mean"] == pytest.approx(score, abs=1e-6)


# --- by hand ------------------------------------------------------------------------------------


def starts(simulate, jobs, order=SJF, processors=4, backfilling=False):
    return simulate(RLScheduler(backfilling).compose(order()), jobs, processors).starts


RULES_BY_HAND = {
    # (submit, run, processors, request) of each job, order, backfilling, starts
    "the picked job stays picked": (
        # Job 1 is picked at 1; job 2 is shorter and fits, but it comes after the pick.
        [(0, 10, 3, 10), (1, 8, 4, 8), (1, 2, 1, 2)], SJF, False, [0, 10, 18]),
    "there are no extra nodes": (
        # EASY would start job 2 at 1 beside the head, which needs two of four processors.
        [(0, 10, 3, 10), (1, 5, 2, 5), (0, 20, 1, 20)], FCFS, True, [0, 10, 10]),
    "the shadow time is found once": (
        # Job 3 is picked at 1 and expected to fit at 20, by the request of job 1. That ends at 4,
        # so that it would fit at 10; job 4, expected to end at 17, delays it all the same.
        [(0, 10, 2, 10), (0, 4, 1, 20), (0, 30, 1, 30), (1, 5, 3, 5), (4, 12, 1, 12)], FCFS, True,
        [0, 0, 0, 17, 5]),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES_BY_HAND)
def test_its_rules_by_hand(simulate, job_columns, rule):
    rows, order, backfilling, expected = RULES_BY_HAND[rule]
    assert starts(simulate, job_columns(rows), order, backfilling=backfilling) == expected


def test_an_order_that_changes(simulate, job_columns):
    # At 10, job 1 has waited 9 s for 20 s, job 2 6 s for 5 s; job 1 was picked at 1.
    jobs = job_columns([(0, 10, 4, 10), (1, 20, 4, 20), (0, 30, 4, 30), (3, 5, 4, 5)])
    assert starts(simulate, jobs, HRRN) == [0, 10, 35, 30]


def test_an_order_that_changes_is_asked_while_a_job_stays_picked(simulate, job_columns):
    # At 4 nothing is picked anew; an order by what has ended would miss the end of job 1.
    asked = []

    class Asked(HRRN):
        def keys(self, state):
            asked.append(state.now)
            return super().keys(state)

    starts(simulate, job_columns([(0, 10, 2, 10), (0, 4, 2, 4), (1, 5, 4, 5)]), Asked)
    assert [*dict.fromkeys(asked)] == [0, 1, 4, 10, 15]


def test_other_clusters_are_refused():
    with pytest.raises(simkit.SimkitError, match="rlscheduler knows one pool of one resource"):
        simkit.simulate(
            {
                "name": "machines",
                "workload": {"type": "poisson", "jobs": 3, "processors": 4, "rate_per_s": 1.0},
                "cluster": {"machines": [{"count": 2, "processors": 4}]},
                "policy": {"backfill": "rlscheduler"},
            }
        )


def test_formulas():
    task = Task(0, 0, 500.0, (1.0,), 8, estimate_s=60.0, requested_time_s=60.0)
    assert RLSchedulerWFP3().key(task) == (501 / 60) ** 3 * 8
    assert isclose(RLSchedulerUNICEP().key(task), 501 / (3 * 60))
    assert RLSchedulerF1().key(task) == log10(60) * 8 + 870 * log10(500)


def test_formulas_at_their_limits():
    single = Task(0, 0, 0.0, (1.0,), 1, estimate_s=0.0, requested_time_s=0.0)
    assert np.isfinite(RLSchedulerWFP3().key(single))
    assert RLSchedulerF1().key(single) == -1.0 - 870.0
    unknown = Task(1, 1, 99.0, (1.0,), 1, estimate_s=10.0)  # neither run time nor request: r is -1
    assert RLSchedulerWFP3().key(unknown) == -1e6
    assert RLSchedulerUNICEP().key(unknown) == 100.0 / -log2(1 + 1e-15)


# --- against a loop like that of its code -------------------------------------------------------


class Loop:
    """The loop of RLScheduler's simulator over rows of (submit, run, processors, request)."""

    def __init__(self, rows, size, score, backfilling):
        self.rows, self.free, self.score, self.backfilling = rows, size, score, backfilling
        self.now, self.queue, self.running, self.start = rows[0][0], [0], [], {}
        self.next = 1

    def starts(self):
        while True:
            self.queue.sort(key=lambda job: self.score(self.rows[job]))
            job = self.queue[0]
            if self.rows[job][2] > self.free:
                self.wait_for(job)
            self.begin(job)
            while not self.queue:
                if self.next == len(self.rows):
                    return [self.start[job] for job in range(len(self.rows))]
                self.advance()

    def wait_for(self, job):
        ends = sorted((self.start[j] + self.rows[j][3], self.rows[j][2]) for j in self.running)
        free, due = self.free, self.now
        for due, size in ends:  # noqa: B007 - it is used after the loop
            free += size
            if free >= self.rows[job][2]:
                break
        while self.rows[job][2] > self.free:
            if self.backfilling:
                self.queue.sort(key=lambda job: self.rows[job][0])
                for other in list(self.queue):
                    _, _, size, requested = self.rows[other]
                    if size <= self.free and self.now + requested < due:
                        self.begin(other)
            self.advance()

    def begin(self, job):
        self.queue.remove(job)
        self.start[job] = self.now
        self.free -= self.rows[job][2]
        self.running.append(job)

    def advance(self):
        """Let one job arrive, or else one end."""
        self.running.sort(key=lambda job: self.start[job] + self.rows[job][1])
        first = self.running[0] if self.running else None
        end = np.inf if first is None else self.start[first] + self.rows[first][1]
        if self.next < len(self.rows) and self.rows[self.next][0] <= end:
            self.now = max(self.now, self.rows[self.next][0])
            self.queue.append(self.next)
            self.next += 1
        else:
            self.now = max(self.now, end)
            self.free += self.rows[self.running.pop(0)][2]


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 9)),
    min_size=1,
    max_size=25,
)


@given(rows=ROWS, order=st.sampled_from([FCFS, SJF, LJF, SAF]), backfilling=st.booleans())
def test_as_the_loop(rows, order, backfilling, simulate, job_columns):
    jobs = job_columns(rows)
    table = list(
        zip(*(jobs[name].tolist() for name in ("submit_time_s", "run_time_s", "processors", "requested_time_s")), strict=True)
    )  # fmt: skip

    def score(row):
        return order().key(Task(0, 0, row[0], (1.0,), row[2], estimate_s=row[3]))

    expected = Loop(table, 4, score, backfilling).starts()
    assert starts(simulate, jobs, order, backfilling=backfilling) == expected


@pytest.mark.parametrize("backfilling", [3, 1, "yes", None])
def test_backfilling_is_true_or_false(backfilling):
    with pytest.raises(ScenarioError, match=f"backfilling is {backfilling!r}; it must be true or"):
        RLScheduler(backfilling)

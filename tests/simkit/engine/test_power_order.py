"""Where power stands among simultaneous events: after completions, before reservations, arrivals.

A pool of 10 processors of 100 W each; the sun changes at t = 10.
"""

from __future__ import annotations

from engine_runs import greedy, rigid, simulate

from simkit.engine.simulation import Rules
from simkit.policy import Place
from simkit.power.facts import Supply
from simkit.power.machine_model import PowerModel
from simkit.power.signal import Steps
from simkit.power.site import Site, Source
from simkit.workload.admission import AdmissionRule

PIECES = "job_id start_time_s end_time_s outcome"


def sun(*watts: float) -> Site:
    """Return a site whose power changes every 10 s, and whose tasks start over when it falls."""
    signal = Steps([10.0 * i for i in range(len(watts))], watts, 1e9)
    model = PowerModel.linear(0.0, 1000.0, "processors")
    return Site((model,), (Source("sun", signal),), supply=Supply(limit="power", running="requeue"))


def test_completion_before_power():
    # The sun is gone at the instant at which the job ends: it has ended.
    run = simulate(greedy, rigid((0, 10, 10)), 10, site=sun(1000, 0, 1000))
    assert run.rows("allocations", PIECES) == [(0, 0, 10, "finished")]


def test_power_before_reservation_when_it_returns():
    def reserve(state):
        for task in state.queue:
            if state.now < 10:
                yield Place(task, ((0, task.instances),), 10.0)

    run = simulate(reserve, rigid((0, 5, 10)), 10, site=sun(500, 1000))
    assert run.rows("allocations", PIECES) == [(0, 10, 15, "finished")]
    assert "reservation_failed" not in run["events"]["kind"].to_list()


def test_power_before_arrival():
    # Job 0 has to start over and takes the only place in the queue before job 1 comes.
    rules = Rules(admission=AdmissionRule(slots=1, backlog=0))
    jobs = rigid((0, 30, 10), (10, 5, 5))
    run = simulate(greedy, jobs, 10, rules=rules, site=sun(1000, 0, 1000))
    assert run.rows("jobs", "job_id status", by="job_id") == [(0, "finished"), (1, "rejected")]
    assert run.rows("allocations", PIECES) == [(0, 0, 10, "lost"), (0, 20, 50, "finished")]


def test_one_decision_sees_power_and_arrival():
    seen = []

    def note(state):
        seen.append((state.now, len(state.arrived), float(state.free[0, 0])))
        yield from greedy(state)

    simulate(note, rigid((0, 5, 1), (10, 5, 10)), 10, site=sun(500, 1000))
    assert [row for row in seen if row[0] == 10] == [(10, 1, 10)]

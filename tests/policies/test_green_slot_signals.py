"""GreenSlot by carbon and by price, at a stretch and in parts, against a search of all plans."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import PolicyError
from simkit.policies.green_slot import GreenSlot
from simkit.policies.orderings import FCFS, LeastSlack
from simkit.power.forecast import PerfectForecast
from simkit.power.machine_model import PowerModel
from simkit.power.signal import CARBON as CARBON_UNIT
from simkit.power.signal import PRICE, WATT, Steps
from simkit.power.site import Foresight, Grid, Site, Source

STEP_S = 10.0

CARBON = [300.0, 200.0, 80.0, 300.0, 90.0, 50.0, 300.0]
# One dip after the other, 10 s each; tasks wait at most 60 s.
WHOLE = [
    # (gap, run time, processors), starts
    # Slots lie on the clock, whenever a job comes.
    ([(13, 10, 1)], [50]),
    # The second finds the machine full, and takes the best slot that is free.
    ([(0, 10, 4), (0, 10, 4), (0, 10, 1)], [50, 20, 40]),
]


def site(processors, generation=(0.0,), price=(0.1,), carbon=(1.0,)):
    """Return a site of 10 W a processor; signals have a value for each 10 s, the last for good."""
    watts, per_kwh, grams = (
        Steps(STEP_S * np.arange(len(values)), values, STEP_S * len(values), unit=unit,
              past_end="hold")
        for values, unit in ((generation, WATT), (price, PRICE), (carbon, CARBON_UNIT))
    )  # fmt: skip
    return Site(
        models=(PowerModel.linear(0.0, 10.0 * processors, "processors"),),
        sources=(Source("sun", watts),),
        grid=Grid(price_per_kwh=per_kwh, carbon_gco2_per_kwh=grams),
        foresight=Foresight(
            12 * STEP_S, STEP_S, *(PerfectForecast(s) for s in (watts, per_kwh, grams))
        ),
    )


def replay_on(simulate, job_columns, policy, jobs, processors=4, **signals):
    columns = job_columns([(gap, run, size, run) for gap, run, size in jobs])
    return simulate(policy, columns, processors, site=site(processors, **signals))


@pytest.mark.parametrize(("jobs", "starts"), WHOLE)
@pytest.mark.parametrize("signal", ["carbon", "price"])
def test_a_task_starts_in_the_best_slot_that_is_free(jobs, starts, signal, simulate, job_columns):
    policy = GreenSlot("60s", signal).compose(FCFS())
    run = replay_on(simulate, job_columns, policy, jobs, **{signal: CARBON})
    assert run.starts == starts


def test_a_price_below_0_is_better_than_green_power(simulate, job_columns):
    signals = {"generation": [0.0, 500.0, 0.0], "price": [0.3, 0.3, -0.1, 0.3]}
    for signal, start in (("price", 20), ("generation", 10)):
        policy = GreenSlot("25s", signal).compose(FCFS())
        assert replay_on(simulate, job_columns, policy, [(0, 10, 1)], **signals).starts == [start]


PARTS = [
    # (gap, run time, processors), parts as (job, start, end)
    # The two best slots are not adjacent: it pauses from 30 s to 50 s.
    ([(0, 20, 1)], [(0, 20, 30), (0, 50, 60)]),
    # Of three, two are.
    ([(0, 30, 1)], [(0, 20, 30), (0, 40, 60)]),
    # Of the dearest slot that it needs, 40 s to 50 s, only the end, and on.
    ([(0, 24, 1)], [(0, 20, 30), (0, 46, 60)]),
    # Of the dearest, 20 s to 30 s, only the beginning, as it does not run on.
    ([(0, 14, 1)], [(0, 20, 24), (0, 50, 60)]),
    # Both want all processors, and share what is clean in the order of submission.
    ([(0, 20, 4), (0, 20, 4)], [(0, 20, 30), (0, 50, 60), (1, 10, 20), (1, 40, 50)]),
]


@pytest.mark.parametrize(("jobs", "parts"), PARTS)
def test_a_task_that_may_pause_runs_in_the_best_slots(jobs, parts, simulate, job_columns):
    policy = Due(GreenSlot("60s", "carbon", interrupt=True).compose(LeastSlack()), 65.0)
    run = replay_on(simulate, job_columns, policy, jobs, carbon=CARBON)
    found = run["allocations"].select("job_id", "start_time_s", "end_time_s").rows()
    assert sorted(found) == sorted(parts)


class Due:
    """Gives every task the same deadline."""

    def __init__(self, policy, deadline_s):
        self._policy, self._deadline_s = policy, deadline_s

    def reset(self, info, rng):
        self._policy.reset(info, rng)

    def schedule(self, state):
        for task in state.arrived:
            task.deadline_s = self._deadline_s
        return self._policy.schedule(state)


def test_what_is_urgent_interrupts_what_can_wait(simulate, job_columns):
    # The first runs in the clean slot when the second comes and must start at once; it goes on
    # as soon as there is room.
    class Urgent(Due):
        def schedule(self, state):
            for task in state.arrived:
                task.deadline_s = (100.0, 15.0)[task.index]
            return self._policy.schedule(state)

    policy = Urgent(GreenSlot(signal="carbon", interrupt=True).compose(LeastSlack()), 0.0)
    run = replay_on(simulate, job_columns, policy, [(0, 10, 4), (5, 10, 4)], carbon=[10.0, 20.0])
    assert run["allocations"].select("job_id", "start_time_s", "end_time_s").rows() == [
        (0, 0.0, 5.0), (1, 5.0, 15.0), (0, 15.0, 20.0),
    ]  # fmt: skip


SIGNAL = st.lists(st.integers(0, 9).map(float), min_size=12, max_size=12)


@given(SIGNAL, st.integers(1, 4), st.integers(1, 8))
def test_no_other_plan_is_cleaner(simulate, job_columns, carbon, needed, reach):
    """All starts, and all choices of slots, of a job of so many slots within its reach."""
    last = max(reach, needed)
    jobs = [(0, needed * STEP_S, 1)]

    def carbon_of(interrupt):
        policy = GreenSlot(signal="carbon", interrupt=interrupt).compose(LeastSlack())
        policy = Due(policy, last * STEP_S)
        run = replay_on(simulate, job_columns, policy, jobs, carbon=carbon)
        spans = run["allocations"].select("start_time_s", "end_time_s").rows()
        return sum(
            carbon[slot] for a, b in spans for slot in range(int(a // STEP_S), int(b // STEP_S))
        )

    starts = range(last - needed + 1)
    assert carbon_of(False) == min(sum(carbon[k : k + needed]) for k in starts)
    assert carbon_of(True) == min(map(sum, combinations(carbon[:last], needed)))


JOBS = st.lists(
    st.tuples(st.integers(0, 25), st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=8
)


@given(JOBS, SIGNAL, st.integers(1, 60), st.booleans())
def test_nothing_is_late_if_there_is_room(simulate, job_columns, jobs, carbon, delay, interrupt):
    policy = GreenSlot(float(delay), "carbon", interrupt=interrupt).compose(LeastSlack())
    run = replay_on(simulate, job_columns, policy, jobs, processors=24, carbon=carbon)
    turnaround = run["jobs"].sort("job_id")["turnaround_time_s"].to_numpy()
    assert (turnaround <= np.array([job[1] for job in jobs]) + delay).all()


def test_a_forecast_issued_earlier_and_none_of_later(simulate, job_columns):
    class Asks:
        def reset(self, info, rng):
            pass

        def schedule(self, state):
            if state.arrived and state.now == 13:
                assert state.power.forecast("carbon").tolist()[:2] == [200 * 0.7 + 80 * 0.3, 146.0]
                assert state.power.forecast("carbon", 10.0).tolist() == [*CARBON[1:], *[300.0] * 6]
                state.power.forecast("carbon", 13.5)
            return ()

    with pytest.raises(PolicyError, match=r"start_s=13\.5.* issued at the latest now"):
        replay_on(simulate, job_columns, Asks(), [(13, 10, 1)], carbon=CARBON)

"""The setting of the power-modulated page: what its variants of the ready-pool policies do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import power_modulated_setting as setting
import pytest

from simkit.arrays import stream
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.orderings import QoS
from simkit.policies.ready_pool import ReadyPoolPolicy
from simkit.policy import Place
from simkit.policy.estimates import Actual
from simkit.results.run_writer import MemoryWriter
from simkit.rules import Rules
from simkit.traces.models import RareModel
from simkit.workload.cluster import Cluster

PAGES = Path(__file__).parents[2] / "docs" / "reproductions"
HOUR_S = 3600.0


def actions_by_hour(policy):
    """Run a policy on the synthetic workload; return hour → tasks that got a slot, and the jobs."""
    drawn = RareModel.of(jobs=150, units=10, offered_load=0.9).generate(stream(0, "workload"))
    hours = Counter()
    schedule = policy.schedule

    def counted(state):
        for action in schedule(state):
            hours[state.now // HOUR_S] += isinstance(action, Place)
            yield action

    policy.schedule = counted
    cluster, store = Cluster.pool({"processors": 10, "gpu": 10}), MemoryWriter({}, digested=False)
    recorder = Recorder(drawn.workload, cluster.resources, store)
    Simulation(drawn.workload, cluster, recorder, rules=Rules(), predictor=Actual(), seed=0).run(
        policy, 0
    )
    store.close_tables()
    return hours, store.results().jobs


def test_with_algorithm_2_time_advances_with_each_action():
    plain, jobs = actions_by_hour(ReadyPoolPolicy(QoS()))
    assert max(plain.values()) > 1
    stepwise, slower = actions_by_hour(setting.OneActionAnHour(QoS()))
    assert max(stepwise.values()) == 1
    assert (jobs["status"] == "finished").all()
    assert (slower["status"] == "finished").all()
    assert sum(stepwise.values()) >= len(slower)


def test_the_variants_differ_in_order_and_time_alone():
    assert {name.partition(",")[0] for name in setting.COMMON} == set(setting.ORDERS)
    assert {name.partition(",")[0] for name in setting.STEPWISE} == set(setting.ORDERS)
    assert set(setting.ORDERS) < set(setting.POLICIES)


def test_the_page_is_what_its_committed_table_gives():
    pytest.importorskip("torch")  # of the learners, whose studies it is like
    from power_modulated import study

    power = study(PAGES)
    text = power.filled("power-modulated", power.read(PAGES))
    assert text == (PAGES / "power-modulated.md").read_text("utf-8")

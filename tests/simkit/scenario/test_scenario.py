import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simkit.errors import ScenarioError
from simkit.power.facts import BatteryFacts
from simkit.power.signal_trace import Gaps
from simkit.rules import AdmissionRule
from simkit.scenario import (
    Scenario,
    json_schema,
    scenario_hash,
)
from simkit.sections import problems_of

LUBLIN = {"type": "lublin", "jobs": 100, "processors": 64}


def scenario(**sections) -> Scenario:
    return Scenario.model_validate({"workload": LUBLIN, **sections})


def problems(**sections) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        scenario(**sections)
    found = problems_of(caught.value, Scenario)
    return [f"{'.'.join(map(str, problem.path))}: {problem.text}" for problem in found]


FULL = {
    "name": "everything",
    "seed": 7,
    "workload": {
        **LUBLIN,
        "window": {"start": "10d", "end": "2004-05-31T12:00:00+02:00", "jobs": "5..9"},
        "load": 2,
        "processors_scale": 0.5,
        "processors_max": 32,
        "run_time_scale": 0.5,
        "run_time_max": "30h",
        "resample": {"weeks": 20},
        "target_load": {"offered_load": 0.8, "processors": 10},
    },
    "value": {
        "qos": {"type": "two-classes", "high_share": 0.5},
        "prices": {"processors": 0.5},
        "time_unit": "10m",
        "knob": 0.1,
        "deadlines": {"type": "slack", "factor": [2, 10], "of": "actual"},
        "gpu": {"share": 0.3, "amount": [1, 5], "per": "processor"},
    },
    "cluster": {
        "machines": [{"count": 5, "name": "big", "cpu": 64, "mem": 1.0}, {"cpu": 2, "mem": 0.5}],
        "maintenance": [
            {"start": "100d", "duration": "8h", "machines": ["big"], "every": "30d"},
            {"start": "2004-01-01T00:00:00Z", "end": "2004-01-02T00:00:00Z", "running": "requeue"},
        ],
        "partitions": [
            {"name": "express", "queues": [1], "machines": ["big"], "max_time": "2h",
             "max_processors": 64, "priority": 10},
            {"name": "rest", "partitions": [2, 3]},
        ],
    },
    "policy": {"order": {"type": "multifactor", "age": 1.0, "list": [1, {"a": None}]}},
    "estimates": {"type": "perturbed", "factor": 5.0},
    "walltime": "kill",
    "admission": {"slots": 10, "backlog": 60, "refill": "next_decision", "order": "qos"},
    "scheduling": {"every": "30s"},
    "metrics": {"tau": "1m", "warmup": "1w", "cooldown": 90},
    "sweep": {"policy.backfill": ["none", "easy"], "seed": [0, 1]},
}  # fmt: skip


@pytest.mark.parametrize(
    "sections",
    [
        {},
        FULL,
        {"policy": {"path": "/somewhere/mine.py:Mine", "args": {"weight": 1.5}}},
        {"policy": {"name": "package.module:Mine"}},
        {"policy": {"order": "x.py:f", "placement": "best-fit"}, "cluster": {"processors": 8}},
        {"workload": {"type": "swf", "path": "log.swf.gz", "keep_zero_run": True}},
        {"workload": {"type": "sacct", "path": "a.txt", "time_zone": "Europe/Berlin"}},
        {"workload": {"type": "jobs", "path": "a.csv", "window": {"jobs": 5}}},
        {"workload": {"type": "poisson", "jobs": 5, "processors": 2, "rate_per_s": 0.1}},
        {"workload": {"type": "bernoulli", "jobs": 5, "processors": 2, "probability": 1}},
        {"workload": {"type": "uniform", "jobs": 5, "processors": 2, "offered_load": 1}},
        {"workload": {"type": "bimodal", "jobs": 5, "processors": 8, "offered_load": 1.2,
                      "sizes": [2, 4], "short_run_time_s": ["1m", "3m"]}},
        {"workload": {"type": "plugin", "reader": "my.reader:read", "args": {"a": [1]}}},
    ],
)  # fmt: skip
def test_its_json_makes_an_equal_scenario(sections):
    first = scenario(**sections)
    text = json.dumps(first.model_dump(mode="json"), allow_nan=False)
    second = Scenario.model_validate(json.loads(text))
    assert second == first
    assert scenario_hash(second) == scenario_hash(first)


def test_short_forms_equal_their_long_forms():
    short = scenario(policy={"order": "sjf"}, estimates="actual", metrics={"tau": "1m"})
    long = scenario(
        policy={"order": {"type": "sjf"}}, estimates={"type": "actual"}, metrics={"tau": 60}
    )
    assert short == long
    assert scenario_hash(short) == scenario_hash(long)


def test_arguments_stand_beside_the_type():
    order = scenario(policy={"order": {"type": "multifactor", "age": 1.0}}).policy.order
    assert (order.type, order.args) == ("multifactor", {"age": 1.0})


def test_a_scenario_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        scenario().seed = 3


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"start": "10d", "end": 950400}, (864000.0, 950400.0, None)),
        # a date is kept in UTC
        (
            {"start": "2004-05-31T12:00:00+02:00"},
            (datetime(2004, 5, 31, 10, tzinfo=UTC), None, None),
        ),
        ({"jobs": 100}, (None, None, (0, 99))),
        ({"jobs": "5..9"}, (None, None, (5, 9))),
        ({"jobs": "5..5"}, (None, None, (5, 5))),
    ],
)
def test_a_window(window, expected):
    found = scenario(workload={**LUBLIN, "window": window}).workload.window
    assert (found.start, found.end, found.jobs) == expected


@given(first=st.integers(0, 10**9), more=st.integers(0, 10**9))
def test_every_range_of_jobs_reads_back_as_written(first, more):
    window = {"jobs": f"{first}..{first + more}"}
    made = scenario(workload={**LUBLIN, "window": window})
    assert made.workload.window.jobs == (first, first + more)
    assert made.model_dump(mode="json")["workload"]["window"]["jobs"] == window["jobs"]


@given(
    st.floats(0, 2**32) | st.datetimes(datetime(1970, 1, 1)).map(lambda d: d.replace(tzinfo=UTC))
)
def test_every_instant_reads_back_as_written(instant):
    made = scenario(cluster={"maintenance": [{"start": instant, "duration": 1}]})
    assert Scenario.model_validate(made.model_dump(mode="json")) == made
    assert made.cluster.maintenance[0].start == instant


WINDOW = "workload.window"
MAINTENANCE = "cluster.maintenance.0"


def in_window(**window):
    return {"workload": {**LUBLIN, "window": window}}


def down(**window):
    return {"cluster": {"processors": 8, "maintenance": [window]}}


def generated(**keys):
    base = {"type": "poisson", "jobs": 5, "processors": 2, "rate_per_s": 0.1}
    return {"workload": base | keys}


@pytest.mark.parametrize(("sections", "expected"), [
    # --- keys
    ({"sed": 1}, "sed"),
    ({"admission": {"slot": 1}}, "admission.slot"),
    ({"workload": {"type": "swf"}}, "workload.path"),
    # --- kinds of value
    ({"seed": "1"}, "seed"),
    ({"seed": True}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"seed": -1}, "seed"),
    ({"name": 5}, "name"),
    ({"name": "a b"}, "name"),
    ({"name": ".."}, "name"),
    ({"name": "n" * 201}, "name"),
    ({"policy": 5}, "policy"),
    ({"policy": {"order": None}}, "policy.order"),
    ({"admission": []}, "admission"),
    ({"cluster": {"machines": 3}}, "cluster.machines"),
    ({"walltime": "kil"}, "walltime"),
    ({"walltime": None}, "walltime"),
    # --- workload
    ({"workload": 5}, "workload"),
    ({"workload": {"type": "swff"}}, "workload.type"),
    ({"workload": {}}, "workload.type"),
    ({"workload": {**LUBLIN, "path": "x"}}, "workload.path"),
    ({"workload": {**LUBLIN, "load": 0}}, "workload.load"),
    ({"workload": {**LUBLIN, "load": float("inf")}}, "workload.load"),
    ({"workload": {**LUBLIN, "processors_scale": -1}}, "workload.processors_scale"),
    ({"workload": {**LUBLIN, "resample": {"weeks": 0}}}, "workload.resample.weeks"),
    ({"workload": {"type": "sacct", "path": "x", "time_zone": "Europe/Berln"}},
     "workload.time_zone"),
    ({"workload": {"type": "sacct", "path": "x", "time_zone": "qqq"}}, "workload.time_zone"),
    # --- window
    (in_window(start="2d", end="1d"), "workload.window"),
    (in_window(start="1d", end="1d"), "workload.window"),
    (in_window(start="-1d"), "workload.window.start"),
    (in_window(start="soon"), "workload.window.start"),
    (in_window(start="2004-05-31"), "workload.window.start"),
    (in_window(start="2004-13-31"), "workload.window.start"),
    (in_window(jobs=0), "workload.window.jobs"),
    (in_window(jobs="9..5"), "workload.window.jobs"),
    (in_window(jobs="5-9"), "workload.window.jobs"),
    (in_window(jobs=True), "workload.window.jobs"),
    # --- generated workloads
    (generated(rate_per_s=None), "workload"),
    (generated(offered_load=1), "workload"),
    (generated(sizes=[1, 3]), "workload.sizes.1"),
    (generated(sizes=[2, 1]), "workload.sizes"),
    (generated(sizes=[1]), "workload.sizes"),
    (generated(sizes=3), "workload.sizes"),
    (generated(estimates="modl"), "workload.estimates"),
    (generated(mean_run_time_s="0s"), "workload.mean_run_time_s"),
    # --- cluster
    ({"cluster": {"processors": 0}}, "cluster.processors"),
    ({"cluster": {"processors": 8, "machines": [{"cpu": 1}]}}, "cluster"),
    ({"cluster": {"machines": []}}, "cluster"),
    ({"cluster": {"machines": [{"cpu": 0}, {"cpu": "x"}, {"count": 0, "cpu": 1}, {"count": 2}]}},
     ["cluster.machines.0.cpu", "cluster.machines.1.cpu", "cluster.machines.2.count",
     "cluster.machines.3"]),
    ({"cluster": {"machines": [{"cuont": 3, "cpu": 1}]}}, "cluster.machines.0"),
    ({"cluster": {"machines": [{"name": "a", "cpu": 1}, {"name": "a", "cpu": 2}],
     "partitions": [{"name": "q", "machines": ["b"]}, {"name": "q"}], "maintenance": [{"start": 0,
     "duration": 1, "machines": ["aa"]}, {"start": 0, "duration": 1, "processors": 1}]}},
     ["cluster.machines.1.name", "cluster.partitions.1.name", "cluster.maintenance.0.machines.0",
     "cluster.partitions.0.machines.0", "cluster.maintenance.1.processors"]),
    ({"cluster": {"partitions": [{"name": "q", "machines": ["a"]}]}},
     "cluster.partitions.0.machines.0"),
    ({"cluster": {"partitions": [{"name": "q", "max_time": 0, "max_processors": 0,
     "priority": float("nan")}]}}, ["cluster.partitions.0.max_time",
     "cluster.partitions.0.max_processors", "cluster.partitions.0.priority"]),
    # --- maintenance
    (down(start=0), "cluster.maintenance.0"),
    (down(start=0, end=1, duration=1), "cluster.maintenance.0"),
    (down(start=0, duration=0), "cluster.maintenance.0.duration"),
    (down(start=5, end=5), "cluster.maintenance.0"),
    (down(start=0, duration="2d", every="1d"), "cluster.maintenance.0"),
    (down(start="2004-01-01T00:00Z", end="2004-01-03T00:00Z", every="1d"), "cluster.maintenance.0"),
    (down(start=0, duration=1, processors=9), "cluster.maintenance.0.processors"),
    (down(start=0, duration=1, processors=9, machines=["a"]), "cluster.maintenance.0"),
    (down(start=0, duration=1, machines=[]), "cluster.maintenance.0"),
    (down(start=0, duration=1, running="suspnd"), "cluster.maintenance.0.running"),
    # --- policy: exactly one form
    ({"policy": {"path": "a.py:A", "order": "sjf"}}, "policy.order"),
    ({"policy": {"path": "a.py:A", "name": "b:B"}}, "policy.name"),
    ({"policy": {"ordr": "sjf"}}, "policy.ordr"),
    ({"policy": {"path": "a.py"}}, "policy.path"),
    ({"policy": {"path": "a.py:1A"}}, "policy.path"),
    ({"policy": {"order": {"age": 1}}}, "policy.order.type"),
    ({"policy": {"order": {"type": "x", "age": [float("nan")]}}}, "policy.order.age"),
    # --- the rest
    ({"admission": {"order": "qos"}}, "admission.order"),
    ({"value": {"qos": 1.2}}, "value.qos.qos"),
    ({"value": {"qos": "three-classes"}}, "value.qos.type"),
    ({"value": {"qos": {"type": "two-classes", "high": [0.9, 0.5]}}}, "value.qos.high"),
    ({"value": {"prices": {"gpu": -1}}}, "value.prices.gpu"),
    ({"value": {"deadlines": {"type": "slack", "factor": [0, 2]}}}, "value.deadlines.factor.0"),
    ({"workload": {"type": "rare", "jobs": 5}}, "workload"),
    ({"workload": {"type": "rare", "jobs": 5, "offered_load": 1, "max_units": 11}},
     "workload.max_units"),
    ({"admission": {"slots": 0}}, "admission.slots"),
    ({"admission": {"backlog": -1}}, "admission.backlog"),
    ({"scheduling": {"every": "0s"}}, "scheduling.every"),
    ({"scheduling": {"every": True}}, "scheduling.every"),
    ({"metrics": {"tau": 0}}, "metrics.tau"),
    ({"metrics": {"warmup": "-1s"}}, "metrics.warmup"),
    # --- sweep
    ({"sweep": [1]}, "sweep"),
    ({"sweep": {"seed": 1}}, "sweep.seed"),
    ({"sweep": {"seed": [], "a..b": [1], "sweep.seed": [1], "walltime": ["kill", "kill"]}},
     ["sweep.seed", "sweep.a..b", "sweep.sweep.seed", "sweep.walltime"]),
    # --- several at once
    ({"seed": "x", "workload": {**LUBLIN, "jbos": 1, "window": {"strt": 1}}}, ["seed",
     "workload.window.strt", "workload.jbos"]),
])  # fmt: skip
def test_a_broken_rule_is_told_with_its_place(sections, expected):
    places = [line.partition(": ")[0] for line in problems(**sections)]
    assert places == ([expected] if isinstance(expected, str) else expected)


def test_maintenance_knows_its_length():
    windows = [
        {"start": 0, "duration": "1h"},
        {"start": 10, "end": 40},
        {"start": "2004-01-01T00:00Z", "end": "2004-01-01T02:00+01:00"},
        {"start": 0, "end": "2004-01-01T00:00Z"},
    ]
    made = scenario(cluster={"maintenance": windows}).cluster.maintenance
    assert [window.length_s for window in made] == [3600.0, 30.0, 3600.0, None]


def test_machines_keep_their_resources_apart_from_their_keys():
    (group,) = scenario(cluster={"machines": [{"count": 2, "cpu": 64, "mem": 1}]}).cluster.machines
    assert (group.count, group.name, group.capacity) == (2, None, {"cpu": 64.0, "mem": 1.0})


@pytest.mark.parametrize("kind", ["lublin", "poisson", "bernoulli", "uniform", "bimodal", "rare"])
def test_a_model_generates_as_many_jobs_as_its_section_says(kind):
    size = {} if kind == "rare" else {"processors": 8}
    made = scenario(workload={"type": kind, "jobs": 5, "offered_load": 1, **size}).workload
    assert (made.type, made.is_drawn) == (kind, True)
    assert len(made.trace(np.random.default_rng(0)).workload) == 5


def test_a_workload_by_plugin_gives_its_reader_and_arguments():
    workload = scenario(
        workload={"type": "plugin", "reader": "my.module:read", "args": {"path": "x"}}
    ).workload
    assert workload.arguments() == {"reader": "my.module:read", "args": {"path": "x"}}


def test_the_hash_depends_on_values_and_not_on_their_order():
    one = scenario(seed=1, walltime="kill")
    other = Scenario.model_validate({"walltime": "kill", "seed": 1, "workload": LUBLIN})
    assert scenario_hash(one) == scenario_hash(other)
    assert scenario_hash(one) != scenario_hash(scenario(seed=2, walltime="kill"))
    assert len(scenario_hash(one)) == 64


def test_the_schema_describes_every_key_for_editors():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Scenario"
    assert json.loads(json.dumps(schema)) == schema
    named = {"Scenario": schema} | schema["$defs"]
    assert [
        f"{name}.{key}"
        for name, definition in named.items()
        for key, value in definition.get("properties", {}).items()
        if not value.get("description")
    ] == []


def test_the_schema_allows_the_short_forms():
    schema = json_schema()
    assert {"type": "string"} in schema["$defs"]["OrderChoice"]["anyOf"]
    assert "string" in [
        part["type"] for part in schema["$defs"]["Checkpoints"]["properties"]["every"]["anyOf"]
    ]
    assert schema["properties"]["estimates"]["default"] == "requested"


def test_facts_take_numbers_of_numpy_and_infinity_for_no_limit():
    rule = AdmissionRule(slots=np.int64(5), backlog=math.inf)
    assert (type(rule.slots), rule.slots, rule.backlog) == (int, 5, None)
    battery = BatteryFacts(capacity_kwh=np.float64(10), floor=np.float32(0.25))
    assert (battery.capacity_kwh, battery.floor) == (10.0, 0.25)
    gaps = Gaps(rule="hold", longest=math.inf)
    assert (gaps.longest, gaps.refuses(1e12)) == (None, False)
    with pytest.raises(ScenarioError, match=r"^admission\.slots: must be at least 1"):
        AdmissionRule(slots=np.int64(0))

import json
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simkit.errors import ScenarioError
from simkit.scenario import (
    Scenario,
    json_schema,
    refuse_sweep,
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


def test_every_section_has_its_default():
    assert scenario().model_dump(mode="json") == {
        "name": "scenario",
        "seed": 0,
        "workload": {
            "type": "lublin", "dependencies": "simulated", "window": None, "load": 1.0, "processors_scale": 1.0,
            "processors_max": None, "run_time_scale": 1.0, "run_time_max": None,
            "resample": None, "target_load": None, "jobs": 100, "processors": 64, "offered_load": None, "users": 0,
            "estimates": "exact", "kind": "all",
        },
        "value": None,
        "power": None,
        "cluster": {
            "processors": None, "machines": None, "trace": None, "overcommit": {},
            "containers": None, "failures": None, "maintenance": [], "partitions": [],
        },
        "policy": {"order": "fcfs", "backfill": "none", "placement": "first-fit"},
        "estimates": "requested",
        "processes": [],
        "walltime": "ignore",
        "admission": {"slots": None, "backlog": None, "refill": "at_once", "order": "fifo",
                      "late": "stay"},
        "scheduling": {"every": None, "step": None},
        "limits": {"simulated_time": 2.0**33, "wall_time": 7 * 86_400.0, "decisions": 10_000_000,
                   "retries": 1000, "jobs": 10_000_000, "instances": 20_000_000, "machines": 200_000,
                   "steps": 20_000_000, "runs": 10_000},
        "metrics": {"tau": 10.0, "warmup": 0.0, "cooldown": 0.0},
        "learn": None,
        "sweep": {},
    }  # fmt: skip


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


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        # --- keys
        ({"sed": 1}, ["sed: unknown key; did you mean 'seed'?"]),
        ({"admission": {"slot": 1}}, ["admission.slot: unknown key; did you mean 'slots'?"]),
        (
            {"workload": {"type": "swf"}},
            ["workload.path: is missing; add it: The file, plain or .gz; relative to the scenario "
             "file."],
        ),
        # --- kinds of value
        ({"seed": "1"}, ["seed: must be a whole number, not '1'"]),
        ({"seed": True}, ["seed: must be a whole number, not true"]),
        ({"seed": 1.5}, ["seed: must be a whole number, not 1.5"]),
        ({"seed": -1}, ["seed: must be at least 0, not -1"]),
        ({"name": 5}, ["name: must be text, not 5; put it in quotes"]),
        ({"name": "a b"}, ["name: must be letters, digits, '.', '_' and '-' only, not 'a b'"]),
        ({"name": ".."}, ["name: must not consist of dots only, not '..'"]),
        ({"name": "n" * 201}, ["name: has 201 characters; at most 200 are allowed"]),
        ({"policy": 5}, ["policy: must be a mapping of keys to values, not 5"]),
        ({"policy": {"order": None}},
         ["policy.order: must be a name or a mapping of keys to values, not null"]),
        ({"admission": []}, ["admission: must be a mapping of keys to values, not []"]),
        ({"cluster": {"machines": 3}}, ["cluster.machines: must be a list, not 3; write [3]"]),
        ({"walltime": "kil"}, ["walltime: unknown value 'kil'; did you mean 'kill'?"]),
        ({"walltime": None}, ["walltime: must be one of kill, ignore, not null"]),
        # --- workload
        ({"workload": 5}, ["workload: must be a mapping of keys to values, not 5"]),
        ({"workload": {"type": "swff"}}, ["workload.type: unknown value "
         "'swff'; did you mean 'swf'?"]),
        (
            {"workload": {}},
            ["workload.type: is missing; add one of: alibaba2017, bernoulli, bimodal, deeprm, "
             "jobs, lublin, plugin, poisson, rare, sacct, schedqrm, sofia, swf, tasks, uniform"],
        ),
        (
            {"workload": {**LUBLIN, "path": "x"}},
            ["workload.path: does not go with lublin; it is a key of alibaba2017, jobs, sacct, swf, "
             "tasks"],
        ),
        ({"workload": {**LUBLIN, "load": 0}}, ["workload.load: must be more than 0, not 0"]),
        (
            {"workload": {**LUBLIN, "load": float("inf")}},
            ["workload.load: must be a finite number, not inf"],
        ),
        (
            {"workload": {**LUBLIN, "processors_scale": -1}},
            ["workload.processors_scale: must be more than 0, not -1"],
        ),
        (
            {"workload": {**LUBLIN, "resample": {"weeks": 0}}},
            ["workload.resample.weeks: must be at least 1, not 0"],
        ),
        (
            {"workload": {"type": "sacct", "path": "x", "time_zone": "Europe/Berln"}},
            ["workload.time_zone: unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"],
        ),
        (
            {"workload": {"type": "sacct", "path": "x", "time_zone": "qqq"}},
            ["workload.time_zone: unknown time zone 'qqq'; use an IANA name such as Europe/Berlin"],
        ),
        # --- window
        (in_window(start="2d", end="1d"), [f"{WINDOW}: the end (86400.0) must "
         f"come after the start (172800.0)"]),
        (in_window(start="1d", end="1d"), [f"{WINDOW}: the end (86400.0) must "
         f"come after the start (86400.0)"]),
        (in_window(start="-1d"), [f"{WINDOW}.start: must be at least 0, not '-1d'"]),
        (
            in_window(start="soon"),
            [f"{WINDOW}.start: 'soon' is neither a duration (10d, 3h) nor a date "
             "(2004-05-31T12:00:00+02:00)"],
        ),
        (
            in_window(start="2004-05-31"),
            [f"{WINDOW}.start: 2004-05-31 has no time zone; "
             f"write 2004-05-31T00:00:00+00:00 for UTC"],
        ),
        (
            in_window(start="2004-13-31"),
            [f"{WINDOW}.start: '2004-13-31' is not a date; write it as 2004-05-31T12:00:00+02:00"],
        ),
        (in_window(jobs=0), [f"{WINDOW}.jobs: must be at least 1 job, not 0"]),
        (in_window(jobs="9..5"), [f"{WINDOW}.jobs: the last job (5) comes before the first (9)"]),
        (
            in_window(jobs="5-9"),
            [f"{WINDOW}.jobs: must be a number of jobs or \"first..last\", not '5-9'"],
        ),
        (
            in_window(jobs=True),
            [f'{WINDOW}.jobs: must be a number of jobs or "first..last", not True'],
        ),
        # --- generated workloads
        (
            generated(rate_per_s=None),
            ["workload: needs offered_load or rate_per_s, and neither is there; give one of them"],
        ),
        (
            generated(offered_load=1),
            ["workload: needs offered_load or rate_per_s, and both are there; give one of them"],
        ),
        (generated(sizes=[1, 3]), ["workload.sizes.1: must be at most the machine's 2, not 3"]),
        (generated(sizes=[2, 1]), ["workload.sizes: the least (2) is "
         "above the most (1); swap them"]),
        (generated(sizes=[1]), ["workload.sizes: must be a list of two, [least, most], not [1]"]),
        (generated(sizes=3), ["workload.sizes: must be a list, not 3; write [3]"]),
        (generated(estimates="modl"), ["workload.estimates: unknown value "
         "'modl'; did you mean 'modal'?"]),
        (generated(mean_run_time_s="0s"), ["workload.mean_run_time_s: must "
         "be more than 0, not '0s'"]),
        # --- cluster
        ({"cluster": {"processors": 0}}, ["cluster.processors: must be at least 1, not 0"]),
        (
            {"cluster": {"processors": 8, "machines": [{"cpu": 1}]}},
            ["cluster: has both processors and machines; leave one of the two out"],
        ),
        (
            {"cluster": {"machines": []}},
            ["cluster: machines is empty; add a group such as {count: 5, cpu: 64}"],
        ),
        (
            {"cluster": {"machines": [{"cpu": 0}, {"cpu": "x"}, {"count": 0, "cpu": 1},
                                      {"count": 2}]}},
            [
                "cluster.machines.0.cpu: must be more than 0, not 0",
                "cluster.machines.1.cpu: must be a number, not 'x'",
                "cluster.machines.2.count: must be at least 1, not 0",
                "cluster.machines.3: has no resource; add one, such as cpu: 64",
            ],
        ),
        (
            {"cluster": {"machines": [{"cuont": 3, "cpu": 1}]}},
            ["cluster.machines.0: the resource 'cuont' looks like a typo of 'count'"],
        ),
        (
            {
                "cluster": {
                    "machines": [{"name": "a", "cpu": 1}, {"name": "a", "cpu": 2}],
                    "partitions": [{"name": "q", "machines": ["b"]}, {"name": "q"}],
                    "maintenance": [{"start": 0, "duration": 1, "machines": ["aa"]},
                                    {"start": 0, "duration": 1, "processors": 1}],
                }
            },
            [
                "cluster.machines.1.name: 'a' appears twice; names must differ",
                "cluster.partitions.1.name: 'q' appears twice; names must differ",
                "cluster.maintenance.0.machines.0: no group of machines is called 'aa'; "
                "did you mean 'a'?",
                "cluster.partitions.0.machines.0: no group of machines is called 'b'; known: a",
                "cluster.maintenance.1.processors: the cluster has machines, not processors; name "
                "machines instead",
            ],
        ),
        (
            {"cluster": {"partitions": [{"name": "q", "machines": ["a"]}]}},
            ["cluster.partitions.0.machines.0: no group of machines is called 'a'; give the groups "
             "under machines names"],
        ),
        (
            {"cluster": {"partitions": [{"name": "q", "max_time": 0, "max_processors": 0,
                                         "priority": float("nan")}]}},
            [
                "cluster.partitions.0.max_time: must be more than 0, not 0",
                "cluster.partitions.0.max_processors: must be at least 1, not 0",
                "cluster.partitions.0.priority: must be a finite number, not nan",
            ],
        ),
        # --- maintenance
        (down(start=0), [f"{MAINTENANCE}: needs either an end or a duration; give one of the two"]),
        (
            down(start=0, end=1, duration=1),
            [f"{MAINTENANCE}: needs either an end or a duration; give one of the two"],
        ),
        (down(start=0, duration=0), [f"{MAINTENANCE}.duration: must be more than 0, not 0"]),
        (down(start=5, end=5), [f"{MAINTENANCE}: the end (5.0) must come after the start (5.0)"]),
        (
            down(start=0, duration="2d", every="1d"),
            [f"{MAINTENANCE}: repeats every 86400 s but lasts 172800 s"],
        ),
        (
            down(start="2004-01-01T00:00Z", end="2004-01-03T00:00Z", every="1d"),
            [f"{MAINTENANCE}: repeats every 86400 s but lasts 172800 s"],
        ),
        (
            down(start=0, duration=1, processors=9),
            [f"{MAINTENANCE}.processors: must be at most the cluster's 8, not 9"],
        ),
        (
            down(start=0, duration=1, processors=9, machines=["a"]),
            [f"{MAINTENANCE}: takes processors and machines away; leave one of the two out"],
        ),
        (
            down(start=0, duration=1, machines=[]),
            [f"{MAINTENANCE}: machines is empty; name at least one group"],
        ),
        (
            down(start=0, duration=1, running="suspnd"),
            [f"{MAINTENANCE}.running: unknown value 'suspnd'; did you mean 'suspend'?"],
        ),
        # --- policy: exactly one form
        (
            {"policy": {"path": "a.py:A", "order": "sjf"}},
            ["policy.order: does not go with {path, args}; it is a key of "
             "{order, backfill, placement}, {fitness, order, compat}"],
        ),
        (
            {"policy": {"path": "a.py:A", "name": "b:B"}},
            ["policy.name: does not go with {path, args}; it is a key of {name, args}"],
        ),
        ({"policy": {"ordr": "sjf"}}, ["policy.ordr: unknown key; did you mean 'order'?"]),
        (
            {"policy": {"path": "a.py"}},
            ["policy.path: 'a.py' names no class in a file; write my_policy.py:MyPolicy"],
        ),
        (
            {"policy": {"path": "a.py:1A"}},
            ["policy.path: 'a.py:1A' does not name an object; write package.module:attribute or "
             "file.py:attribute"],
        ),
        ({"policy": {"order": {"age": 1}}}, ["policy.order.type: is missing; add it: Name of an entry point, ``package.module:attribute`` "
            "or ``file.py:attribute``."]),
        (
            {"policy": {"order": {"type": "x", "age": [float("nan")]}}},
            ["policy.order.age: holds nan; use finite numbers"],
        ),
        # --- the rest
        ({"admission": {"order": "qos"}},
         ["admission.order: qos needs slots; add their number"]),
        ({"value": {"qos": 1.2}}, ["value.qos.qos: must be at most 1, not 1.2"]),
        ({"value": {"qos": "three-classes"}},
         ["value.qos.type: unknown value 'three-classes'; did you mean 'two-classes'?"]),
        ({"value": {"qos": {"type": "two-classes", "high": [0.9, 0.5]}}},
         ["value.qos.high: the least (0.9) is above the most (0.5); swap them"]),
        ({"value": {"prices": {"gpu": -1}}}, ["value.prices.gpu: must be at least 0, not -1"]),
        ({"value": {"deadlines": {"type": "slack", "factor": [0, 2]}}},
         ["value.deadlines.factor.0: must be more than 0, not 0"]),
        ({"workload": {"type": "rare", "jobs": 5}},
         ["workload: needs offered_load or rate_per_step, and neither is there; give one of them"]),
        ({"workload": {"type": "rare", "jobs": 5, "offered_load": 1, "max_units": 11}},
         ["workload.max_units: must be at most the pool's 10, not 11"]),
        ({"admission": {"slots": 0}}, ["admission.slots: must be at least 1, not 0"]),
        ({"admission": {"backlog": -1}}, ["admission.backlog: must be at least 0, not -1"]),
        ({"scheduling": {"every": "0s"}}, ["scheduling.every: must be more than 0, not '0s'"]),
        (
            {"scheduling": {"every": True}},
            ["scheduling.every: must be a duration, not True; write seconds, or 15s, 30m, 3h, 7d"],
        ),
        ({"metrics": {"tau": 0}}, ["metrics.tau: must be more than 0, not 0"]),
        ({"metrics": {"warmup": "-1s"}}, ["metrics.warmup: must be at least 0, not '-1s'"]),
        # --- sweep
        ({"sweep": [1]}, ["sweep: must be a mapping of keys to values, not [1]"]),
        ({"sweep": {"seed": 1}}, ["sweep.seed: must be a list, not 1; write [1]"]),
        (
            {"sweep": {"seed": [], "a..b": [1], "sweep.seed": [1], "walltime": ["kill", "kill"]}},
            [
                "sweep.seed: has no values; give a list such as [0, 1, 2]",
                "sweep.a..b: cannot be swept; write a dotted key such as policy.backfill",
                "sweep.sweep.seed: cannot be swept; write a dotted key such as policy.backfill",
                'sweep.walltime: has the value "kill" twice; leave one out',
            ],
        ),
        # --- several at once
        (
            {"seed": "x", "workload": {**LUBLIN, "jbos": 1, "window": {"strt": 1}}},
            [
                "seed: must be a whole number, not 'x'",
                "workload.window.strt: unknown key; did you mean 'start'?",
                "workload.jbos: unknown key; did you mean 'jobs'?",
            ],
        ),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told_with_path_value_and_remedy(sections, expected):
    assert problems(**sections) == expected


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


def test_a_sweep_is_refused_where_one_run_is_wanted():
    refuse_sweep(scenario())
    with pytest.raises(ScenarioError) as caught:
        refuse_sweep(scenario(sweep={"seed": [0, 1]}))
    assert str(caught.value) == (
        "sweep: stands for several runs; start them with `simkit sweep`, or leave the key out"
    )


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
        part["type"] for part in schema["$defs"]["Metrics"]["properties"]["tau"]["anyOf"]
    ]
    assert schema["properties"]["estimates"]["default"] == "requested"


def test_the_import_leaves_heavy_libraries_alone():
    code = (
        "import sys, simkit.scenario, simkit.scenario.yaml_document;"
        "print([m for m in "
        "('polars','pandas','scipy','torch','simpy','pyarrow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"

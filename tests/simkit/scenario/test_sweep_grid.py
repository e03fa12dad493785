from importlib.metadata import EntryPoint
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.experiment.sweep import expand_sweep
from simkit.scenario.yaml_document import load_scenario

LUBLIN = {"type": "lublin", "jobs": 100, "processors": 64}
HEAD = "workload: {type: lublin, jobs: 100, processors: 64}\n"
NAMES = {
    "simkit.policies": (
        "order.fcfs", "order.sjf", "order.multifactor", "backfill.none", "backfill.easy",
        "placement.first-fit",
    ),
    "simkit.predictors": ("requested", "actual", "perturbed"),
}  # fmt: skip


REAL = plugins.entry_points


def installed(group):
    if group == "simkit.readers":
        return REAL(group)
    return [EntryPoint(name, "collections:Counter", group) for name in NAMES.get(group, ())]


@pytest.fixture(autouse=True)
def entry_points(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "entry_points", installed)


def sweep(axes, *, overrides=None, **sections):
    return expand_sweep({"workload": LUBLIN, **sections, "sweep": axes}, overrides=overrides)


def problems(text: str, **overrides) -> list[str]:
    Path("s.yaml").write_text(HEAD + text)
    with pytest.raises(ScenarioError) as caught:
        expand_sweep("s.yaml", overrides=overrides)
    return list(caught.value.problems)


def test_the_last_key_changes_fastest():
    points = sweep({"policy.backfill": ["none", "easy"], "seed": [0, 1, 2]})
    assert [tuple(point.assignment.values()) for point in points] == [
        ("none", 0), ("none", 1), ("none", 2), ("easy", 0), ("easy", 1), ("easy", 2),
    ]  # fmt: skip
    assert list(points[0].assignment) == ["policy.backfill", "seed"]
    assert [(p.scenario.policy.backfill.type, p.scenario.seed) for p in points] == [
        tuple(point.assignment.values()) for point in points
    ]


def test_a_point_is_the_scenario_one_would_have_written():
    (point,) = sweep({"admission.slots": [3]}, seed=4)
    assert point.scenario == load_scenario(
        {"workload": LUBLIN, "seed": 4, "admission": {"slots": 3}}
    )


def test_without_a_sweep_there_is_one_point():
    (point,) = expand_sweep({"workload": LUBLIN})
    assert point == ({}, load_scenario({"workload": LUBLIN}))


@pytest.mark.parametrize(
    ("axes", "sections", "seen"),
    [
        # a section that is absent
        ({"metrics.tau": ["10s", "1m"]}, {}, lambda s: s.metrics.tau),
        # a section that is null
        ({"workload.window.jobs": [10, 20]}, {"workload": {**LUBLIN, "window": None}},
         lambda s: s.workload.window.jobs.last),
        # below a short form
        ({"estimates.factor": [1, 2]}, {"estimates": "perturbed"},
         lambda s: s.estimates.args["factor"]),
        # a whole section
        ({"policy": [{"order": "sjf"}, {"path": "mine.py:Mine"}]}, {},
         lambda s: type(s.policy).__name__),
        # a row of a list
        ({"cluster.machines.0.cpu": [1, 2]}, {"cluster": {"machines": [{"cpu": 9}]}},
         lambda s: s.cluster.machines[0].capacity["cpu"]),
    ],
)  # fmt: skip
def test_a_path_may_lead_anywhere(axes, sections, seen):
    Path("mine.py").write_text("class Mine: pass\n")
    values = [seen(point.scenario) for point in sweep(axes, **sections)]
    assert len(set(values)) == 2


def test_paths_in_a_sweep_start_from_the_files_folder():
    Path("sub").mkdir()
    for name in ("a.swf", "b.swf"):
        Path("sub", name).write_text("")
    Path("sub/s.yaml").write_text(
        "workload: {type: swf, path: a.swf}\nsweep: {workload.path: [a.swf, b.swf]}\n"
    )
    found = [Path(point.scenario.workload.path) for point in expand_sweep("sub/s.yaml")]
    assert found == [Path.cwd() / "sub/a.swf", Path.cwd() / "sub/b.swf"]


def test_overrides_win_over_the_sweep():
    axes = {"seed": [0, 1], "policy.order": ["fcfs", "sjf"]}
    points = sweep(axes, overrides={"seed": 5})
    assert [point.assignment for point in points] == [
        {"policy.order": "fcfs"},
        {"policy.order": "sjf"},
    ]
    assert {point.scenario.seed for point in points} == {5}
    # an override above an axis takes it away, one below it is laid over each value
    assert len(sweep(axes, overrides={"policy": {"order": "sjf"}})) == 2
    (first, second) = sweep(
        {"policy": [{"order": "fcfs"}, {"order": "sjf"}]}, overrides={"policy.backfill": "easy"}
    )
    assert first.scenario.policy.backfill.type == second.scenario.policy.backfill.type == "easy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # unknown keys: told once, not once a combination
        (
            "sweep:\n  seed: [0, 1]\n  polcy.order: [fcfs, sjf]\n",
            ["s.yaml:4: sweep.polcy.order: polcy: unknown key; did you mean 'policy'?"],
        ),
        (
            "sweep:\n  policy.ordr:\n    - fcfs\n",
            ["s.yaml:4: sweep.policy.ordr.0: unknown key; did you mean 'order'?"],
        ),
        # a value of the list, at its own line
        (
            "sweep:\n  policy.backfill:\n    - none\n    - eazy\n  seed: [0, x]\n",
            [
                "s.yaml:5: sweep.policy.backfill.1: 'eazy' is not known as a backfilling rule; did "
                "you mean 'easy'?",
                "s.yaml:6: sweep.seed.1: must be a whole number, not 'x'",
            ],
        ),
        # deep inside a value
        (
            "sweep:\n  policy:\n    - order: sjf\n    - ordr: sjf\n",
            ["s.yaml:5: sweep.policy.1.ordr: unknown key; did you mean 'order'?"],
        ),
        # a path through a value without keys
        ("seed: 3\nsweep: {seed.x: [1]}\n", ["s.yaml:3: sweep.seed.x.0: seed "
         "is 3, which holds no keys"]),
        # two values that do not go together
        (
            "sweep:\n  workload.type: [lublin, poisson]\n",
            [
                "s.yaml:3: sweep.workload.type: workload: needs offered_load or rate_per_s, and "
                "neither is there; give one of them",
            ],
        ),
        # what becomes wrong elsewhere names the values that made it so
        (
            "cluster:\n  processors: 64\n  maintenance: [{start: 0, duration: 1, processors: 32}]\n"
            "sweep: {cluster.processors: [16, 64], seed: [0, 1]}\n",
            [
                "s.yaml:4: cluster.maintenance.0.processors: must be at most the cluster's 16, not "
                "32 (with cluster.processors: 16, seed: 0)",
            ],
        ),
        # the scenario's own problems come first, and alone
        ("sed: 1\nsweep: {ordr: [1]}\n", ["s.yaml:2: sed: unknown key; did you mean 'seed'?"]),
        ("sweep: {seed: []}\n", ["s.yaml:2: sweep.seed: has no values; "
         "give a list such as [0, 1, 2]"]),
    ],
)  # fmt: skip
def test_problems_lead_back_to_the_sweep(text, expected):
    assert problems(text) == expected


def test_a_sweep_beyond_all_bounds_is_refused():
    values = ", ".join(map(str, range(400)))
    text = f"sweep: {{seed: [{values}], admission.slots: [{values}]}}\n"
    assert (
        problems(text)
        == [
            "s.yaml:2: sweep: stands for 160,000 runs, and at most 10,000 are allowed; split it, or "
            "raise limits.runs",
            "s.yaml:2: sweep.admission.slots.0: must be at least 1, not 0",
        ][:1]
    )


@given(
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    slots=st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    loads=st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, unique=True),
)
def test_every_combination_comes_exactly_once(seeds, slots, loads):
    axes = {"seed": seeds, "admission.slots": slots, "workload.load": loads}
    points = sweep(axes)
    found = [
        (p.scenario.seed, p.scenario.admission.slots, p.scenario.workload.load) for p in points
    ]
    assert found == [tuple(point.assignment.values()) for point in points]
    assert len(set(found)) == len(found) == prod(map(len, axes.values()))


def assignments(points):
    return [tuple(point.assignment.items()) for point in points]


def test_values_beside_the_scenario_are_swept_after_its_own():
    scenario = {"workload": LUBLIN, "sweep": {"seed": [0, 1]}}
    points = expand_sweep(scenario, sweep={"policy.backfill": ["none", "easy"]})
    assert assignments(points) == [
        (("seed", seed), ("policy.backfill", backfill))
        for seed in (0, 1)
        for backfill in ("none", "easy")
    ]
    points = expand_sweep({"workload": LUBLIN}, sweep={"seed": range(3)})
    assert [point.scenario.seed for point in points] == [0, 1, 2]


def test_values_beside_the_scenario_replace_its_own_for_the_key_and_below():
    scenario = {"workload": LUBLIN, "sweep": {"policy.backfill": ["none", "easy"], "seed": [0, 1]}}
    points = expand_sweep(scenario, sweep={"seed": [5], "policy": [{"order": "sjf"}]})
    assert assignments(points) == [(("seed", 5), ("policy", {"order": "sjf"}))]


def test_all_problems_of_values_beside_the_scenario_are_named():
    with pytest.raises(ScenarioError) as caught:
        expand_sweep(
            {"workload": LUBLIN}, sweep={"seed": ["x"], "policy.backfill": ["easy", "eazy"]}
        )
    assert [line.split(";")[0] for line in caught.value.problems] == [
        "override: sweep.seed.0: must be a whole number, not 'x'",
        "override: sweep.policy.backfill.1: 'eazy' is not known as a backfilling rule",
    ]


def test_a_key_is_not_both_swept_and_set():
    with pytest.raises(ScenarioError, match=r"policy\.order is swept, but policy is also set"):
        expand_sweep(
            {"workload": LUBLIN},
            sweep={"policy.order": ["fcfs", "sjf"]},
            overrides={"policy": {"order": "sjf"}},
        )

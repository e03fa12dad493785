import json
import re
import tracemalloc
from copy import deepcopy
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit import plugins
from simkit.errors import ScenarioError
from simkit.scenario import scenario_hash
from simkit.scenario.overrides import parse_overrides
from simkit.scenario.yaml_document import (
    check_names,
    load_scenario,
    locate_problems,
    scenario_to_yaml,
)

LUBLIN = {"type": "lublin", "jobs": 100, "processors": 64}
WORKLOAD = "workload: {type: lublin, jobs: 100, processors: 64}\n"
INSTALLED = {
    "simkit.policies": [
        "order.fcfs", "order.sjf", "order.multifactor", "backfill.none", "backfill.easy",
        "placement.first-fit", "policy.random",
    ],
    "simkit.predictors": ["requested", "actual", "perturbed"],
    "simkit.controllers": ["source-order"],
}  # fmt: skip


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]\n" for n in range(1, 10)
)
CHAIN = "c0: &c0 [x]\n" + "".join(f"c{n}: &c{n} [*c{n - 1}]\n" for n in range(1, 600))
MERGES = "m0: &m0 {a: 1}\n" + "".join(
    f"m{n}: &m{n} {{x: *m{n - 1}, y: *m{n - 1}, z: *m{n - 1}, <<: *m{n - 1}}}\n"
    for n in range(1, 20)
)
STEPS = "".join(" " * depth + "a:\n" for depth in range(400))
TOO_DEEP = "is nested more than 50 levels deep; a scenario is flatter"
COPIES = "aliases copy more than 20,000 values; write the values out"
LONG = "has {} characters, a number has at most 100; write it shorter, or in quotes"
CANNOT = (
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxx' cannot be a path: File name too"
)

REAL = plugins.entry_points


def installed(group: str) -> list[EntryPoint]:
    if group == "simkit.readers":
        return [*REAL(group), EntryPoint("my-reader", "collections:Counter", group)]
    if group == "simkit.signals":
        return [*REAL(group)]
    return [EntryPoint(name, "collections:Counter", group) for name in INSTALLED.get(group, ())]


@pytest.fixture(autouse=True)
def entry_points(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", installed)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    """The working directory, with a log and a policy in it."""
    (tmp_path / "log.swf").write_text("; a log\n")
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str | bytes, name: str = "s.yaml") -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def problems(source, **overrides) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(source, overrides=overrides)
    return list(caught.value.problems)


def places_of(lines: list[str]) -> list[str]:
    """Return ``file:line: dotted.path`` or ``override: dotted.path`` of each problem."""
    start = r"((s\.yaml(:\d+)?|override( [\w.]+)?)(: (?=[\w.]+: )[\w.]+)?)"
    return [re.match(start, line)[1] for line in lines]


def listed(expected: str | list[str]) -> list[str]:
    return [expected] if isinstance(expected, str) else expected


# --- reading -----------------------------------------------------------------------------------


def test_a_file_and_a_mapping_give_the_same_scenario():
    text = WORKLOAD + "name: a\nseed: 3\npolicy: {order: sjf, backfill: easy}\n"
    mapping = {
        "name": "a", "workload": LUBLIN, "seed": 3, "policy": {"order": "sjf", "backfill": "easy"},
    }  # fmt: skip
    assert load_scenario(write(text)) == load_scenario(mapping)
    assert load_scenario(Path(write(text))) == load_scenario(mapping)


def test_a_scenario_is_called_after_its_file_unless_it_has_a_name():
    assert load_scenario(write(WORKLOAD, "my run (2).yaml")).name == "my-run-2"
    assert load_scenario(write(WORKLOAD + "name: x\n")).name == "x"
    assert load_scenario({"workload": LUBLIN}).name == "scenario"


def test_paths_start_from_the_scenarios_folder():
    text = "workload: {type: swf, path: ../log.swf}\npolicy: {path: '../mine.py:Mine'}\n"
    scenario = load_scenario(write(text, "sub/s.yaml"))
    assert Path(scenario.workload.path).samefile("log.swf")
    path, name = scenario.policy.path.split(":")
    assert (Path(path).samefile("mine.py"), name) == (True, "Mine")
    assert Path(path).is_absolute()
    assert Path(scenario.workload.path).is_absolute()


def test_every_place_for_a_plugin_takes_a_file():
    text = (
        "workload: {type: plugin, reader: '../mine.py:Mine'}\n"
        "policy: {order: {type: '../mine.py:Mine', age: 1}}\n"
        "estimates: ../mine.py:Mine\n"
    )
    scenario = load_scenario(write(text, "sub/s.yaml"))
    names = (scenario.workload.reader, scenario.policy.order.type, scenario.estimates.type)
    assert all(Path(name).is_absolute() for name in names)
    assert check_names(scenario) == []


def test_variables_are_expanded_in_every_kind_of_path(monkeypatch, folder):
    monkeypatch.setenv("HERE", str(folder))
    text = (
        'workload: {type: swf, path: "${HERE}/log.swf"}\npolicy: {path: "${HERE}/mine.py:Mine"}\n'
    )
    scenario = load_scenario(write(text))
    assert scenario.workload.path == str(folder / "log.swf")
    assert scenario.policy.path == f"{folder / 'mine.py'}:Mine"
    with pytest.raises(ScenarioError, match=f"no folder {folder}/no and no agent"):
        load_scenario({"workload": LUBLIN, "policy": {"agent": "${HERE}/no"}})


def test_variables_are_expanded_in_paths_alone(monkeypatch):
    monkeypatch.setenv("SECRET", "7")
    text = WORKLOAD + (
        "name: run-${SECRET}\nseed: ${SECRET}\nestimates: {type: perturbed, factor: '${SECRET}'}\n"
        "policy: {path: 'mine.py:Mine', args: {token: ['${SECRET}']}}\n"
    )
    remark = "environment variables are expanded in paths alone"
    assert problems(write(text)) == [
        "s.yaml:2: name: must be letters, digits, '.', '_' and '-' only, not 'run-${SECRET}' "
        f"({remark})",
        f"s.yaml:3: seed: must be a whole number, not '${{SECRET}}' ({remark})",
        *(
            f"s.yaml:{line}: {key}: '${{SECRET}}': {remark}; write the value, or give it with --set"
            for line, key in ((4, "estimates.factor"), (5, "policy.args"))
        ),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(LAUGHS, f"s.yaml:1: {COPIES}", id="nine levels of aliases"),
        pytest.param(MERGES, f"s.yaml:1: {COPIES}", id="aliases of mappings"),
        pytest.param(CHAIN, f"s.yaml:1: {TOO_DEEP}", id="nesting by aliases"),
        pytest.param("x: " + "[" * 100_000, f"s.yaml:1: {TOO_DEEP}", id="brackets"),
        pytest.param("x: " + "{a: " * 100_000, f"s.yaml:1: {TOO_DEEP}", id="braces"),
        pytest.param(STEPS, f"s.yaml:52: {TOO_DEEP}", id="indentation"),
        pytest.param(
            f"seed: {'9' * 6000}\n", f"s.yaml:1: seed: 9999999999… {LONG.format('6,000')}", id="int"
        ),
        pytest.param(
            f"seed: 0x{'f' * 6000}\n", f"s.yaml:1: seed: 0xffffffff… {LONG.format('6,002')}",
            id="hexadecimal",
        ),
        pytest.param(
            f"metrics: {{tau: 1{'0' * 6000}.0}}\n",
            f"s.yaml:1: metrics.tau: 1000000000… {LONG.format('6,003')}", id="float",
        ),
        pytest.param(
            f"workload: {{type: alibaba2017, path: {'x' * 6000}}}\n",
            f"s.yaml:1: workload.path: {CANNOT} long", id="path of a file or folder",
        ),
        pytest.param(
            f"policy: {{agent: {'x' * 6000}}}\n", f"s.yaml:1: policy.agent: {CANNOT} long",
            id="path of an agent",
        ),
        pytest.param(
            f"workload: {{type: swf, path: {'x/' * 6000}}}\n", "cannot be", id="path of a file"
        ),
        pytest.param(
            f"policy: {{path: '{'x' * 6000}.py:A'}}\n", "cannot be reached", id="path of a policy"
        ),
        pytest.param(
            "".join(f"k{n}: 1\n" for n in range(500)),
            "s.yaml: there are more problems; correct these first", id="500 wrong keys",
        ),
        pytest.param(" " * 2_000_001, "has more than 2,000,000 bytes", id="size"),
    ],
)  # fmt: skip
def test_a_file_beyond_a_limit_is_refused_at_once_and_in_short(text, expected):
    path = write(text)
    tracemalloc.start()
    try:
        found = problems(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert any(expected in problem for problem in found)
    assert all(len(problem) < 600 for problem in found)
    assert peak < 100e6  # bytes, and with them the time


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("seed=" + "9" * 6000, "has 6,000 characters"),
        ("policy=" + "[" * 5000, TOO_DEEP),
        ("policy={order: sjf, order: fcfs}", "the key appears twice"),
        ("workload." + "9" * 6000 + "=1", "unknown key"),
    ],
)
def test_an_override_beyond_a_limit_is_refused(setting, expected):
    with pytest.raises(ScenarioError, match=expected) as refused:
        load_scenario({"workload": LUBLIN}, overrides=parse_overrides([setting]))
    assert all(len(problem) < 600 for problem in refused.value.problems)


def test_a_mapping_beyond_a_limit_is_refused():
    assert problems({"workload": LUBLIN, "seed": 10**5000}) == [
        "seed: has more than 100 digits; use a smaller number"
    ]
    deep: list[object] = []
    deep.append(deep)
    assert problems({"workload": LUBLIN, "sweep": {"seed": deep}}) == [f"sweep.seed.0…: {TOO_DEEP}"]


def test_a_mapping_may_hold_what_python_has(folder):
    scenario = load_scenario(
        {
            "name": "x",
            "seed": np.int64(3),
            "workload": {"type": "swf", "path": folder / "log.swf", "load": np.float64(2)},
            "sweep": {"seed": (0, 1)},
        }
    )
    assert (scenario.name, scenario.seed, scenario.workload.load) == ("x", 3, 2.0)
    assert scenario.sweep == {"seed": (0, 1)}


def test_anchors_and_merges_work_and_later_keys_win():
    text = WORKLOAD + (
        "cluster:\n"
        "  machines:\n"
        "    - &big {name: big, cpu: 64, mem: 1}\n"
        "    - {<<: *big, name: small, cpu: 2}\n"
        "    - {<<: [*big], name: third}\n"
    )
    groups = load_scenario(write(text)).cluster.machines
    assert [(group.name, group.capacity) for group in groups] == [
        ("big", {"cpu": 64.0, "mem": 1.0}),
        ("small", {"cpu": 2.0, "mem": 1.0}),
        ("third", {"cpu": 64.0, "mem": 1.0}),
    ]


def test_dates_need_no_quotes():
    text = WORKLOAD[:-2] + ", window: {start: 2004-05-31T12:00:00Z}}\n"
    assert load_scenario(write(text)).workload.window.start.isoformat() == (
        "2004-05-31T12:00:00+00:00"
    )


def test_a_byte_order_mark_is_no_problem():
    assert load_scenario(write(b"\xef\xbb\xbf" + WORKLOAD.encode())).seed == 0


# --- overrides ---------------------------------------------------------------------------------


def test_overrides_win_and_make_absent_sections():
    text = WORKLOAD + "seed: 1\npolicy: {order: sjf}\n"
    scenario = load_scenario(
        write(text),
        overrides={"seed": 5, "policy.backfill": "easy", "admission.slots": 3, "walltime": "kill"},
    )
    assert (scenario.seed, scenario.admission.slots, scenario.walltime) == (5, 3, "kill")
    assert (scenario.policy.order.type, scenario.policy.backfill.type) == ("sjf", "easy")


def test_an_override_writes_a_short_form_out_and_reaches_into_lists():
    text = WORKLOAD + "policy: {order: multifactor}\ncluster: {machines: [{cpu: 1}, {cpu: 2}]}\n"
    scenario = load_scenario(
        write(text), overrides={"policy.order.age": 2.0, "cluster.machines.1.cpu": 8}
    )
    assert scenario.policy.order.args == {"age": 2.0}
    assert [group.capacity["cpu"] for group in scenario.cluster.machines] == [1.0, 8.0]


@pytest.mark.parametrize(("overrides", "expected"), [
    ({"polcy.order": "sjf"}, "override: polcy"),
    ({"policy.ordr": "sjf"}, "override: policy.ordr"),
    ({"seed": "x"}, "override: seed"),
    ({"seed.x": 1}, "override: seed.x"),
    ({"cluster.machines.5.cpu": 1}, "override: cluster.machines.5.cpu"),
    ({"workload": {"type": "swf", "path": "${NO_SUCH_VARIABLE}"}}, "override: workload.path"),
    # what is missing in a section that the override alone has made
    ({"power.machines": {"idle_w": 1, "full_w": 2}, "power.grid": {}, "power.battery.floor": 0.1},
     "override: power.battery.capacity_kwh"),
    # what an override makes wrong elsewhere in its section
    ({"cluster.processors": 4}, "override cluster.processors: cluster"),
    # what the file has wrong keeps its line, and the override's problem comes last
    ({"seed": -1, "walltime": "x"}, ["override: seed", "override: walltime"]),
])  # fmt: skip
def test_a_wrong_override_says_that_it_is_one(overrides, expected):
    text = WORKLOAD + "seed: 3\ncluster: {machines: [{cpu: 1}]}\n"
    assert places_of(problems(write(text), **overrides)) == listed(expected)


def test_an_override_that_does_not_go_with_the_files_keys_is_named():
    source = write(WORKLOAD + "policy: {order: sjf}\n")
    assert problems(source, **{"policy.path": "mine.py:Mine"}) == [
        "override policy.path: policy.order: does not go with {path, args}; it is a key of {order, "
        "backfill, placement}, {fitness, order, compat}; to replace them, set policy={path: …}"
    ]


def test_what_is_found_after_loading_names_the_override_below_its_key():
    source = write(WORKLOAD + "policy: {order: sjf, backfill: easy}\n")
    found = ["policy.backfill: 'easy' takes no argument", "policy.order: is wrong", "policy: is"]
    overrides = {"policy.backfill.depht": 3}
    assert locate_problems(found, source, overrides) == [
        "s.yaml:2: policy.order: is wrong",
        "override policy.backfill.depht: policy.backfill: 'easy' takes no argument",
        "override policy.backfill.depht: policy: is",
    ]


def test_texts_of_the_command_line_become_overrides():
    texts = ["seed=3", "policy.order = {type: sjf}", "name=a=b", "sweep.seed=[0, 1]", "walltime="]
    assert parse_overrides(texts) == {
        "seed": 3, "policy.order": {"type": "sjf"}, "name": "a=b", "sweep.seed": [0, 1],
        "walltime": None,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["seed", "=3", "a..b=3", "a=[1"])
def test_a_text_that_sets_nothing_is_refused(text):
    with pytest.raises(ScenarioError, match="sets nothing|a: '\\[1':1: not valid YAML"):
        parse_overrides([text])


# --- problems of the file ----------------------------------------------------------------------


@pytest.mark.parametrize(("content", "expected"), [
    ("", "s.yaml: is empty"), ("# nothing but a comment\n", "s.yaml: is empty"),
    ("- 1\n- 2\n", "s.yaml:1: must be a mapping"), ("\njust words\n", "s.yaml:2: must be a mapping"),
    ("seed: 1\npolicy:\n\torder: sjf\n", "s.yaml:3: a value or an indentation begins with a tab"),
    ("seed: [1\nname: x\n", "s.yaml:2: not valid YAML: "),
    ("policy: *nowhere\n", "s.yaml:1: not valid YAML: "),
    ("seed: 1\n---\nseed: 2\n", "s.yaml:2: a second YAML document begins here"),
    (b"\x1f\x8b\x08\x00\xff", "s.yaml: is not text"), (b"PK\x03\x04\x00\x00", "s.yaml: is not text"),
    (b"a: \x01\n", "s.yaml: contains a control character"), ("[" * 5000, f"s.yaml:1: {TOO_DEEP}"),
])  # fmt: skip
def test_a_file_that_is_no_scenario(content, expected):
    (line,) = problems(write(content))
    assert line.startswith(expected)


def test_a_missing_file_suggests_its_neighbour(folder):
    write(WORKLOAD, "easy.yaml")
    assert problems("eazy.yaml") == [
        f"eazy.yaml: there is no file {folder}/eazy.yaml; did you mean 'easy.yaml'?"
    ]
    (unknown,) = problems("qqqqqqqqqqqq")
    assert unknown.startswith("qqqqqqqqqqqq: there is no such file and no scenario of that name; ")
    assert problems("sub") == [f"sub: {folder}/sub is a folder; name a file in it"]
    assert problems("no/where/s.yaml") == [
        f"no/where/s.yaml: there is no file {folder}/no/where/s.yaml; "
        f"the folder {folder} has no 'no'"
    ]


def test_a_file_that_may_not_be_read(monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied")

    write(WORKLOAD)
    monkeypatch.setattr(Path, "open", refuse)
    assert problems("s.yaml") == ["s.yaml: cannot be read: Permission denied"]


@pytest.mark.parametrize(("text", "expected"), [
    # --- keys, at their lines
    ("seed: 1\nworkload:\n  type: lublin\n  jobs: 5\n  procesors: 8\n",
     ["s.yaml:2: workload.processors", "s.yaml:5: workload.procesors"]),
    ("seed: 1\n", "s.yaml:1: workload"),
    (WORKLOAD + "seed: 1\n\nseed: 2\n", "s.yaml:4: seed"),
    (WORKLOAD + "? [a]\n: 1\n", "s.yaml:1"),
    (WORKLOAD + "admission: {<<: 3}\n", "s.yaml:2: admission"),
    (WORKLOAD + "sweep: {seed: &a [*a]}\n", "s.yaml:2: sweep.seed.0"),
    (WORKLOAD + "name: !mine x\n", "s.yaml:2: name"),
    (WORKLOAD + "seed: !!int x\n", "s.yaml:2: seed"),
    # --- variables
    ("workload:\n  type: swf\n  path: ${NO_SUCH_VARIABLE}/x.swf\n", "s.yaml:3: workload.path"),
    ("workload: {type: swf, path: '${a b}'}\n", "s.yaml:1: workload.path"),
    # --- files
    ("workload:\n  type: swf\n  path: lgo.swf\n", "s.yaml:3: workload.path"),
    (WORKLOAD + "policy: {path: 'min.py:Mine'}\n", "s.yaml:2: policy.path"),
    # --- names of plug-ins, in short and long form
    (WORKLOAD + "policy:\n  order: fcsf\n  backfill:\n    type: eazy\nestimates: actul\n",
     ["s.yaml:3: policy.order", "s.yaml:5: policy.backfill.type", "s.yaml:6: estimates"]),
    (WORKLOAD + "policy: {name: randm}\n", "s.yaml:2: policy.name"),
    ("workload: {type: plugin, reader: my-reder}\n", "s.yaml:1: workload.reader"),
    # --- rows of lists
    (WORKLOAD + "cluster:\n  machines:\n    - {cpu: 1}\n    - cpu: 2\n      count: 0\n",
     "s.yaml:6: cluster.machines.1.count"),
    # --- everything at once, in the order of the lines
    ("sed: 1\nname: a b\nworkload: {type: swf, path: zzzz.bin}\npolicy: {order: fcsf}\nname: c\n",
     ["s.yaml:1: sed", "s.yaml:2: name", "s.yaml:3: workload.path", "s.yaml:4: policy.order",
     "s.yaml:5: name"]),
])  # fmt: skip
def test_every_problem_has_its_line_and_all_come_at_once(text, expected):
    assert places_of(problems(write(text))) == listed(expected)


WRONG = [
    None, True, -1, 0, 10**400, 1e308, float("inf"), float("nan"), "", "x", "~nobody/x", "\0",
    "x" * 5000, "-1h", "2004-01-01", "${NO_SUCH_VARIABLE}", "swf", [], [1], {}, {"type": "x"},
    {1: 2}, {"a": {"b": 1}}, set(), object(), b"x",
]  # fmt: skip


def places(value, path=()):
    """Yield the path of every value inside a scenario as written."""
    inside = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


@given(data=st.data())
def test_whatever_a_key_holds_the_outcome_is_a_scenario_or_its_problems(data):
    source = deepcopy(FULL)
    path = data.draw(st.sampled_from(list(places(source))))
    inside = source
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = data.draw(st.sampled_from(WRONG))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", installed)
        told: tuple[str, ...] = ()
        try:
            load_scenario(source)
        except ScenarioError as error:
            told = error.problems
    assert all(": " in line for line in told)


def test_arguments_that_no_file_can_hold_are_refused():
    assert problems({"workload": LUBLIN, "policy": {"name": "random", "args": {"a": {1, 2}}}}) == [
        "policy.args.a: must be text, a number, true, false, null, a list or a mapping, not {1, 2}"
    ]


def test_a_mappings_problems_have_no_file():
    assert problems({"workload": LUBLIN, "sed": 1}) == ["sed: unknown key; did you mean 'seed'?"]


def test_a_sweep_is_refused_at_its_line_where_one_run_is_wanted():
    path = write(WORKLOAD + "sweep: {seed: [0, 1]}\n")
    assert load_scenario(path).sweep == {"seed": (0, 1)}
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, single=True)
    assert str(caught.value) == (
        "s.yaml:2: sweep: stands for several runs; start them with `simkit sweep`, or leave the "
        "key out"
    )


def test_check_names_imports_what_a_scenario_names():
    write("class Other: pass\n", "bad.py")
    scenario = load_scenario(
        {
            "workload": {"type": "plugin", "reader": "nosuchmodule:read"},
            "policy": {"order": "bad.py:Othr", "backfill": "easy"},
        }
    )
    assert check_names(scenario) == [
        "workload.reader: there is no module 'nosuchmodule'; install its package, or write "
        "nosuchmodule.py:attribute if it is a file",
        f"policy.order.type: {Path.cwd()}/bad.py defines no 'Othr'; did you mean 'Other'?",
    ]


# --- writing -----------------------------------------------------------------------------------


FULL = {
    "name": "full",
    "workload": {"type": "swf", "path": "log.swf", "window": {"start": "10d", "jobs": 7}},
    "cluster": {
        "machines": [{"name": "big", "cpu": 64}],
        "maintenance": [{"start": "2004-01-01T00:00:00Z", "duration": "8h", "machines": ["big"]}],
    },
    "policy": {"order": {"type": "multifactor", "age": 1.5, "zone": "2004-01-01", "no": None}},
    "sweep": {"seed": [0, 1], "policy.backfill": ["none", "easy"]},
}


def test_show_prints_units_behind_durations_and_keeps_the_order_of_a_sweep():
    lines = scenario_to_yaml(load_scenario(FULL)).splitlines()
    assert {
        "    start: 864000.0  # s = 10d 00:00:00", "    duration: 28800.0  # s = 08:00:00",
        "  tau: 10.0  # s", "    jobs: 0..6", "    zone: '2004-01-01'", "    no: null",
    } <= set(lines)  # fmt: skip
    assert lines[-7:] == [
        "sweep:", "  seed:", "  - 0", "  - 1", "  policy.backfill:", "  - none", "  - easy",
    ]  # fmt: skip


def test_what_show_prints_is_the_same_scenario():
    for source in (FULL, {"workload": LUBLIN}, {"workload": LUBLIN, "policy": {"name": "json:x"}}):
        scenario = load_scenario(source)
        assert load_scenario(write(scenario_to_yaml(scenario))) == scenario


def test_the_json_of_a_run_loads_to_an_equal_scenario_from_anywhere(monkeypatch, folder):
    scenario = load_scenario(FULL)
    text = json.dumps(scenario.model_dump(mode="json"))
    monkeypatch.chdir(folder / "sub")
    again = load_scenario(json.loads(text))
    assert again == scenario
    assert scenario_hash(again) == scenario_hash(scenario)
    assert load_scenario(write(text, "run.json")) == scenario


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(args=st.dictionaries(st.text("abcde", min_size=1), PLAIN, max_size=3))
def test_whatever_arguments_a_policy_has_come_back_from_json_and_yaml(args):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", installed)
        scenario = load_scenario({"workload": LUBLIN, "policy": {"name": "random", "args": args}})
        assert scenario.policy.args == args
        assert load_scenario(json.loads(json.dumps(scenario.model_dump(mode="json")))) == scenario
        text = scenario_to_yaml(scenario)
        assert load_scenario(write(text, "args.yaml")) == scenario


@pytest.mark.parametrize("written", ["typ", "Type", "types", "tpye"])
@pytest.mark.parametrize("place", ["workload", "policy.order", "power.sources.wind.signal"])
def test_a_misspelt_type_is_named(place, written):
    keys = {"workload": {"type": "swf", "path": "log.swf"}, "power": {"machines": {}}}
    found = problems(keys, **{place: {written: "constant"}})
    assert any(f"{place}.type: " in line and repr(written) in line for line in found)


def test_another_key_is_no_misspelt_type():
    (found,) = problems({"workload": {"time": 3}})
    assert "time" not in found

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from simkit import plugins
from simkit.errors import PluginError, ScenarioError

POLICIES = "simkit.policies"


@pytest.fixture(autouse=True)
def entry_points(monkeypatch):
    """The installed plug-ins, as a list that a test may extend."""
    table = [
        EntryPoint("order.fcfs", "collections:OrderedDict", POLICIES),
        EntryPoint("order.sjf", "collections:Counter", POLICIES),
        EntryPoint("backfill.easy", "collections:deque", POLICIES),
        EntryPoint("swf", "json:loads", "simkit.readers"),
    ]
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [p for p in table if p.group == group]
    )
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Mine:\n"
        "    weight: float = 1.0\n"
        "    class Inner: pass\n"
    )
    return tmp_path


def message(*args, **kwargs) -> str:
    with pytest.raises(PluginError) as caught:
        plugins.find(*args, **kwargs)
    return str(caught.value)


def test_names_lists_a_kind_without_its_prefix_sorted():
    assert plugins.names(POLICIES, "order") == ["fcfs", "sjf"]
    assert plugins.names(POLICIES) == ["backfill.easy", "order.fcfs", "order.sjf"]
    assert plugins.names("simkit.learners") == []


def test_an_entry_point_is_found_by_name_with_or_without_kind():
    from collections import Counter

    assert plugins.find(POLICIES, "sjf", kind="order") is Counter
    assert plugins.find(POLICIES, "order.sjf") is Counter


def test_module_and_attribute_are_imported():
    assert plugins.find(POLICIES, "os.path:join", kind="order") is __import__("os").path.join


def test_an_attribute_may_be_dotted(folder):
    assert plugins.find(POLICIES, "mine.py:Mine.Inner", base=folder).__name__ == "Inner"


def test_a_file_is_found_from_the_base_folder_and_its_dataclasses_work(folder):
    assert plugins.find(POLICIES, "mine.py:Mine", base=folder)().weight == 1.0


def test_the_same_file_twice_gives_the_same_class_and_an_edited_one_a_new_class(folder):
    first = plugins.find(POLICIES, "mine.py:Mine", base=folder)
    assert plugins.find(POLICIES, "mine.py:Mine", base=folder) is first
    path = folder / "mine.py"
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert plugins.find(POLICIES, "mine.py:Mine", base=folder)().weight == 2.0
    assert first().weight == 1.0


def test_files_of_the_same_name_in_two_folders_do_not_clash(tmp_path):
    for name in ("json", "other"):  # json.py must not hide the standard library's
        (tmp_path / name).mkdir()
        (tmp_path / name / "json.py").write_text(f"NAME = {name!r}\n")
    found = [
        plugins.find(POLICIES, f"{name}/json.py:NAME", base=tmp_path) for name in ("json", "other")
    ]
    assert found == ["json", "other"]
    import json

    assert json.loads("1") == 1


def test_loading_a_file_writes_nothing_beside_it(folder):
    plugins.find(POLICIES, "mine.py:Mine", base=folder)
    assert [path.name for path in folder.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("group", "name", "kind", "says"),
    [
        (POLICIES, "fcsf", "order", "an order; did you mean 'fcfs'?"),  # near, within the kind only
        (POLICIES, "zzz", "order", "known: fcfs, sjf"),  # nothing near: what there is
        ("simkit.readers", "swff", None, "a reader; did you mean 'swf'?"),
        (POLICIES, "fcfs", "backfill", "a backfilling rule; known: easy"),
        ("simkit.predictors", "actual", None, "none is installed; run `pip install -e .`"),
        (POLICIES, "os.path:", None, "write package.module:attribute or file.py:attribute"),
        (POLICIES, ":join", None, "write package.module:attribute or file.py:attribute"),
        (
            POLICIES,
            "nosuch.part:A",
            None,
            "no module 'nosuch'; install its package, or write nosuch/part.py",
        ),
        (POLICIES, "json.nosuch:A", None, "no module 'json.nosuch'"),
        (POLICIES, "json:laods", None, "json defines no 'laods'; did you mean 'loads'?"),
    ],
)
def test_a_miss_says_what_was_meant(group, name, kind, says):
    assert says in message(group, name, kind=kind)


def test_a_checker_judges_entry_points_alone():
    check = plugins.name_checker()
    check(POLICIES, "fcfs", "order")
    check(POLICIES, "nosuch:A", "order")
    with pytest.raises(PluginError, match="did you mean 'fcfs'"):
        check(POLICIES, "fcsf", "order")


def test_two_different_plugins_of_one_name_are_told_apart_by_their_modules(entry_points):
    entry_points.append(EntryPoint("order.sjf", "collections:Counter", POLICIES))  # the same twice
    assert plugins.find(POLICIES, "sjf", kind="order").__name__ == "Counter"
    entry_points.append(EntryPoint("order.sjf", "json:loads", POLICIES))
    assert "write one of: collections:Counter, json:loads" in message(POLICIES, "sjf", kind="order")


def test_a_broken_entry_point_quotes_the_cause(entry_points):
    entry_points.append(EntryPoint("order.bad", "nosuch.module:A", POLICIES))
    found = message(POLICIES, "bad", kind="order")
    assert "'order.bad' (nosuch.module:A)" in found
    assert "No module named 'nosuch'" in found


def test_a_broken_module_quotes_the_cause(tmp_path, monkeypatch):
    (tmp_path / "broken_by_import.py").write_text("import nosuch_helper\n")
    (tmp_path / "broken_by_name.py").write_text("x = undefined_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "nosuch_helper" in message(POLICIES, "broken_by_import:A")
    assert "NameError: name 'undefined_name'" in message(POLICIES, "broken_by_name:A")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\ny = z\n", "2: cannot be loaded: NameError: name 'z' is not defined"),
        ("x = 1\n\ndef f(:\n", "3: cannot be loaded: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "2: cannot be loaded: SystemExit: 3"),
        ("import json\njson.loads('{')\n", "2: cannot be loaded: json.decoder.JSONDecodeError: "
         "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)  # fmt: skip
def test_a_broken_file_gives_the_line_and_the_cause_and_leaves_nothing_behind(
    tmp_path, text, expected
):
    path = tmp_path / "bad.py"
    path.write_text(text)
    assert message(POLICIES, f"{path}:A") == f"{path}:{expected}"
    path.write_text("A = 1\n")
    assert plugins.find(POLICIES, f"{path}:A") == 1


def test_a_missing_file_and_a_missing_attribute_are_named(folder):
    assert message(POLICIES, f"{folder}/none.py:A").startswith(f"{folder}/none.py: ")
    assert "defines no 'Min'; did you mean 'Mine'?" in message(POLICIES, "mine.py:Min", base=folder)


def test_what_a_plug_in_refuses_begins_with_its_key():
    def rule(share: float) -> None:
        raise ScenarioError([f"share is {share}", "policy.backfill: order: is wrong"])

    with pytest.raises(ScenarioError) as raised:
        plugins.instantiate("policy.backfill: 'mine'", rule, {"share": 2})
    assert raised.value.problems == (
        "policy.backfill: share is 2",
        "policy.backfill: order: is wrong",
    )
    with pytest.raises(ScenarioError) as raised:
        plugins.instantiate("reward 'mine'", rule, {"share": 2})  # no key of a scenario
    assert raised.value.problems[0] == "share is 2"


def test_ctrl_c_that_hits_an_import_is_no_fault_of_the_plug_in(tmp_path, monkeypatch):
    """Python 3.11 makes a RuntimeError of any error within __set_name__."""
    code = (
        "class Part:\n    def __set_name__(self, *_): raise KeyboardInterrupt\n"
        "class Whole:\n    part = Part()\n"
    )
    (tmp_path / "hit_by_ctrl_c.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("hit", "hit_by_ctrl_c:Whole", "simkit.signals")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    for name in ("hit", "hit_by_ctrl_c:Whole", f"{tmp_path}/hit_by_ctrl_c.py:Whole"):
        with pytest.raises(KeyboardInterrupt):
            plugins.find("simkit.signals", name)

"""What `make smoke` runs for changed files: the nearest tests, in this order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import smoke


def near(*files: str) -> list[str]:
    """Return what is selected besides what always runs."""
    found = smoke.selected(files)
    assert found[: len(smoke.ALWAYS)] == [*smoke.ALWAYS]
    return found[len(smoke.ALWAYS) :]


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("traces/swf/__init__.py", "tests/simkit/test_foreign.py"),
        ("simkit/scenario/__init__.py", "tests/learners/test_dqn.py"),
        ("simkit/experiment/experiment.py", "tests/simkit/verify/test_value.py"),
        ("scenarios/quickstart.yaml", "tests/simkit/gym/test_model_policy.py"),
        ("tests/helpers/trainings.py", "tests/docs/test_learning_reference.py"),
        ("tools/smoke.py", "tests/tools/test_smoke.py"),
    ],
)
def test_what_uses_a_changed_file_is_near(file: str, test: str) -> None:
    assert test in near(file)


def test_the_nearest_come_first() -> None:
    """Changed tests, users in the room, users elsewhere, the room, and the documentation."""
    found = near("README.md", "simkit/scenario/value.py", "tests/policies/test_orderings.py")
    room = "tests/simkit/scenario"
    inside = [path.startswith(f"{room}/") for path in found[1:-2]]
    assert inside == sorted(inside, reverse=True)
    assert any(inside)
    assert [found[0], *found[-2:]] == ["tests/policies/test_orderings.py", room, smoke.DOCS]


@pytest.mark.parametrize(
    "file", ["tests/policies/conftest.py", "tests/policies/table.csv", "policies/new_folder/new.py"]
)
def test_what_no_test_imports_selects_its_folder(file: str) -> None:
    assert near(file) == ["tests/policies"]


def test_of_other_files_nothing_more_runs() -> None:
    assert near("LICENSE", "tests/removed/test_removed.py") == []


@pytest.mark.parametrize("place", ["checkout", "benchmarks/checkout"])
def test_benchmarks_are_left_out_wherever_the_checkout_lies(
    pytestconfig: pytest.Config, tmp_path: Path, place: str
) -> None:
    (ours,) = (
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(smoke.ROOT / "tests" / "conftest.py")
    )
    root = tmp_path / place
    quick, speed = root / "tests" / "test_quick.py", root / "tests" / "benchmarks" / "test_speed.py"
    for path in (quick, speed):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    config = SimpleNamespace(rootpath=root, getoption=lambda name: "not slow and not thorough")
    assert ours.pytest_ignore_collect(speed, config) is True
    assert ours.pytest_ignore_collect(quick, config) is None

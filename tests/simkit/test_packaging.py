"""What pyproject.toml says of the package is what is there."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS = ("simkit", "traces", "policies", "learners", "scenarios")


def folder_of(package: str) -> str:
    """Return where a package's files lie: below the nearest parent that `package-dir` maps."""
    mapped, rest = package, ""
    while mapped not in SETUPTOOLS["package-dir"]:
        mapped, _, leaf = mapped.rpartition(".")
        rest = f"/{leaf}{rest}"
    return SETUPTOOLS["package-dir"][mapped] + rest


def test_packages_are_the_folders() -> None:
    found = {
        path.parent.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert {folder_of(package) for package in SETUPTOOLS["packages"]} == found


def test_every_data_file_is_in_the_package() -> None:
    patterns = SETUPTOOLS["package-data"]
    missing = [
        str(path.relative_to(ROOT))
        for package in SETUPTOOLS["packages"]
        for path in (ROOT / folder_of(package)).iterdir()
        if path.is_file() and path.suffix not in (".py", ".pyc")
        if not any(path.match(pattern) for pattern in patterns.get(package, ()))
    ]
    assert missing == []


POINTS = [
    (group, name, value)
    for group, points in PROJECT["project"]["entry-points"].items()
    for name, value in points.items()
]


@pytest.mark.parametrize(("group", "name", "value"), POINTS)
def test_every_entry_point_is_installed_and_loads(group: str, name: str, value: str) -> None:
    (point,) = entry_points(group=group, name=name)
    assert point.value == value, "install again: pip install -e ."
    assert callable(point.load())

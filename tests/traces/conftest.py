"""What tests of formats and signals of other packages share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def generate_scenario(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The generator of the scenario reference, which sees the kinds that are installed now."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "docs"))
    sys.modules.pop("generate_scenario", None)
    yield import_module("generate_scenario")
    sys.modules.pop("generate_scenario", None)


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the rows of a table below its head."""

    def write(*rows: str, head: str, name: str = "jobs.csv") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in (head, *rows)))
        return path

    return write

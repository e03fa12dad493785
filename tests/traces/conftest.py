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
def file(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file of the given text or bytes."""

    def write(content: str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def table(file: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that writes the given lines."""
    return lambda *lines, name="table.csv": file("".join(f"{line}\n" for line in lines), name)


@pytest.fixture
def write_table(file: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that writes the rows of a table below its head."""
    return lambda *rows, head, name="jobs.csv": file("\n".join((head, *rows, "")), name)

"""A command in an empty folder, for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Simkit


@pytest.fixture
def simkit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Simkit:
    """Return a function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Simkit(capsys, monkeypatch)

"""Shell completion of SCENARIO: bundled names, beside files."""

from __future__ import annotations

import pytest

COMMANDS = ["run", "sweep", "validate", "show", "train", "evaluate"]


@pytest.fixture
def completed(simkit, monkeypatch):
    """Return a function: (command, start of a word) → what bash offers to complete it."""

    def call(command, start):
        monkeypatch.setenv("_SIMKIT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", f"simkit {command} {start}")
        monkeypatch.setenv("COMP_CWORD", "2")
        result = simkit()
        assert result.code == 0, result.err
        return list(result.out.split())

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_bundled_scenarios_complete(command, completed):
    assert completed(command, "sdsc") == ["sdsc-blue", "sdsc-sp2"]


def test_files_and_folders_complete_beside_them(completed, tmp_path):
    for name in ("quick.yaml", "quick.txt", ".quick.yaml", "mine.yaml", "quick.json"):
        (tmp_path / name).touch()
    (tmp_path / "quicker").mkdir()
    found = ["quickstart", "quick.json", "quick.yaml", "quicker/"]
    assert completed("run", "qu") == found
    everything = completed("run", "")
    assert set(everything) >= {*found, "mine.yaml", "theta-2022"}
    assert ".quick.yaml" not in everything


def test_the_shell_completes_files_where_no_name_begins_so(completed, tmp_path):
    """With nothing offered, bash and the others complete file names themselves."""
    (tmp_path / "mine.yaml").touch()
    assert completed("run", "mine") == completed("run", "logs/qu") == []

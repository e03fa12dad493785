"""The command `simkit reproduce`: what there is, where it works, and how it stops."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simkit.cli import app, main

MINE = """
def reproduce(place):
    place.say("at work")
    (place.work / "kept").write_text("x")
    page = place.pages / "mine.md"
    page.write_text(f"quick {place.quick}, workers {place.workers}")
    return page

def interrupted(place):
    raise KeyboardInterrupt
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    return tmp_path


def test_without_a_name_it_lists_those_there_are() -> None:
    found = CliRunner().invoke(app, ["reproduce"])
    assert (found.exit_code, found.stdout) == (
        0,
        "deepjs\ndeeprm\nlaunchpad\nrlscheduler\nschedqrm\nsofia\n",
    )


def test_one_of_ones_own_gets_its_folders_and_options(here: Path) -> None:
    command = [
        "reproduce",
        "mine.py:reproduce",
        "-o",
        "pages",
        "--work",
        "kept",
        "--quick",
        "-j",
        "3",
    ]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    assert (here / "pages" / "mine.md").read_text() == "quick True, workers 3"
    assert (here / "kept" / "kept").exists()
    assert "at work" in found.stderr
    assert found.stdout == "pages/mine.md written\n"


def test_ctrl_c_says_that_the_same_command_goes_on(here: Path) -> None:
    found = CliRunner().invoke(app, ["reproduce", "mine.py:interrupted", "-o", "pages"])
    assert found.exit_code == 130
    assert "the same command continues from runs/reproduce-" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["nosuch"],
            "'nosuch' is not known as a reproduction; known: deepjs, deeprm, launchpad, rlscheduler, schedqrm, sofia",
        ),
        (["depprm"], "did you mean 'deeprm'?"),
        (["mine.py:nosuch"], "mine.py defines no 'nosuch'"),
        (["deeprm", "-o", "mine.py"], "mine.py"),
    ],
)
def test_a_mistake_is_told_in_words(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], told: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["simkit", "reproduce", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error

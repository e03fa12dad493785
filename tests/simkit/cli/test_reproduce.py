"""The command `simkit reproduce`: what there is, where it works, and how it stops."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from simkit import plugins

MINE = """
from pickle import dumps, loads

def reproduce(place):
    loads(dumps(place)).say("at work")  # as another process of it does
    (place.work / "kept").write_text("x")
    page = place.pages / "mine.md"
    page.write_text(f"quick {place.quick}, workers {place.workers}")
    return page

def interrupted(place):
    raise KeyboardInterrupt
"""


@pytest.fixture
def here(simkit):
    """Return what runs `simkit reproduce` beside the module above."""
    Path("mine.py").write_text(MINE)
    return partial(simkit, "reproduce")


def test_without_a_name_it_lists_those_there_are(simkit):
    names = plugins.names("simkit.reproductions")
    assert "deeprm" in names
    assert simkit("reproduce") == (0, "".join(f"{name}\n" for name in names), "")


def test_one_of_ones_own_gets_its_folders_and_options(here):
    words = "mine.py:reproduce -o pages --work kept --quick -j 3"
    assert here(*words.split()) == (0, "pages/mine.md written\n", "at work\n")
    assert Path("pages/mine.md").read_text() == "quick True, workers 3"
    assert Path("kept/kept").exists()
    assert here(*words.split(), "--no-progress") == (0, "pages/mine.md written\n", "")


def test_ctrl_c_says_that_the_same_command_goes_on(here):
    found = here("mine.py:interrupted", "-o", "pages")
    assert found.code == 130
    assert "the same command continues from runs/reproduce-" in found.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("nosuch", "'nosuch' is not known as a reproduction; known: cocorl, deepjs, "),
        ("depprm", "did you mean 'deeprm'?"),
        ("mine.py:nosuch", "mine.py defines no 'nosuch'"),
        ("deeprm -o mine.py", "mine.py"),
    ],
)
def test_a_mistake_is_told_in_words(here, words, told):
    done = here(*words.split())
    assert done.code == 2
    assert told in done.err

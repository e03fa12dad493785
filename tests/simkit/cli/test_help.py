"""The help at 80 columns: nothing is cut, and no word is broken."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from pseudo_terminal import on_terminal
from typer.main import get_command

from simkit.cli import app

BORDERS = "─│╭╮╰╯"


def commands(group=None, name=""):
    """Yield (name, command) of every command and group, the root first."""
    command = get_command(app) if group is None else group
    yield name, command
    for below, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {below}".strip())


ALL = dict(commands())


def words(text):
    """Return a text without line breaks."""
    return " ".join(text.split())


def help_of(name):
    """Return the help of a command as its author wrote it, in one line."""
    command = ALL[name]
    text = inspect.cleandoc(command.help or "")
    return words(text if not hasattr(command, "commands") else text.partition("\n\n")[0])


@pytest.mark.parametrize("name", ["", "run", "evaluate", "trace", "trace generate"])
def test_help_on_a_terminal_of_80_columns_shows_every_text_whole(name, tmp_path):
    printed = on_terminal(f"{name} --help", 80, tmp_path)
    assert max(map(len, printed.splitlines())) <= 80
    assert not set(printed) & set(BORDERS), "a box leaves the texts half of the width"
    shown = words(printed)
    assert help_of(name) in shown
    for parameter in ALL[name].params:
        if parameter.param_type_name == "option" and parameter.help and not parameter.hidden:
            assert words(parameter.help) in shown, parameter.name
    for below in getattr(ALL[name], "commands", {}):
        first = inspect.cleandoc(ALL[f"{name} {below}".strip()].help or "").partition("\n\n")[0]
        assert re.search(rf"\b{below} +{re.escape(words(first))}", shown), below
    assert "..." not in shown.replace("[ARGS]...", "")


def test_choices_are_not_broken_inside_words(tmp_path):
    assert "partition|queue|user|group|size|length" in on_terminal("run -h", 80, tmp_path)

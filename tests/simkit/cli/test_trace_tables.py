"""`simkit trace generate alibaba2017`: a folder of tables, and options that belong to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.cli import main

Simkit = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simkit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Simkit:
    """Return a function that runs `simkit trace generate` and gives its code and what it prints."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["simkit", "trace", "generate", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        return int(exit_.value.code or 0), *capsys.readouterr()

    return call


def test_the_folder_may_be_named_in_two_ways(simkit: Simkit) -> None:
    options = ("--jobs", 3, "--machines", 2, "--usage-interval", "6h", "--seed", 4)
    code, out, _ = simkit("alibaba2017", "a", *options)
    assert code == 0
    assert re.search(r"^a written +rows\s*$", out, re.M)
    assert re.search(r"^server_usage +4\s*$", out, re.M)
    assert simkit("alibaba2017", "-o", "b", *options)[0] == 0
    for table in Path("a").iterdir():
        assert table.read_bytes() == (Path("b") / table.name).read_bytes()
    assert simkit("alibaba2017", "-o", "c", "--gzip", *options)[0] == 0
    assert {table.suffix for table in Path("c").iterdir()} == {".gz"}


WRONG = [
    # arguments, exit code, what is said
    ((), 2, "name the place to write to once"),
    (("x", "-o", "y"), 2, "name the place to write to once"),
    (("x", "--processors", 4), 2, "alibaba2017 has no --processors"),
    (("x", "--set", "users=3"), 2, "alibaba2017 has no --set"),
    (("x", "--usage-interval", "soon"), 2, "--usage-interval: 'soon' is not a duration"),
    (("x", "--usage-interval", "90.5s"), 2, "90.5s is not in whole seconds"),
    (("x", "--usage-interval", "2s"), 3, "must be a whole number from 60 to 43200"),
    (("full", "--jobs", 1), 3, "is not empty (mine)"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG)
def test_what_does_not_fit_is_told(
    simkit: Simkit, arguments: tuple[object, ...], code: int, words: str
) -> None:
    Path("full").mkdir()
    Path("full/mine").touch()
    found, _, err = simkit("alibaba2017", *arguments)
    assert found == code
    assert words in " ".join(err.replace("│", " ").split())
    assert [path.name for path in Path().iterdir()] == ["full"]


def test_models_of_logs_have_no_machines(simkit: Simkit) -> None:
    code, _, err = simkit("lublin", "x.swf", "--machines", 3)
    assert code == 2
    assert "lublin has no --machines" in err
    assert simkit("lublin", "-o", "x.swf", "--jobs", 5)[1] == "x.swf written: 5 jobs\n"

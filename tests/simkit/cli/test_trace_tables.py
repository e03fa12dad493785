"""`simkit trace generate alibaba2017`: a folder of tables, and options that belong to it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture
def generate(simkit):
    """Return a function that runs `simkit trace generate`."""
    return partial(simkit, "trace", "generate")


def test_the_folder_may_be_named_in_two_ways(generate):
    options = ("--jobs", 3, "--machines", 2, "--usage-interval", "6h", "--seed", 4)
    done = generate("alibaba2017", "a", *options)
    assert done.code == 0
    assert re.search(r"^a written +rows\s*$", done.out, re.M)
    assert re.search(r"^server_usage +4\s*$", done.out, re.M)
    assert generate("alibaba2017", "-o", "b", *options).code == 0
    for table in Path("a").iterdir():
        assert table.read_bytes() == (Path("b") / table.name).read_bytes()
    assert generate("alibaba2017", "-o", "c", "--gzip", *options).code == 0
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
def test_what_does_not_fit_is_told(generate, arguments, code, words):
    Path("full").mkdir()
    Path("full/mine").touch()
    done = generate("alibaba2017", *arguments)
    assert done.code == code
    assert words in " ".join(done.err.split())
    assert [path.name for path in Path().iterdir()] == ["full"]


def test_models_of_logs_have_no_machines(generate):
    done = generate("lublin", "x.swf", "--machines", 3)
    assert (done.code, "lublin has no --machines" in done.err) == (2, True)
    assert generate("lublin", "-o", "x.swf", "--jobs", 5).out == "x.swf written: 5 jobs\n"


def test_any_other_word_lists_the_models(generate):
    for words in (("lublinn",), ("models", "x.swf")):
        done = generate(*words)
        assert done.code == 2
        assert "lublin, poisson" in " ".join(done.err.split())

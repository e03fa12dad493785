"""A reader that leaves, as `head` does, changes neither a run nor the exit code of a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simkit.experiment.api import simulate
from simkit.results.run_folder import open_run

SIMKIT = [sys.executable, "-c", "from simkit.cli import main; main()"]


def unread(tmp_path, *arguments, stderr_too=False):
    """Return the exit code of a command whose output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [*SIMKIT, *arguments],
            cwd=tmp_path,
            stdout=writing,
            stderr=writing if stderr_too else subprocess.PIPE,
            check=False,
        ).returncode
    finally:
        os.close(writing)


@pytest.fixture
def runs(tmp_path):
    for name, order in (("a", "fcfs"), ("b", "sjf")):
        simulate("quickstart", overrides={"policy.order": order}, output=tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("stderr_too", [False, True])
def test_the_run_is_whole(tmp_path, stderr_too):
    assert unread(tmp_path, "run", "quickstart", "-o", "run", stderr_too=stderr_too) == 0
    assert open_run(tmp_path / "run").digest == simulate("quickstart").digest


def test_verify_still_gives_its_verdict(runs):
    assert unread(runs, "verify", "a") == 0
    info = json.loads((runs / "a" / "run.json").read_text())
    (runs / "a" / "run.json").write_text(json.dumps(info | {"digest": "0" * 64}))
    assert unread(runs, "verify", "a") == 1


def test_an_error_keeps_its_exit_code(tmp_path):
    assert unread(tmp_path, "run", "nosuch.yaml", stderr_too=True) == 2


def test_a_closed_stdout_is_no_error(tmp_path):
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *SIMKIT, "run", "quickstart"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def on_full_disk(folder, *arguments):
    """Return the exit code and stderr of a command whose output does not fit on the disk."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*SIMKIT, *arguments], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    return ended.returncode, ended.stderr


LOST = "the output cannot be written: No space left on device\n"


@needs_full
def test_the_run_is_whole_if_its_output_does_not_fit_on_the_disk(tmp_path):
    assert on_full_disk(tmp_path, "run", "quickstart", "-o", "run") == (1, LOST)
    assert open_run(tmp_path / "run").digest == simulate("quickstart").digest


@needs_full
def test_lost_output_is_no_success(runs):
    assert on_full_disk(runs, "compare", "a", "b", "--json") == (1, LOST)
    assert on_full_disk(runs, "--help") == (1, LOST)
    simulate("quickstart", overrides={"policy.order": "multifactor"}, output=runs / "c")
    assert on_full_disk(runs, "verify", "c", "--strict") == (5, LOST)

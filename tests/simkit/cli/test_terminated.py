"""SIGTERM ends every command with a sentence; a kill leaves nothing that the next command keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from children import SIMKIT, child

from simkit.files import PART, remove_leftovers, unfinished

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="signals to processes"),
]

SWEEP = """
workload: {type: lublin, jobs: 30000, processors: 64}
sweep: {seed: [0, 1, 2, 3]}
"""
LONG = "workload: {type: swf, path: rows.swf}\n"


@pytest.fixture
def place(tmp_path):
    """A folder with a long log and scenarios."""
    row = "{} {} -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n"
    (tmp_path / "rows.swf").write_text("".join(row.format(n, n) for n in range(1, 900_000)))
    (tmp_path / "s.yaml").write_text(SWEEP)
    (tmp_path / "long.yaml").write_text(LONG)
    return tmp_path


def until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def imported(process):
    """Return whether a process has got so far that it has imported polars."""
    return "polars" in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at a process")
@pytest.mark.parametrize(
    "words",
    ["run long.yaml -o out", *(pytest.param(words, marks=pytest.mark.thorough) for words in (
        "trace info rows.swf", "trace check rows.swf", "trace convert rows.swf out.swf",
        "trace generate lublin out.swf --jobs 3000000", "init rows.swf",
        "validate s.yaml --set workload.jobs=4000000", "sweep s.yaml -o out -j 1",
        "trace generate alibaba2017 out --jobs 13000",
    ))],
)  # fmt: skip
def test_sigterm_is_a_sentence(words, place):
    with child(
        [*SIMKIT, *words.split()], place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        until(lambda: process.poll() is not None or imported(process))
        time.sleep(0.5)  # an interrupt within the import makes it talk
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=120)
    if process.returncode == 0:
        pytest.skip("the command was quicker than the signal")
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("interrupted")
    assert not list(place.rglob(f".*{PART}"))


@pytest.mark.thorough
def test_what_a_killed_command_left_is_removed_by_the_next(place):
    words = [*SIMKIT, "trace", "generate", "alibaba2017", "out", "--jobs"]
    with child([*words, "13000"], place, stdout=subprocess.DEVNULL) as process:
        until(lambda: bool(list(place.glob(f".out.*{PART}"))))
        process.kill()
        process.wait()
    assert list(place.glob(f".out.*{PART}"))
    subprocess.run([*words, "5"], cwd=place, check=True, stdout=subprocess.DEVNULL)
    assert not list(place.glob(f".out.*{PART}"))
    assert (place / "out" / "batch_task.csv").exists()


def test_what_another_process_still_writes_stays(tmp_path):
    target = tmp_path / "a"
    with unfinished(target) as mine, unfinished(target) as other:
        mine.write_text("1")
        other.write_text("2")
        remove_leftovers(target)
        assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["1", "2"]
    assert not list(tmp_path.iterdir())
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    left = tmp_path / mine.name.replace(f".{os.getpid()}-", f".{ended.pid}-")
    far = tmp_path / mine.name.replace(f".{os.getpid()}-", f"-elsewhere.{ended.pid}-")
    left.mkdir()
    (left / "x").touch()
    far.touch()
    with unfinished(target):
        pass
    assert list(tmp_path.iterdir()) == [far]


@pytest.mark.thorough
def test_a_second_sweep_into_a_folder_is_told_so_at_once(place):
    words = [*SIMKIT, "sweep", "s.yaml", "-o", "out", "-j", "1"]
    long = [*words, "--set", "workload.jobs=400000"]
    with child(long, place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        until((place / "out").exists)
        second = subprocess.run(words, cwd=place, capture_output=True, text=True)
        assert first.poll() is None
        first.kill()
        first.wait()
    assert second.returncode == 2
    said = "out: another process is writing a sweep there; wait for it, or choose another folder"
    assert second.stderr == f"{said} with --output\n"
    few = [*words, "--set", "workload.jobs=10", "--force"]
    third = subprocess.run(few, cwd=place, capture_output=True, text=True)
    assert third.returncode == 0, third.stderr  # the lock has ended with its process

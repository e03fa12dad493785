"""Machine code is kept, loaded without numba, and never taken for other code or other arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from typing import Any, NamedTuple
import numpy as np
from simkit.machine_code import compiled, inner, records

PAIR = np.dtype([("a", np.float64), ("b", np.int64)])
TWICE = 2

class Both(NamedTuple):
    pairs: Any
    factor: float

@inner
def scaled(both: Both, row: int) -> float:
    return both.pairs[row].a * both.factor

@compiled
def total(both: Both, out: Any, negative: bool) -> bool:
    for row in range(len(both.pairs)):
        out[row] = -scaled(both, row) if negative else scaled(both, row)
    return len(out) > 2

@compiled
def weighed(table: Any, factor: float, row: int, out: Any) -> None:
    for column in range(table.shape[1]):
        out[column] = table[row, column] * factor * TWICE

@compiled
def largest(numbers: Any) -> int:
    found = -1
    for number in numbers:
        found = max(found, number)
    return found

pairs = records(np.array([(1.5, 2), (2.5, 3)], PAIR))
out, strided = np.zeros(2), np.zeros((2, 2))[:, 1]
assert total(Both(pairs, 2.0), out, False) is False
assert out.tolist() == [3.0, 5.0]
assert total(Both(pairs, 2.0), strided, True) is False
assert strided.tolist() == [-3.0, -5.0]
assert total(Both(pairs, 1.0), np.zeros(3), False) is True
by_row, found = np.arange(6.0).reshape(2, 3), np.zeros(3)
by_column = np.asfortranarray(by_row)
for table in (by_row, by_column, np.repeat(by_row, 2, axis=1)[:, ::2]):
    first, second = weighed.bound(table, 0.5), weighed.bound(-table, 0.5)
    for bound, sign in ((first, 1), (second, -1), (first, 1)):
        assert bound(1, found) is None
        assert (found == sign * by_row[1] * TWICE / 2).all()
assert largest(np.array([3, 7, 5])) == 7
print("numba" in sys.modules)
"""


def output(folder: Path, program: Path, **environ: str) -> str:
    found = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(folder), **environ},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    path = tmp_path / "own" / "program.py"
    path.write_text(PROGRAM)
    return path


def test_code_is_made_once_and_then_loaded_without_numba(tmp_path: Path, program: Path) -> None:
    assert output(tmp_path, program) == "True"
    assert output(tmp_path, program) == "False"
    program.write_text(PROGRAM.replace("* both.factor", "* (both.factor + 0.0)"))
    assert output(tmp_path, program) == "True"  # its sources have changed
    assert output(tmp_path, program) == "False"


def test_a_number_that_is_imported_is_part_of_the_code(tmp_path: Path, program: Path) -> None:
    numbers = program.parent / "numbers_.py"
    program.write_text(PROGRAM.replace("TWICE = 2", "from numbers_ import TWICE"))
    numbers.write_text("TWICE = 2")
    assert output(tmp_path, program) == "True"
    numbers.write_text("TWICE = 3 - 1")
    assert output(tmp_path, program) == "False"
    numbers.write_text("TWICE = 4")
    assert output(tmp_path, program) == "True"


GPU = """
from simkit.machine_code import dispatcher, inner

@inner
def twice(x):
    return 2 * x

@inner
def four_times(x):
    return twice(twice(x))

made = dispatcher(four_times)
assert made(3.0) == 12.0 and len(made.nopython_signatures) == 1
assert four_times("a") == "aaaa"  # as before
print(type(made).__name__)
"""


def test_marked_functions_are_numbas_for_those_who_compile_for_others(
    tmp_path: Path, program: Path
) -> None:
    program.write_text(GPU)
    assert output(tmp_path, program) == "CPUDispatcher"


def test_without_compiling_the_same_functions_are_python(tmp_path: Path, program: Path) -> None:
    assert output(tmp_path, program, NUMBA_DISABLE_JIT="1") == "False"
    assert not (tmp_path / "simkit").exists()


def test_a_cache_that_cannot_be_written_is_passed_over(tmp_path: Path, program: Path) -> None:
    (tmp_path / "file").write_text("")
    elsewhere = {"HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    assert output(tmp_path / "file", program, **elsewhere) == "True"


def test_code_that_others_could_write_is_not_run(tmp_path: Path, program: Path) -> None:
    shared = tmp_path / "shared" / "simkit" / "machine-code"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    elsewhere = {"HOME": str(tmp_path / "own" / "program.py"), "TMPDIR": str(tmp_path)}
    assert output(tmp_path / "shared", program, **elsewhere) == "True"
    assert output(tmp_path / "shared", program, **elsewhere) == "False"
    (kept,) = tmp_path.glob("simkit-*")
    assert not [*shared.rglob("*.o")]
    assert kept.stat().st_mode & 0o077 == 0

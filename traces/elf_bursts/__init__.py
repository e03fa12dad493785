"""Measures programs: the sizes of their sections and how long they run.

The idea is that of "SchedQRM" (CCIT 2019), which predicts the burst time of a job from what its
ELF file looks like, but whose data are not public. A row of the table is a C++ program, compiled
for one size of its input at one level of optimisation, with its section sizes and its processor
time, which is the smallest of three runs. Some rows are measured again at the end, so that the
noise of the times is known.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from simkit.arrays import stream
from simkit.errors import TraceError, did_you_mean
from simkit.traces.elf_bursts.card import write_card
from simkit.traces.elf_bursts.measurements import Measurements, locked
from simkit.traces.elf_bursts.plan import LONGEST_S, Wanted, drawn, sized
from simkit.traces.elf_bursts.programs import (
    KINDS,
    Program,
    compiler_version,
    find_compiler,
    sources_hash,
)
from simkit.traces.elf_bursts.run_time import pin, processors, run_time_s
from simkit.traces.elf_bursts.signature import read_signature, require_pyelftools
from simkit.traces.elf_bursts.sizes import RunTimes
from simkit.traces.elf_bursts.table import bursts_table, read_bursts

__all__ = ["KINDS", "generate_elf_bursts", "read_bursts"]

Progress = Callable[[int, int], None]
"""Takes (rows measured, rows in all)."""
T = TypeVar("T")

RUNS = 3
"""Runs of a program; the smallest time counts."""
_AGAIN_EVERY = 20  # of so many rows one is measured again
_CURVE_RUNS = 2


def generate_elf_bursts(
    folder: Path, *, rows: int, kinds: Sequence[str] = KINDS, workers: int | None = None,
    seed: int = 0, progress: Progress | None = None,
) -> Path:  # fmt: skip
    """Measure programs, and write ``bursts.parquet`` and a data card into a folder.

    What was measured is kept in the folder as it is made: after an interruption the same command
    goes on, and one with more rows adds to those that are there.

    Args:
        folder: for table, card and measurements.
        rows: programs in the table.
        kinds: of programs.
        workers: processors to measure on, one program on each at a time; None: all.
        seed: of sizes, levels and wanted run times.
        progress: told of each row, and of each kind and level whose run times by size are measured
            before.

    Returns the path of the table. Raises TraceError if there is no compiler, if the folder holds
    other measurements or cannot be written, or if there are too few processors.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise TraceError(
                f"elf-bursts: no program is called {kind!r}{did_you_mean(kind, KINDS)}"
            )
    if not kinds:
        raise TraceError(f"elf-bursts: no kinds of programs; choose some of {', '.join(KINDS)}")
    compiler = find_compiler()
    require_pyelftools()
    made_by = {
        "seed": seed, "kinds": list(kinds), "machine": _machine(),
        "compiler": compiler_version(compiler), "sources": sources_hash(),
    }  # fmt: skip
    there = processors()
    if workers is not None and not 0 < workers <= len(there):
        raise TraceError(
            f"elf-bursts: --workers is {workers}, and there are {len(there)} processors; a program "
            "is measured alone on one"
        )
    wanted = drawn(kinds, stream(seed, "elf-bursts"))
    with locked(folder):
        kept = Measurements.in_folder(folder, made_by)
        with _Bench(compiler, there[:workers]) as bench:
            programs = _measure_rows(bench, kept, wanted, rows, progress)
            _measure_again(bench, kept, programs)
        table, path = bursts_table(programs, kept, rows), folder / "bursts.parquet"
        try:
            table.write_parquet(path)
            write_card(folder / "README.md", table, made_by, left_out=len(programs) - rows)
        except OSError as error:
            raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return path


class _Bench:
    """Compiles and runs programs, one on each processor at a time."""

    def __init__(self, compiler: str, there: Sequence[int]) -> None:
        self._compiler = compiler
        self._free: SimpleQueue[int] = SimpleQueue()
        for processor in there:
            self._free.put(processor)
        self.workers = len(there)
        self._pool = ThreadPoolExecutor(len(there), initializer=self._begin)

    def __enter__(self) -> _Bench:
        self._folder = TemporaryDirectory(prefix="simkit-elf-bursts-")
        self._numbers = count()
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def _begin(self) -> None:
        pin(self._free.get())

    def each(
        self, work: Callable[[T], Any], things: Iterable[tuple[int, T]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number, result) of numbered things, as they are done; few wait at a time."""
        waiting: dict[Future[Any], int] = {}
        left = iter(things)
        while True:
            for number, thing in islice(left, 2 * self.workers - len(waiting)):
                waiting[self._pool.submit(work, thing)] = number
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()

    @contextmanager
    def compiled(self, program: Program) -> Iterator[Path]:
        """Yield the path of the program's file."""
        path = Path(self._folder.name) / f"{program.kind}-{next(self._numbers)}"
        try:
            program.compile(self._compiler, path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def time_of(self, program: Program, runs: int = RUNS) -> float | None:
        """Return the smallest of some run times in seconds; None: it takes too long."""
        with self.compiled(program) as path:
            times = run_time_s(path, LONGEST_S, runs)
        return None if times is None else min(times)

    def row_of(self, program: Program) -> dict[str, Any] | None:
        """Return signature and run times of a program; None: it takes too long."""
        with self.compiled(program) as path:
            times = run_time_s(path, LONGEST_S, RUNS)
            if times is None or min(times) >= LONGEST_S:
                return None
            return {"signature": read_signature(path), "times": times}


def _measure_rows(
    bench: _Bench, kept: Measurements, wanted: Iterator[Wanted], rows: int,
    progress: Progress | None,
) -> list[Program]:  # fmt: skip
    """Measure until enough rows are there; return the programs, those left out among them."""
    programs: list[Program] = []
    used: set[Program] = set()
    while True:
        done = sum(kept.rows[number] is not None for number in range(len(programs)))
        if done == rows:
            return programs
        more = list(islice(wanted, rows - done))
        for _ in _measure_curves(bench, kept, more):
            if progress is not None:
                progress(done, rows)
        curves = {name: RunTimes.of(*curve) for name, curve in kept.curves.items()}
        first = len(programs)
        programs += sized(more, curves, used)
        numbers = range(first, len(programs))
        done += sum(kept.rows.get(number) is not None for number in numbers)
        todo = [(number, programs[number]) for number in numbers if number not in kept.rows]
        for number, row in bench.each(bench.row_of, todo):
            kept.add_row(number, row)
            done += row is not None
            if progress is not None:
                progress(done, rows)


def _measure_curves(bench: _Bench, kept: Measurements, wanted: Sequence[Wanted]) -> Iterator[None]:
    """Measure the run times by size that are missing for some wanted programs, one at a step."""

    def curve(of: Wanted) -> RunTimes:
        def measure(size: int) -> float:
            program = Program(of.kind, of.level, heap=False, size=size)
            found = bench.time_of(program, _CURVE_RUNS)
            return np.inf if found is None else found

        return RunTimes.measured(measure, LONGEST_S)

    missing = list({each.curve: each for each in wanted if each.curve not in kept.curves}.values())
    for number, found in bench.each(curve, enumerate(missing)):
        kept.add_curve(missing[number].curve, found.size.tolist(), found.time_s.tolist())
        yield


def _measure_again(bench: _Bench, kept: Measurements, programs: Sequence[Program]) -> None:
    """Measure some rows a second time."""
    todo = [
        (number, programs[number])
        for number in range(0, len(programs), _AGAIN_EVERY)
        if kept.rows[number] is not None and number not in kept.again
    ]
    for number, run_s in bench.each(bench.time_of, todo):
        kept.add_again(number, run_s)


def _machine() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

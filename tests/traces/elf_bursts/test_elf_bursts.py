"""Programs that are compiled and measured: plan, signature, run times, and going on after a stop."""

from __future__ import annotations

import shutil
import subprocess
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from simkit.cli import app
from simkit.errors import TraceError
from simkit.traces import elf_bursts
from simkit.traces.elf_bursts import (
    SIGNATURE,
    bursts_table,
    generate_elf_bursts,
    measurements,
    noise_of,
    read_bursts,
)
from simkit.traces.elf_bursts.measurements import (
    KINDS,
    LEVELS,
    SECTIONS,
    Measurements,
    Program,
    RunTimes,
    find_compiler,
    read_signature,
    run_time_s,
)

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


# --- sizes and plan -------------------------------------------------------------------------------


@given(
    power=st.floats(1.0, 3.0), wanted=st.floats(0.004, 0.3), start_s=st.sampled_from([0.0, 0.001])
)
def test_sizes_for_run_times_of_a_power_law(power, wanted, start_s):
    def measure(size: int) -> float:
        time_s = start_s + 0.1 * (size / 10_000.0) ** power
        return time_s if time_s < 1.0 else np.inf

    curve = RunTimes.measured(measure, 0.3)
    assert curve.time_s[-1] > 0.3
    size = curve.size_for(wanted)
    nearest = min(abs(measure(other) - wanted) for other in (size - 1, size, size + 1))
    off = 0.06 if wanted > 0.02 else 0.25  # steps are long where starting takes much of the time
    assert nearest <= off * wanted + measure(size + 1) - measure(size)


def test_a_step_that_takes_too_long_is_made_smaller():
    tried: list[int] = []

    def measure(size: int) -> float:
        tried.append(size)
        return 1e-4 if size < 100 else 0.02 if size < 150 else np.inf

    curve = RunTimes.measured(measure, 0.01)
    assert curve.size.tolist() == [64, 128]
    assert tried == [64, 192, 128]


def test_a_program_that_never_ends_in_time_is_refused():
    with pytest.raises(TraceError, match="takes too long"):
        RunTimes.measured(lambda size: np.inf, 0.01)
    with pytest.raises(TraceError, match="takes too long"):
        RunTimes.measured(lambda size: 1e-4 if size < 100 else np.inf, 0.01)


def curves(kinds: tuple[str, ...]) -> dict[str, RunTimes]:
    found = RunTimes.of([64, 640, 6400], [0.001, 0.01, 0.4])
    return {f"{kind} {level}": found for kind in kinds for level in LEVELS}


def test_the_plan_takes_kinds_in_turn_and_no_program_twice():
    kinds = ("quicksort", "sieve", "heat")
    wanted = list(islice(measurements.drawn(kinds, np.random.default_rng(1)), 3000))
    programs = measurements.sized(wanted, curves(kinds), set())
    assert [program.kind for program in programs[:6]] == [*kinds, *kinds]
    assert len(set(programs)) == 3000
    assert np.mean([program.heap for program in programs]) == pytest.approx(0.15, abs=0.02)
    again = list(islice(measurements.drawn(kinds, np.random.default_rng(1)), 50))
    used: set[Program] = set()
    both = measurements.sized(again[:20], curves(kinds), used) + measurements.sized(
        again[20:], curves(kinds), used
    )
    assert both == programs[:50]
    sizes = np.array([program.size for program in programs])
    curve = curves(kinds)["heat O0"]
    wanted = np.interp(np.log(sizes), np.log(curve.size), np.log(curve.time_s))
    shares = np.histogram(np.exp(wanted), 10, (0.0, 0.3))[0] / 3000
    assert shares == pytest.approx(0.1, abs=0.03)  # run times are spread evenly


# --- one program ----------------------------------------------------------------------------------


def built(folder: Path, program: Program) -> Path:
    path = folder / f"{program.kind}-{program.level}-{program.heap}-{program.size}"
    program.compile(find_compiler(), path)
    return path


@pytest.mark.sampled
@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_where_its_arrays_are_changes_nothing_but_the_sections(kind, tmp_path):
    paths = [
        built(tmp_path, Program(kind, level, heap, 200))
        for level, heap in (("O3", False), ("O0", True))
    ]
    # Rounding may differ between levels, in digits that are not printed.
    one, other = (subprocess.run([p], capture_output=True, check=True).stdout for p in paths)
    assert one == other
    static, on_heap = (read_signature(path)["bss"] for path in paths)
    assert static > on_heap


@needs_compiler
def test_the_signature_is_what_size_prints(tmp_path):
    path = built(tmp_path, Program("fourier", "O2", heap=False, size=100))
    if shutil.which("size") is None:
        pytest.skip("needs size, of GNU binutils")
    printed = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True)
    words = [line.split() for line in printed.stdout.splitlines()]
    expected = {w[0].removeprefix("."): int(w[1]) for w in words if len(w) == 3 and w[1].isdigit()}
    found = read_signature(path)
    assert {name: found[name] for name in expected if name in SECTIONS} == {
        name: size for name, size in expected.items() if name in SECTIONS
    }
    assert found["symtab"] > 0  # not loaded, so that `size` leaves it out
    assert found["file_size"] == path.stat().st_size


def test_what_is_no_elf_file_is_refused(tmp_path):
    (tmp_path / "notes").write_text("nothing")
    with pytest.raises(TraceError, match="notes: is not an ELF file"):
        read_signature(tmp_path / "notes")


@needs_compiler
def test_run_times_and_programs_that_take_too_long(tmp_path):
    short = built(tmp_path, Program("collatz", "O2", heap=False, size=100_000))
    long = built(tmp_path, Program("collatz", "O2", heap=False, size=400_000))
    times = [run_time_s(path, 0.3, 3) for path in (short, long)]
    assert [len(found) for found in times if found is not None] == [3, 3]
    ratio = min(times[1] or []) / min(times[0] or [])
    assert 2.5 < ratio < 8.0  # in between 4 and some more, as sequences become longer
    (tmp_path / "endless.cpp").write_text("volatile int x; int main() { while (true) x = 1; }")
    endless = tmp_path / "endless"
    subprocess.run(["g++", tmp_path / "endless.cpp", "-o", endless], check=True)
    assert run_time_s(endless, 0.3, 3) is None
    (tmp_path / "fails.cpp").write_text("int main() { return 3; }")
    subprocess.run(["g++", tmp_path / "fails.cpp", "-o", tmp_path / "fails"], check=True)
    with pytest.raises(TraceError, match="fails failed with exit status 3"):
        run_time_s(tmp_path / "fails", 0.3, 1)


def test_compilers_that_are_missing_or_refuse(tmp_path, monkeypatch):
    with pytest.raises(TraceError, match=r"cannot compile sieve of size 9: "):
        Program("sieve", "O2", heap=False, size=9).compile("false", tmp_path / "x")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceError, match=r"g\+\+ is not on the PATH"):
        generate_elf_bursts(tmp_path / "data", rows=1)


# --- the table ------------------------------------------------------------------------------------


def measured(folder: Path, times: list[list[float] | None]) -> Measurements:
    kept = Measurements.in_folder(folder, {"seed": 0})
    for number, runs in enumerate(times):
        row = None if runs is None else {"signature": dict.fromkeys(SIGNATURE, 8), "times": runs}
        kept.add_row(number, row)
    return kept


def test_the_table_and_its_noise(tmp_path):
    kept = measured(
        tmp_path, [[0.05, 0.04, 0.07], None, [0.2, 0.2, 0.2], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]
    )
    kept.add_again(0, 0.044)
    kept.add_again(2, 0.22)
    programs = [Program("heat", "O2", heap=False, size=size) for size in range(5)]
    table = bursts_table(programs, kept, rows=3)
    assert table["size"].to_list() == [0, 2, 3]
    assert table["run_time_s"].to_list() == [0.04, 0.2, 0.1]
    assert table["class"].to_list() == [1, 6, 3]
    noise = noise_of(table)
    assert noise.sigma == pytest.approx(np.log(1.1) / np.sqrt(2.0))
    assert (noise.flips, noise.single_flips, noise.pairs) == (0.5, 0.0, 2)
    assert np.isnan(noise_of(table.with_columns(again_s=pl.lit(None, pl.Float64))).sigma)


def test_tables_are_read_again(tmp_path):
    kept = measured(tmp_path, [[0.05, 0.04, 0.07]])
    table = bursts_table([Program("heat", "O2", heap=False, size=3)], kept, rows=1)
    table.write_parquet(tmp_path / "bursts.parquet")
    assert read_bursts(tmp_path / "bursts.parquet").equals(table)
    table.drop("bss", "text").write_parquet(tmp_path / "other.parquet")
    with pytest.raises(TraceError, match=r"other.parquet: has no column text, bss;"):
        read_bursts(tmp_path / "other.parquet")
    (tmp_path / "notes.txt").write_text("nothing")
    for name in ("absent.parquet", "notes.txt"):
        with pytest.raises(TraceError, match=f"{name}: cannot be read as a Parquet file: "):
            read_bursts(tmp_path / name)


# --- going on -------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make programs that run for hundredths of a second, at one level."""
    for module in (elf_bursts, measurements):
        monkeypatch.setattr(module, "LONGEST_S", 0.02)
    monkeypatch.setattr(measurements, "LEVELS", ("O2",))
    monkeypatch.setattr(elf_bursts, "_AGAIN_EVERY", 4)


@pytest.mark.thorough
@needs_compiler
def test_a_stopped_command_goes_on(quick, tmp_path):
    folder, kinds = tmp_path / "data", ("fibonacci", "quicksort")

    def stop(done: int, _steps: int) -> None:
        if done == 0:  # another command meanwhile
            with pytest.raises(TraceError, match="data: another process measures there"):
                generate_elf_bursts(folder, rows=9, kinds=kinds, workers=1)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_elf_bursts(folder, rows=9, kinds=kinds, workers=1, progress=stop)
    assert not (folder / "bursts.parquet").exists()
    log = folder / "measured.jsonl"
    kept = log.read_text()
    log.write_text(kept + '{"row": 99, "fou')  # as if it was cut off
    steps: list[tuple[int, int]] = []
    path = generate_elf_bursts(
        folder, rows=9, kinds=kinds, workers=1, progress=lambda *step: steps.append(step)
    )
    assert log.read_text().startswith(kept)
    assert steps[0][0] >= 4  # the next row may have been left out
    assert steps[-1] == (9, 9)
    table = pl.read_parquet(path)
    assert table.height == 9
    assert table["run_time_s"].max() < 0.02  # type: ignore[operator]
    assert (
        table.select(pl.min_horizontal("run_1_s", "run_2_s", "run_3_s"))
        .to_series()
        .equals(table["run_time_s"])
    )
    assert table["again_s"].null_count() < 9
    card = (folder / "README.md").read_text()
    assert "9 C++ programs of 2 kinds" in card
    assert "simkit trace generate elf-bursts data --jobs 9 --seed 0" in card

    longer = pl.read_parquet(generate_elf_bursts(folder, rows=11, kinds=kinds, workers=1))
    same = [name for name in table.columns if name != "again_s"]
    assert longer[:9].select(same).equals(table.select(same))

    with pytest.raises(TraceError, match=r"seed is 0 there, but 1 now"):
        generate_elf_bursts(folder, rows=9, kinds=kinds, workers=1, seed=1)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"form": 1}\nnonsense\n', "measured.jsonl, line 2"),
        (b'{"form": 1}\n{"row": 0}\n', "measured.jsonl, line 2"),
        (b"\xff\xfe", "measured.jsonl, line 1"),
        (None, "README.md"),
    ],
)
def test_files_that_are_no_measurements(tmp_path, content, place):
    (tmp_path / "README.md").write_text("precious")
    if content is not None:
        (tmp_path / "measured.jsonl").write_bytes(content)
    with pytest.raises(TraceError, match=place):
        Measurements.in_folder(tmp_path, {})
    assert (tmp_path / "README.md").read_text() == "precious"


def test_places_for_measurements(tmp_path):
    (tmp_path / "measured.jsonl").write_text("")
    assert Measurements.in_folder(tmp_path, {"seed": 3}).rows == {}
    with pytest.raises(TraceError, match="measured.jsonl: cannot be used"):
        Measurements.in_folder(tmp_path / "measured.jsonl", {})


@needs_compiler
def test_wrong_arguments(tmp_path):
    with pytest.raises(TraceError, match=r"no program is called 'sive'.*sieve"):
        generate_elf_bursts(tmp_path, rows=1, kinds=("sive",))
    with pytest.raises(TraceError, match="no kinds of programs"):
        generate_elf_bursts(tmp_path, rows=1, kinds=())
    most = len(measurements.processors())
    with pytest.raises(TraceError, match=f"--workers is {most + 1}, but there are {most}"):
        generate_elf_bursts(tmp_path, rows=1, workers=most + 1)
    found = CliRunner().invoke(app, ["trace", "generate", "elf-bursts", "x", "--load", "0.5"])
    assert found.exit_code == 2
    assert "elf-bursts has no --load" in found.output.replace("\n", " ")

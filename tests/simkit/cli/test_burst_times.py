"""`simkit burst-times`: fits a predictor, asks it of executables, and refuses what is none."""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("elftools")

from simkit.traces.elf_bursts import read_bursts
from simkit.traces.elf_bursts.measurements import Program, find_compiler

if sys.platform != "linux":
    pytest.skip("needs executables in ELF", allow_module_level=True)

PYTHON = Path(sys.executable).resolve()


@pytest.fixture
def few(tmp_path):
    """Return the path of a table of three kinds of programs."""
    kinds = ("quicksort", "sieve", "fibonacci")
    read_bursts().filter(pl.col("kind").is_in(kinds)).write_parquet(tmp_path / "few.parquet")
    return tmp_path / "few.parquet"


def test_fit_and_predict(simkit, few):
    done = simkit("burst-times", "fit", few, "--output", "model")
    rows = read_bursts(few).height
    assert done.code == 0, done.err
    assert f"model written: local-power-law, fitted to {rows} programs of 3 kinds" in done.out
    scores = re.findall(r"^(at random|by size) +(0\.\d{3}) +(0\.\d{3})$", done.out, re.MULTILINE)
    assert [float(static) > float(heap) for _, static, heap in scores] == [True, True]
    done = simkit("burst-times", "predict", "model", PYTHON)
    assert done.code == 0, done.err
    (row,) = [line for line in done.out.splitlines() if line.startswith(f"{PYTHON}  ")]
    assert row.split()[-1] == "no"
    assert f"{PYTHON} is unlike every program" in done.out


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_program_of_a_known_kind(simkit, tmp_path):
    """By a compiler that makes other code, the program is unlike the sample's, and said to be."""
    assert simkit("burst-times", "fit", "-o", "model").code == 0
    Program("fibonacci", "O2", heap=False, size=74_703).compile(find_compiler(), tmp_path / "fib")
    (row,) = re.findall(r"^fib +.*$", simkit("burst-times", "predict", "model", "fib").out, re.M)
    _, time_s, _, _, *_, like = row.split()
    same = read_bursts().filter(kind="fibonacci", level="O2", heap=False).sort("size")
    expected = np.interp(74_703, same["size"].to_numpy(), same["run_time_s"].to_numpy())
    assert like == "no" or float(time_s) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("model", ["trees", "network"])
def test_other_models(model, simkit, few, monkeypatch):
    torch = pytest.importorskip("torch")
    assert torch
    from simkit.learners.run_times import boosted_trees, burst_classifier

    brief = burst_classifier.Settings((8,), passes=2)
    fit = partial(burst_classifier.BurstClassifier.fitted, settings=brief)
    monkeypatch.setattr(burst_classifier.BurstClassifier, "fitted", fit)
    monkeypatch.setitem(boosted_trees.TREES, "n_estimators", 10)
    assert simkit("burst-times", "fit", few, "-o", "model", "-m", model).code == 0
    done = simkit("burst-times", "predict", "model", PYTHON)
    assert done.code == 0, done.err
    (row,) = [line for line in done.out.splitlines() if line.startswith(f"{PYTHON}  ")]
    assert ("%" in row) == (model == "network")  # trees have no probabilities


# --- what is refused ------------------------------------------------------------------------------


def test_tables_that_cannot_be_fitted_to(simkit, few):
    done = simkit("burst-times", "fit", "nowhere.parquet", "-o", "model")
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "nowhere.parquet: cannot be read as a Parquet file: No such file" in done.err
    read_bursts(few).head(50).write_parquet("small.parquet")
    done = simkit("burst-times", "fit", "small.parquet", "-o", "model")
    assert done.code == 2
    assert re.search(r"small.parquet: has \d+ programs .* needs 100; measure more", done.err)
    assert not Path("model").exists()


def test_files_that_are_no_executables(simkit, few):
    assert simkit("burst-times", "fit", few, "-o", "model").code == 0
    Path("text").write_text("#!/bin/sh\n", encoding="utf-8")
    Path("cut").write_bytes(PYTHON.read_bytes()[:5000])
    for name, says in (
        ("text", "text: is not an ELF file"),
        ("cut", "cut: "),
        ("nowhere", "nowhere: cannot be read: No such file or directory; name an executable"),
        (".", ".: cannot be read: Is a directory"),
    ):
        done = simkit("burst-times", "predict", "model", PYTHON, name)
        assert done.code == 3, name
        assert done.err.startswith(says)
        assert done.out == ""


def test_folders_that_are_no_predictors(simkit, few):
    done = simkit("burst-times", "predict", "nowhere", PYTHON)
    assert done.code == 2
    assert "nowhere: `simkit burst-times fit` writes a predictor of burst times" in done.err
    assert simkit("burst-times", "fit", few, "-o", "model").code == 0
    Path("model/weights.safetensors").write_bytes(b"no weights")
    done = simkit("burst-times", "predict", "model", PYTHON)
    assert done.code == 2
    assert "its sha256 differs" in done.err


def test_a_missing_library_is_named(simkit, few, monkeypatch):
    monkeypatch.setattr("simkit.learners.run_times.burst_models.find_spec", lambda name: None)
    done = simkit("burst-times", "fit", few, "-o", "model", "-m", "trees")
    assert done.code == 2
    assert (
        "needs scikit-learn, which is not installed; pip install 'simkit-cluster[learn]'"
        in done.err
    )

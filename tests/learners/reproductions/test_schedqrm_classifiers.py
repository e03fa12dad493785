"""The part of `simkit reproduce schedqrm` about burst times, as small as it can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from trainings import workplace

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from simkit.learners.reproductions.schedqrm.classifiers import (
    HEAP,
    KIND,
    LAW,
    MODELS,
    NETWORK,
    PAPER,
    RANDOM,
    SIZE,
    SPLITS,
    ClassifierSetting,
    Fit,
    Judged,
    fits,
    judge_classifiers,
    parts,
)
from simkit.learners.reproductions.schedqrm.classifiers_page import PUBLISHED_F1, bar_of
from simkit.learners.run_times.burst_classifier import Settings
from simkit.traces.elf_bursts import read_bursts
from simkit.training import Workplace

SMALL = ClassifierSetting(
    {RANDOM: 2, SIZE: 1, KIND: 2, HEAP: 1}, (0.5,), 200,
    published=Settings((8,), passes=2),
    tuned=Settings((8,), logarithms=True, learning_rate=1e-2, falls=True, passes=3),
    trees={"n_estimators": 5},
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, list[str], Judged]:
    """Return the workplace, what it said, and what was judged."""
    said: list[str] = []
    place = workplace(tmp_path_factory.mktemp("schedqrm"), said)
    return place, said, judge_classifiers(place, read_bursts(), SMALL)


# --- the fits -------------------------------------------------------------------------------------


def test_every_model_answers_whatever_is_held_out(made):
    _, said, judged = made
    assert len(said) == len(list(fits(SMALL)))
    for split in SPLITS:
        for model in MODELS:
            scores = judged.scores(split, model)
            assert len(scores) == SMALL.seeds[split]
            for seed, one in enumerate(scores):
                held_out = parts(judged.table, split, seed)[1]
                assert one.examples.sum() == held_out.sum()
                assert 0.0 <= one.macro_f1 <= 1.0
    assert judged.macro_f1(RANDOM, LAW, 0.5).shape == (2,)
    assert judged.losses.filter(model=PAPER, split=RANDOM, seed=0)["pass"].to_list() == [1, 2]
    assert judged.losses.filter(model=NETWORK, share=1.0, split=KIND).height == 2 * 3
    assert judged.calibration(RANDOM, "boosted trees") is None


def test_a_stopped_command_does_only_what_is_missing(made):
    place, said, judged = made
    said.clear()
    lost = Fit(SIZE, 0, LAW)
    (path,) = place.work.glob(f"*/{lost.name}.parquet")
    path.unlink()
    again = judge_classifiers(place, read_bursts(), SMALL)
    assert said == [f"fitted {lost.name}"]
    assert again.answers.equals(judged.answers)
    other = read_bursts().with_columns(run_time_s=pl.col("run_time_s") * 0.999)
    few = replace(SMALL, seeds=dict.fromkeys(SPLITS, 1), shares=(), most_rows=150)
    judge_classifiers(place, other, few)
    assert len(list(place.work.iterdir())) == 2  # nothing of another table is taken for this one's


@pytest.mark.parametrize("split", SPLITS)
def test_nothing_that_is_asked_about_was_learned_from(split):
    table = read_bursts()
    for seed in range(2):
        learn, ask = parts(table, split, seed)
        assert not (learn & ask).any()
        heap = table["heap"].to_numpy()
        assert heap[ask].all() if split == HEAP else not heap[learn | ask].any()
        if split == KIND:
            kind = table["kind"].to_numpy()
            assert not set(kind[learn]) & set(kind[ask])
        elif split != HEAP:
            assert ask.sum() / (learn | ask).sum() == pytest.approx(0.3, abs=0.03)
    assert not np.array_equal(parts(table, split, 0)[1], parts(table, split, 1)[1])


# --- the page -------------------------------------------------------------------------------------


def test_the_bar_follows_from_the_noise():
    quiet, noisy = bar_of(0.004), bar_of(0.02)
    assert bar_of(float("nan")) is None
    assert quiet is not None
    assert noisy is not None
    assert (quiet.least, noisy.least) == (PUBLISHED_F1, pytest.approx(1 - 0.072 - 0.04))

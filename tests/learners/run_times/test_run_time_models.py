"""Models of run times: what they learn, on data whose answer is known, and how they are scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import precision_recall_fscore_support

from simkit.learners.run_times.boosted_trees import BoostedTrees
from simkit.learners.run_times.burst_classifier import BurstClassifier, Settings
from simkit.learners.run_times.examples import (
    Examples,
    by_group,
    by_size,
    class_scores,
    of_programs,
    random_rows,
)
from simkit.learners.run_times.local_power_law import LocalPowerLaw
from simkit.traces.elf_bursts import SIGNATURE, burst_class, read_bursts

EDGES = np.arange(1, 10) * 0.03


def power_laws(seed: int, count: int = 1500) -> Examples:
    """Return programs of three kinds whose run times are power laws of their arrays."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, count)
    power, code = np.array([1.0, 2.0, 3.0])[kind], np.array([500.0, 900.0, 640.0])[kind]
    run_time_s = rng.uniform(0.003, 0.3, count)
    arrays = np.round(1e6 * run_time_s ** (1.0 / power))
    return Examples(("text", "bss"), np.column_stack((code, arrays)), run_time_s, EDGES)


# --- examples -------------------------------------------------------------------------------------


def test_classes_are_those_of_the_table():
    table = read_bursts()
    examples = of_programs(table)
    assert examples.names == SIGNATURE
    assert examples.label.tolist() == table["class"].to_list()
    times = np.array([0.0, 0.0299, 0.0301, 0.2999, 0.5])
    assert examples.class_of(times).tolist() == [burst_class(t) for t in times]


@given(seed=st.integers(0, 1000))
def test_balanced_examples_are_some_of_them(seed):
    rng = np.random.default_rng(seed)
    times = rng.uniform(0.0, 0.3, 300) ** 1.5
    examples = Examples(("x",), np.arange(300.0)[:, None], times, EDGES[:4])
    balanced = examples.balanced(rng)
    counts = np.bincount(balanced.label, minlength=5)
    assert counts.tolist() == [np.bincount(examples.label, minlength=5).min()] * 5
    rows = balanced.features[:, 0].astype(int)
    assert len(set(rows.tolist())) == len(rows)
    assert balanced.run_time_s.tolist() == times[rows].tolist()


@given(seed=st.integers(0, 1000), share=st.floats(0.1, 0.9))
def test_rows_that_are_held_out(seed, share):
    rng = np.random.default_rng(seed)
    kind, size = rng.choice(list("abcdef"), 240), rng.integers(1, 50, 240)
    assert random_rows(240, share, rng).sum() == round(share * 240)
    groups = by_group(kind.tolist(), share, rng)
    assert len(set(kind[groups]) & set(kind[~groups])) == 0
    assert len(set(kind[groups])) == min(max(1, round(share * 6)), 5)
    ranges = by_size(kind.tolist(), size, share, rng)
    for each in set(kind):
        out, kept = size[ranges & (kind == each)], size[~ranges & (kind == each)]
        assert len(out) == round(share * (len(out) + len(kept)))
        if len(out):
            assert not ((kept > out.min()) & (kept < out.max())).any()


# --- models ---------------------------------------------------------------------------------------


def halves(examples: Examples) -> tuple[Examples, Examples]:
    out = random_rows(len(examples), 0.3, np.random.default_rng(7))
    return examples.take(~out), examples.take(out)


def test_too_few_examples_are_refused():
    with pytest.raises(ValueError, match="a class has no examples"):
        power_laws(1, 3).balanced(np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least two groups"):
        by_group(["a", "a"], 0.5, np.random.default_rng(0))


def test_where_all_neighbours_are_of_one_size_twice_takes_twice_as_long():
    features = np.array([[1.0, 1000.0]] * 6)
    law = LocalPowerLaw.fitted(Examples(("text", "bss"), features, np.full(6, 0.1), EDGES))
    assert law.run_time_s(np.array([[1.0, 2001.0]])) == pytest.approx([0.2], rel=1e-3)


def test_a_local_power_law_knows_power_laws():
    fit, asked = halves(power_laws(1))
    found = LocalPowerLaw.fitted(fit).run_time_s(asked.features)
    assert found == pytest.approx(asked.run_time_s, rel=0.04)


def test_trees_are_those_of_scikit_learn():
    fit, asked = halves(power_laws(2))
    trees = BoostedTrees.fitted(fit, np.random.default_rng(3), n_estimators=30)
    seed = int(np.random.default_rng(3).integers(2**31))
    model = GradientBoostingRegressor(
        n_estimators=30, learning_rate=0.1, max_depth=8, subsample=0.5, max_features=0.5,
        min_samples_leaf=3, random_state=seed,
    ).fit(fit.features, np.log(fit.run_time_s))  # fmt: skip
    expected = np.exp(model.predict(asked.features))
    assert trees.run_time_s(asked.features) == pytest.approx(expected, rel=1e-12)


def test_the_network_learns_and_repeats_itself():
    fit, asked = halves(power_laws(4))
    settings = Settings((64,), logarithms=True, learning_rate=1e-2, falls=True, passes=60)
    trained = BurstClassifier.fitted(fit, np.random.default_rng(5), settings)
    assert trained.probabilities(asked.features).sum(axis=1) == pytest.approx(1.0)
    found = class_scores(
        asked.label, trained.probabilities(asked.features).argmax(axis=1), 10
    ).macro_f1
    untrained = BurstClassifier.fitted(fit, np.random.default_rng(5), Settings((64,), passes=0))
    assert found > 0.8
    assert (
        class_scores(
            asked.label, untrained.probabilities(asked.features).argmax(axis=1), 10
        ).macro_f1
        < 0.2
    )
    short = replace(settings, passes=2)
    one, again, other = (
        BurstClassifier.fitted(fit, np.random.default_rng(seed), short).probabilities(
            asked.features
        )
        for seed in (5, 5, 6)
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_feature_that_never_changes_is_no_trouble():
    examples = power_laws(5, 200)
    features = np.column_stack((examples.features, np.full(200, 28.0)))
    same = Examples((*examples.names, "interp"), features, examples.run_time_s, EDGES)
    trained = BurstClassifier.fitted(same, np.random.default_rng(0), Settings((8,), passes=1))
    assert np.isfinite(trained.probabilities(features)).all()


# --- scores ---------------------------------------------------------------------------------------


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60))
def test_scores_are_those_of_scikit_learn(pairs):
    truth, predicted = np.array(pairs).T
    found = class_scores(truth, predicted, 5)
    expected = precision_recall_fscore_support(truth, predicted, labels=range(5), zero_division=0.0)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other)
    assert found.macro_f1 == pytest.approx(expected[2].mean())


def test_the_sample_can_be_learned():
    examples = of_programs(read_bursts().filter(~pl.col("heap")))
    fit, asked = halves(examples)
    law = class_scores(
        asked.label, asked.class_of(LocalPowerLaw.fitted(fit).run_time_s(asked.features)), 10
    )
    assert law.macro_f1 > 0.7

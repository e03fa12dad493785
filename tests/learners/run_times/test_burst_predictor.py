"""A predictor of burst times: what is read from a bundle says what was written, or is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("safetensors")

from simkit.errors import PluginError, RunError
from simkit.learners.common.bundle import read_bundle, write_bundle
from simkit.learners.run_times import boosted_trees, burst_classifier
from simkit.learners.run_times.burst_models import Nearest
from simkit.learners.run_times.burst_predictor import MODELS, BurstPredictor, ModelName
from simkit.learners.run_times.examples import Examples, of_programs
from simkit.learners.run_times.local_power_law import LocalPowerLaw
from simkit.traces.elf_bursts import read_bursts


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make models small; what is tested does not depend on how good they are."""
    monkeypatch.setitem(boosted_trees.TREES, "n_estimators", 20)
    settings = burst_classifier.Settings((16,), logarithms=True, learning_rate=1e-2, passes=5)
    fit = partial(burst_classifier.BurstClassifier.fitted, settings=settings)
    monkeypatch.setattr(burst_classifier.BurstClassifier, "fitted", fit)


def sample(kinds: tuple[str, ...] = ("quicksort", "heat", "sieve")) -> Examples:
    return of_programs(read_bursts().filter(~pl.col("heap"), pl.col("kind").is_in(kinds)))


def fitted(model: ModelName) -> BurstPredictor:
    return BurstPredictor.fit(sample(), np.random.default_rng(1), model)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_read_says_what_was_written(model, tmp_path):
    predictor, asked = fitted(model), sample(("quicksort", "fourier")).features
    predictor.save(tmp_path / "bundle", {"learner": "burst-times"})
    again = BurstPredictor.load(tmp_path / "bundle")
    assert (again.name, again.names, again.limit) == (model, predictor.names, predictor.limit)
    one, other = predictor.predict(asked), again.predict(asked)
    for name in ("run_time_s", "label", "distance", "unlike", "probabilities"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    again.save(tmp_path / "copy")
    weights = [read_bundle(tmp_path / name).weights for name in ("bundle", "copy")]
    assert weights[0].keys() == weights[1].keys()


@pytest.mark.parametrize("model", MODELS)
def test_probabilities_are_of_the_classes(model):
    found = fitted(model).predict(sample().features)
    if found.probabilities is None:
        assert model == "trees"
        assert found.label.tolist() == sample().class_of(found.run_time_s).tolist()
    else:
        assert found.probabilities.shape == (len(sample()), 10)
        assert found.probabilities.sum(axis=1) == pytest.approx(1.0)
        assert (found.probabilities > 0).all()
        assert found.label.tolist() == found.probabilities.argmax(axis=1).tolist()


def test_a_program_of_another_kind_is_unlike_the_others():
    predictor = fitted("local-power-law")
    assert predictor.predict(sample().features).unlike.mean() == 0.0  # each is itself an example
    assert predictor.predict(sample(("fourier",)).features).unlike.all()


# --- what is refused ------------------------------------------------------------------------------


def test_too_few_programs():
    with pytest.raises(RunError, match="there are 9 programs .* needs 10; measure more"):
        BurstPredictor.fit(sample().take(np.arange(9)), np.random.default_rng(0))


@pytest.mark.parametrize("model", ["trees", "network"])
def test_a_library_is_missing(model, monkeypatch):
    monkeypatch.setattr("simkit.learners.run_times.burst_models.find_spec", lambda name: None)
    with pytest.raises(
        PluginError, match=rf"{model} needs .*pip install 'simkit-cluster\[learn\]'"
    ):
        fitted(model)


def test_no_bundle(tmp_path):
    with pytest.raises(RunError, match=r"cannot be read(.|\n)*`simkit burst-times fit` writes"):
        BurstPredictor.load(tmp_path / "nowhere")


def test_the_bundle_of_an_agent(tmp_path):
    parts: dict[str, Any] = {
        "architecture": {"type": "perceptron"},
        "observation": {},
        "actions": {},
    }
    write_bundle(tmp_path, {}, parts)
    with pytest.raises(RunError, match="of type perceptron, not of burst times"):
        BurstPredictor.load(tmp_path)


WRONG: list[tuple[ModelName, str, Any, str]] = [
    # model, part, its value (None: left out), what is named
    ("local-power-law", "log_time", None, "log_time"),
    ("local-power-law", "left_out", np.zeros((3, 8)), "left_out"),
    ("local-power-law", "examples", np.zeros((5, 2)), "examples"),
    ("local-power-law", "architecture.neighbours", [4, 6, 8, 12, 16, 24, 32, 10**6], "neighbours"),
    ("local-power-law", "observation.by", "size", "feature"),
    ("local-power-law", "actions.edges_s", [0.2, 0.1], "edges_s"),
    ("network", "actions.edges_s", [], "edges_s"),
    ("local-power-law", "limit", None, "limit"),
    ("trees", "left", 0.0, "left"),  # back to the root: an endless path
    ("trees", "feature", 28.0, "feature"),
    ("trees", "value", None, "value"),
    ("network", "layers.0.weight", np.zeros((28, 3)), "layers.0.weight"),
    ("network", "scale", 0.0, "scale"),
    ("network", "architecture.layers", [28, 16, 9], "layers"),
]


@pytest.mark.parametrize(("model", "part", "value", "message"), WRONG)
def test_parts_that_do_not_fit(model, part, value, message, tmp_path):
    """Whoever writes the hashes anew is still told what is wrong."""
    fitted(model).save(tmp_path)
    bundle = read_bundle(tmp_path)
    weights, told = dict(bundle.weights), json.loads(json.dumps(bundle.description))
    if part in weights:
        old = weights.pop(part)
        if value is not None:
            full = np.full(old.shape, value) if isinstance(value, float) else value
            weights[part] = full.astype(np.float32)
    else:
        *above, last = part.split(".")
        place = told[above[0]] if above else told
        if value is None:
            del place[last]
        else:
            place[last] = value
    write_bundle(tmp_path, weights, {k: v for k, v in told.items() if k != "sha256"})
    with pytest.raises(RunError, match=message):
        BurstPredictor.load(tmp_path)


# --- the local power law --------------------------------------------------------------------------


def test_the_nearest_of_an_example_is_another():
    features = np.array([[7.0, 8.0], [7.0, 16.0], [7.0, 64.0], [7.0, 64.0]])
    nearest = Nearest.of(Examples(("text", "bss"), features, np.ones(4), np.array([0.5])))
    distance, near = nearest.others(1)
    assert near[:, 0].tolist() == [1, 0, 3, 2]
    assert distance[:, 0] == pytest.approx([np.log2(17 / 9), np.log2(17 / 9), 0.0, 0.0])


def test_noisy_times_take_more_neighbours_than_times_that_jump():
    rng = np.random.default_rng(0)
    size = np.sort(rng.uniform(1e4, 1e6, 400))
    features = np.column_stack((np.full(400, 500.0), size))
    smooth = 1e-7 * size * np.exp(rng.normal(0.0, 0.05, 400))
    jumps = 1e-7 * size * np.where(np.arange(400) // 10 % 2, 1.0, 2.0)
    asked = features[50:350:3] * [1.0, 1.0001]

    def off(run_time_s: Any, truth: Any, numbers: tuple[int, ...]) -> float:
        law = LocalPowerLaw.fitted(
            Examples(("text", "bss"), features, run_time_s, np.array([0.05])), neighbours=numbers
        )
        return float(np.abs(np.log(law.run_time_s(asked) / truth[50:350:3])).mean())

    for times, truth, better, worse in (
        (smooth, 1e-7 * size, (48,), (4,)),
        (jumps, jumps, (4,), (48,)),
    ):
        least, most = off(times, truth, better), off(times, truth, worse)
        assert off(times, truth, (4, 48)) < (least + most) / 2 < most


def test_probabilities_of_noisy_times_are_calibrated():
    rng = np.random.default_rng(1)
    size = rng.uniform(1e4, 3e6, 8000)
    times = 1e-7 * size * np.exp(rng.normal(0.0, 0.1, 8000))
    examples = Examples(
        ("text", "bss"), np.column_stack((np.full(8000, 500.0), size)), times,
        np.arange(1, 10) * 0.03,
    )  # fmt: skip
    law = LocalPowerLaw.fitted(examples.take(np.arange(3000)))
    asked = examples.take(np.arange(3000, 8000))
    shares = law.probabilities(asked.features)
    right = shares.argmax(axis=1) == asked.label
    assert shares.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.05)


def test_more_neighbours_than_examples_are_refused():
    examples = sample().take(np.arange(4))
    with pytest.raises(ValueError, match="there are 4 examples; there must be more"):
        LocalPowerLaw.fitted(examples)
    assert LocalPowerLaw.fitted(replace(examples), neighbours=(2, 4, 8)).neighbours == (2,)

"""A checkpoint gives back what was put in, to its own training alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simkit.errors import RunError
from simkit.learners.common.training import ARRAYS, FACTS, Checkpoint
from simkit.scenario.yaml_document import load_scenario

IDENTITY = {"learner": "deeprm", "seed": 0, "arguments": {"hidden": 20, "shape": (1, 3)}}


def written(folder: Path) -> np.random.Generator:
    """Write a checkpoint; return a generator that stands where the written one does."""
    rng = np.random.default_rng(3)
    rng.random(5)
    rng.integers(0, 10, dtype=np.int32)  # half a number is kept back
    parts = {
        "weights": {"layers.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T},
        "optimiser": {"mean.layers.0.weight": np.ones(2), "steps": 7},
        "empty": {},
    }
    Checkpoint(12, parts, {"actions": dict(rng.bit_generator.state)}).write(folder, IDENTITY)
    return rng


def test_everything_comes_back(tmp_path):
    rng = written(tmp_path)
    found = Checkpoint.read(tmp_path, IDENTITY)
    assert found.iteration == 12
    weight = found.parts["weights"]["layers.0.weight"]
    assert weight.dtype == np.float32
    assert weight.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found.parts["optimiser"]["steps"] == 7
    assert found.parts["optimiser"]["mean.layers.0.weight"].tolist() == [1, 1]
    assert found.parts["empty"] == {}
    again = np.random.default_rng()
    again.bit_generator.state = found.generators["actions"]
    assert (
        again.integers(0, 10, 9, dtype=np.int32).tolist()
        == rng.integers(0, 10, 9, dtype=np.int32).tolist()
    )


def test_another_training_is_refused_with_all_that_differs(tmp_path):
    written(tmp_path)
    other = {"learner": "deeprm", "seed": 1, "arguments": {"hidden": 10, "shape": (1, 3)}}
    with pytest.raises(RunError) as error:
        Checkpoint.read(tmp_path, other)
    first, second = str(error.value).splitlines()
    assert "seed is 0 there, 1 here" in first
    assert "arguments.hidden is 20 there, 10 here" in second


def test_a_key_that_scenarios_had_not_yet_has_its_default(tmp_path):
    scenario = load_scenario({"workload": {"type": "lublin", "jobs": 1, "processors": 4}})
    written(tmp_path)
    facts = json.loads((tmp_path / FACTS).read_text())
    older = scenario.model_dump(mode="json")
    del older["engine"]
    facts["identity"]["scenario"] = older
    (tmp_path / FACTS).write_text(json.dumps(facts))
    Checkpoint.read(tmp_path, {**IDENTITY, "scenario": scenario.model_dump(mode="json")})


@pytest.mark.parametrize("name", [FACTS, ARRAYS])
@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_what_is_not_whole_is_refused(tmp_path, name, harm):
    written(tmp_path)
    path = tmp_path / name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RunError, match="checkpoint.*start the training over"):
        Checkpoint.read(tmp_path, IDENTITY)

"""The bundle of an agent: what is written is read back, and what was changed is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.errors import PluginError, RunError
from simkit.learners.bundle import read_bundle, write_bundle

WEIGHTS = {
    "layers.0.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "layers.0.bias": np.array([0.5, -1.0], np.float32),
}
DESCRIPTION: dict[str, Any] = {
    "architecture": {"type": "perceptron", "layers": [3, 2], "activation": "relu"},
    "observation": {"name": "any"},
    "actions": {"type": "slots"},
    "seed": 3,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "agent", WEIGHTS, DESCRIPTION)
    return tmp_path / "agent"


def test_what_is_written_is_read_back(folder: Path) -> None:
    bundle = read_bundle(folder)
    assert {name: array.tolist() for name, array in bundle.weights.items()} == {
        name: array.tolist() for name, array in WEIGHTS.items()
    }
    assert {k: v for k, v in bundle.description.items() if k in DESCRIPTION} == DESCRIPTION


def test_the_same_agent_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Whatever the order in which the weights come: run.json holds their hashes."""
    write_bundle(tmp_path / "again", dict(reversed(WEIGHTS.items())), DESCRIPTION)
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_a_column_of_a_larger_array_is_written_as_it_is(tmp_path: Path) -> None:
    """safetensors takes the memory as it lies, which of a view is not the view's."""
    wide = np.arange(12, dtype=np.float32).reshape(4, 3)
    write_bundle(tmp_path / "a", {"w": wide[:, 1], "t": wide.T}, DESCRIPTION)
    read = read_bundle(tmp_path / "a").weights
    assert read["w"].tolist() == [1, 4, 7, 10]
    assert read["t"].tolist() == wide.T.tolist()


def _without_weights(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()


def _other_weights(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def _without_description(folder: Path) -> None:
    (folder / "agent.json").unlink()


def _half_description(folder: Path) -> None:
    (folder / "agent.json").write_text("{")


def _changed(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        stated = json.loads((folder / "agent.json").read_text()) | changes
        text = json.dumps({k: v for k, v in stated.items() if v is not None})
        (folder / "agent.json").write_text(text)

    return change


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_without_weights, "weights.safetensors: cannot be read: No such file"),
        # a bit in the file has flipped
        (_other_weights, "its sha256 differs"),
        (_without_description, "agent.json: cannot be read: No such file"),
        (_half_description, "is not JSON"),
        # of a later simkit
        (_changed(format=2), "is of format 2, this simkit reads format 1"),
        (_changed(architecture=None, actions=None), "architecture, actions is missing"),
        (_changed(actions=[1], observation=3), "observation, actions must be an object with keys"),
    ],
)
def test_a_damaged_bundle_is_refused(folder: Path, damage: Any, text: str) -> None:
    damage(folder)
    with pytest.raises(RunError, match=text):
        read_bundle(folder)


def test_all_that_is_wrong_is_told_before_anything_is_written(tmp_path: Path) -> None:
    weights = {"w": np.array([1, np.nan], np.float32)}
    with pytest.raises(RunError, match=r"w holds numbers that are not finite\n.*lacks 'actions'"):
        write_bundle(
            tmp_path / "agent", weights, {k: v for k, v in DESCRIPTION.items() if k != "actions"}
        )
    assert not (tmp_path / "agent").exists()


def test_without_safetensors_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(PluginError, match=r"install simkit-cluster\[learn\]"):
        read_bundle(folder)

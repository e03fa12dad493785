"""The bundle of an agent: what is written is read back, and what was changed is refused."""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.errors import PluginError, RunError
from simkit.learners.common.bundle import hash_bundle, read_bundle, safetensors, write_bundle

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


def test_the_same_agent_is_the_same_bytes(folder, tmp_path):
    """Whatever the order in which the weights come: run.json holds their hashes."""
    write_bundle(tmp_path / "again", dict(reversed(WEIGHTS.items())), DESCRIPTION)
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_a_column_of_a_larger_array_is_written_as_it_is(tmp_path):
    """safetensors takes the memory as it lies, which of a view is not the view's."""
    wide = np.arange(12, dtype=np.float32).reshape(4, 3)
    write_bundle(tmp_path / "a", {"w": wide[:, 1], "t": wide.T}, DESCRIPTION)
    read = read_bundle(tmp_path / "a").weights
    assert read["w"].tolist() == [1, 4, 7, 10]
    assert read["t"].tolist() == wide.T.tolist()


def flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def _changed(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        stated = json.loads((folder / "agent.json").read_text()) | changes
        text = json.dumps({k: v for k, v in stated.items() if v is not None})
        (folder / "agent.json").write_text(text)

    return change


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors"),
        (lambda folder: flip(folder / "weights.safetensors"), "sha256"),
        (lambda folder: (folder / "agent.json").unlink(), "agent.json"),
        (lambda folder: (folder / "agent.json").write_text("{"), "agent.json"),
        (_changed(format=2), "format 2"),  # of a later simkit
        (_changed(architecture=None, actions=None), "architecture, actions"),
        (_changed(actions=[1], observation=3), "observation, actions"),
    ],
)
def test_a_damaged_bundle_is_refused(folder, damage, text):
    damage(folder)
    with pytest.raises(RunError, match=text):
        read_bundle(folder)


def hashed(folder: Path, packed: bytes) -> None:
    """Put weights into a bundle, with hashes that fit: damage that no hash finds."""
    (folder / "weights.safetensors").write_bytes(packed)
    stated = json.loads((folder / "agent.json").read_text())
    stated["weights_sha256"] = sha256(packed).hexdigest()
    (folder / "agent.json").write_text(json.dumps(stated))
    hash_bundle(folder)


def packed(array: Any) -> bytes:
    content: bytes = safetensors().save({**WEIGHTS, "layers.0.bias": np.array(array)})
    return content


def header(shape: list[int], kind: str = "F32", end: int = 8) -> bytes:
    entry = {"layers.0.bias": {"dtype": kind, "shape": shape, "data_offsets": [0, end]}}
    text = json.dumps(entry).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(
    "content",
    [
        packed(np.array([1, 2])),
        packed(np.float16([1, 2])),
        packed([1.0, 2.0]),
        packed([True, False]),
        packed(np.float32([1, np.nan])),
        packed(np.float32([1, -np.inf])),
        b"",
        b"no header",
        # a header that claims more than there is, in itself, in an array, in all of them
        (2**40).to_bytes(8, "little") + bytes(8),
        header([10**12]),
        header([2**40, 2**40]),
        header([2**62], end=2**64 - 1),
        header([2], kind="F7"),
        header([4], kind="BF16"),
    ],
)
def test_weights_that_are_no_numbers_are_refused_though_their_hash_fits(folder, content):
    hashed(folder, content)
    with pytest.raises(RunError, match="weights.safetensors"):
        read_bundle(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("actions.mask", "none"),
        ("actions.type", "other"),
        ("architecture.layers", [3, 9]),
        ("seed", 4),
        ("observation.name", None),
        ("sha256", None),
    ],
)
def test_a_changed_entry_is_refused_by_name(folder, key, value):
    stated = json.loads((folder / "agent.json").read_text())
    *above, last = key.split(".")
    inside = stated[above[0]] if above else stated
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    (folder / "agent.json").write_text(json.dumps(stated))
    with pytest.raises(RunError, match=rf"agent\.json: .*{key}"):
        read_bundle(folder)


def test_an_entry_cannot_be_moved_to_a_key_of_the_same_hash(folder):
    """``actions.type`` is the entry type of actions; a key of that name would have its hash."""
    stated = json.loads((folder / "agent.json").read_text())
    stated["actions.type"] = stated["actions"].pop("type")
    (folder / "agent.json").write_text(json.dumps(stated))
    for refused in (read_bundle, hash_bundle):
        with pytest.raises(RunError, match=r"agent.json: actions.type"):
            refused(folder)


def test_an_agent_without_hashes_gets_them_from_whoever_trusts_it(folder):
    written = (folder / "agent.json").read_bytes()
    stated = json.loads(written)
    del stated["sha256"]
    (folder / "agent.json").write_text(json.dumps(stated))
    hash_bundle(folder)
    assert (folder / "agent.json").read_bytes() == written
    read_bundle(folder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "NaN", "9" * 6000, '{"seed": 1e999}', "[]", " " * 10_000_001]
)
def test_a_description_that_is_none_is_refused(folder, text):
    (folder / "agent.json").write_text(text)
    with pytest.raises(RunError, match="agent.json"):
        read_bundle(folder)


def test_weights_beyond_all_bounds_and_pipes_are_not_read(folder):
    path = folder / "weights.safetensors"
    with path.open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no room on the disk
    with pytest.raises(RunError, match="weights.safetensors"):
        read_bundle(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match="weights.safetensors"):
        read_bundle(folder)


def test_all_that_is_wrong_is_told_before_anything_is_written(tmp_path):
    weights = {"w": np.array([1, np.nan], np.float32)}
    with pytest.raises(RunError, match=r"w holds numbers that are not finite\n.*lacks 'actions'"):
        write_bundle(
            tmp_path / "agent", weights, {k: v for k, v in DESCRIPTION.items() if k != "actions"}
        )
    assert not (tmp_path / "agent").exists()


def test_without_safetensors_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(PluginError, match=r"pip install 'simkit-cluster\[agents\]'"):
        read_bundle(folder)

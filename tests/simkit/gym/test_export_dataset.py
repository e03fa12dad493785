"""The forms of Minari and d3rlpy: their structure, array by array."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from simkit.agent.encoder import ObservationSchema
from simkit.errors import RunError
from simkit.gym.dataset import Dataset, read_dataset
from simkit.gym.export_dataset import write_d3rlpy, write_minari
from simkit.gym.record_dataset import Recording, record
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario

h5py = pytest.importorskip("h5py")
SOURCE = Path("a.parquet")


@pytest.fixture(scope="module", params=["deeprm-compact", "deeprm-image"])
def data(request, tmp_path_factory) -> Dataset:
    """Return three episodes, vectors or images; the second is cut off."""
    path = tmp_path_factory.mktemp("recorded") / "a.parquet"
    what = Recording(**{"observation": request.param, "max_decisions": 80})
    scenario = load_scenario(scenario_path("deeprm"), overrides={"policy": {"order": "fcfs"}})
    record(scenario, path, what, [0, 1, 3])
    found = read_dataset(path)
    assert found.truncated.any()
    assert found.terminated.any()
    return replace(found, names=("fcfs, é",))


def parts(data: Dataset):
    """Yield the number, the first row and the last row of each episode."""
    starts = data.starts
    return [(i, starts[i], starts[i + 1] - 1) for i in range(len(starts) - 1)]


def shape(data: Dataset):
    return ObservationSchema.from_json(data.facts["observation"]).shape


def test_the_layout_of_d3rlpy(data, tmp_path):
    write_d3rlpy(data, tmp_path / "a.h5", SOURCE)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["version"][()] == b"2.1"
        assert file["num_episodes"][()] == 3
        columns = [name.decode() for name in file["columns"][()]]
        assert columns == ["observations", "actions", "rewards", "terminated"]
        assert len(file) == 3 + 4 * 3
        for number, first, last in parts(data):
            seen = file[f"observations_{number}"]
            assert seen.shape == (last - first, *shape(data))
            assert seen.dtype == np.float32
            assert_array_equal(seen[()].reshape(last - first, -1), data.observation[first:last])
            assert_array_equal(file[f"actions_{number}"][()][:, 0], data.action[first:last])
            assert_array_equal(
                file[f"rewards_{number}"][()][:, 0], data.reward[first:last].astype(np.float32)
            )
            assert file[f"terminated_{number}"][()] == data.terminated[last - 1]


def test_the_layout_of_minari(data, tmp_path):
    write_minari(data, tmp_path / "deeprm-v0", SOURCE)
    place = tmp_path / "deeprm-v0" / "data"
    told = json.loads((place / "metadata.json").read_text())
    box = json.loads(told["observation_space"])
    assert (box["type"], box["dtype"], tuple(box["shape"])) == ("Box", "float32", shape(data))
    low, high = (np.array(box[key], np.float32).reshape(-1) for key in ("low", "high"))
    assert (data.observation >= low).all()
    assert (data.observation <= high).all()
    assert json.loads(told["action_space"])["n"] == data.mask.shape[1]
    assert told["total_steps"] == (data.action >= 0).sum()
    assert told["simkit"] == data.facts
    with h5py.File(place / "main_data.hdf5") as file:
        assert sorted(file) == ["episode_0", "episode_1", "episode_2"]
        for number, first, last in parts(data):
            group = file[f"episode_{number}"]
            assert dict(group.attrs) == {
                "id": number,
                "seed": (0, 1, 3)[number],
                "total_steps": last - first,
            }
            assert len(group["observations"]) == last - first + 1
            assert_array_equal(group["infos/mask"], data.mask[first : last + 1])
            assert_array_equal(group["infos/cost"][1:], data.cost[first:last])
            assert_array_equal(group["infos/probability"][1:], data.probability[first:last])
            assert group["infos/behaviour"].asstr()[0] == "fcfs, é"
            assert group["truncations"][-1] == data.truncated[last - 1]


@pytest.mark.parametrize("write", [write_d3rlpy, write_minari])
def test_the_same_bytes_twice_and_nothing_beside(write, data, tmp_path):
    for name in ("a-v0", "b-v0"):
        write(replace(data, facts=data.facts), tmp_path / name, SOURCE)
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    for path in found:
        if path.parts[0] == "a-v0" and path.name != "metadata.json":  # it has the folder's name
            other = tmp_path / "b-v0" / path.relative_to("a-v0")
            assert (tmp_path / path).read_bytes() == other.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-v0", "b-v0"]


@pytest.mark.parametrize("write", [write_d3rlpy, write_minari])
def test_nothing_is_left_of_what_fails(write, data, tmp_path, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{write.__module__}.episodes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(data, tmp_path / "a-v0", SOURCE)
    assert list(tmp_path.iterdir()) == []


def test_wrong_places_and_data_are_refused(data, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="name it my-data-v0"):
        write_minari(data, tmp_path / "my data", SOURCE)
    (tmp_path / "a-v0").mkdir()
    with pytest.raises(RunError, match="is there already"):
        write_minari(data, tmp_path / "a-v0", SOURCE)
    with pytest.raises(RunError, match="is a folder"):
        write_d3rlpy(data, tmp_path, SOURCE)
    with pytest.raises(RunError, match="no folder"):
        write_d3rlpy(data, tmp_path / "no" / "a.h5", SOURCE)
    with pytest.raises(RunError, match=r"a\.parquet: does not describe its observations"):
        write_d3rlpy(replace(data, facts={}), tmp_path / "a.h5", SOURCE)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RunError, match="is not installed; pip install"):
        write_d3rlpy(data, tmp_path / "a.h5", SOURCE)

"""The forms of Minari and d3rlpy: their structure, and what the libraries themselves read.

The libraries are not among simkit's. To have them read what simkit writes, name an interpreter that
has them: SIMKIT_MINARI_PYTHON (pip install "minari[hdf5]" pillow) and SIMKIT_D3RLPY_PYTHON (pip install
d3rlpy).
"""

from __future__ import annotations

import json
import os
import subprocess
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
    what = Recording.read({"observation": request.param, "max_decisions": 80})
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


# ---- the libraries themselves ---------------------------------------------------------------------

MINARI = """
import sys
import minari, numpy as np
from minari import MinariDataset
from numpy.testing import assert_array_equal
expected = np.load(sys.argv[2])
for found in (MinariDataset(sys.argv[1] + "/deeprm-v0/data"), minari.load_dataset("deeprm-v0")):
    assert found.id == "deeprm-v0", found.id
    assert found.total_episodes == 3
    for i, episode in enumerate(found.iterate_episodes()):
        for key in ("observations", "actions", "rewards", "terminations", "truncations"):
            assert_array_equal(getattr(episode, key), expected[f"{key}_{i}"], key)
        for key in ("mask", "cost", "passed_s", "probability"):
            assert_array_equal(episode.infos[key], expected[f"{key}_{i}"], key)
        assert set(episode.infos["behaviour"]) == {"fcfs, é".encode()}
        assert all(found.observation_space.contains(row) for row in episode.observations)
        assert all(found.action_space.contains(action) for action in episode.actions)
    assert [m["seed"] for m in found.storage.get_episode_metadata(range(3))] == [0, 1, 3]
    sampled = found.sample_episodes(2)
    assert len(list(sampled)) == 2
    assert found.filter_episodes(lambda e: e.terminations[-1]).total_episodes == 2
print("minari", minari.__version__)
"""
D3RLPY = """
import sys
import d3rlpy, numpy as np
from d3rlpy.dataset import InfiniteBuffer, ReplayBuffer
from numpy.testing import assert_array_equal
expected = np.load(sys.argv[2])
with open(sys.argv[1] + "/a.h5", "rb") as file:
    found = ReplayBuffer.load(file, InfiniteBuffer())
assert len(found.episodes) == 3
for i, episode in enumerate(found.episodes):
    assert_array_equal(episode.observations, expected[f"observations_{i}"][:-1])
    assert_array_equal(episode.actions[:, 0], expected[f"actions_{i}"])
    assert_array_equal(episode.rewards[:, 0], expected[f"rewards_{i}"].astype(np.float32))
    assert bool(episode.terminated) == expected[f"terminations_{i}"][-1]
steps = [e.size() - (not e.terminated) for e in found.episodes]
assert found.transition_count == sum(steps)
info = found.dataset_info
assert info.action_space == d3rlpy.ActionSpace.DISCRETE
batch = found.sample_transition_batch(32)
assert batch.observations.shape == (32, *expected["observations_0"].shape[1:])
if len(expected["observations_0"].shape) == 2:
    algorithm = d3rlpy.algos.DiscreteBCConfig(batch_size=32).create(device="cpu:0")
    algorithm.fit(found, n_steps=5, n_steps_per_epoch=5, show_progress=False,
                  logger_adapter=d3rlpy.logging.NoopAdapterFactory())
    assert algorithm.predict(expected["observations_0"][:3]).shape == (3,)
print("d3rlpy", d3rlpy.__version__)
"""


def as_arrays(data: Dataset, path: Path) -> None:
    """Write what a library must find to an .npz file."""
    arrays = {}
    for number, first, last in parts(data):
        later = {key: np.append(0.0, getattr(data, key)[first:last])
                 for key in ("cost", "passed_s", "probability")}  # fmt: skip
        found = {
            "observations": data.observation[first : last + 1].reshape(-1, *shape(data)),
            "actions": data.action[first:last], "rewards": data.reward[first:last],
            "terminations": data.terminated[first:last], "truncations": data.truncated[first:last],
            "mask": data.mask[first : last + 1], **later,
        }  # fmt: skip
        arrays |= {f"{key}_{number}": array for key, array in found.items()}
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("variable", "program", "write", "name"),
    [
        ("SIMKIT_MINARI_PYTHON", MINARI, write_minari, "deeprm-v0"),
        ("SIMKIT_D3RLPY_PYTHON", D3RLPY, write_d3rlpy, "a.h5"),
    ],
    ids=["minari", "d3rlpy"],
)
def test_the_library_reads_it(variable, program, write, name, data, tmp_path):
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter that has the library")
    write(data, tmp_path / name, SOURCE)
    as_arrays(data, tmp_path / "expected.npz")
    done = subprocess.run(
        [python, "-c", program, str(tmp_path), str(tmp_path / "expected.npz")],
        capture_output=True, text=True, cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MINARI_DATASETS_PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)

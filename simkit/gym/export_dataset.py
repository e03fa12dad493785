"""Datasets as files that other libraries read: d3rlpy and Minari, both in HDF5.

d3rlpy: the layout of `ReplayBuffer.dump` of d3rlpy 2 (version 2.1 of its format): for each episode
i the arrays ``observations_i`` (T, …), ``actions_i`` (T, 1), ``rewards_i`` (T, 1) and
``terminated_i``. It has no place for masks, costs, times and probabilities, nor for what is seen at
the end: d3rlpy does not learn from the last decision of an episode that was cut off.

Minari: a folder in the layout of Minari 0.5.

    FOLDER/data/metadata.json
    FOLDER/data/main_data.hdf5    a group for each episode

In an episode of T decisions, observations and infos have T + 1 entries, all else T. An entry t of
``infos/mask`` belongs to observation t. As with the infos that `step` returns, entry t + 1 of
``cost``, ``passed_s``, ``probability`` and ``behaviour`` belongs to action t; entry 0 is 0, or the
name of the policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.agent.encoder import ObservationSchema
from simkit.errors import RunError
from simkit.files import unfinished
from simkit.gym.dataset import Dataset
from simkit.results.output_folder import check_file, check_place, unwritable, whole_file


def import_h5py() -> Any:
    """Return the module h5py; raises RunError if it is not installed."""
    try:
        import h5py
    except ModuleNotFoundError:
        raise RunError(
            "h5py writes this form and is not installed; pip install 'simkit-cluster[export]'"
        ) from None
    return h5py


def schema_of(data: Dataset, path: Path) -> ObservationSchema:
    """Return the meaning of a dataset's observations.

    Raises RunError if it is not described, or its numbers are not as described.
    """
    if "observation" not in data.facts:
        raise RunError(f"{path}: does not describe its observations; record it again")
    schema = ObservationSchema.from_json(data.facts["observation"])
    if schema.size != data.observation.shape[1]:
        raise RunError(
            f"{path}: an observation has {data.observation.shape[1]} numbers, but "
            f"{schema.size} are described; record it again"
        )
    return schema


def shaped(data: Dataset, schema: ObservationSchema) -> npt.NDArray[Any]:
    """Return (N, …) the observations in the shape in which an agent sees them."""
    return data.observation.reshape(-1, *schema.shape)


def episodes(data: Dataset) -> Iterator[tuple[int, int, int]]:
    """Yield each episode's number, from 0, its first row and its last, which has no action."""
    starts = data.starts.tolist()
    for number, (first, after) in enumerate(pairwise(starts)):
        yield number, first, after - 1


D3RLPY_LAYOUT: Final = "2.1"
"""Version of the layout."""


def write_d3rlpy(data: Dataset, path: Path, source: Path) -> None:
    """Write a dataset for d3rlpy.

    Args:
        data: the dataset.
        path: the .h5 file.
        source: where the dataset is from, for messages.

    Raises RunError if it cannot be written; nothing is left behind then.
    """
    h5py, seen = import_h5py(), shaped(data, schema_of(data, source))
    check_file(path)
    with whole_file(path) as part, h5py.File(part, "w") as file:
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"] = len(data.starts) - 1
        for number, first, last in episodes(data):
            file[f"observations_{number}"] = seen[first:last]
            file[f"actions_{number}"] = data.action[first:last, None].astype(np.int32)
            file[f"rewards_{number}"] = data.reward[first:last, None].astype(np.float32)
            file[f"terminated_{number}"] = bool(data.terminated[last - 1])
        file["version"] = D3RLPY_LAYOUT


MINARI_LAYOUT: Final = "0.5.0"
"""The Minari that knows the layout, and each since."""
_ID: Final = re.compile(r"[-_\w]+-v\d+", re.ASCII)
_LATER: Final = ("cost", "passed_s", "probability")


def write_minari(data: Dataset, folder: Path, source: Path) -> None:
    """Write a dataset for Minari.

    Args:
        data: the dataset.
        folder: a new one, whose name is the dataset's id and so ends in a version: ``rare-v0``.
        source: where the dataset is from, for messages.

    Raises RunError for another name, if there is such a folder, or if it cannot be written; nothing
    is left behind then.
    """
    h5py, schema = import_h5py(), schema_of(data, source)
    if not _ID.fullmatch(folder.name):
        stem = re.sub(r"[^-_a-zA-Z0-9]+", "-", folder.name).strip("-")
        raise RunError(
            f"{folder}: its name is the dataset's id for Minari, letters, digits and - that end in "
            f"a version; name it {stem or 'dataset'}-v0"
        )
    if folder.exists():
        raise RunError(f"{folder}: is there already; remove it, or choose another place")
    check_place(folder)
    with _whole_folder(folder) as part:
        place = part / "data"
        place.mkdir()
        with h5py.File(place / "main_data.hdf5", "w", track_order=True) as file:
            _write_episodes(file, data, shaped(data, schema), h5py.string_dtype())
        size_mb = round((place / "main_data.hdf5").stat().st_size / 1e6, 1)
        metadata = _metadata(data, schema, folder.name) | {"dataset_size": size_mb}
        (place / "metadata.json").write_text(
            json.dumps(metadata, allow_nan=False), encoding="utf-8"
        )


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to write to, which gets its own name when it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(folder, folder=True) as part:
            yield part
            part.rename(folder)
    except OSError as error:
        raise unwritable(folder, error) from error


def _write_episodes(file: Any, data: Dataset, seen: npt.NDArray[Any], text: Any) -> None:
    names = np.array(data.names, dtype=object)
    for number, first, last in episodes(data):
        group = file.create_group(f"episode_{number}")
        group.attrs["id"] = number
        group.attrs["total_steps"] = last - first
        if data.seed is not None:
            group.attrs["seed"] = int(data.seed[first])
        group["observations"] = seen[first : last + 1]
        group["actions"] = data.action[first:last]
        group["rewards"] = data.reward[first:last]
        group["terminations"] = data.terminated[first:last]
        group["truncations"] = data.truncated[first:last]
        infos = group.create_group("infos")
        infos["mask"] = data.mask[first : last + 1]
        for name in _LATER:
            infos[name] = np.append(0.0, getattr(data, name)[first:last])
        of_action = data.behaviour[first:last]
        infos.create_dataset(
            "behaviour", data=names[np.append(of_action[0], of_action)], dtype=text
        )


def _metadata(data: Dataset, schema: ObservationSchema, name: str) -> dict[str, Any]:
    low, high = np.empty((2, *schema.shape), np.float32)
    for field, begin, end in schema.places():
        low[..., begin:end], high[..., begin:end] = field.low, field.high
    actions = data.mask.shape[1]
    box = {
        "type": "Box", "dtype": "float32", "shape": list(schema.shape),
        "low": low.tolist(), "high": high.tolist(),
    }  # fmt: skip
    discrete = {"type": "Discrete", "dtype": "int64", "start": 0, "n": actions}
    return {
        "total_episodes": len(data.starts) - 1,
        "total_steps": int((data.action >= 0).sum()),
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": json.dumps(box),
        "action_space": json.dumps(discrete),
        "dataset_id": name,
        "algorithm_name": ", ".join(data.names),
        "minari_version": MINARI_LAYOUT,
        "simkit": dict(data.facts),
    }

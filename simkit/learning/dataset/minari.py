"""A dataset as a folder that Minari reads, in its layout of HDF5.

    FOLDER/data/metadata.json
    FOLDER/data/main_data.hdf5    a group for each episode

The layout is that of Minari 0.5. Of an episode of T decisions, observations and infos have T + 1
entries, all else T. An entry t of ``infos/mask`` belongs to observation t. As with the infos that
`step` returns, entry t + 1 of ``cost``, ``passed_s``, ``probability`` and ``behaviour`` belongs to
action t; entry 0 is 0, or the name of the policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.errors import RunError
from simkit.files import unfinished
from simkit.learning.dataset.exported import episodes, import_h5py, schema_of, shaped
from simkit.learning.dataset.format import Dataset
from simkit.learning.schema import ObservationSchema
from simkit.results.output_folder import check_place, unwritable

__all__ = ["write_minari"]

LAYOUT: Final = "0.5.0"
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
        raise RunError(
            f"{folder}: its name is the dataset's id for Minari, letters, digits and - that end in "
            f"a version; name it {_as_id(folder.name)}"
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
        told = _metadata(data, schema, folder.name) | {"dataset_size": size_mb}
        (place / "metadata.json").write_text(json.dumps(told, allow_nan=False), encoding="utf-8")


def _as_id(name: str) -> str:
    return f"{re.sub(r'[^-_a-zA-Z0-9]+', '-', name).strip('-') or 'dataset'}-v0"


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
        "minari_version": LAYOUT,
        "simkit": dict(data.facts),
    }

"""A dataset as a file that d3rlpy's `ReplayBuffer.load` reads.

The layout is that of `ReplayBuffer.dump` of d3rlpy 2 (its version 2.1 of the format): of each
episode i the arrays ``observations_i`` (T, …), ``actions_i`` (T, 1), ``rewards_i`` (T, 1) and
``terminated_i``. It has no place for masks, costs, times and probabilities, nor for what is seen at
the end: d3rlpy does not learn from the last decision of an episode that was cut off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from simkit.learning.dataset.exported import episodes, import_h5py, schema_of, shaped
from simkit.learning.dataset.format import Dataset
from simkit.results.output_folder import check_file, whole_file

__all__ = ["write_d3rlpy"]

LAYOUT: Final = "2.1"
"""Version of the layout."""


def write_d3rlpy(data: Dataset, path: Path, source: Path) -> None:
    """Write a dataset for d3rlpy.

    Args:
        data: the dataset.
        path: of the .h5 file.
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
        file["version"] = LAYOUT

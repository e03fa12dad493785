"""What the on-disk forms of other libraries have in common: HDF5 files, and a dataset's parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy.typing as npt

from simkit.errors import RunError
from simkit.learning.dataset.format import Dataset
from simkit.learning.schema import ObservationSchema

__all__ = ["episodes", "import_h5py", "schema_of", "shaped"]


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

    Raises RunError if it does not say, or says something that its numbers are not.
    """
    if "observation" not in data.facts:
        raise RunError(f"{path}: does not say what its observations are; record it again")
    schema = ObservationSchema.from_json(data.facts["observation"])
    if schema.size != data.observation.shape[1]:
        raise RunError(
            f"{path}: an observation has {data.observation.shape[1]} numbers, and is said to have "
            f"{schema.size}; record it again"
        )
    return schema


def shaped(data: Dataset, schema: ObservationSchema) -> npt.NDArray[Any]:
    """Return (N, …) the observations in the shape in which an agent sees them."""
    return data.observation.reshape(-1, *schema.shape)


def episodes(data: Dataset) -> Iterator[tuple[int, int, int]]:
    """Yield of each episode its number, from 0, its first row and its last, which has no action."""
    starts = data.starts.tolist()
    for number, (first, after) in enumerate(pairwise(starts)):
        yield number, first, after - 1

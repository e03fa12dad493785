"""Small generated logs, so that a first run needs no download and no data of anybody's.

`regenerate.py` makes them: ``python -m simkit.traces.samples.regenerate``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from simkit.errors import TraceError, did_you_mean

_SUFFIX = ".swf.gz"


def sample_names() -> list[str]:
    """Return the names of the samples, such as ``lublin_1000``."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def sample_path(name: str) -> Path:
    """Return the path of a sample log; `name` with or without its ``.swf.gz``.

    Raises TraceError, with the nearest name, if there is none.
    """
    stem = name.removesuffix(_SUFFIX)
    if stem not in sample_names():
        raise TraceError(f"no sample log is called {name!r}{did_you_mean(stem, sample_names())}")
    return Path(str(resources.files(__package__).joinpath(stem + _SUFFIX)))

"""Functions that numba turns into machine code, kept on disk from one process to the next.

numba notices that a function's own file has changed, but not one that it calls. So what is kept
stands in a folder named after a hash of the files that such code is made of: those of the
function's own folder, those of `simkit.compiled`, and the pure functions elsewhere.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

__all__ = ["compiled", "inner", "is_kept", "is_there", "kept_in", "records"]

Function = TypeVar("Function", bound=Callable[..., Any])

_PURE: Final = ("policy/formulas.py", "policy/estimates.py")
"""Files elsewhere with functions that become machine code."""


def is_there() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def compiled(function: Function) -> Function:
    """Return the function as machine code, made when it is first called, or read from disk.

    It makes no arrays: numba then leaves out the counts of who uses one, which would cost more than
    what is done here. Divisions by 0 are not looked for; they give infinity, as in numpy.
    """
    folder = kept_in(Path(function.__code__.co_filename).parent)
    import numba

    with _keeping_in(numba.config, folder) as kept:
        return _made(function, cache=kept)


def inner(function: Function) -> Function:
    """Return the same for a function that only such functions call."""
    return _made(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _made(function: Function, **options: Any) -> Function:
    import numba

    translate: Any = numba.njit  # whose hints know no `_nrt`: its counts of who uses an array
    made: Function = translate(function, error_model="numpy", nogil=True, _nrt=False, **options)
    return made


def records(array: Any) -> Any:
    """Return an array of records whose fields are attributes, in machine code and in Python."""
    return array.view(np.recarray)


@contextmanager
def _keeping_in(config: Any, folder: Path | None) -> Iterator[bool]:
    """Let numba keep what it compiles in a folder; yields whether there is one."""
    before = config.CACHE_DIR
    config.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield folder is not None
    finally:
        config.CACHE_DIR = before


def is_kept(module: str) -> bool:
    """Return whether machine code of `simkit.compiled` is kept, of a module that begins so."""
    folder = kept_in(Path(__file__).parent / "compiled")
    return folder is not None and any(folder.rglob(f"{module}*.nbc"))


@cache
def kept_in(sources: Path) -> Path | None:
    """Return where machine code of a folder's files is kept; None if no folder can be written."""
    for base in _bases():
        folder = base / "simkit" / "machine-code" / _hash_of(sources)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def _bases() -> Iterator[Path]:
    """Yield where caches of this user may stand, the best first."""
    if given := os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME"):
        yield Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # no home, as in some containers
        home = None
    if home is not None:
        yield home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    yield Path(tempfile.gettempdir()) / f"simkit-{os.getuid() if hasattr(os, 'getuid') else ''}"


def _hash_of(folder: Path) -> str:
    here = Path(__file__).parent
    files = [*(here / "compiled").glob("*.py"), *folder.glob("*.py")]
    sources = sorted({*files, *(here / name for name in _PURE)})
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]

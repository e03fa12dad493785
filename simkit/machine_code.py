"""Functions that numba turns into machine code, kept on disk from one process to the next.

Importing numba and letting it find what it has kept takes more than half a second. So the object
code is kept as it is, and loaded by LLVM alone: numba is imported only to compile what is not
there. What is kept stands in a folder named after a hash of all files that it is made of.

    @inner
    def twice(x): ...          # called by compiled functions; plain Python otherwise

    @compiled
    def run(pools, times): ... # called from Python
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, update_wrapper
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

__all__ = ["Kernel", "compiled", "inner", "is_kept", "is_there", "records"]

Given = ParamSpec("Given")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

_PURE: Final = ("policy/formulas.py", "policy/estimates.py", "machine_code.py")
"""Files elsewhere with functions that become machine code, and what makes it of them."""
_OPTIONS: Final = {
    "error_model": "numpy",  # divisions by 0 give infinity, and nothing looks for them
    "_nrt": False,  # no arrays are made, so nobody need count who uses them
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_inner: dict[Callable[..., Any], bool] = {}
"""Function → whether numba knows it."""


def is_there() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def inner(function: Function) -> Function:
    """Let compiled functions call this one; for everyone else it stays as it is.

    It makes no arrays. Its arguments are numbers, arrays, and named tuples of those.
    """
    _inner.setdefault(function, False)
    return function


def compiled(function: Callable[Given, Result]) -> Kernel[Given, Result]:
    """Return the function as machine code, loaded or made when it is first called."""
    return Kernel(function)


def records(array: Any) -> Any:
    """Return an array of records whose fields are attributes, in machine code and in Python."""
    return array.view(np.recarray)


class Kernel(Generic[Given, Result]):
    """A function in machine code; with ``NUMBA_DISABLE_JIT=1`` it is plain Python.

    It makes no arrays and returns whether it is done, a bool. Its arguments are as for `inner`.
    """

    def __init__(self, function: Callable[Given, Result]) -> None:
        self._function: Any = function
        self._native: dict[str, Any] = {}
        update_wrapper(self, function)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Call it; `kwargs` are not supported."""
        assert not kwargs
        if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
            return self._function(*args)  # type: ignore[no-any-return]
        flat = list(_flat(args))
        kinds = "".join(kind for kind, _ in flat)
        types = f"{kinds} {_description(args)}"
        native = self._native.get(types)
        if native is None:
            native = self._native[types] = self._loaded(args, kinds, types)
        done, error = ctypes.c_int8(), ctypes.c_void_p()
        status = native(ctypes.byref(done), ctypes.byref(error), *(value for _, value in flat))
        assert status == 0, f"{self._function.__qualname__} failed with status {status}"
        return bool(done.value)  # type: ignore[return-value]

    def _loaded(self, args: Sequence[Any], kinds: str, types: str) -> Any:
        """Return what calls the machine code for arguments of these kinds."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        short = sha256(types.encode()).hexdigest()[:12]
        folder = _folder_of(Path(self._function.__code__.co_filename).parent)
        kept = None if folder is None else folder / f"{name}-{short}.o"
        if kept is not None and kept.exists():
            symbol, _, code = kept.read_bytes().partition(b"\n")
        else:
            symbol, code = _made(self._function, args)
            if kept is not None:
                _keep(kept, symbol + b"\n" + code)
        arguments = [_CTYPES[kind] for kind in kinds]
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *arguments)
        return call(_address(symbol.decode(), code))


_CTYPES: Final[dict[str, Any]] = {"i": ctypes.c_int64, "f": ctypes.c_double, "b": ctypes.c_int8}


def _flat(args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments as numba passes them: kind and value of each machine word.

    An array is (owner, parent, items, bytes of an item, address, lengths…, strides…); a named
    tuple is one after the other of its fields.
    """
    for one in args:
        if isinstance(one, np.ndarray):
            words = 0, 0, one.size, one.itemsize, one.ctypes.data, *one.shape, *one.strides
            yield from (("i", word) for word in words)
        elif isinstance(one, tuple):
            yield from _flat(one)
        elif isinstance(one, bool | np.bool_):
            yield "b", int(one)
        elif isinstance(one, float):
            yield "f", one
        else:
            yield "i", int(one)


def _description(args: Sequence[Any]) -> str:
    """Describe what the machine words do not tell: of what arrays are, and how they lie."""
    return " ".join(
        f"{one.dtype.descr}{one.ndim}{one.flags.c_contiguous}{one.flags.writeable}"
        if isinstance(one, np.ndarray)
        else _description(one)
        if isinstance(one, tuple)
        else ""
        for one in args
    )


def _made(function: Callable[..., Any], args: Sequence[Any]) -> tuple[bytes, bytes]:
    """Compile a function for such arguments; return its symbol and its object code."""
    import numba
    from numba.extending import register_jitable

    for one, known in _inner.items():
        if not known:
            register_jitable(**_OPTIONS, forceinline=True)(one)  # a call passes some 90 words
            _inner[one] = True
    translate: Any = numba.njit  # whose hints do not know all of these options
    dispatcher = translate(function, **_OPTIONS)
    type_of: Any = numba.typeof
    types = tuple(type_of(one) for one in args)
    dispatcher.compile(types)
    made = dispatcher.overloads[types]
    _, _, (code, _) = made.library.serialize_using_object_code()
    return made.fndesc.mangled_name.encode(), bytes(code)


_engines: list[Any] = []
"""What holds the machine code that was loaded, for as long as the process runs."""


def _address(symbol: str, code: bytes) -> int:
    """Load object code; return the address of a function in it."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address(symbol)
    return address


def _keep(path: Path, content: bytes) -> None:
    """Write a file that is there only when it is whole; others may write the same one."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


def is_kept(module: str) -> bool:
    """Return whether machine code of a module of `simkit.compiled` is kept."""
    folder = _folder_of(Path(__file__).parent / "compiled")
    return folder is not None and any(folder.glob(f"simkit.compiled.{module}.*.o"))


@cache
def _folder_of(sources: Path) -> Path | None:
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
    """Return a hash of the sources, of this processor, and of what compiles for it."""
    here = Path(__file__).parent
    files = {*(here / "compiled").glob("*.py"), *folder.glob("*.py"), *(here / n for n in _PURE)}
    sources = b"".join(path.read_bytes() for path in sorted(files))
    return sha256(sources + _machine().encode()).hexdigest()[:16]


def _machine() -> str:
    """Describe this processor and the compiler."""
    from importlib.metadata import version

    from llvmlite import binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_host_cpu_name()} {features} {version('numba')} {sys.version}"

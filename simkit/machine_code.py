"""Functions that numba turns into machine code, kept on disk from one process to the next.

Importing numba and letting it find what it has kept takes more than half a second. So the object
code is kept as it is, and loaded by LLVM alone: numba is imported only to compile what is not
there. What is kept stands in a folder named after a hash of all that it is made of.

    @inner
    def twice(x): ...          # called by compiled functions; plain Python otherwise

    @compiled
    def run(pools, times): ... # called from Python

    @allocating
    def pairs(tasks): ...      # makes arrays or lists: compiled anew in each process
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, update_wrapper
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

from simkit.errors import PluginError

__all__ = [
    "Kernel", "allocating", "compiled", "dispatcher", "inner", "is_kept", "is_there", "kernels",
    "records",
]  # fmt: skip

Given = ParamSpec("Given")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

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


def kernels(module: str) -> Any:
    """Return a module with functions in machine code; raises PluginError without numba."""
    if not is_there():
        raise PluginError(
            "fast simulations need numba, which is not installed; "
            "pip install 'simkit-cluster[learn]'"
        )
    return import_module(module)


def inner(function: Function) -> Function:
    """Let compiled functions call this one; for everyone else it stays as it is.

    It makes no arrays. Its arguments are numbers, arrays, and named tuples of those.
    """
    _inner.setdefault(function, False)
    return function


def compiled(function: Callable[Given, Result]) -> Kernel[Given, Result]:
    """Return the function as machine code, loaded or made when it is first called."""
    return Kernel(function)


def allocating(function: Function) -> Function:
    """Return a function that makes arrays or lists as numba's, which keeps it for this process.

    It calls others of its kind, and is called by them and from Python.
    """
    import numba

    made: Function = numba.njit(function, error_model="numpy")
    return made


@cache
def dispatcher(function: Any) -> Any:
    """Return a function that is marked `inner`, with those that it calls, as numba's own.

    That is what numba's compilers for other machines take, such as the one for GPUs.
    """
    import numba

    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        if (own := known.get(name)) is not None and _is_inner(own):
            known[name] = dispatcher(own)
    twin = FunctionType(function.__code__, known, function.__name__)
    twin.__module__ = function.__module__
    translate: Any = numba.njit
    return translate(twin, error_model="numpy", forceinline=True, _nrt=False)


def _is_inner(one: object) -> bool:
    return isinstance(one, FunctionType) and one in _inner


def records(array: Any) -> Any:
    """Return an array of records whose fields are attributes, in machine code and in Python."""
    return array.view(np.recarray)


def _is_python() -> bool:
    """Return whether compiled functions are to be plain Python."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


class Kernel(Generic[Given, Result]):
    """A function in machine code; with ``NUMBA_DISABLE_JIT=1`` it is plain Python.

    It makes no arrays and returns a bool, a whole number or nothing, as its annotation says. Its
    arguments are as for `inner`.
    """

    def __init__(self, function: Callable[Given, Result]) -> None:
        self._function: Any = function
        result = function.__annotations__["return"]
        self._result = _RESULTS[getattr(result, "__name__", str(result))]
        self._native: dict[tuple[Any, ...], Any] = {}
        self._call = _Call(self, ())
        update_wrapper(self, function)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Call it; `kwargs` are not supported."""
        assert not kwargs
        if _is_python():
            return self._function(*args)  # type: ignore[no-any-return]
        return self._call(*args)  # type: ignore[no-any-return]

    def bound(self, *fixed: Any) -> Callable[..., Any]:
        """Return the function with its first arguments given, which are looked at but once."""
        return partial(self._function, *fixed) if _is_python() else _Call(self, fixed)

    def __str__(self) -> str:
        return f"{self._function.__module__}.{self._function.__qualname__}"

    def native(self, args: Sequence[Any], kinds: tuple[Any, ...]) -> Any:
        """Return what calls the machine code for arguments of these kinds, given their words."""
        if kinds not in self._native:
            self._native[kinds] = _CALL(self._address(args, kinds))
        return self._native[kinds]

    def result(self) -> Any:
        """Return where the machine code writes its result."""
        return self._result()

    def _address(self, args: Sequence[Any], kinds: tuple[Any, ...]) -> int:
        short = sha256(repr([_described(kind) for kind in kinds]).encode()).hexdigest()[:12]
        folder = _folder_of(self._function.__module__)
        kept = None if folder is None else folder / f"{self}-{short}.o"
        if kept is not None and kept.exists():
            symbol, _, code = kept.read_bytes().partition(b"\n")
        else:
            symbol, code = _made(self._function, args)
            if kept is not None:
                _keep(kept, symbol + b"\n" + code)
        return _address(symbol.decode(), code, _letters_of(kinds))


class _Call:
    """A kernel with its first arguments given: their machine words are packed."""

    def __init__(self, kernel: Kernel[..., Any], fixed: tuple[Any, ...]) -> None:
        self._kernel, self._fixed = kernel, fixed
        self._kinds, words = _taken(fixed)
        self._packed = struct.pack(_format_of(self._kinds), *words)
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *others: Any) -> Any:
        kinds, words = _taken(others)
        if (known := self._known.get(kinds)) is None:
            native = self._kernel.native((*self._fixed, *others), (*self._kinds, *kinds))
            known = self._known[kinds] = native, struct.Struct(_format_of(kinds))
        native, form = known
        result, error = self._kernel.result(), ctypes.c_void_p()
        packed = self._packed + form.pack(*words)
        status = native(ctypes.byref(result), ctypes.byref(error), packed)
        assert status == 0, f"{self._kernel} failed with status {status}"
        return bool(result.value) if isinstance(result, ctypes.c_int8) else result.value


_CALL: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)  # fmt: skip
_RESULTS: Final[dict[str, Any]] = {
    "bool": ctypes.c_int8, "int": ctypes.c_int64, "None": ctypes.c_void_p,
}  # fmt: skip
"""What a function is annotated to return → what numba writes it to."""


def _taken(args: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the kinds of arguments, and the machine words as which numba passes them.

    An array is (owner, parent, items, bytes of an item, address, lengths…, strides…); a named
    tuple is one after the other of its fields. The kind of an array says what it is of, and how it
    lies.
    """
    kinds: list[Any] = []
    words: list[Any] = []
    for one in args:
        if isinstance(one, np.ndarray):
            flags = one.flags
            lies = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
            kinds.append((one.dtype, one.ndim, lies, flags.writeable))
            words += (0, 0, one.size, one.itemsize, one.ctypes.data, *one.shape, *one.strides)
        elif isinstance(one, tuple):
            own_kinds, own_words = _taken(one)
            kinds += ("(", *own_kinds, ")")
            words += own_words
        elif isinstance(one, bool | np.bool_):
            kinds.append("b")
            words.append(int(one))
        elif isinstance(one, float):
            kinds.append("f")
            words.append(one)
        else:
            assert isinstance(one, int | np.int64)
            kinds.append("i")
            words.append(int(one))
    return tuple(kinds), words


def _described(kind: Any) -> Any:
    """Return what names a kind in every process."""
    return kind if isinstance(kind, str) else (kind[0].descr, *kind[1:])


def _letters_of(kinds: Sequence[Any]) -> str:
    """Return a letter for each machine word of arguments: i, f or b."""
    letters = (k.strip("()") if isinstance(k, str) else "i" * (5 + 2 * k[1]) for k in kinds)
    return "".join(letters)


def _format_of(kinds: Sequence[Any]) -> str:
    """Return how the machine words of arguments are packed, each in 8 bytes."""
    return "=" + _letters_of(kinds).translate(str.maketrans("ifb", "qdq"))


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


def _address(symbol: str, code: bytes, letters: str) -> int:
    """Load object code; return the address of what calls a function in it by an array of words."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_unpacking(symbol, letters)), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address("unpack")
    return address


def _unpacking(symbol: str, letters: str) -> str:
    """Return a function in LLVM's language that calls another with words from an array.

    ctypes would convert each word, which takes longer than many a kernel.
    """
    from llvmlite import binding as llvm

    words = "ptr" if llvm.llvm_version_info[0] > 15 else "i64*"
    types = {"i": "i64", "f": "double", "b": "i8"}
    turns = {"i": "add i64 0,", "f": "bitcast i64", "b": "trunc i64"}
    lines = []
    for at, letter in enumerate(letters):
        end = "" if letter == "i" else f" to {types[letter]}"
        lines += [
            f"%p{at} = getelementptr i64, {words} %words, i64 {at}",
            f"%w{at} = load i64, {words} %p{at}",
            f"%v{at} = {turns[letter]} %w{at}{end}",
        ]
    own = "".join(f", {types[letter]}" for letter in letters)
    passed = "".join(f", {types[letter]} %v{at}" for at, letter in enumerate(letters))
    return "\n".join([
        f'declare i32 @"{symbol}"(i64, i64{own})',
        f"define i32 @unpack(i64 %result, i64 %error, {words} %words) {{",
        *lines,
        f'%status = call i32 @"{symbol}"(i64 %result, i64 %error{passed})',
        "ret i32 %status",
        "}",
    ])  # fmt: skip


def _keep(path: Path, content: bytes) -> None:
    """Write a file that is there only when it is whole; others may write the same one."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


def is_kept(module: str) -> bool:
    """Return whether machine code of a module of `simkit.compiled` is kept."""
    name = f"simkit.compiled.{module}"
    import_module(name)
    folder = _folder_of(name)
    return folder is not None and any(folder.glob(f"{name}.*.o"))


@cache
def _folder_of(module: str) -> Path | None:
    """Return where machine code of a module is kept; None if no folder is this user's alone."""
    for top in _tops():
        folders = top, top / "machine-code", top / "machine-code" / _hash_of(module)
        try:
            top.parent.mkdir(parents=True, exist_ok=True)
            for one in folders:
                one.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        if os.access(folders[-1], os.W_OK) and all(map(_is_own, folders)):
            return folders[-1]
    return None


def _is_own(folder: Path) -> bool:
    """Return whether nobody else can put files there: what is kept is run."""
    found = folder.stat()
    return not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _tops() -> Iterator[Path]:
    """Yield where simkit's cache may stand, the best first."""
    if given := os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME"):
        yield Path(given) / "simkit"
    try:
        home = Path.home()
    except RuntimeError:  # no home, as in some containers
        home = None
    if home is not None:
        yield home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "simkit"
    yield Path(tempfile.gettempdir()) / f"simkit-{os.getuid() if hasattr(os, 'getuid') else ''}"


def _hash_of(module: str) -> str:
    """Return a hash of the sources, of this processor, and of what compiles for it."""
    parts = [Path(__file__).read_bytes(), _machine().encode()]
    for name in sorted(_made_of(module)):
        own = vars(sys.modules[name])
        numbers = {key: one for key, one in own.items() if isinstance(one, bool | int | float)}
        parts += [name.encode(), Path(own["__file__"]).read_bytes(), repr(numbers).encode()]
    return sha256(b"".join(parts)).hexdigest()[:16]


def _made_of(module: str) -> set[str]:
    """Return the modules whose functions become part of a module's machine code, and itself."""
    found, left = set[str](), [module]
    while left:
        if (name := left.pop()) in found:
            continue
        found.add(name)
        for one in vars(sys.modules[name]).values():
            if _is_inner(one):
                left.append(one.__module__)
            elif isinstance(one, ModuleType) and one.__name__.startswith("simkit."):
                left.append(one.__name__)
    return found


def _machine() -> str:
    """Describe this processor and the compiler."""
    from importlib.metadata import version

    from llvmlite import binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_host_cpu_name()} {features} {version('numba')} {sys.version}"

"""Plug-ins: finds what a name in a scenario stands for, and calls it with its arguments.

There are three kinds of names:

- ``easy``, ``swf``: an entry point, declared by simkit or by any installed package. In the group
  ``simkit.policies`` the names are dotted by kind: ``order.fcfs``, ``backfill.easy``,
  ``placement.first-fit``, ``policy.mine``.
- ``package.module:attribute``: anything importable.
- ``folder/file.py:attribute``: a custom file, relative to the scenario's folder.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial, reduce
from hashlib import sha256
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simkit.errors import (
    PluginError,
    ScenarioError,
    SimkitError,
    at_key,
    did_you_mean,
    is_interrupt,
)
from simkit.text import shortened

GROUPS = (
    "simkit.policies",
    "simkit.readers",
    "simkit.signals",
    "simkit.predictors",
    "simkit.controllers",
    "simkit.learners",
    "simkit.metrics",
)
"""The entry-point groups of names in scenarios."""

_LINES_TOLD = 3
"""Lines of an author's code that an error quotes, the innermost last."""
_NOUNS = {
    "order": "an order",
    "backfill": "a backfilling rule",
    "placement": "a placement rule",
    "fitness": "a fitness",
    "compat": "another simulator's rules",
    "policy": "a policy",
    "simkit.policies": "a policy",
    "simkit.readers": "a reader",
    "simkit.signals": "a kind of signal",
    "simkit.predictors": "a run-time estimator",
    "simkit.controllers": "a controller",
    "simkit.learners": "a learner",
    "simkit.reproductions": "a reproduction",
    "simkit.metrics": "a metric",
    "run": "a view of a run",
    "metrics": "a view of metrics",
    "comparison": "a view of a comparison",
    "summary": "a view of a summary",
    "sweep": "a view of a sweep",
    "training": "a view of a training",
}


def find(group: str, name: str, *, kind: str | None = None, base: Path | None = None) -> Any:
    """Return the object that `name` stands for.

    Args:
        group: one of `GROUPS`.
        name: an entry point's name, ``module:attribute`` or ``file.py:attribute``.
        kind: the dotted prefix of the entry-point names, e.g. ``"order"``; None for no prefix.
        base: folder that a relative ``file.py`` starts from; None for the working directory.

    Raises PluginError if the name is unknown or ambiguous, or if the plug-in cannot be imported
    (the cause is quoted and chained).
    """
    if ":" in name:
        if _state.refuses_code:
            raise PluginError(code_refusal(name))
        place, attribute = split_reference(name)
        if place.endswith(".py"):
            path = (base or Path()) / Path(place).expanduser()
            return _attribute(load_file(path), attribute, str(path))
        return _attribute(_import_module(place), attribute, place)
    return _load(_entry_point(group, name, kind))


_REMEDY: Final = "leave --no-code out (in Python: allow_code=False)"


class _State(threading.local):
    """Whether code is refused, in this thread, and what lets it run."""

    refuses_code = False
    remedy = _REMEDY


_state = _State()


def is_of_simkit(module: str) -> bool:
    """Return whether a module, given by its dotted name, is simkit's and not another package's."""
    return f"{module}.".startswith("simkit.")


@contextmanager
def code_refused(refuse: bool = True, *, remedy: str | None = None) -> Iterator[None]:
    """Let `find` raise PluginError for a name of code, whoever asks for it, in this thread.

    What reads a scenario refuses code with file and key. This is for all else that may name code.

    Args:
        refuse: False changes nothing.
        remedy: what the refusals say that lets the code run, here and in what is called from here.
    """
    before = _state.refuses_code, _state.remedy
    _state.refuses_code, _state.remedy = refuse or before[0], remedy or before[1]
    try:
        yield
    finally:
        _state.refuses_code, _state.remedy = before


def refuses_code() -> bool:
    """Return whether `find` refuses code in this thread."""
    return _state.refuses_code


def code_refusal(name: str) -> str:
    """Return why a name of code is refused, and what to do."""
    return (
        f"{shortened(name)!r} is code, which would run; read it, and {_state.remedy}, or name a "
        "plug-in that is installed"
    )


def view(name: str) -> Callable[..., Any]:
    """Return what shows an object of a lower room: ``view("run.plot")(run)``.

    Views are entry points of the group ``simkit.views``, named by the kind of the object: a picture
    or text of a `Run` is made by rooms above that of results, which it therefore cannot import.

    Raises PluginError if there is no such view, or it cannot be loaded.
    """
    kind, _, label = name.partition(".")
    found: Callable[..., Any] = find("simkit.views", label, kind=kind)
    return found


def name_checker() -> Callable[[str, str, str | None], None]:
    """Return a function of (group, name, kind) that raises the PluginError of `find`.

    It imports nothing and reads the entry points of a group only once. Names with a colon pass,
    because they can only be checked by their import.
    """
    tables: dict[str, tuple[EntryPoint, ...]] = {}

    def check_name(group: str, name: str, kind: str | None) -> None:
        if ":" not in name:
            if group not in tables:
                tables[group] = _group(group)
            _entry_point(group, name, kind, tables[group])

    return check_name


def names(group: str, kind: str | None = None) -> list[str]:
    """Return the entry-point names of a group, sorted; with `kind`, its names without prefix.

    ``names("simkit.policies", "backfill")`` is ``["conservative", "easy", "none"]``.
    """
    return sorted({name for name, _ in _of_kind(_group(group), kind)})


def split_reference(name: str) -> tuple[str, str]:
    """Split ``place:attribute``, where the place is a module or a ``.py`` file.

    Raises PluginError unless it has both parts and the attribute is a dotted Python name.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not all(part.isidentifier() for part in attribute.split(".")):
        raise PluginError(
            f"{name!r} does not name an object; write package.module:attribute or file.py:attribute"
        )
    return place, attribute


def load_file(path: Path) -> ModuleType:
    """Execute a Python file as a module and return it.

    The module's name is made of the file's name and a hash of its path and content, so it shadows
    no other module. The same text gives the same module again, an edited file a new one.

    Raises PluginError, with the line in the file, if it cannot be read or executed.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror}") from error
    digest = sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()
    module_name = f"simkit_file_{path.stem}_{digest[:16]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # dataclasses and pickle look the module up by name
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        _let_interrupts_pass(error)
        line = _line_in(path, error)
        raise PluginError(f"{path}:{line}: cannot be loaded: {_quote(error)}") from error
    return module


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; what is installed is read once for each ``sys.path``."""
    return _in_group(tuple(sys.path), group)


@cache
def _in_group(path: tuple[str, ...], group: str) -> tuple[EntryPoint, ...]:
    return tuple(_installed(path).select(group=group))


@cache  # a scan of all installed packages takes milliseconds, and a run asks for many groups
def _installed(_path: tuple[str, ...]) -> Any:
    """Return all entry points: `EntryPoints`, before Python 3.12 `SelectableGroups`."""
    return metadata.entry_points()


def _group(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _of_kind(points: tuple[EntryPoint, ...], kind: str | None) -> list[tuple[str, EntryPoint]]:
    """Return (name without the kind's prefix, entry point) of each entry point of the kind."""
    prefix = f"{kind}." if kind else ""
    return [(p.name.removeprefix(prefix), p) for p in points if p.name.startswith(prefix)]


def _entry_point(
    group: str, name: str, kind: str | None, table: tuple[EntryPoint, ...] | None = None
) -> EntryPoint:
    known = _of_kind(_group(group) if table is None else table, kind)
    found = {point.value: point for label, point in known if label == name}
    noun = _NOUNS.get(kind or group, f"in {group}")
    if not known and group == "simkit.metrics":
        raise PluginError(
            f"{name!r} is not known as {noun}: no package with metrics is installed; name a "
            "function in a file, my_metrics.py:tail_wait; simkit's own metrics need no name"
        )
    if not known:
        raise PluginError(
            f"{name!r} is not known as {noun}: none is installed; "
            "run `pip install -e .` (or `pip install simkit-cluster`) again"
        )
    if not found:
        suggestion = did_you_mean(name, {label for label, _ in known})
        raise PluginError(f"{name!r} is not known as {noun}{suggestion}")
    if len(found) > 1:
        raise PluginError(
            f"{name!r} is ambiguous as {noun}; write one of: {', '.join(sorted(found))}"
        )
    return next(iter(found.values()))


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        _let_interrupts_pass(error)
        maker = f" of {point.dist.name}" if point.dist else ""
        raise PluginError(
            f"plug-in {point.name!r}{maker} ({point.value}) cannot be loaded: {_quote(error)}"
        ) from error


def public_name(package: dict[str, Any], names: Mapping[str, str], name: str) -> Any:
    """Import a package's public name when it is first used; the body of its ``__getattr__``.

    Args:
        package: the globals of the package, which keep what was imported.
        names: module below the package → its public names, with spaces between them.
        name: the name wanted; AttributeError if it is not public.
    """
    for module, own in names.items():
        if name in own.split():
            place = importlib.import_module(f"{package['__name__']}.{module}")
            package[name] = value = getattr(place, name)
            return value
    raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise PluginError(
                f"there is no module {error.name!r}; install its package, "
                f"or write {name.replace('.', '/')}.py:attribute if it is a file"
            ) from error
        raise PluginError(f"module {name} cannot be loaded: {_quote(error)}") from error
    except (Exception, SystemExit) as error:
        _let_interrupts_pass(error)
        raise PluginError(f"module {name} cannot be loaded: {_quote(error)}") from error


def _let_interrupts_pass(error: BaseException) -> None:
    """Raise KeyboardInterrupt if it hit an import: the plug-in is not at fault."""
    if is_interrupt(error):
        raise KeyboardInterrupt from error


def _attribute(module: ModuleType, attribute: str, place: str) -> Any:
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        public = [
            name
            for name, value in vars(module).items()
            if callable(value) and not name.startswith("_")
        ]
        suggestion = did_you_mean(attribute, public)
        raise PluginError(f"{place} defines no {attribute!r}{suggestion}") from error


def _quote(error: BaseException) -> str:
    """Return ``NameError: name 'x' is not defined``, on one line."""
    return " ".join(traceback.format_exception_only(error)[-1].split())


def _line_in(path: Path, error: BaseException) -> int:
    """Return the line of the user's file at which its loading failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return (lines[-1] if lines else None) or 1


def make(
    what: str,
    group: str,
    name: str,
    arguments: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
    *,
    kind: str | None = None,
) -> Any:
    """Return what a name's plug-in makes of its arguments: `find`, then `instantiate`."""
    return instantiate(what, find(group, name, kind=kind), arguments, own)


def instantiate(
    what: str,
    factory: Callable[..., Any],
    arguments: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
) -> Any:
    """Return ``factory(**own, **arguments)``.

    `what` is the factory's name in the scenario and begins messages, such as
    ``policy.order: 'multifactor'``. `own` are arguments that simkit gives, which no message offers.

    Raises ScenarioError if the factory does not take the arguments, or refuses a value with
    ValueError, TypeError or ScenarioError; PluginError if an author's code fails in another way or
    exits; other errors of simkit pass unchanged.
    """
    if not callable(factory):
        raise ScenarioError(f"{what} is a {type(factory).__name__}; it must be a class or function")
    own = own or {}
    _check_arguments(what, factory, arguments, own)
    try:
        return factory(**own, **arguments)
    except ScenarioError as error:
        key, colon, _ = what.partition(": ")
        raise ScenarioError(at_key(key, error.problems) if colon else error.problems) from error
    except SimkitError:
        raise
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:
        if text := author_traceback(error, factory, f"{what} cannot be made"):
            raise PluginError(text) from error
        raise


@contextmanager
def blaming_author(owner: object, what: str) -> Iterator[None]:
    """Turn an error or exit that comes from the owner's author into a PluginError of one line.

    `what` is the owner's name in messages; other errors pass unchanged.
    """
    try:
        yield
    except SimkitError:
        raise
    except (Exception, SystemExit) as error:
        if lines := author_traceback(error, owner, f"{what} failed"):
            raise PluginError(lines.partition("\n")[0]) from error
        raise


def author_traceback(error: BaseException, owner: object, what: str) -> str:
    """Return ``mine.py:7: WHAT: KeyError: 'x'`` and the lines of the author that led there.

    Empty if the error does not come from the owner's author; see `lines_of_author`.
    """
    lines = lines_of_author(error, owner)
    if not lines:
        return ""
    place = lines[-1].strip().partition(", in ")[0]
    return "\n".join([f"{place}: {what}: {_quote(error)}", *lines])


def lines_of_author(error: BaseException, owner: object) -> list[str]:
    """Return the last lines that an error passed in the code of a plug-in's author, innermost last.

    That is in the files outside simkit that define the owner (a class, function or object), its
    base classes and its parts; empty if there are none.
    """
    own = _files_of(owner)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in own]
    return [f"  {f.filename}:{f.lineno}, in {f.name}: {f.line}" for f in frames[-_LINES_TOLD:]]


def _files_of(owner: object) -> set[str]:
    """Return the files outside simkit that define an object, its base classes and its parts.

    Parts in a list count if they are plug-ins, such as the candidates of a lookahead.
    """
    owner = owner.func if isinstance(owner, partial) else owner
    parts = (
        [owner] if isinstance(owner, type) else [owner, *getattr(owner, "__dict__", {}).values()]
    )
    modules = {getattr(owner, "__module__", "")}
    for part in parts:
        modules |= {
            base.__module__ for base in (part if isinstance(part, type) else type(part)).__mro__
        }
    loaded = (sys.modules.get(name) for name in modules if not is_of_simkit(name))
    files = {getattr(module, "__file__", None) for module in loaded}
    own = {file for file in files if file is not None}
    listed = (each for part in parts if isinstance(part, list) for each in part)
    return own.union(*[_files_of(each) for each in listed if hasattr(each, "reset")])


def _check_arguments(
    what: str,
    factory: Callable[..., Any],
    arguments: Mapping[str, Any],
    own: Mapping[str, Any],
) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # a built-in checks its arguments itself
    parameters = signature.parameters.values()
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        offered = [name for name in known if name not in own]
        for name in (*own, *arguments):
            if name not in known:
                takes = did_you_mean(name, offered) if offered else "; it takes none"
                raise ScenarioError(f"{what} takes no argument {name!r}{takes}")
    try:
        signature.bind(**own, **arguments)
    except TypeError as error:
        raise ScenarioError(f"{what}: {error}; give it next to the name") from error


def find_in_table(noun: str, table: Mapping[str, Any], name: str) -> Any:
    """Return the class or function that a name stands for.

    Args:
        noun: what it is, with its article: ``a reward``.
        table: the bundled ones by name.
        name: a name in the table, ``module:attribute`` or ``file.py:attribute``.

    Raises PluginError if nothing has that name.
    """
    if ":" in name:
        return find("", name)
    if name not in table:
        raise PluginError(f"{name!r} is not known as {noun}{did_you_mean(name, table)}")
    return table[name]

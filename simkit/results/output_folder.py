"""Checks that results can be written to a folder or file, before the work begins."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from simkit.errors import RunError, SimkitError
from simkit.files import PART, read_json, unfinished
from simkit.results.run_info import changed_inputs
from simkit.scenario import Scenario, without_custom_metrics
from simkit.text import counted

UNFINISHED: Final = "unfinished"
"""Folder inside a finished run's folder, in which the run that will replace it is written."""

_REASONS: Final = {
    errno.EACCES: "you have no permission to write there",
    errno.EPERM: "you have no permission to write there",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "nothing can be made at that place",
    errno.EEXIST: "a file is in the way",
    errno.ENOTDIR: "a file is in the way",
    errno.EISDIR: "it is a folder",
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "files may not grow that large here",
    errno.ENAMETOOLONG: "the name is too long",
}


def check_run_folder(folder: Path, wanted: Mapping[str, Any], *, force: bool = False) -> None:
    """Check that a run can be written to a folder; change nothing.

    Arguments are those of `check_content`; raises what that and `check_place` raise.
    """
    check_place(folder)
    check_content(folder, wanted, force=force)


def check_place(folder: Path) -> None:
    """Check that files can be written to a folder; a missing one is made and removed again.

    Raises RunError, with what is in the way and what to do.
    """
    made: list[Path] = []
    try:
        made += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise unwritable(folder, error) from error
    finally:
        for path in made:  # the innermost first
            with suppress(OSError):
                path.rmdir()


def check_content(folder: Path, wanted: Mapping[str, Any], *, force: bool = False) -> None:
    """Refuse a folder whose content a run must not replace.

    Args:
        folder: absent, empty, or that of a run of the same scenario after defaults, but for the
            user's metrics, which read the files as they are now if it is complete.
        wanted: what `run_info.identity` returns for the run.
        force: also allow a folder that holds another run, or other files.

    Raises RunError, with what is in the way and what to do.
    """
    try:
        entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise unwritable(folder, error) from error
    others = [entry for entry in entries if not entry.endswith(PART)]
    if force or not others:
        return
    if "run.json" not in others:
        raise RunError(
            f"{folder}: holds other files ({', '.join(others[:3])}{', …' * (len(others) > 3)}) "
            "and no run; choose another folder with --output, or write there with --force "
            "(in Python: force=True)"
        )
    if whose := _another_run(_run_json(folder), wanted):
        raise RunError(
            f"{folder}: holds {whose}; choose another folder with --output, or replace it with "
            "--force (in Python: force=True)"
        )


def _another_run(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return what a folder holds if that is not the run that is wanted; empty if it is."""
    if not found:
        return "a run.json that is damaged"
    name, wanted_name = found.get("name"), wanted.get("name")
    if name != wanted_name:
        return f"the run of another scenario, {name!r}, but this one is called {wanted_name!r}"
    there = _without_custom_metrics(after_defaults(found.get("scenario")))
    here = _without_custom_metrics(wanted.get("scenario"))
    same = found.get("scenario_sha256") == wanted.get("scenario_sha256") or there == here
    if not same:
        return f"another run of {name!r}, which differs in {differences_text(there, here)}"
    if given := sorted({*(found.get("given") or ()), *(wanted.get("given") or ())}):
        return (
            f"a run of {name!r}, but whether it is the same cannot be told: run.json does not "
            f"record what Python gave as {' and '.join(given)}"
        )
    if found.get("status") == "complete" and (changed := changed_inputs(found)):
        return f"a run of {name!r} with another content of {' and '.join(changed)}"
    return ""


def _without_custom_metrics(scenario: Any) -> Any:
    return without_custom_metrics(scenario) if isinstance(scenario, dict) else scenario


def after_defaults(scenario: Any) -> Any:
    """Return a scenario with the keys that it has today, where it still can be read."""
    with suppress(ValueError, SimkitError):
        return Scenario.model_validate(scenario).model_dump(mode="json")
    return scenario


_MOST_DIFFERENCES: Final = 3
_LONGEST_VALUE: Final = 60
"""Characters of a value in a message."""


def differences_text(found: object, wanted: object, path: str = "") -> str:
    """Return the dotted keys in which two scenarios differ, with both values; empty if in none."""
    texts = list(_differences(found, wanted, path))
    more = len(texts) - _MOST_DIFFERENCES
    return ", ".join(texts[:_MOST_DIFFERENCES]) + (
        f" and {counted(more, 'other key')}" if more > 0 else ""
    )


def _differences(found: object, wanted: object, path: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(wanted, dict) and (found or wanted):
        for key in sorted(found.keys() | wanted.keys()):
            where = f"{path}.{key}" if path else str(key)
            yield from _differences(found.get(key), wanted.get(key), where)
    elif found != wanted:
        yield f"{path or 'its scenario'} ({_short(found)} there, {_short(wanted)} here)"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def scenario_of(folder: Path) -> str:
    """Return the name of the scenario whose run a folder holds; empty if it is not known."""
    return str(_run_json(folder).get("name") or "")


def holds_finished_run(folder: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return _run_json(folder).get("status") == "complete"


def _run_json(folder: Path) -> dict[str, object]:
    with suppress(OSError, ValueError):
        content = read_json(folder / "run.json")
        return content if isinstance(content, dict) else {}
    return {}


def check_file(path: Path) -> None:
    """Check that a file can be written; change nothing.

    Raises RunError, with what is in the way and what to do.
    """
    if path.is_dir():
        raise RunError(f"{path}: is a folder; name a file in it")
    if not path.parent.exists():
        raise RunError(
            f"{path}: there is no folder {path.parent}; make it, or choose another place"
        )
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        raise _cannot_write(path, error) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a hidden name to write to; the file gets its own name when it is complete.

    Raises RunError if it cannot be written.
    """
    try:
        with unfinished(path) as part:
            yield part
            part.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole, in UTF-8; raises RunError if it cannot be written."""
    check_file(path)
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def _cannot_write(path: Path, error: OSError) -> RunError:
    return RunError(f"{path}: cannot be written: {reason(error)}; choose another place")


def unwritable(folder: Path, error: OSError) -> RunError:
    """Return the error for a run folder that cannot be made or written."""
    return RunError(
        f"{folder}: cannot be written: {reason(error, (folder, *folder.parents))}; choose another "
        "folder with --output"
    )


def reason(error: OSError, paths: Iterable[Path] = ()) -> str:
    """Return why the operating system refused; names the file in the way if it is in `paths`."""
    text = _REASONS.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        for path in paths:
            if path.is_file():
                return f"{path} is a file, but a run is a folder"
    return text

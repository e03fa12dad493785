"""The folder of a training: its description, its progress and the agent; a kill cannot damage it.

    training.json     scenario, learner, seed, versions, status, iteration; replaced atomically
    metrics.parquet   one row per iteration; replaced atomically, never behind the checkpoint
    checkpoint/       the state that the learner resumes from
    agent/            the bundle that a scenario can name

Folders are written next to their place and renamed. A kill between two renames may leave only
``checkpoint.old``; the training then resumes from that.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from simkit.errors import RunError
from simkit.files import PART, read_json
from simkit.results.output_folder import after_defaults, check_place, differences_text, reason
from simkit.results.run_writer import claim
from simkit.scenario.bundled import AGENT, DESCRIPTION

FORMAT: Final = 1
"""The version of training folders that this module writes and reads."""
_INFO: Final = "training.json"
_METRICS: Final = "metrics.parquet"
_CHECKPOINT: Final = "checkpoint"
_OLD: Final = ".old"
IDENTITY: Final = ("scenario", "device")
"""Keys of training.json that make it this training and no other."""
_ALWAYS: Final = ("status", "iteration", "iterations", "arguments", *IDENTITY)
"""Keys that every training.json has."""

Row = dict[str, float]
"""What was measured in an iteration, by name."""


class TrainingFolder:
    """The files of a training; locked for this process from `open` to `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None
        self._was_empty = False

    def open(
        self, info: Mapping[str, Any], *, force: bool, extendable: bool = False
    ) -> dict[str, Any]:
        """Make the folder, or continue the same training in it; return its training.json.

        Args:
            info: what makes the training: scenario, learner, seed, device, versions.
            force: delete another training that is there, or this one's progress.
            extendable: whether a training that differs only in its number of iterations may go on
                to the new number; see `simkit.training.Training`.

        For a new folder, training.json is ``info`` with status "incomplete".

        Raises RunError if it holds something else, cannot be written, or is being written to.
        """
        found = self.find(info, force=force, extendable=extendable)
        self._was_empty = not (self.folder.is_dir() and any(self.folder.iterdir()))
        self._lock = claim(self.folder, "a training")
        if found:
            return found
        self._clear()
        fresh = {"format": FORMAT, "status": "incomplete", "iteration": 0, **info}
        self.put_info(fresh)
        return fresh

    def close(self) -> None:
        """Let other processes write to the folder again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def discard(self) -> None:
        """Delete the folder if it was empty before `open`."""
        if self._was_empty:
            shutil.rmtree(self.folder, ignore_errors=True)

    def find(
        self, info: Mapping[str, Any], *, force: bool, extendable: bool = False
    ) -> dict[str, Any]:
        """Return the training.json that `open` would continue from; empty if it would start over.

        Nothing is written. Arguments and errors are those of `open`.
        """
        check_place(self.folder)
        entries = [e.name for e in self.folder.iterdir()] if self.folder.is_dir() else []
        others = sorted(name for name in entries if not name.endswith(PART))
        if _INFO not in others:
            if others and not force:
                raise RunError(
                    f"{self.folder}: holds other files ({', '.join(others[:3])}"
                    f"{', …' * (len(others) > 3)}) but no training; choose another folder with "
                    "--output, or write there with --force"
                )
            return {}
        return {} if force else self._of_this_training(info, extendable=extendable)

    def _of_this_training(self, info: Mapping[str, Any], *, extendable: bool) -> dict[str, Any]:
        """Return the training.json that is there; raises RunError if it is another training's."""
        found = read_training(self.folder)
        if extendable:
            found = _resized(found, info)
        differing = _differences(found, info)
        if differing:
            if not extendable and not _differences(_resized(found, info), info):
                raise RunError(
                    f"{self.folder}: holds this training with {found['iterations']:,} iterations, "
                    f"and one with {info['learner']} cannot be extended, here to "
                    f"{info['iterations']:,}: its schedules depend on the number of iterations; "
                    "choose another folder with --output, or --force to delete that one"
                )
            raise RunError(
                f"{self.folder}: holds another training, which differs in "
                f"{differing}; choose another folder with --output, or --force to "
                "delete that one"
            )
        return found

    def _clear(self) -> None:
        for name in (_CHECKPOINT, AGENT):
            for end in ("", _OLD, PART):
                shutil.rmtree(self.folder / (name + end), ignore_errors=True)
        for name in (_INFO, _METRICS):
            (self.folder / name).unlink(missing_ok=True)

    def put_info(self, info: Mapping[str, Any]) -> None:
        """Replace training.json."""
        text = json.dumps(info, indent=1, ensure_ascii=False, allow_nan=False)
        self._replace(_INFO, lambda path: path.write_text(text + "\n", encoding="utf-8"))

    def save(self, rows: Sequence[Row], write: Callable[[Path], None]) -> None:
        """Replace the metrics, then the checkpoint.

        After a kill the metrics may hold more iterations than the checkpoint, but never fewer.
        """
        table = pl.DataFrame(list(rows), infer_schema_length=None)
        self._replace(_METRICS, table.write_parquet)
        self.replace_folder(_CHECKPOINT, write)

    def metrics(self, iteration: int) -> list[Row]:
        """Return the rows up to an iteration, without the numbers that were not measured."""
        path = self.folder / _METRICS
        try:
            table = pl.read_parquet(path).filter(pl.col("iteration") <= iteration)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise RunError(
                f"{path}: cannot be read ({str(error).splitlines()[0]}); start over with --force"
            ) from error
        rows = table.iter_rows(named=True)
        return [{k: v for k, v in row.items() if v is not None} for row in rows]

    @property
    def checkpoint(self) -> Path | None:
        """The folder to resume from; None if there is none yet."""
        places = (self.folder / _CHECKPOINT, self.folder / (_CHECKPOINT + _OLD))
        return next((place for place in places if place.is_dir()), None)

    @property
    def has_agent(self) -> bool:
        """Whether the bundle is there."""
        return (self.folder / AGENT / DESCRIPTION).is_file()

    def replace_folder(self, name: str, write: Callable[[Path], None]) -> None:
        """Write a folder next to its place, and rename it when it is complete."""
        place, part, old = (self.folder / (name + end) for end in ("", PART, _OLD))
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            write(part)
            if place.exists():
                shutil.rmtree(old, ignore_errors=True)
                place.rename(old)
            part.rename(place)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise _unwritten(place, error) from error

    def _replace(self, name: str, write: Callable[[Path], Any]) -> None:
        part = self.folder / (name + PART)
        try:
            write(part)
            part.replace(self.folder / name)
        except OSError as error:
            raise _unwritten(self.folder / name, error) from error


def is_training(folder: Path) -> bool:
    """Return whether a folder is that of a training."""
    return os.path.isfile(folder / _INFO)  # noqa: PTH113  False for a name that is too long


def read_training(folder: Path) -> dict[str, Any]:
    """Return the content of a training.json; raises RunError if it is not of this format."""
    path = folder / _INFO
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); start over with --force") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else None
        raise RunError(
            f"{path}: is of format {shown}, this simkit reads format {FORMAT}; start over with "
            "--force, or resume with the simkit that wrote it"
        )
    if missing := [key for key in _ALWAYS if key not in found]:
        raise RunError(f"{path}: {', '.join(missing)} is missing; start over with --force")
    return found


def _unwritten(place: Path, error: OSError) -> RunError:
    return RunError(
        f"{place}: cannot be written: {reason(error)}; free some space or choose another folder "
        "with --output, and start the same command again"
    )


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the dotted keys in which two trainings differ, and both values."""
    there, here = (
        {**after_defaults(info.get("scenario", {})), "device": info.get("device")}
        for info in (found, wanted)
    )
    return differences_text(there, here)


def _resized(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training.json with the number of iterations that is wanted now.

    It is unchanged if it has that number, if it has already reached it, or if its last evaluation
    counted: the agent is always evaluated after the last iteration, and `keep: best` and
    `patience` use every evaluation, even one that a longer training would not make.
    """
    learn, done = wanted["scenario"]["learn"], int(found["iteration"])
    counts_evaluations = learn["keep"] == "best" or learn["patience"] is not None
    has_ended = found["status"] == "complete"
    if found["iterations"] == wanted["iterations"] or done >= int(wanted["iterations"]):
        return dict(found)
    if has_ended and counts_evaluations and done % int(learn["held_out_every"]) != 0:
        return dict(found)
    resized = {**found, "iterations": wanted["iterations"], "status": "incomplete"}
    resized["arguments"] = _with_length(found["arguments"], wanted["arguments"])
    resized["scenario"] = {**found["scenario"], "learn": _learn(found, wanted)}
    resized.pop("stopped", None)
    return resized


def _learn(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the one with the number of iterations of the other, wherever it is."""
    mine, theirs = found["scenario"]["learn"], wanted["scenario"]["learn"]
    arguments = _with_length(mine["arguments"], theirs["arguments"])
    return {**_with_length(mine, theirs), "arguments": arguments}


def _with_length(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    given = {"iterations": theirs["iterations"]} if "iterations" in theirs else {}
    return {**{key: value for key, value in mine.items() if key != "iterations"}, **given}

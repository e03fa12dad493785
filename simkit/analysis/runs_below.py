"""The runs of a folder, such as a sweep's, and the keys of their scenarios that differ."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simkit.errors import RunError, did_you_mean
from simkit.results.output_folder import UNFINISHED
from simkit.results.run_folder import Run, open_run

POLICY: Final = "policy"
SEED: Final = "seed"


def runs_below(folders: Iterable[str | os.PathLike[str]]) -> list[Run]:
    """Return the runs in folders and below them, by path; complete or not.

    Raises RunError for a folder without a run.
    """
    found: dict[Path, Run] = {}
    for folder in map(Path, folders):
        places = sorted(
            file.parent
            for file in folder.rglob("run.json")
            if UNFINISHED not in file.relative_to(folder).parts
        )
        if not places:
            raise RunError(
                f"{folder}: there is no run in it or below it; give a run folder, or the folder of "
                "a sweep"
            )
        found |= {place: open_run(place, allow_partial=True) for place in places}
    return list(found.values())


class Settings:
    """What the scenarios of some runs say, by dotted key."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._flat = [dict(_leaves(run.info.get("scenario", {}))) for run in runs]
        keys = dict.fromkeys(key for flat in self._flat for key in flat)
        texts = {key: {_text(flat.get(key)) for flat in self._flat} for key in keys}
        self._vary = [key for key, values in texts.items() if len(values) > 1]
        self._policies = _without_folders([run.policy for run in runs])

    @property
    def keys(self) -> list[str]:
        """Dotted keys that differ between runs."""
        return list(self._vary)

    @property
    def varying(self) -> list[str]:
        """Keys that differ between runs; those of the policy count as ``policy``."""
        return list(dict.fromkeys(_shortened(key) for key in self._vary))

    def values(self, key: str) -> list[str]:
        """Return the value of a key, or of all below it that differ, in each run.

        Raises RunError if no scenario has the key.
        """
        if not any(_is_below(one, key) for flat in self._flat for one in flat):
            names = dict.fromkeys(one for flat in self._flat for one in _with_parents(flat))
            raise RunError(
                f"by: no scenario of these runs has a key {key!r}{did_you_mean(key, names)}; "
                f"they differ in {', '.join(self.varying) or 'nothing'}"
            )
        if key == POLICY and self._labels_tell():
            return self._policies
        if all(key in flat for flat in self._flat):
            return [_text(flat[key]) for flat in self._flat]
        below = [one for one in self._vary if _is_below(one, key)]
        return [
            ", ".join(
                f"{one.removeprefix(key + '.')}={_text(flat[one])}" for one in below if one in flat
            )
            or "-"
            for flat in self._flat
        ]

    def changes(self) -> list[str]:
        """Return what differs between the first run and the last: ``seed 1 → 2``; seeds last."""
        keys = sorted(self.varying, key=lambda key: key == SEED)
        pairs = ((key, self.values(key)) for key in keys)
        return [f"{key} {_short(found[0])} → {_short(found[-1])}" for key, found in pairs]

    def _labels_tell(self) -> bool:
        """Return whether policies that differ have labels that differ."""
        whole = [
            tuple((key, _text(value)) for key, value in flat.items() if _is_below(key, POLICY))
            for flat in self._flat
        ]
        return len(set(self._policies)) == len(set(whole))


def _without_folders(policies: list[str]) -> list[str]:
    """Return policies by the names of their files alone, if that still tells them apart."""
    short = [policy.rsplit("/", 1)[-1] for policy in policies]
    return short if len(set(short)) == len(set(policies)) else policies


def _shortened(key: str) -> str:
    return POLICY if _is_below(key, POLICY) else key


def _is_below(key: str, parent: str) -> bool:
    return key == parent or key.startswith(f"{parent}.")


def _with_parents(keys: Iterable[str]) -> Iterable[str]:
    for key in keys:
        parts = key.split(".")
        yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _short(text: str) -> str:
    """Return a value for a line: numbers with separators, long text and paths cut."""
    if text.isdecimal():
        return f"{int(text):,}"
    if len(text) <= _LONGEST:
        return text
    return f"…{text[1 - _LONGEST :]}" if "/" in text else f"{text[: _LONGEST - 1]}…"


_LONGEST = 48


def _leaves(value: Any, key: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(below, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)

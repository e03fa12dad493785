"""A signal's file by itself: read with the keys that a scenario would give, outside of any run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from simkit import plugins
from simkit.construct import construct
from simkit.errors import PluginError, ScenarioError, TraceError
from simkit.scenario_names import Context
from simkit.scenario_paths import cut_at_scalar, dotted
from simkit.scenario_problems import problems_of
from simkit.scenario_recorded import RecordedSignal
from simkit.scenario_signal import Signal
from simkit.scenario_types import Section
from simkit.signal_trace import PowerTrace

_ARGUMENTS: Final = re.compile(r"(?<![\w./-])(?:(time_zone)|(longest|step)_s)(?![\w./-])")
"""Arguments that have other names as keys of a scenario."""


class _Place(Section):
    """Where a scenario has a signal."""

    signal: Signal


def read_signal_file(keys: Mapping[str, Any]) -> PowerTrace:
    """Read the trace of a recorded signal.

    Args:
        keys: as a scenario has them, `type` among them; relative paths start from the working
            directory.

    Raises ScenarioError with all problems of the keys, TraceError for the file, SimkitError
    without pvlib or windpowerlib where they are needed. Messages name the keys.
    """
    section = _checked({"signal": dict(keys)})
    try:
        return read_recorded(section)
    except TraceError as error:
        raise TraceError(in_keys(str(error))) from error


def read_recorded(section: RecordedSignal) -> PowerTrace:
    """Read the trace of a scenario's signal with the reader that it names.

    Raises PluginError if there is none, if it does not take the keys or gives something else, and
    what the reader raises.
    """
    name = section.reader_name
    reader: Callable[..., object] = plugins.find("simkit.signals", name)
    trace = construct(f"the reader {name!r}", reader, section.reader_arguments())
    if not isinstance(trace, PowerTrace):
        raise PluginError(
            f"the reader {name!r} returned a {type(trace).__name__}; a reader of signals returns "
            "a simkit.signal_trace.PowerTrace"
        )
    return trace


def in_keys(text: str) -> str:
    """Return a reader's message with the scenario's keys for the arguments that it names."""
    return _ARGUMENTS.sub(lambda found: found[2] or "zone", text)


def _checked(data: dict[str, Any]) -> RecordedSignal:
    try:
        place = _Place.model_validate(data, context=Context(Path.cwd(), plugins.checker()))
    except ValidationError as error:
        problems = [
            (cut_at_scalar(problem.path, data), problem.text)
            for problem in problems_of(error, _Place)
        ]
        # each path begins with the name of the only field
        lines = [": ".join([*filter(None, [dotted(path[1:])]), text]) for path, text in problems]
        raise ScenarioError(dict.fromkeys(lines)) from error
    if not isinstance(place.signal, RecordedSignal):
        raise ScenarioError(
            f"type: a {place.signal.type} signal is not read from a file; name a type that is"
        )
    return place.signal

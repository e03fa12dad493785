"""Every error a user can meet: what is wrong, its value, the rule, the remedy.

    SimkitError
    ├── ScenarioError    the scenario file: unknown key, bad value, missing file
    ├── TraceError       a trace: unreadable, malformed, empty
    ├── PluginError      a name that no plug-in has
    ├── PolicyError      a policy did something that the rules forbid
    ├── ProcessError     a user's process failed, or did something that the rules forbid
    ├── LimitError       a run met one of its limits, so it may never have ended
    └── RunError         a run folder: missing, incomplete, from another program

A `SimkitWarning` is no error: it tells what a reader of the results must know. The command line
prints only the text of a `SimkitError`. Any other exception is a defect of simkit
and keeps its traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches

from simkit.text import printable


class SimkitError(Exception):
    """The base of all errors that the user can fix; its text shows control characters."""

    def __str__(self) -> str:
        """Return the message, of one or more lines, safe to print."""
        return "\n".join(map(printable, super().__str__().split("\n")))


class SimkitWarning(UserWarning):
    """What the command line warns of, in Python: results may mean something else than they seem.

    It is given by `warnings.warn`, so that the filters of `warnings` show it once, silence it
    or make it an error; ``run.info["warnings"]`` has the same texts.
    """


def warn_of(texts: Iterable[str], *, stacklevel: int = 1) -> None:
    """Give each text as a `SimkitWarning`, at the line of the caller's caller.

    Args:
        texts: as the command line prints them; "warning: " before them is left out.
        stacklevel: callers in between.
    """
    for text in texts:
        warnings.warn(text.removeprefix("warning: "), SimkitWarning, stacklevel=stacklevel + 2)


class ScenarioError(SimkitError):
    """A scenario is wrong; holds every problem found, not just the first.

    Attributes:
        problems: one line each, ``file:line: dotted.path: what is wrong; what to do``.
    """

    def __init__(self, problems: Iterable[str] | str) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class TraceError(SimkitError):
    """A trace cannot be read: ``file:line: what is wrong; what to do``."""


class NoJobsError(TraceError):
    """A workload model drew no job, as can happen at a low rate."""


class PluginError(SimkitError):
    """A name in a scenario stands for no policy, reader or predictor."""


class PolicyError(SimkitError):
    """A policy or estimator failed, or a policy asked for something illegal."""


class ProcessError(SimkitError):
    """A user's process failed or asked for something illegal: names process and time."""


class LimitError(SimkitError):
    """A run met one of its limits and was stopped; its results so far are kept."""


class RunError(SimkitError):
    """A run folder is missing, incomplete or not written by simkit."""


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C, or what an import that it hit has made of it.

    Python 3.11 makes a RuntimeError of one within ``__set_name__``, polars a panic.
    """
    while error is not None:
        panic = type(error).__name__ == "PanicException" and "KeyboardInterrupt" in str(error)
        if panic or isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def at_key(key: str, problems: Iterable[str]) -> list[str]:
    """Return the problems, each beginning with the key of the scenario that it is about.

    By the key its line in the file, or the override that it comes from, is found.
    """
    places = (f"{key}:", f"{key}.")
    return [text if text.startswith(places) else f"{key}: {text}" for text in problems]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'easy'?"`` or, without a near match, the list of known names.

    Capitals make no difference.
    """
    choices = sorted(known)
    if near := nearest(name, choices):
        return f"; did you mean {near!r}?"
    return f"; known: {', '.join(choices)}" if choices else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to a mistyped one; None if all are far from it.

    Capitals make no difference.
    """
    choices = sorted(known)
    small = sorted({choice.casefold() for choice in choices})
    near = get_close_matches(name.casefold(), small, n=1, cutoff=0.6)
    same = [choice for choice in choices if choice.casefold() in near]
    return get_close_matches(name, same, n=1, cutoff=0.0)[0] if same else None

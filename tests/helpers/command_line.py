"""What a command of simkit ended with, as the tests of the command line see it."""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

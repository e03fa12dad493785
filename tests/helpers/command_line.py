"""Commands of simkit in this process, and what they end with."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from simkit.cli import main


class Result(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


class Simkit:
    """Runs commands of simkit; call it with their words."""

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        *begin: str,
    ) -> None:
        """`begin` are the words that every command begins with."""
        self._capsys, self._monkeypatch, self._begin = capsys, monkeypatch, begin

    def __call__(self, *words: object) -> Result:
        """Run a command in the working folder; no error of it is a traceback."""
        self._monkeypatch.setattr(sys, "argv", ["simkit", *self._begin, *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return Result(int(exit_.value.code or 0), out, err)

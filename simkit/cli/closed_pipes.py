"""Output whose reader may leave: `simkit run … | head -1` runs to its end, with its own exit code.

A write to a closed pipe, or to a full disk, fails. The text then goes to the null device instead,
and so does all that follows: a run's results do not depend on its output. A reader that left wanted
no more; any other failure loses output, and `output_is_lost` tells the command line so.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

_STDERR = 2


class LeftPipe(io.FileIO):
    """A file descriptor that leads to the null device as soon as it cannot be written."""

    lost = False
    """Whether a write failed for another reason than that the reader left."""

    def write(self, data: Any) -> int:
        """Write, if anybody reads it."""
        try:
            return super().write(data)
        except OSError as error:  # nobody reads any more, or the disk is full
            self.lost = not isinstance(error, BrokenPipeError)
            if self.lost and self.fileno() != _STDERR:
                os.write(_STDERR, f"the output cannot be written: {error.strerror}\n".encode())
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlive_readers() -> None:
    """Let stdout and stderr survive their readers, and be there even if they were closed."""
    sys.stdout = _outliving(sys.stdout, sys.__stdout__)
    sys.stderr = _outliving(sys.stderr, sys.__stderr__)


def output_is_lost() -> bool:
    """Return whether output could not be written, although its reader is there."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, LeftPipe) and raw.lost


def _outliving(stream: TextIO | None, own: TextIO | None) -> TextIO:
    """Return a stream that outlives its reader; another's, such as a test's, stays as it is."""
    if stream is None:  # closed, as by `simkit run … >&-`
        return Path(os.devnull).open("w", encoding="utf-8")
    if stream is not own:
        return stream
    stream.flush()
    raw = LeftPipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=own is sys.__stderr__ or stream.isatty(),
    )

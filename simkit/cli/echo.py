"""The one way of text to the terminal: control characters in it are shown, not obeyed.

Names and messages may come from strangers' files. An escape sequence in them could rename the
window, hide lines or write over others, so nothing else in this room prints.
"""

from __future__ import annotations

import typer

from simkit.text import printable


def echo(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Print a text of one or more lines, to stderr if `err`."""
    lines = str(text).split("\n")
    typer.echo("\n".join(map(printable, lines)) + end, err=err, nl=False)

"""The help of groups of commands: what a command does is shown whole, wrapped to the terminal.

The help is plain text of at most 80 columns. Typer's boxes leave the text of an option 26 columns
of 80, and break choices inside words.
"""

from __future__ import annotations

import inspect
from typing import Any

from typer import BadParameter
from typer.core import TyperGroup


class WholeHelpGroup(TyperGroup):
    """A group that lists its commands with all of their first sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Carry a command out; a wrong choice is told without pydantic's prefix."""
        try:
            return super().invoke(ctx)
        except BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, which Typer would cut after one line each."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.short_help or first_paragraph(command.help or ""))
            for name, command in commands.items()
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a text in one line."""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())

"""The reference of the command line, from the functions that are its commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typer import Typer
from typer.models import ArgumentInfo, OptionInfo


def commands() -> str:
    """Return a section a command: what it does, its usage, its arguments and options."""
    return "\n\n".join(_section(name, function) for name, function in _leaves())


def command_names() -> list[str]:
    """Return the full names of all commands: ``run``, ``trace check``, …."""
    return [name for name, _ in _leaves()]


def _leaves() -> Iterator[tuple[str, Callable[..., Any]]]:
    from simkit.cli import COMMANDS, load_command

    for name, (place, _) in COMMANDS.items():
        found = load_command(place)
        if isinstance(found, Typer):
            for command in found.registered_commands:
                yield f"{name} {command.name}", command.callback
        else:
            yield name, found


def _section(name: str, function: Callable[..., Any]) -> str:
    parameters = list(_parameters(function))
    arguments = [p for p in parameters if isinstance(p[2], ArgumentInfo)]
    options = [p for p in parameters if isinstance(p[2], OptionInfo)]
    words = [
        f"simkit {name}",
        *(_shown(*p) for p in arguments),
        *(["[OPTIONS]"] if options else []),
    ]
    text = inspect.cleandoc(function.__doc__ or "")
    parts = [f"### simkit {name}", text, f"```text\n{' '.join(words)}\n```"]
    rows = [f"| `{_shown(*p)}` | {_help(*p)} |" for p in arguments]
    rows += [f"| {_option(*p)} | {_help(*p)} |" for p in options]
    if rows:
        parts.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts)


Parameter = tuple[inspect.Parameter, Any, Any]
"""(parameter, bare type, typer's description of it)."""


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        bare, info = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, OptionInfo())
        yield parameter, bare, info


def _shown(parameter: inspect.Parameter, _bare: Any, info: Any) -> str:
    return str(info.metavar or parameter.name.upper())


def _option(parameter: inspect.Parameter, bare: Any, info: Any) -> str:
    # inside Annotated, typer takes an option's first name as its default
    given = [str(name) for name in (info.default, *(info.param_decls or ()))]
    names = [name for name in given if name.startswith("-")]
    names = names or [f"--{parameter.name.replace('_', '-')}"]
    shown = ", ".join(f"`{name}`" for name in sorted(names, key=len, reverse=True))
    return shown if bare is bool else f"{shown} `{info.metavar or _kind(bare)}`"


def _kind(bare: Any) -> str:
    """Return ``PATH``, ``N`` or the choices of a type, of a list's items or beside None."""
    if get_origin(bare) is Literal:
        return "\\|".join(get_args(bare))
    for part in get_args(bare):
        if part is not type(None):
            return _kind(part)
    name = str(bare.__name__)
    return {"int": "N", "float": "X", "str": "TEXT"}.get(name, name.upper())


def _help(parameter: inspect.Parameter, _bare: Any, info: Any) -> str:
    text = str(info.help or "").replace("|", "\\|")
    default = parameter.default
    if "default" in text.lower() or default in (None, False, inspect.Parameter.empty):
        return text
    return f"{text} Default: `{default}`."

"""Text for people: numbers with their nouns, foreign text shortened, docstrings of fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from types import ModuleType


def counted(number: int, noun: str, many: str = "") -> str:
    """Return ``1 job`` or ``1,000 jobs``; `many` is the plural if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def amount_text(amount: float, resource: str) -> str:
    """Return ``64 processors``, ``1 processor`` or ``0.5 gpus``: an amount of a resource."""
    one = amount == 1 and not resource.endswith("ss")
    return f"{amount:,.10g} {resource.removesuffix('s') if one else resource}"


def shortened(text: str) -> str:
    """Return the text with the middle of words of more than 500 characters left out."""
    return re.sub(r"\S{500,}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", text)


_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, line breaks, marks that turn the direction of writing, and surrogates."""


def printable(text: str) -> str:
    r"""Return one line of text with what a terminal would obey or hide as an escape: ``\x1b``."""
    return _UNSAFE.sub(lambda c: c[0].encode("unicode_escape").decode("ascii"), text)


def attribute_docstrings(cls: type) -> dict[str, str]:
    """Return attribute → the text below its declaration, in the source of a class and its bases.

    One that is declared again without a text, such as with another default, keeps that of the base.
    What documentation and error messages say of a field; it is read only when it is asked for,
    because reading sources takes time. Empty where there is no source.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        module = sys.modules.get(base.__module__)
        own = _class_bodies(module).get(base.__qualname__, []) if module else []
        for declared, below in pairwise(own):
            if (
                isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name)
                and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            ):  # fmt: skip
                found[declared.target.id] = inspect.cleandoc(str(below.value.value))
    return found


@cache
def _class_bodies(module: ModuleType) -> dict[str, list[ast.stmt]]:
    """Return qualified name → statements of each class in a module's source, which is read once."""
    try:
        parts: list[tuple[str, ast.AST]] = [("", ast.parse(inspect.getsource(module)))]
    except (OSError, TypeError):  # built in, or typed in at a prompt
        return {}
    found: dict[str, list[ast.stmt]] = {}
    for prefix, part in parts:  # grows while it is read
        if isinstance(part, ast.ClassDef):
            found[prefix + part.name] = part.body
            prefix += f"{part.name}."
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            prefix += f"{part.name}.<locals>."
        parts += [
            (prefix, inner) for inner in ast.iter_child_nodes(part)
            if not isinstance(inner, ast.expr)
        ]  # fmt: skip
    return found

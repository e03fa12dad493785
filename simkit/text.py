"""Text for people: numbers with their nouns, and foreign text shortened."""

from __future__ import annotations

import re


def counted(number: int, noun: str, many: str = "") -> str:
    """Return ``1 job`` or ``1,000 jobs``; `many` is the plural if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


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

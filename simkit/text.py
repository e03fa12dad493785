"""Text of numbers with their nouns, in singular or plural."""

from __future__ import annotations


def counted(number: int, noun: str, many: str = "") -> str:
    """Return ``1 job`` or ``1,000 jobs``; `many` is the plural if it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"

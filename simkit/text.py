"""Words for people: a number with its noun, in the singular where there is one of it."""

from __future__ import annotations


def counted(number: int, noun: str, many: str = "") -> str:
    """Return ``1 job`` or ``1,000 jobs``.

    Args:
        number: how many there are.
        noun: what one of them is called.
        many: what several are called; empty: the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"

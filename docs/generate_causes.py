"""The table of causes of the reference, made of `simkit.why.causes`."""

from __future__ import annotations

from simkit.why.causes import MEANINGS


def causes() -> str:
    """Return the causes of waiting as a table of Markdown."""
    rows = [
        f"| `{cause}` | {meaning.title} | {meaning.blocked} | {meaning.blocker} |"
        for cause, meaning in MEANINGS.items()
    ]
    head = "| cause | in text | a waiting task is blocked by it if | named: without it, it starts |"
    return "\n".join([head, "|---|---|---|---|", *rows])

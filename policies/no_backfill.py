"""No backfilling: while the head of the queue does not fit, nothing behind it starts."""

from __future__ import annotations


def no_backfill() -> None:
    """Return no rule at all: the base of policies then leaves everything behind the head alone."""

"""Numbers that change in the course of a training, such as a learning rate or an entropy weight."""

from __future__ import annotations

__all__ = ["linear"]


def linear(begin: float, end: float, done: float) -> float:
    """Return the number on the straight line from begin to end, at a share done from 0 to 1.

    Beyond 1 it stays at the end.
    """
    return begin + (end - begin) * min(max(done, 0.0), 1.0)

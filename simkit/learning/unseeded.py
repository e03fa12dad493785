"""Seeds of environments that nobody seeds: the scenario's, and numbers that tell replicas apart."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import count, islice
from multiprocessing import current_process
from typing import Final
from weakref import finalize

_APART: Final = 2**20
"""Numbers of a process that a vector environment started are further from those of the next."""
_taken: set[int] = set()
os.register_at_fork(after_in_child=_taken.clear)


class ReplicaNumbers:
    """Numbers that no other environment of this process has while this object lives.

    They are the smallest that are free: 0 in a process with one environment, 0, 1, … for replicas,
    whatever kind of vector environment has them. In a worker of Gymnasium's `AsyncVectorEnv`, whose
    name ends in its place, the first environment has that place. Two of these that live at once
    have the same numbers, since their workers do not know of each other. In any other process, the
    k-th that a process has started, the first environment has k − 1.

    Attributes:
        numbers: as many as were asked for, ascending.
    """

    def __init__(self, replicas: int = 1) -> None:
        free = (number for number in count() if number not in _taken)
        own = list(islice(free, replicas))
        _taken.update(own)
        finalize(self, _taken.difference_update, own)
        self.numbers = (
            [_place_of_process() + _APART * number for number in own] if _started() else own
        )


def _started() -> Sequence[int]:
    """Return how many processes each process from the first one down had started, as this began."""
    return getattr(current_process(), "_identity", ())


def _place_of_process() -> int:
    """Return the place of this process among those of a vector environment."""
    found = re.fullmatch(r"Worker<\w+>-(\d+)", current_process().name)
    return int(found[1]) if found else _started()[-1] - 1

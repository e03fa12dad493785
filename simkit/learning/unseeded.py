"""Seeds of environments that nobody seeds: the scenario's, and numbers that tell replicas apart."""

from __future__ import annotations

import os
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
    whatever kind of vector environment has them. The first environment in the k-th process that a
    process has started, as for `AsyncVectorEnv`, has the number k − 1.

    Attributes:
        numbers: as many as were asked for, ascending.
    """

    def __init__(self, replicas: int = 1) -> None:
        free = (number for number in count() if number not in _taken)
        own = list(islice(free, replicas))
        _taken.update(own)
        finalize(self, _taken.difference_update, own)
        started: Sequence[int] = getattr(current_process(), "_identity", ())
        if started:
            own = [started[-1] - 1 + _APART * number for number in own]
        self.numbers = own

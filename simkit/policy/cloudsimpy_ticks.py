"""CloudSimPy's clock: when its scheduler sees a job, and when an instance's resources come free.

Both the policy with CloudSimPy's rules and the fast model that agents are trained in need it. The
rules are those of `simkit.policies.cloudsimpy`.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from simkit.arrays import Floats

__all__ = ["ArrivalTicks", "hold_ticks"]


class ArrivalTicks:
    """The tick at which each job is first seen; asked for job by job, in order of submission.

    Args:
        begin_s: the tick of the first submission, a whole second.
    """

    def __init__(self, begin_s: float) -> None:
        self._last = (begin_s, False)  # previous job: submission, whether it was seen in time

    def next(self, submit_s: float) -> float:
        """Return the tick, in s, at which the next job is seen.

        It is the first one from its submission on, or one later if the scheduler came first.
        """
        before, was_in_time = self._last
        tick = float(ceil(submit_s))
        in_time = tick > submit_s or (
            submit_s > before
            and (before < submit_s - 1.0 or (before == submit_s - 1.0 and was_in_time))
        )
        self._last = (submit_s, in_time)
        return tick if in_time else tick + 1.0


def hold_ticks(run_s: Floats) -> Floats:
    """Return how many ticks an instance that starts at a tick holds its resources.

    Those until its end, rounded up; but two if it runs for exactly a second.
    """
    return np.where(run_s == 1.0, 2.0, np.ceil(run_s))

"""The numbers of the comparison with DeepJS that no question asks."""

from __future__ import annotations

import math
from typing import Final

from simkit.learners.studies.deepjs.judge import BALANCE, BOUND, FIRST_FIT, OPTIONS, TEST
from simkit.learners.studies.results import Results


def counts(results: Results, arm: str, case: str = TEST, rival: str = FIRST_FIT) -> str:
    """Return on how many chunks an arm's makespan is larger, equal and smaller than a rival's."""
    above, below = (results.mean(f"{side} {rival}", arm, case) for side in ("above", "below"))
    chunks = len(results.values("makespan", BALANCE, case)[1])
    shares = (above, 1 - above - below, below)
    return "/".join(f"{chunks * share:.1f}".removesuffix(".0") for share in shares)


def over(results: Results, arm: str, other: str = BOUND, case: str = TEST) -> float:
    """Return by how many percent an arm's makespan is above another's, as a geometric mean."""
    apart = results.mean("log makespan", arm, case) - results.mean("log makespan", other, case)
    return 100 * math.expm1(apart)


def training_minutes(results: Results, arm: str) -> str:
    """Return the mean wall time of an arm's trainings; empty for a rule."""
    found = results.facts["minutes"].get(arm.removeprefix("lookahead of rules and "))
    return "" if found is None else f"{found:.1f} min"


def ranked(results: Results, case: str) -> list[str]:
    """Return everyone by the mean makespan, the best one last."""
    arms = [arm for arm in results.arms("makespan", case) if arm not in (BOUND, *OPTIONS)]
    return results.ranked("makespan", case, arms)[::-1]


FUNCTIONS: Final = (counts, over, training_minutes, ranked)

"""A scorer of waiting jobs: a weighted sum of features plus a few units.

The functions calculate with numbers, where numba compiles them, and with arrays, where NumPy runs
them; so the simulation for learning and the agent have the same formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
from pydantic import model_validator

from simkit.arrays import Floats
from simkit.learners.networks.inference import WeightedScorer
from simkit.sections import BrokenRulesError, Count, Section
from simkit.units import ENDLESS_S

__all__ = [
    "FEATURES", "Backfill", "End", "JobRules", "JobScorer", "features_at", "features_now",
    "features_of", "job_features", "job_score", "log_of_waiting",
]  # fmt: skip

FEATURES: Final = (
    "log_requested", "log_predicted", "log_processors", "log_wait", "share", "wait_days",
    "log_expansion", "log_requested_share", "root_requested_share", "log_since", "fits", "free",
    "log_waiting", "share_free", "log_predicted_waiting",
)  # fmt: skip
"""F names, as `job_features` returns them."""

Backfill = Literal["easy", "rlscheduler", "rlscheduler-none"]
End = Literal["never", "behind-head", "always"]


class JobRules(Section):
    """The rules by which a scorer of jobs decides: in its training, and in its bundle."""

    visible: Count = 128
    """Number of waiting jobs, the earliest submitted ones, from which the scorer picks."""
    backfill: Backfill = "easy"
    """What may start while a picked job does not fit: what EASY allows; what RLScheduler's
    backfilling allows; or, as in RLScheduler without backfilling, nothing."""
    end: End = "never"
    """With EASY, when the scorer may let time go on although a job could start, while anything
    runs: never, once there is a head, or also before. It can then hold jobs back, and large ones
    may wait for very long."""

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        if broken := list(self.broken()):
            raise BrokenRulesError(broken)
        return self

    def broken(self) -> Iterator[tuple[tuple[str], str]]:
        """Yield the path of each key that does not go with the others, and what is wrong."""
        if self.backfill != "easy" and self.end != "never":
            text = f"is {self.end}, which is for easy, but backfill is {self.backfill}"
            yield ("end",), f"{text}; leave it out"

    @property
    def keywords(self) -> dict[str, Any]:
        """The rules as keyword arguments, such as those of `simulate`."""
        return {name: getattr(self, name) for name in JobRules.model_fields}


def job_features(
    requested_s: Any, predicted_s: Any, processors: Any, wait_s: Any, since_s: Any,
    free: float, waiting: int, size: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the F features, about as large as 1; numbers for one job, (n,) arrays for n.

    Args:
        requested_s: the requested time r.
        predicted_s: p, the mean of the user's last two run times; see
            `simkit.policies.orderings`.
        processors: n.
        wait_s: since submission.
        since_s: s, the submission since the first of the run.
        free: processors that are free now.
        waiting: number of waiting jobs.
        size: processors of the machine.

    With these a weighted sum can be SAF-p, WFP3-p n², r²n (by their logarithms), log r·n and f2 of
    D. Carastan-Santos and R. Y. de Camargo (SC 2017), or lie between them.
    """
    log_requested, log_processors, share, requested_share, root_share, log_since = features_of(
        requested_s, processors, since_s, size
    )
    log_predicted, log_wait, days, log_expansion = features_at(predicted_s, wait_s)
    log_waiting = log_of_waiting(waiting)
    fits, free_share, share_free, pressed = features_now(
        processors, share, log_predicted, free, free / size, log_waiting
    )
    return (
        log_requested, log_predicted, log_processors, log_wait, share, days, log_expansion,
        requested_share, root_share, log_since, fits, free_share + 0.0 * share,
        log_waiting + 0.0 * share, share_free, pressed,
    )  # fmt: skip


def features_of(requested_s: Any, processors: Any, since_s: Any, size: float) -> tuple[Any, ...]:
    """Return the features that never change: the logarithms of r and n, shares, that of s."""
    requested_s = np.minimum(requested_s, ENDLESS_S)
    share = processors / size
    log_requested = np.log(np.maximum(requested_s, 2.0))
    return (
        log_requested / 8.0,
        np.log(processors) / 4.0,
        share,
        log_requested / 8.0 * share,
        np.sqrt(requested_s) / 100.0 * share,
        np.log(np.maximum(since_s, 2.0)) / 10.0,
    )


def features_at(predicted_s: Any, wait_s: Any) -> tuple[Any, ...]:
    """Return the features that change from instant to instant: of p and of the wait."""
    return (
        np.log(predicted_s) / 8.0,
        np.log(1.0 + wait_s) / 8.0,
        np.minimum(wait_s / 86_400.0, 10.0),
        np.log(1.0 + wait_s / predicted_s) / 3.0,
    )


def features_now(
    processors: Any, share: Any, log_predicted: Any, free: float, free_share: float,
    log_waiting: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the features that each start changes: fits, what is free, and two products."""
    return (
        1.0 * (processors <= free), free_share, share * free_share, log_predicted * log_waiting
    )  # fmt: skip


def log_of_waiting(waiting: int) -> Any:
    """Return the feature of how many wait."""
    return np.log(1.0 + waiting) / 5.0


def job_score(
    features: Sequence[Any], linear: Floats, hidden: Floats, bias: Floats, out: Floats
) -> Any:
    """Return the score, w·f + Σ out·max(0, hidden·f + bias); the highest is picked.

    Args:
        features: F numbers, or F arrays of (n,).
        linear: (F,) w.
        hidden: (U, F)
        bias: (U,)
        out: (U,)
    """
    score = linear[0] * features[0]
    for k in range(1, len(linear)):
        score = score + linear[k] * features[k]
    for unit in range(len(out)):
        inside = bias[unit] + hidden[unit, 0] * features[0]
        for k in range(1, len(linear)):
            inside = inside + hidden[unit, k] * features[k]
        score = score + out[unit] * np.maximum(inside, 0.0)
    return score


@dataclass(frozen=True)
class JobScorer(WeightedScorer):
    """The weights of a scorer: a weighted sum and U units; U may be 0."""

    linear: Floats
    """(F,)"""
    hidden: Floats
    """(U, F)"""
    bias: Floats
    """(U,)"""
    out: Floats
    """(U,)"""
    end: Floats
    """(1,) the score of waiting for the next event, where that may be chosen."""

    @classmethod
    def zero(cls, units: int = 0) -> JobScorer:
        """Return a scorer that scores all jobs alike, so that the first is picked."""
        features = len(FEATURES)
        return cls(
            np.zeros(features), np.zeros((units, features)), np.zeros(units), np.zeros(units),
            np.zeros(1),
        )  # fmt: skip

    @property
    def weights(self) -> dict[str, Floats]:
        names = ("linear", "hidden", "bias", "out", "end")
        return {name: getattr(self, name) for name in names}

    def with_weights(self, weights: Mapping[str, Floats]) -> JobScorer:
        return JobScorer(**weights)

    def starting_at(self, linear: Mapping[str, float]) -> JobScorer:
        """Return a scorer of the same shape with these weights of features, by name."""
        changed = self.linear.copy()
        for name, weight in linear.items():
            changed[FEATURES.index(name)] = weight
        return JobScorer(**{**self.weights, "linear": changed})

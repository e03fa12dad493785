"""The published parameters of the Lublin–Feitelson workload model.

Uri Lublin and Dror G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003. Three
sets: all jobs together, and batch and interactive jobs apart. The paper fits them to logs of
machines of about 128 processors; sizes are given relative to the machine, so that the model
follows it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LublinParameters:
    """One class of jobs. All logarithms of sizes are to base 2, those of times natural."""

    serial_share: float
    """Probability that a job takes one processor."""
    power_of_two_share: float
    """Probability that a job takes several and rounds the logarithm of its size."""
    log_smallest: float
    """Lower bound of the two-stage uniform distribution of log2 of a parallel job's size."""
    medium_below_largest: float
    """How far its middle bound lies below the upper one; published as 1.5 … 3.5."""
    largest_below_machine: float
    """How far its upper bound lies below log2 of the machine's processors."""
    medium_share: float
    """Probability of the lower of the two stages."""
    run_shape: tuple[float, float]
    """Shapes of the two gamma distributions of the logarithm of the run time (in seconds)."""
    run_scale: tuple[float, float]
    """Their scales."""
    first_share: tuple[float, float]
    """(a, b): the first gamma has probability a · processors + b, kept within [0, 1]."""
    gap_shape: float
    """Shape of the gamma distribution of the logarithm of the gap (in seconds) at rush hours."""
    gap_scale: float
    """Its scale."""
    gap_shape_factor: float
    """Ratio of all hours to rush hours, a factor on the shape (ARAR in the authors' program)."""
    day_shape: float
    """Shape of the gamma distribution of arrivals over the day, in half hours."""
    day_scale: float
    """Its scale."""


ALL_JOBS = LublinParameters(
    serial_share=0.244,
    power_of_two_share=0.576,
    log_smallest=0.8,
    medium_below_largest=2.5,
    largest_below_machine=0.0,
    medium_share=0.86,
    run_shape=(4.2, 312.0),
    run_scale=(0.94, 0.03),
    first_share=(-0.0054, 0.78),
    gap_shape=10.2303,
    gap_scale=0.4871,
    gap_shape_factor=1.0225,
    day_shape=8.1737,
    day_scale=3.9631,
)

BATCH_JOBS = LublinParameters(
    serial_share=0.2927,
    power_of_two_share=0.6686,
    log_smallest=1.2,
    medium_below_largest=2.0,
    largest_below_machine=0.0,
    medium_share=0.875,
    run_shape=(6.57, 639.1),
    run_scale=(0.823, 0.0156),
    first_share=(-0.003, 0.6986),
    gap_shape=6.0415,
    gap_scale=0.8531,
    gap_shape_factor=1.0519,
    day_shape=6.1271,
    day_scale=5.2740,
)

INTERACTIVE_JOBS = LublinParameters(
    serial_share=0.1541,
    power_of_two_share=0.625,
    log_smallest=1.0,
    medium_below_largest=2.5,
    largest_below_machine=1.5,
    medium_share=0.705,
    run_shape=(3.8351, 7.073),
    run_scale=(0.6605, 0.6856),
    first_share=(-0.0118, 0.9156),
    gap_shape=6.5510,
    gap_scale=0.6621,
    gap_shape_factor=0.9797,
    day_shape=8.9186,
    day_scale=3.6680,
)

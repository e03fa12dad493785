"""The worth of a scenario's jobs: its section `value`, applied to the transformed workload."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.errors import ScenarioError
from simkit.scenario_value import (
    FixedQuality,
    Gpus,
    NoDeadlines,
    QualityDeadlines,
    SlackDeadlines,
    TwoClasses,
    Value,
)
from simkit.seeds import stream
from simkit.value import (
    draw_amounts,
    draw_factors,
    draw_two_classes,
    with_deadlines,
    with_resource,
    with_values,
)
from simkit.workload import Workload

PRICE: Final = 0.5
"""Price of a unit of any resource for a time unit where the scenario names none: `res_price`."""


def valued(workload: Workload, section: Value, seed: int) -> Workload:
    """Return the workload with QoS, values and deadlines, and with GPUs if they are asked for.

    Draws come from the streams "value.gpu", "value.qos" and "value.deadlines" of the seed: two
    numbers a job in the order of submission. They do not depend on the policy, and what one of
    them decides shifts no other.

    Raises ScenarioError if the section asks for a column that the trace does not have, for GPUs
    where there are some, or for a price of what no job asks for.
    """
    if section.gpu is not None:
        workload = _with_gpus(workload, section.gpu, seed)
    workload = _with_qualities(workload, section.qos, seed)
    if section.prices is not None or not len(workload.value):
        prices = section.prices
        if prices is None:
            prices = dict.fromkeys(workload.resources, PRICE)
        workload = with_values(workload, prices, time_unit_s=section.time_unit, knob=section.knob)
    return _with_deadlines(workload, section.deadlines, seed)


def _with_gpus(workload: Workload, section: Gpus, seed: int) -> Workload:
    least, most = section.amount
    amounts = draw_amounts(
        len(workload), stream(seed, "value.gpu"), share=section.share, least=least, most=most
    )
    return with_resource(workload, "gpu", amounts, per=section.per)


def _with_qualities(workload: Workload, section: Any, seed: int) -> Workload:
    if isinstance(section, TwoClasses):
        qos = draw_two_classes(
            len(workload),
            stream(seed, "value.qos"),
            high_share=section.high_share,
            high=section.high,
            low=section.low,
        )
    elif isinstance(section, FixedQuality):
        qos = np.full(len(workload), section.qos)
    else:
        _check_own(workload, "qos", "value.qos")
        return workload
    return workload.with_columns(qos=qos)


def _with_deadlines(workload: Workload, section: Any, seed: int) -> Workload:
    if isinstance(section, QualityDeadlines):
        return with_deadlines(workload, 1 / workload.qos, of=section.of)
    if isinstance(section, SlackDeadlines):
        rng = stream(seed, "value.deadlines")
        factor = draw_factors(len(workload), rng, section.factor)
        return with_deadlines(workload, factor, of=section.of)
    if isinstance(section, NoDeadlines):
        return workload.with_columns(deadline_s=np.empty(0))
    _check_own(workload, "deadline_s", "value.deadlines")
    return workload


def _check_own(workload: Workload, column: str, place: str) -> None:
    if len(workload) and not len(getattr(workload, column)):
        raise ScenarioError(
            f"{place}: the trace has no column {column}; only a table of jobs (type: jobs) that "
            "has one gives it, take another type"
        )

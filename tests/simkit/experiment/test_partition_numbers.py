"""Queues and partitions by number or by the trace's names."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.errors import ScenarioError
from simkit.scenario.cluster import ClusterSection
from simkit.workload import Workload
from simkit.workload.cluster import Partition

JOBS = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [1.0], "processors": [1]}
NAMED = Workload.from_jobs(JOBS, labels={"queue": ("high", "low"), "partition": ("gpu", "7")})
NUMBERED = Workload.from_jobs(JOBS)


def partitions(workload: Workload, *sections: dict[str, Any]) -> tuple[Partition, ...]:
    named = [{"name": str(row), **section} for row, section in enumerate(sections)]
    section = ClusterSection.model_validate({"processors": 1, "partitions": named})
    return section.build(workload).partitions


def test_names_become_the_traces_numbers_and_numbers_stay() -> None:
    # a text of digits is a name
    found = partitions(NAMED, {"queues": ["low", "high"]}, {"partitions": ["7", 5]})
    assert [(p.queues, p.partitions) for p in found] == [
        ({0, 1}, frozenset()),
        (frozenset(), {1, 5}),
    ]
    assert partitions(NUMBERED, {"queues": [3, 4]})[0].queues == {3, 4}


def test_a_name_needs_a_trace_with_names() -> None:
    with pytest.raises(ScenarioError, match="'low' is a name, but the trace only numbers its"):
        partitions(NUMBERED, {"queues": ["low"]})


@pytest.mark.parametrize(
    ("number", "column", "name"),
    [(1, "queue", "low"), (0, "partition", "gpu"), (5, "queue", 5), (-1, "queue", -1)],
)
def test_a_number_has_the_traces_name_where_there_is_one(
    number: int, column: str, name: int | str
) -> None:
    assert NAMED.label_of(column, number) == name
    assert NUMBERED.label_of(column, number) == number

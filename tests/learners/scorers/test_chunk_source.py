"""Chunks to train on: how they overlap, on how many machines, and what is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simkit.errors import ScenarioError
from simkit.learners.scorers.sources import ChunkSource
from simkit.scenario import Scenario


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Return 23 jobs of one task, with as many instances as the job's number, plus one."""
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory"]
    lines += [f"{job},0,{7 * job},3.0,{job + 1},1,0.1" for job in range(23)]
    (tmp_path / "jobs.csv").write_text("\n".join([*lines, ""]))
    return Scenario.model_validate({
        "workload": {"type": "tasks", "path": str(tmp_path / "jobs.csv"), "submit": "last"},
        "cluster": {"machines": [{"count": 1, "cpu": 8, "mem": 1}, {"count": 1, "cpu": 4, "mem": 2}]},
        "estimates": "actual",
    })  # fmt: skip


def first_instances(source: ChunkSource) -> list[int]:
    return [int(chunk.instances[0]) for chunk in source.trained]


def test_chunks_follow_each_other(scenario):
    source = ChunkSource.of(scenario, 5, 0.0, "mine")
    assert first_instances(source) == [1, 6, 11, 16, 21]
    assert [len(chunk.seen) for chunk in source.trained] == [5, 5, 5, 5, 3]
    assert not source.held_out


def test_chunks_overlap_but_not_with_those_held_out(scenario):
    source = ChunkSource.of(scenario, 5, 0.4, "mine", apart=1)  # two of five chunks are held out
    assert first_instances(source) == list(range(1, 12))
    assert {len(chunk.seen) for chunk in source.trained} == {5}
    assert max(chunk.instances.max() for chunk in source.trained) == 15
    assert [chunk.instances.min() for chunk in source.held_out] == [16, 21]


def test_machines_are_those_of_the_cluster_over_and_over(scenario):
    source = ChunkSource.of(scenario, 5, 0.2, "mine", machines=(1, 3))
    assert len(source.trained) == 8
    assert source.trained[0].capacity.tolist() == [[8.0, 1.0]]
    assert source.trained[1].capacity.tolist() == [[8.0, 1.0], [4.0, 2.0], [8.0, 1.0]]
    assert source.trained[0].instances.tolist() == source.trained[1].instances.tolist()
    assert source.held_out[0].capacity.tolist() == [[8.0, 1.0], [4.0, 2.0]]


def test_draws_are_different_chunks(scenario):
    source = ChunkSource.of(scenario, 5, 0.0, "mine", apart=1)
    place = {id(chunk): number for number, chunk in enumerate(source.trained)}
    drawn = [place[id(chunk)] for chunk in source.draw(np.random.default_rng(0), 10)]
    assert len(drawn) == 10
    assert drawn == sorted(set(drawn))
    assert source.draw(np.random.default_rng(0), 100) == list(source.trained)


def test_machines_too_small_for_an_instance_are_refused(scenario):
    small = {"count": 1, "cpu": 0.5, "mem": 1}
    cluster = {"machines": [small, {"count": 1, "cpu": 8, "mem": 1}]}
    changed = Scenario.model_validate(
        {**scenario.model_dump(exclude_unset=True), "cluster": cluster}
    )
    with pytest.raises(ScenarioError, match="more than any of 1 has"):
        ChunkSource.of(changed, 5, 0.0, "mine", machines=(1, 2))
    assert len(ChunkSource.of(changed, 5, 0.0, "mine", machines=(2,)).trained) == 5

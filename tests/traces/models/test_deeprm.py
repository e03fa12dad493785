"""DeepRM's workload: its laws, its load, the original's own job sets, and their scenario."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from simkit.errors import TraceError
from simkit.scenario.workload import WorkloadSection
from simkit.traces.models.deeprm import DeepRMModel

DEFAULT = Path(__file__).resolve().parents[4] / "shared" / "oracle"
ORACLE = Path(os.environ.get("SIMKIT_ORACLE", DEFAULT)) / "deeprm"


def drawn(seed=0, **choices):
    sets = choices.pop("sets", 2000)
    model = DeepRMModel.of(**({"rate": 0.4} | choices))
    return model.draw_sets(np.random.default_rng(seed), sets)


def made(seed=0, **choices):
    choices = choices if {"rate", "offered_load"} & set(choices) else {"rate": 0.4} | choices
    return DeepRMModel.of(**choices).generate(np.random.default_rng(seed)).workload


class TestLaws:
    """98,000 steps with 39,200 jobs: shares are known to within a standard error of 0.25 %."""

    def test_a_job_arrives_in_each_step_but_the_first_with_the_same_probability(self):
        enter, length, _ = drawn()
        steps = np.bincount(enter[length > 0], minlength=50)
        assert steps[0] == 0
        assert steps[1:] / 2000 == pytest.approx(np.full(49, 0.4), abs=0.05)
        assert steps.sum() / 2000 / 49 == pytest.approx(0.4, abs=0.006)

    def test_at_most_one_job_a_step_in_order_of_arrival(self):
        enter, length, _ = drawn()
        both = (length[:, 1:] > 0) & (length[:, :-1] > 0)
        assert (np.diff(enter, axis=1)[both] >= 1).all()

    def test_lengths_are_short_or_long_and_evenly_spread_within(self):
        length = drawn().length
        counts = np.bincount(length[length > 0], minlength=16)
        assert counts[1:4] / counts.sum() == pytest.approx(np.full(3, 0.8 / 3), abs=0.01)
        assert counts[4:10].sum() == 0
        assert counts[10:] / counts.sum() == pytest.approx(np.full(6, 0.2 / 6), abs=0.005)

    def test_one_resource_dominates_either_as_often(self):
        _, length, size = drawn()
        high, low = size[length > 0].max(axis=1), size[length > 0].min(axis=1)
        assert np.bincount(high)[5:] / len(high) == pytest.approx(np.full(6, 1 / 6), abs=0.01)
        assert np.bincount(low)[1:] / len(low) == pytest.approx(np.full(2, 1 / 2), abs=0.01)
        first = size[length > 0].argmax(axis=1) == 0
        assert first.mean() == pytest.approx(0.5, abs=0.01)

    def test_padding_is_at_the_end_and_empty(self):
        enter, length, size = drawn(rate=0.05)
        there = length > 0
        assert not (there[:, 1:] & ~there[:, :-1]).any()
        assert not enter[~there].any()
        assert not size[~there].any()
        assert there[:, -1].any()  # no column is padding alone

    def test_more_sets_begin_with_the_fewer(self):
        few, many = drawn(sets=3), drawn(sets=300)
        for column, longer in zip(few, many, strict=True):
            assert (column == longer[:3, : column.shape[1]]).all()
            assert not longer[:3, column.shape[1] :].any()


class TestLoad:
    @pytest.mark.parametrize(
        ("choices", "load_of_a_sure_job"),
        [
            ({}, 1.845),  # 4.1 steps of 4.5 units of 10
            ({"demands": "paper"}, 0.9225),  # half as large
            ({"short_share": 0.0, "long_steps": (12, 12)}, 5.4),
            ({"max_size": 20}, 4.1 * (15 + 2.5) / 2 / 10),
        ],
    )
    def test_load_is_requested_area_over_capacity(self, choices, load_of_a_sure_job):
        more = choices | ({"capacity": 20} if "max_size" in choices else {})
        scale = 0.5 if "max_size" in choices else 1.0
        workload = made(offered_load=0.3, steps=40_000, **more)
        area = (workload.request * workload.run_time_s[:, None]).sum(axis=0)
        capacity = workload.capacity["cpu"]
        assert area / capacity / 40_000 == pytest.approx([0.3, 0.3], rel=0.05)
        rate = 0.3 / (load_of_a_sure_job * scale)
        assert len(workload) / 40_000 == pytest.approx(rate, rel=0.05)

    def test_the_papers_demands_are_the_originals_in_half_units(self):
        original, paper = made(), made(demands="paper")
        assert (paper.request * 2 == original.request).all()
        assert paper.request.max() <= 5  # half of the capacity
        assert paper.request.min() >= 0.5  # 5 % of it


class TestWorkload:
    def test_it_is_the_first_of_the_drawn_sets(self):
        enter, length, size = (column[0] for column in drawn(sets=100))
        workload, there = made(step_s=60.0), length > 0
        assert (workload.submit_time_s == enter[there] * 60.0).all()
        assert (workload.run_time_s == length[there] * 60.0).all()
        assert (workload.request == size[there]).all()

    def test_estimates_are_exact_and_the_pool_is_told(self):
        workload = made()
        assert (workload.requested_time_s == workload.run_time_s).all()
        assert workload.capacity == {"cpu": 10.0, "mem": 10.0}
        assert workload.resources == ("cpu", "mem")


@pytest.mark.parametrize("rate", ["0.1", "0.379", "0.596", "0.705", "1"])
@pytest.mark.parametrize("number", [0, 1, 37])
def test_the_originals_unseen_sets_are_drawn_bit_for_bit(rate, number):
    path = ORACLE / f"unseen_all_done_r{rate}_jobsets.npz"
    if not path.is_file():
        pytest.skip(f"no job sets {path}; set SIMKIT_ORACLE")
    with np.load(path) as arrays:
        length, size = arrays["nw_len"][number].copy(), arrays["nw_size"][number]
    length[0] = 0  # drawn, and never delivered
    step = np.flatnonzero(length)
    workload = made(rate=float(rate), original_set=number)
    assert (workload.submit_time_s == step).all()
    assert (workload.run_time_s == length[step]).all()
    assert (workload.request == size[step]).all()


class TestScenario:
    def test_the_section_has_the_generators_arguments(self):
        section = TypeAdapter(WorkloadSection).validate_python(
            {"type": "deeprm", "offered_load": 0.7, "steps": 30, "demands": "paper"}
        )
        trace = section.trace(np.random.default_rng(0))
        direct = made(offered_load=0.7, steps=30, demands="paper")
        assert (trace.workload.submit_time_s == direct.submit_time_s).all()

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({}, "needs offered_load or rate, and neither is there"),
            ({"rate": 0.4, "offered_load": 0.7}, "needs offered_load or rate, and both are there"),
            ({"rate": 0.4, "max_size": 11}, "must be at most 10, the units that the pool has"),
        ],
    )
    def test_what_does_not_go_together_is_told(self, keys, message):
        with pytest.raises(ValueError, match=message):
            TypeAdapter(WorkloadSection).validate_python({"type": "deeprm", **keys})

    def test_units_of_half_the_size_are_twice_as_many(self):
        keys = {"type": "deeprm", "rate": 0.4, "max_size": 20, "demands": "paper"}
        section = TypeAdapter(WorkloadSection).validate_python(keys)
        trace = section.trace(np.random.default_rng(0))
        assert trace.workload.request.max() <= 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate: must be more than 0, not 0.0"),
        (
            {"offered_load": 1.9},
            "needs 1.03 jobs a step, and at most one job arrives in a step; give at most 1.845",
        ),
        ({"offered_load": -0.5}, "offered_load: must be more than 0, not -0.5"),
        ({"steps": 1}, "steps: must be at least 2, not 1"),
        ({"step_s": 0.0}, "step_s: must be more than 0, not 0.0"),
        ({"demands": "papers"}, "did you mean 'paper'"),
        ({"short_share": 1.5}, "short_share: must be at most 1, not 1.5"),
        ({"short_steps": (0, 3)}, "short_steps.0: must be at least 1, not 0"),
        ({"long_steps": (15, 10)}, "long_steps: the least (15) is above the most (10)"),
        ({"original_set": -1}, "original_set: must be at least 0, not -1"),
        ({"rate": 0.1, "original_set": 74}, "no job arrives in 50 steps at a rate of 0.1"),
    ],
)
def test_wrong_arguments_name_value_and_rule(wrong, message):
    with pytest.raises(TraceError) as error:
        made(**wrong)
    assert message in str(error.value)

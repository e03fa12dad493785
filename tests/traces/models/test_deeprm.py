"""Workloads of DeepRM and of Sofia's batches: laws, loads, the original's own job sets."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter
from trace_files import oracle_file

from simkit.errors import TraceError
from simkit.scenario.workload import WorkloadSection
from simkit.traces.models.deeprm import DeepRMModel, SofiaModel


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


def sofia(sets, seed=0, **choices):
    return SofiaModel.of(**choices).draw_sets(np.random.default_rng(seed), sets)


class TestSets:
    @pytest.mark.parametrize("choices", [{"rate": 0.05}, {}])
    @pytest.mark.parametrize("draw", [drawn, sofia])
    def test_padding_is_at_the_end_and_empty(self, draw, choices):
        enter, length, size = draw(sets=200, **choices)
        there = length > 0
        assert not (there[:, 1:] & ~there[:, :-1]).any()
        assert not enter[~there].any()
        assert not size[~there].any()
        assert there[:, -1].any()  # no column is padding alone

    @pytest.mark.parametrize("draw", [drawn, sofia])
    def test_more_sets_begin_with_the_fewer(self, draw):
        few, many = draw(sets=3), draw(sets=300)
        for column, longer in zip(few, many, strict=True):
            assert (column == longer[:3, : column.shape[1]]).all()
            assert not longer[:3, column.shape[1] :].any()

    @pytest.mark.parametrize(
        ("draw", "model", "units"),
        [(drawn, DeepRMModel.of(rate=0.4, step_s=60.0), 10), (sofia, SofiaModel.of(step_s=60.0), 50)],
    )  # fmt: skip
    def test_a_workload_is_the_first_of_the_drawn_sets(self, draw, model, units):
        enter, length, size = (column[0] for column in draw(sets=100))
        workload = model.generate(np.random.default_rng(0)).workload
        there = length > 0
        assert (workload.submit_time_s == enter[there] * 60.0).all()
        assert (workload.run_time_s == length[there] * 60.0).all()
        assert (workload.requested_time_s == workload.run_time_s).all()
        assert (workload.request == size[there]).all()
        assert workload.capacity == {"cpu": units, "mem": units}
        assert workload.resources == ("cpu", "mem")

    def test_batches_of_sofia_are_as_the_study_draws_them(self):
        enter, length, size = sofia(400)
        there = length > 0
        jobs, most, least = length[there], size.max(axis=2)[there], size.min(axis=2)[there]
        assert there.sum(axis=1).mean() == pytest.approx(70, abs=1)
        assert not enter.any()  # nothing arrives later
        assert set(np.unique(jobs)) == {*range(3, 10), *range(30, 46)}
        assert (jobs < 10).mean() == pytest.approx(0.8, abs=0.01)
        counts = np.bincount(jobs)[3:10]
        assert counts == pytest.approx(np.full(7, counts.mean()), rel=0.08)
        assert set(np.unique(most)) == set(range(12, 26))
        assert set(np.unique(least)) == set(range(2, 6))
        assert (size[..., 0] > size[..., 1])[there].mean() == pytest.approx(0.5, abs=0.02)


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


@pytest.mark.parametrize("rate", ["0.1", "0.379", "0.596", "0.705", "1"])
@pytest.mark.parametrize("number", [0, 1, 37])
def test_the_originals_unseen_sets_are_drawn_bit_for_bit(rate, number):
    with np.load(oracle_file("deeprm", f"unseen_all_done_r{rate}_jobsets.npz")) as arrays:
        length, size = arrays["nw_len"][number].copy(), arrays["nw_size"][number]
    length[0] = 0  # drawn, and never delivered
    step = np.flatnonzero(length)
    workload = made(rate=float(rate), original_set=number)
    assert (workload.submit_time_s == step).all()
    assert (workload.run_time_s == length[step]).all()
    assert (workload.request == size[step]).all()


def test_the_section_has_the_generators_arguments():
    section = TypeAdapter(WorkloadSection).validate_python(
        {"type": "deeprm", "offered_load": 0.7, "steps": 30, "demands": "paper", "max_size": 20}
    )
    trace = section.trace(np.random.default_rng(0))
    direct = made(offered_load=0.7, steps=30, demands="paper", max_size=20)
    assert (trace.workload.submit_time_s == direct.submit_time_s).all()
    assert trace.workload.request.max() <= 10  # units of half the size are twice as many


@pytest.mark.parametrize(
    ("model", "wrong", "place"),
    [
        (DeepRMModel, {}, "needs offered_load or rate, and neither"),
        (DeepRMModel, {"rate": 0.4, "offered_load": 0.7}, "needs offered_load or rate, and both"),
        (DeepRMModel, {"rate": 0.4, "max_size": 11}, "max_size"),
        (DeepRMModel, {"offered_load": 1.9}, "at most 1.845"),
        (DeepRMModel, {"rate": 0.4, "long_steps": (15, 10)}, "long_steps"),
        (DeepRMModel, {"rate": 0.1, "original_set": 74}, "no job arrives in 50 steps"),
        (SofiaModel, {"dominant": (12, 60)}, "dominant.1"),
        (SofiaModel, {"short_steps": (0, 3)}, "short_steps.0"),
        (SofiaModel, {"rate": 1e-9}, "no job at any of 100 positions"),
    ],
)
def test_what_does_not_go_together_is_refused(model, wrong, place):
    with pytest.raises(TraceError, match=place):
        model.of(**wrong).generate(np.random.default_rng(0))

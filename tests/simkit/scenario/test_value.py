"""The worth of jobs: the dissertation's formulas, what is drawn, and what travels with jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError, TraceError
from simkit.scenario.value import Gpus, TwoClasses, Value, deadlines, with_resource, with_values
from simkit.workload import Workload
from simkit.workload.transform import scale_load, window

HOUR = 3600.0


def jobs(count=4, run=6 * HOUR, processors=4, **columns) -> Workload:
    """Make rigid jobs, submitted an hour apart; they ask for twice what they run."""
    return Workload.from_jobs(
        {
            "job_id": np.arange(count),
            "submit_time_s": np.arange(count) * HOUR,
            "run_time_s": np.full(count, run),
            "requested_time_s": np.full(count, 2 * run),
            "processors": np.full(count, processors),
            **columns,
        }
    )


def section(**keys) -> Value:
    return Value.model_validate(keys)


def due(load: Workload, factor, **options) -> Workload:
    return load.with_columns(deadline_s=deadlines(load, np.array(factor), **options))


class TestValue:
    def test_figure_3_3_of_the_dissertation(self):
        """4 CPUs and 4 GPUs for six steps at 0.5 each and QoS 1 are worth 24."""
        load = with_resource(jobs(1), "gpu", np.array([4]))
        assert with_values(load, {"processors": 0.5, "gpu": 0.5}).value.tolist() == [24.0]

    @pytest.mark.parametrize(
        ("changes", "factor"),
        [
            ({"knob": 0.1}, 0.1),
            ({"time_unit_s": HOUR / 2}, 2.0),  # the price is for half an hour
            ({"prices": {"processors": 1.5}}, 3.0),
            ({"prices": {}}, 0.0),  # nothing costs anything
        ],
    )
    def test_worth_is_proportional_to_price_and_knob_over_the_unit(self, changes, factor):
        options = {"prices": {"processors": 0.5}} | changes
        assert with_values(jobs(1), **options).value == pytest.approx([12.0 * factor])

    def test_tasks_add_up_a_gang_counts_its_longest_instance_and_a_bag_each_one(self):
        load = Workload(
            resources=("cpu",), job_id=np.array([1]), submit_time_s=np.zeros(1),
            first_task=np.array([0, 2]), task_id=np.array([0, 1]), instances=np.array([2, 2]),
            request=np.array([[3.0], [3.0]]), run_time_s=np.array([1.5, 1.5]) * HOUR,
            requested_time_s=np.full(2, np.nan), gang=np.array([True, False]),
            instance_run_time_s=np.array([1, 2, 1, 2]) * HOUR,
        )  # fmt: skip
        worth = with_values(load, {"cpu": 1.0})
        assert worth.value.tolist() == [2 * 3 * 2 + 3 * (1 + 2)]

    def test_a_price_of_what_no_job_asks_for_is_refused(self):
        with pytest.raises(ScenarioError, match="no job asks for 'gpu'"):
            with_values(jobs(), {"gpu": 1.0})


class TestQualities:
    def test_the_two_classes_of_the_dissertation(self):
        qos = TwoClasses().build(jobs(20_000), 0)
        high = qos >= 0.6
        assert high.mean() == pytest.approx(0.6, abs=0.011)  # three standard deviations
        assert (qos.min(), qos.max()) == (pytest.approx(0.1, abs=1e-3), pytest.approx(1, abs=1e-3))
        assert qos[high].mean() == pytest.approx(0.8, abs=0.004)
        assert qos[~high].mean() == pytest.approx(0.35, abs=0.006)


class TestGpus:
    def test_a_share_of_the_jobs_asks_for_whole_amounts(self):
        amounts = Gpus(share=0.3).build(jobs(20_000), 0).job_request()[:, 1].astype(int)
        assert set(amounts) == {0, 1, 2, 3, 4, 5}
        counts = np.bincount(amounts) / 20_000
        assert counts == pytest.approx([0.7, *[0.06] * 5], abs=0.01)

    def test_per_job_everything_is_one_instance_and_amounts_stay_whole(self):
        load = with_resource(jobs(2, processors=3), "gpu", np.array([2, 0]))
        assert load.job_request().tolist() == [[3, 2], [3, 0]]
        assert load.instances.tolist() == [1, 3]  # what asks for none stays as it is

    def test_per_processor_every_instance_asks(self):
        load = with_resource(jobs(2, processors=3), "gpu", np.array([2, 0]), per="processor")
        assert load.job_request().tolist() == [[3, 6], [3, 0]]
        assert load.instances.tolist() == [3, 3]

    @pytest.mark.parametrize("column", [{"gang": np.zeros(4, bool)}, None])
    def test_bags_and_a_second_time_are_refused(self, column):
        """A bag needs amounts per processor."""
        amounts = np.ones(4, np.int64)
        load = jobs().with_columns(**column) if column else with_resource(jobs(), "gpu", amounts)
        with pytest.raises(ScenarioError, match="gpu"):
            with_resource(load, "gpu", amounts)


class TestDeadlines:
    @pytest.mark.parametrize(("of", "length"), [("requested", 12 * HOUR), ("actual", 6 * HOUR)])
    def test_deadline_is_submit_plus_factor_times_run_time(self, of, length):
        load = due(jobs(2), [1.0, 2.5], of=of)
        assert load.deadline_s.tolist() == [length, HOUR + 2.5 * length]

    def test_who_requested_nothing_is_taken_by_the_run_time(self):
        load = due(jobs(1, requested_time_s=np.array([np.nan])), [2.0])
        assert load.deadline_s.tolist() == [12 * HOUR]

    def test_deadlines_move_with_their_jobs(self):
        load = due(jobs(), np.full(4, 2.0))
        slack = load.deadline_s - load.submit_time_s
        faster = scale_load(load, 2)
        assert (faster.deadline_s - faster.submit_time_s == slack).all()
        later = window(load, jobs="1..2")
        assert later.deadline_s.tolist() == load.deadline_s[1:3].tolist()
        moved = load.take(np.array([0, 0]), submit_time_s=np.array([5.0, 9.0]))
        assert moved.deadline_s.tolist() == [5 + slack[0], 9 + slack[0]]


class TestScenario:
    def test_everything_comes_from_the_seed(self):
        wanted = section(gpu={"share": 0.5}, deadlines={"type": "slack"})
        first, again, other = (wanted.build(jobs(50), seed) for seed in (0, 0, 1))
        for name in ("qos", "value", "deadline_s", "request"):
            assert (getattr(first, name) == getattr(again, name)).all()
            assert (getattr(first, name) != getattr(other, name)).any()

    def test_gpus_and_deadlines_do_not_shift_qualities(self):
        plain = section().build(jobs(50), 0)
        more = section(gpu={}, deadlines="slack").build(jobs(50), 0)
        assert (plain.qos == more.qos).all()

    def test_prices_are_half_of_a_unit_for_every_resource_unless_named(self):
        load = section(qos=1, gpu={"share": 1.0, "amount": [4, 4]}).build(jobs(1), 0)
        assert load.value.tolist() == [24.0]

    def test_a_traces_own_columns_are_kept(self):
        own = jobs(2, qos=np.array([0.5, 1]), value=np.array([7.0, 8]), deadline_s=np.array([1, 2]))
        load = section(qos="column", deadlines="column").build(own, 0)
        assert (load.qos.tolist(), load.value.tolist()) == ([0.5, 1.0], [7.0, 8.0])
        assert load.deadline_s.tolist() == [1.0, 2.0]
        priced = section(qos="column", prices={"processors": 0.5}).build(own, 0)
        assert priced.value.tolist() == [6.0, 12.0]
        assert len(priced.deadline_s) == 0  # the default is: none

    @pytest.mark.parametrize("keys", [{"qos": "column"}, {"deadlines": "column"}])
    def test_a_column_that_the_trace_lacks_is_an_error(self, keys):
        with pytest.raises(ScenarioError, match="no column"):
            section(**keys).build(jobs(), 0)


@pytest.mark.parametrize(
    ("column", "values", "rule"),
    [
        ("qos", [0.0, 1], "qos must be above 0 and at most 1"),
        ("qos", [1.1, 1], "qos must be above 0 and at most 1"),
        ("value", [-1.0, 1], "values must be finite and at least 0"),
        ("value_per_s", [1.0, 1], "value_per_s needs the column value"),
        ("deadline_s", [np.nan, 1], "deadlines must be times"),
        ("qos", [1.0], r"qos has shape \(1,\), expected \(2,\)"),
    ],
)
def test_a_workload_refuses_worths_out_of_range(column, values, rule):
    with pytest.raises(TraceError, match=rule):
        jobs(2).with_columns(**{column: np.array(values)})


@given(
    rows=st.lists(
        st.tuples(st.floats(0.01, 1), st.integers(1, 64), st.floats(0, 1e6)), min_size=1, max_size=8
    ),
    taken=st.data(),
)
def test_worth_travels_with_its_job(rows, taken):
    """Of any selection of rows each has the worth that it has in the whole."""
    qos, processors, run = (np.array(column) for column in zip(*rows, strict=True))
    load = jobs(len(rows), run=1.0, qos=qos).with_columns(instances=processors, run_time_s=run)
    whole = due(with_values(load, {"processors": 0.5}), 1 / qos, of="actual")
    picked = np.array(sorted(taken.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1))))
    part = whole.take(picked)
    for name in ("qos", "value", "value_per_s", "deadline_s"):
        assert (getattr(part, name) == getattr(whole, name)[picked]).all()
    assert part.value == pytest.approx(
        part.instances * part.run_time_s / HOUR * 0.5 * part.qos, rel=1e-12
    )

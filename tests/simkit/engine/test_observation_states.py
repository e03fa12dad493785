"""What encoders show of simulations: by hand, and held against the state's own answers."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, begin, greedy, make_jobs, rigid, simulate

from simkit.agent.encoder import reciprocal
from simkit.agent.observation import ENCODERS, make_encoder
from simkit.agent.observe_slots import deeprm_compact, deeprm_image
from simkit.agent.observe_system import FitnessPairs, feasible_pairs, pair_features
from simkit.agent.slotted import Slotted
from simkit.agent.slotted_tracker import SlotActions, SlottedTracker
from simkit.policy import Place
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster, Maintenance

STEPWISE = Rules(scheduling={"step": 1}, admission=AdmissionRule(slots=10, backlog=60))


def shares(numbers: object) -> list[float]:
    return [round(float(x), 6) for x in np.asarray(numbers).reshape(-1)]


@pytest.fixture
def begin_deeprm():
    """Return a function that begins a random slotted run."""

    def start(seed: int = 0):
        rng = np.random.default_rng(seed)
        jobs = [
            (t, a_gang(1, int(rng.integers(1, 13)), request=tuple(rng.integers(1, 11, 2))))
            for t in range(1, 30)
            if rng.random() < 0.7
        ]
        load = make_jobs(*jobs, resources=("cpu", "mem"))
        return begin(load, Cluster.pool({"cpu": 10, "mem": 10}), rules=STEPWISE).simulation

    return start


def test_the_queue_table_by_hand():
    # on 8 processors: job 0 runs, 1 waits for 6 of them, 2 came later and waits, 3 is held back
    load = rigid((0, 100, 4), (10, 30, 6), (20, 90, 8), (20, 1, 1))
    simulation = begin(load, 8, rules=Rules(admission=AdmissionRule(slots=2))).simulation
    encoder = make_encoder(
        "queue-table", simulation.info, arguments={"slots": 3, "time_scale_s": 30}
    )
    for state in simulation.decisions():
        if state.now == 0:
            task = next(iter(state.queue))
            simulation.apply(Place(task, state.fit(task)))
        if state.now == 20:
            assert shares(encoder.encode(state)) == [
                1, 0.25, 0.5, 0.75,  # waited 10 s, estimate 30 s, 6 of 8
                1, 0, 0.75, 1,  # waited 0 s, estimate 90 s, 8 of 8
                0, 0, 0, 0,
                0.5,  # free: 4 of 8
                0.4, 0.25, 0.25,  # 2 waiting, 1 held back, 1 running
            ]  # fmt: skip
            break
    else:
        pytest.fail("there was no decision at 20")


def test_the_queue_table_stays_in_its_range():
    cluster = Cluster(("cpu", "gpu"), ("a", "b"), np.array([[4.0, 0.0], [2.0, 0.0]]))
    load = make_jobs(
        (0, a_bag(30, 5, request=(1.0, 0.0))), (1, a_gang(2, 50, request=(2.0, 0.0))),
        resources=("cpu", "gpu"),
    )  # fmt: skip
    seen = []

    def schedule(state):
        encoder = make_encoder("queue-table", state.info)
        seen.append(encoder.encode(state))
        yield from greedy(state)
        seen.append(encoder.encode(state))

    simulate(schedule, load, cluster)
    together = np.stack(seen)
    assert 0 <= together.min() <= together.max() <= 1
    assert together[:, 3].max() == 1  # what asks for more than there is shows as all of it


def test_fitness_pairs_by_hand():
    cluster = Cluster(("cpu", "mem"), ("a", "b"), np.array([[8.0, 4.0], [4.0, 2.0]]))
    load = make_jobs(
        (0, a_gang(1, 60, request=(8.0, 1.0))),  # fits on machine 0 alone
        (0, a_bag(30, 20, request=(1.0, 2.0))),  # on both
        resources=("cpu", "mem"),
    )  # fmt: skip
    simulation = begin(load, cluster).simulation
    given = {"rows": 4, "time_scale_s": 20, "count_scale": 10}
    encoder = make_encoder("fitness-pairs", simulation.info, arguments=given)
    state = next(simulation.decisions())
    two = round(2 / 12, 6)
    table = encoder.encode(state)
    assert [shares(row) for row in table] == [
        # there, free 2, capacity 2, request 2, estimate, remaining, waiting
        [1, 1, 1, 1, 1, 1, 0.25, 0.75, round(1 / 11, 6), two],
        [1, 1, 1, 1, 1, 0.125, 0.5, 0.5, 0.75, two],
        [1, 0.5, 0.5, 0.5, 0.5, 0.125, 0.5, 0.5, 0.75, two],
        [0] * 10,
    ]
    assert isinstance(encoder, FitnessPairs)
    pairs = encoder.pairs
    assert pairs is not None
    assert (pairs.facts.tasks[1].index, pairs.machine.tolist()) == (1, [0, 0, 1])


def test_the_resource_time_image_agrees_with_the_profile():
    rng = np.random.default_rng(3)
    rows = sorted((int(t), int(r), int(n)) for t, r, n in rng.integers(1, 9, (40, 3)))
    checked = []

    def schedule(state):
        yield from greedy(state)
        given = {"horizon": 12, "step_s": 1}
        image = make_encoder("resource-time", state.info, arguments=given).encode(state)
        profile = state.profile()
        for step in range(12):  # everything lasts whole seconds: what holds within a step
            free = profile.total_free(state.now + step + 0.5)[0]
            assert image[step, 0] == pytest.approx(min((8 - free) / 8, 1), abs=1e-6)
        checked.append(image.max())

    window = Maintenance(20.0, 30.0, 0, (2.0,))  # what will be missing is occupied
    simulate(schedule, rigid(*rows), Cluster.pool({"processors": 8}, maintenance=(window,)))
    assert max(checked) == 1


def test_joined_encoders_are_one_vector(begin_deeprm):
    simulation = begin_deeprm()
    tracker = SlottedTracker(Slotted())
    tracker.reset(simulation.info)
    names = ["queue-table", "deeprm-image", "resource-time"]
    given = {"queue-table": {"slots": 3}}
    joined = make_encoder("+".join(names), simulation.info, tracker, given)
    alone = [make_encoder(n, simulation.info, tracker, given.get(n)) for n in names]
    joined.reset(simulation.info)
    state = next(simulation.decisions())
    tracker.update(state)
    columns = [
        part.encode(state)[..., begin:end].reshape(-1)
        for part in alone
        for _, begin, end in part.schema.places()
    ]
    expected = np.concatenate(columns)
    assert joined.schema.shape == expected.shape
    assert np.array_equal(joined.encode(state), expected)
    fields = [f"{part.schema.name}.{f.name}" for part in alone for f in part.schema.fields]
    assert [field.name for field in joined.schema.fields] == fields
    assert joined.schema.parameters["queue-table"]["slots"] == 3


@pytest.mark.parametrize("seed", range(3))
def test_encoders_and_mask_of_a_slotted_run(begin_deeprm, seed):
    simulation, model = begin_deeprm(seed), Slotted()
    tracker = SlottedTracker(model)
    actions = SlotActions(tracker)
    tracker.reset(simulation.info)
    names = [name for name in ENCODERS if name != "power-forecast"]  # there is no power here
    encoders = {name: make_encoder(name, simulation.info, tracker) for name in names}
    rng, decisions = np.random.default_rng(seed), 0
    for state in simulation.decisions():
        while True:
            tracker.update(state)
            view, decisions = tracker.view(), decisions + 1
            numbers = {name: encoder.encode(state) for name, encoder in encoders.items()}
            for name, encoder in encoders.items():
                assert numbers[name].shape == encoder.schema.shape
                low, high = bounds(encoder.schema)
                assert (low <= numbers[name]).all()
                assert (numbers[name] <= high).all()
            assert np.array_equal(numbers["deeprm-image"], deeprm_image(view, model))
            assert np.array_equal(numbers["deeprm-compact"], deeprm_compact(view, model))
            mask = actions.mask(state)
            assert mask.tolist() == [*(fits(view, model, m) for m in range(10)), True]
            action = int(rng.integers(11))
            place = actions.action_of(state, action)
            assert (place is not None) == (mask[action] and action != model.slots)
            if place is None:
                break
            simulation.apply(place)
    assert decisions > 40


def bounds(schema) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest that each number may be, in the schema's shape."""
    axis = None if schema.rows is None else 1
    filled = [[np.full(f.shape, side(f)) for f in schema.fields] for side in (_low, _high)]
    return tuple(np.concatenate(parts, axis=axis) for parts in filled)


def _low(field) -> float:
    return field.low


def _high(field) -> float:
    return field.high


def fits(view, model, slot):
    """Try every start within the horizon."""
    length, size = int(view.length[slot]), view.size[slot]
    starts = range(model.latest_start(length) + 1) if length else ()
    return any((view.occupied[t : t + length] + size <= model.capacity).all() for t in starts)


def test_pairs_are_those_that_fit_and_no_more_than_asked_for():
    cluster = Cluster(("processors",), ("a", "b", "c"), np.array([[3.0], [1.0], [2.0]]))
    found = []

    def schedule(state):
        pairs = feasible_pairs(state)
        assert (pairs.free >= pairs.request).all()
        one = reciprocal(state.info.capacity.max(axis=0))
        rows = pair_features(pairs, len(state.queue), one)
        assert rows.shape == (len(pairs), 6)
        fewer = feasible_pairs(state, 2)
        assert fewer.machine.tolist() == pairs.machine.tolist()[:2]
        expected = [
            (task.index, machine)
            for task in state.queue
            if state.fit(task) is not None
            for machine in range(3)
            if state.free[machine, 0] >= 1
        ]
        tasks = [pairs.facts.tasks[row].index for row in pairs.task]
        found.append(len(expected))
        assert list(zip(tasks, pairs.machine.tolist(), strict=True)) == expected
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)
                break

    simulate(schedule, rigid(*((t, 10, 1 + t % 4) for t in range(12))), cluster)
    assert max(found) > 3
    assert min(found) == 0


def test_the_resource_time_image_by_hand():
    # 8 processors; steps of 10 s; 4 held until 25, 2 more from 30 to 45
    simulation = begin(rigid((0, 25, 4), (0, 15, 2)), 8).simulation
    encoder = make_encoder("resource-time", simulation.info, arguments={"horizon": 6, "step_s": 10})
    state = next(simulation.decisions())
    first, second = state.queue
    simulation.apply(Place(first, ((0, 4),)))
    simulation.apply(Place(second, ((0, 2),), 30.0))
    assert encoder.encode(state).shape == (6, 1)
    assert shares(encoder.encode(state)) == [0.5, 0.5, 0.25, 0.25, 0.125, 0]

"""The fast model of a chunk places every instance when and where simkit's engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_chunks import Scored, engine_run, instances, workload_of
from trace_files import real_file

from simkit.arrays import Floats, stream
from simkit.learners.scorers.chunk_bounds import look_ahead, lower_bound
from simkit.learners.scorers.pair_model import Chunk, Outcome, chunks, play, roll_out
from simkit.learners.scorers.pair_scorer import RULES, TERMS, PairScorer
from simkit.policies.cloudsimpy import CloudSimPy
from simkit.policy.pairs import PairTable
from simkit.traces.task_table import read_task_table
from simkit.workload import Workload

FIVE = np.array([[64.0, 1.0]] * 5)

BAG = st.tuples(
    st.integers(1, 7),
    st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 1.0]),
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5]),
    st.sampled_from([1.0, 1.0, 1.25, 2.0, 2.5, 3.0, 7.0, 20.0]),
)
"""Tenths add up to what machines have but for rounding; run times of a second are special."""
GAP = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 5.0])
JOBS = st.lists(st.tuples(GAP, st.lists(BAG, min_size=1, max_size=3)), min_size=1, max_size=6)
BEGIN = st.sampled_from([0.0, 100.0, 100.5])
MACHINES = st.one_of(
    st.integers(1, 3).map(lambda count: np.ones((count, 2))),
    st.lists(
        st.tuples(*[st.sampled_from([1.0, 1.5, 2.0, 3.0])] * 2), min_size=1, max_size=3
    ).map(np.array),
)  # fmt: skip
SEED = st.integers(0, 2**32)


def small_workload(jobs: Sequence[Any], begin_s: float = 0.0) -> Workload:
    """Return jobs of (gap to the job before, bags)."""
    times = begin_s + np.cumsum([gap for gap, _ in jobs])
    return workload_of([(t, bags) for t, (_, bags) in zip(times.tolist(), jobs, strict=True)])


def by_random_terms(seed: int) -> PairScorer:
    weights = np.random.default_rng(seed).normal(size=len(TERMS))
    return PairScorer.by_terms(dict(zip(TERMS, weights.tolist(), strict=True)))


def with_random_weights(scorer: PairScorer, seed: int) -> PairScorer:
    size = len(scorer.flat)
    return scorer.with_flat(0.7 * np.random.default_rng(seed).normal(size=size))


SCORERS: dict[str, Callable[[int], PairScorer]] = {
    "longest": lambda seed: RULES["longest"],
    "work": lambda seed: RULES["work"],
    "terms": by_random_terms,
    "terms and a layer": lambda seed: with_random_weights(PairScorer.by_terms({}, (4,)), seed),
    "terms and layers": lambda seed: with_random_weights(PairScorer.by_terms({}, (5, 3)), seed),
    "paper": lambda seed: with_random_weights(PairScorer.of_paper(), seed),
    "paper's sum": lambda seed: with_random_weights(PairScorer.of_paper(()), seed),
}


def check_equal(found: Outcome, policy: CloudSimPy, load: Workload, capacity: Floats) -> None:
    makespan, placed = engine_run(policy, load, capacity)
    assert instances(found.placed) == placed
    all_fitted = placed.total() == load.instances.sum()  # rounding can keep one from fitting
    assert found.makespan == (makespan if all_fitted else np.inf)


@pytest.mark.parametrize(
    "name",
    [n if n == "paper" else pytest.param(n, marks=pytest.mark.thorough) for n in SCORERS],
)
def test_play_is_the_engine(name):
    @given(jobs=JOBS, begin_s=BEGIN, capacity=MACHINES, seed=SEED)
    def check(jobs: Sequence[Any], begin_s: float, capacity: Floats, seed: int) -> None:
        load, scorer = small_workload(jobs, begin_s), SCORERS[name](seed)
        policy = CloudSimPy(Scored(scorer))
        check_equal(play(Chunk.of(load, capacity), scorer), policy, load, capacity)

    check()


@pytest.mark.thorough
@given(jobs=JOBS, begin_s=BEGIN, capacity=MACHINES)
def test_the_rule_balance_is_the_fitness_balance(jobs, begin_s, capacity):
    load = small_workload(jobs, begin_s)
    found = play(Chunk.of(load, capacity), RULES["balance"])
    check_equal(found, CloudSimPy("balance"), load, capacity)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["terms", "terms and a layer", "paper"])
def test_a_roll_out_is_the_engine_that_draws(name, monkeypatch):
    drawn: list[tuple[int, int]] = []  # pairs that fit, and the number of the one that was drawn
    original = PairTable.draw

    def draw(table: PairTable, rng: np.random.Generator) -> tuple[int, int] | None:
        pair = original(table, rng)
        if pair is not None:
            fits = np.isfinite(table._scores).ravel()
            place = pair[0] * len(table.facts.tasks) + pair[1]
            drawn.append((int(fits.sum()), int(fits[:place].sum())))
        return pair

    monkeypatch.setattr(PairTable, "draw", draw)

    @given(jobs=JOBS, begin_s=BEGIN, capacity=MACHINES, seed=SEED)
    def check(jobs: Sequence[Any], begin_s: float, capacity: Floats, seed: int) -> None:
        drawn.clear()
        load, scorer = small_workload(jobs, begin_s), SCORERS[name](seed)
        found = roll_out(Chunk.of(load, capacity), scorer, stream(seed, "policy"))
        policy = CloudSimPy(Scored(scorer), draws=True)
        makespan, placed = engine_run(policy, load, capacity, seed)
        assert list(zip(np.diff(found.first), found.chosen, strict=True)) == drawn
        ticks = [tick for tick, *_ in placed.elements()]
        assert sorted(found.tick.tolist()) == found.tick.tolist() == sorted(ticks)
        all_fitted = placed.total() == load.instances.sum()
        assert found.makespan == (makespan if all_fitted else np.inf)

    check()


@pytest.mark.thorough
@given(jobs=JOBS, capacity=MACHINES, seed=SEED)
def test_what_a_roll_out_has_seen(jobs, capacity, seed):
    """Each decision's features are those of the pairs that fit then; here, DeepJS's own."""
    scorer, load = PairScorer.of_paper(), small_workload(jobs)
    chunk = Chunk.of(load, capacity)
    found = roll_out(chunk, scorer, np.random.default_rng(seed))
    free, left, begun = capacity.copy(), chunk.instances.copy(), found.tick[0]
    for decision in np.flatnonzero(found.tick == begun):
        pairs = [
            (m, t)
            for m in range(len(capacity))
            for t in np.flatnonzero(chunk.seen <= begun)
            if left[t] and (chunk.request[t] <= free[m]).all()
        ]
        rows = found.pairs[found.first[decision] : found.first[decision + 1]]
        expected = [(*free[m], *chunk.request[t], chunk.run_s[t], left[t]) for m, t in pairs]
        features = found.seen[rows] * scorer.scale + scorer.shift
        assert features == pytest.approx(np.array(expected), rel=1e-5, abs=1e-4)
        machine, task = pairs[found.chosen[decision]]
        free[machine] -= chunk.request[task]
        left[task] -= 1


# --- lookahead ----------------------------------------------------------------------------------


class Script:
    """Plays a chunk by one rule until a tick, by another until the next one, and so on.

    It plays each from the beginning, with what has been decided placed by force: tasks, machines
    and times are known, so a rule decides only about the rest. That takes a model of its own.
    """

    def __init__(self, chunk: Chunk, most: int) -> None:
        self.chunk, self.most = chunk, most

    def play(self, rules: Sequence[tuple[float, PairScorer]], known: int) -> Outcome:
        """Return what comes of rules, each from a tick on, for the first `known` tasks."""
        placed: list[tuple[float, int, int, int]] = []
        last = 0.0
        for number, (begin, rule) in enumerate(rules):
            until = rules[number + 1][0] if number + 1 < len(rules) else np.inf
            placed, last = self._play_on(placed, rule, begin, until, known)
        return Outcome(last, placed)

    def _play_on(
        self, placed: list[Any], rule: PairScorer, begin: float, until: float, known: int
    ) -> tuple[list[Any], float]:
        chunk, placed, now, last = self.chunk, placed.copy(), begin, 0.0
        while now < until:
            last = now
            free, left = chunk.capacity.copy(), chunk.instances.copy()
            running = [p for p in placed if p[0] + chunk.hold[p[1]] > now]
            for _, task, _, count in placed:
                left[task] -= count
            for _, task, machine, count in running:
                free[machine] -= count * chunk.request[task]
            seen = [t for t in range(known) if chunk.seen[t] <= now and left[t]]
            held = [(left[t] * chunk.hold[t], t) for t in seen]
            held += [(p[3] * (p[0] + chunk.hold[p[1]] - now), p[1]) for p in running]
            total = chunk.capacity.sum(axis=0)
            fitness = Scored(rule)
            if seen:
                work = np.sum([time * chunk.request[t] for time, t in held], axis=0) / total
                fitness.weigh(work, max(chunk.hold[t] for t in seen), total)
            while pairs := [
                (m, t)
                for m in range(len(free))
                for t in seen
                if left[t] and (chunk.request[t] <= free[m]).all()
            ]:
                scores = fitness.scores(self._pairs(pairs, free, left))
                machine, task = pairs[int(np.argmax(scores))]
                count = 0
                while (
                    count < self.most
                    and left[task]
                    and (chunk.request[task] <= free[machine]).all()
                ):
                    free[machine] -= chunk.request[task]
                    left[task] -= 1
                    count += 1
                placed.append((now, task, machine, count))
            ends = [p[0] + chunk.hold[p[1]] for p in placed]
            to_come = [*ends, *chunk.seen[:known].tolist()]
            now = min((tick for tick in to_come if tick > now), default=np.inf)
        return placed, last

    def _pairs(self, pairs: Sequence[tuple[int, int]], free: Floats, left: Any) -> Any:
        chunk = self.chunk
        machine, task = np.array(pairs).T
        return Pairs(
            free[machine], chunk.capacity[machine], chunk.request[task], chunk.hold[task],
            left[task].astype(float),
        )  # fmt: skip


class Pairs:
    """What a fitness by terms looks at."""

    def __init__(self, free: Any, capacity: Any, request: Any, hold: Any, left: Any) -> None:
        self.free, self.capacity, self.request = free, capacity, request
        self.hold_s, self.remaining = hold, left


def brute_force(chunk: Chunk, rules: Sequence[PairScorer], most: int) -> tuple[Outcome, list[int]]:
    """Look ahead by playing everything from the beginning, again and again."""
    script, decided, current = Script(chunk, most), [], 0
    chosen = [0] * len(rules)
    for tick in sorted(set(chunk.seen.tolist())):
        known = int((chunk.seen <= tick).sum())
        order = [(current + turn) % len(rules) for turn in range(len(rules))]
        spans = {row: script.play([*decided, (tick, rules[row])], known).makespan for row in order}
        current = min(order, key=lambda row: spans[row])  # the first of equals
        chosen[current] += 1
        decided.append((tick, rules[current]))
    return script.play(decided, len(chunk.seen)), chosen


EIGHTHS = st.tuples(
    st.integers(1, 6),
    st.sampled_from([0.125, 0.25, 0.5, 1.0]),
    st.sampled_from([0.0, 0.125, 0.25, 0.5]),
    st.sampled_from([1.0, 1.5, 2.0, 3.0, 7.0, 20.0]),
)
"""Amounts that add up without rounding, so that the order of sums does not matter."""


@pytest.mark.thorough
@given(
    jobs=st.lists(
        st.tuples(GAP, st.lists(EIGHTHS, min_size=1, max_size=3)), min_size=1, max_size=5
    ),
    machines=st.integers(1, 2),
    most=st.sampled_from([1, 4]),
)  # fmt: skip
def test_looking_ahead_by_brute_force(jobs, machines, most):
    chunk = Chunk.of(small_workload(jobs), np.ones((machines, 2)))
    rules = list(RULES.values())
    found, (expected, chosen) = look_ahead(chunk, rules, most), brute_force(chunk, rules, most)
    assert found.placed == expected.placed
    assert found.makespan == expected.makespan
    assert found.chosen is not None
    assert found.chosen.tolist() == chosen


@pytest.mark.thorough
@given(jobs=JOBS, capacity=MACHINES)
def test_the_lookahead_has_the_best_rule_if_all_comes_together(jobs, capacity):
    together = small_workload([(0.0, [bag for _, bags in jobs for bag in bags])])
    chunk, rules = Chunk.of(together, capacity), list(RULES.values())
    spans = [play(chunk, rule, 4).makespan for rule in rules]
    found = look_ahead(chunk, rules)
    assert found.makespan == min(spans)
    assert found.chosen is not None
    assert int(np.argmax(found.chosen)) == int(np.argmin(spans))
    assert lower_bound(chunk) <= found.makespan


@pytest.mark.thorough
def test_what_never_fits_makes_the_makespan_infinite():
    """1 - 0.3 - 0.1 + 0.3 + 0.1 is less than 1, so the last task never gets all of it."""
    load = workload_of([(0, [(1, 0.3, 0, 1), (1, 0.1, 0, 1), (1, 1, 0, 1)])])
    chunk = Chunk.of(load, np.ones((1, 2)))
    oldest, largest = PairScorer.by_terms({}), PairScorer.by_terms({"largest_share": 1.0})
    found = play(chunk, oldest)
    assert found.placed == [(1, 0, 0, 1), (1, 1, 0, 1)]
    assert found.makespan == look_ahead(chunk, [oldest], 1).makespan == np.inf
    assert look_ahead(chunk, [oldest, largest], 1).makespan == 5
    drawn = [roll_out(chunk, oldest, np.random.default_rng(seed)) for seed in range(16)]
    assert {each.makespan for each in drawn} == {5, np.inf}
    for each in drawn:
        decisions = 3 if each.makespan < np.inf else 2
        assert (len(each.tick), len(each.chosen), len(each.first)) == (
            decisions, decisions, decisions + 1,
        )  # fmt: skip


# --- scorers ------------------------------------------------------------------------------------


def test_a_scorer_is_a_sum_and_a_network_beside_it():
    scorer = PairScorer(
        "terms", np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([10.0, 0.0]),
        ((np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 0.5])),
         (np.array([[2.0], [3.0]]), np.array([7.0]))),
    )  # fmt: skip
    z = (5.0 - 1.0) / 2.0, 0.25
    expected = 10 * z[0] + 2 * np.tanh(z[0]) + 3 * np.tanh(z[1] + 0.5) + 7
    assert scorer.scores(np.array([[5.0, 0.25]])) == pytest.approx([expected])
    assert scorer.widths == (2, 2, 1)
    assert len(scorer.flat) == 2 + 4 + 2 + 2 + 1


# --- DeepJS's chunks ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> Workload:
    return read_task_table(real_file("alibaba", "cloudsimpy_jobs.csv.gz"), submit="last").workload


@pytest.mark.slow
def test_published_makespans(table):
    some = list(chunks(table.take(np.arange(2000, len(table))), FIVE))  # chunks 200 to 521
    bounds = np.array([lower_bound(chunk) for chunk in some])
    balance = np.array([play(chunk, RULES["balance"]).makespan for chunk in some])
    ahead = np.array([look_ahead(chunk, list(RULES.values())).makespan for chunk in some])
    assert (bounds <= balance).all()
    assert (bounds <= ahead).all()
    assert len(some) == 322
    assert balance[2:].mean() <= 1136.5  # chunks 202 to 521
    assert ahead[2:].mean() <= 1133.5
    assert balance[:320].mean() <= 1138.0  # chunks 200 to 519
    assert ahead[:320].mean() <= 1135.0

"""Multifactor priority: its factors against their definitions, usage against the integral."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from simkit.errors import ScenarioError
from simkit.policies.orderings import Multifactor
from simkit.policy.ordered import OrderedPolicy

PROCESSORS = 8


class Watched(OrderedPolicy):
    """Notes the usage of every user at every decision, after what starts at it."""

    def reset(self, info, rng):
        super().reset(info, rng)
        self.seen = []

    def schedule(self, state):
        yield from super().schedule(state)
        self.order.usage.update(state)
        self.order.usage.update(state)  # once more, which must change nothing
        used = [self.order.usage.of(user, state.now) for user in range(3)]
        self.seen.append((state.now, used))


def random_jobs(seed, jobs=60):
    rng = np.random.default_rng(seed)
    run = rng.integers(0, 50, jobs).astype(float)
    return {
        "job_id": np.arange(jobs),
        "submit_time_s": np.cumsum(rng.integers(0, 10, jobs)).astype(float),
        "run_time_s": run,
        "processors": rng.integers(1, PROCESSORS + 1, jobs),
        "requested_time_s": run + rng.integers(0, 20, jobs),
        "user": rng.integers(0, 3, jobs),
    }


def integral(jobs, start, user, now, half_life):
    """Return the sum over the user's jobs of processors · ∫ 2^(−(now − τ) / half_life) dτ."""
    mine = jobs["user"] == user
    begin = np.minimum(start, now)
    end = np.minimum(start + jobs["run_time_s"], now)
    weight = 2.0 ** (-(now - end) / half_life) - 2.0 ** (-(now - begin) / half_life)
    return float((jobs["processors"] * weight)[mine].sum() * half_life / np.log(2.0))


@pytest.mark.parametrize("half_life", [7.0, 300.0, "1d"])
def test_usage_is_the_decayed_integral_of_what_a_user_holds(half_life, simulate):
    jobs = random_jobs(0)
    policy = Watched(Multifactor(half_life=half_life))
    start = np.array(simulate(policy, jobs, PROCESSORS).starts)
    seconds = 86400.0 if half_life == "1d" else half_life
    assert len(policy.seen) > 60
    for now, used in policy.seen:
        expected = [integral(jobs, start, user, now, seconds) for user in range(3)]
        np.testing.assert_allclose(used, expected, rtol=1e-9, atol=1e-9)


def test_users_who_used_less_go_first(simulate, job_columns):
    # User 0 has run 8 processors for 100 s; then one job of each user waits for a third one.
    jobs = job_columns([(0, 100, 8, 100), (1, 50, 8, 50), (0, 10, 8, 10), (0, 10, 8, 10)])
    jobs["user"] = np.array([0, 2, 0, 1])
    order = Multifactor(age=0.0, size=0.0, fair_share=1.0)
    assert simulate(OrderedPolicy(order), jobs, PROCESSORS).starts == [0, 100, 160, 150]


@pytest.mark.parametrize(
    ("users", "factors"),
    [
        # Two users; user 0 holds everything: U = 1, S = ½, F = 2^-2; the other has used nothing.
        ([0, 1], [0.25, 1.0]),
        # Three users: S = 1/3.
        ([0, 1, 2], [0.125, 1.0, 1.0]),
        # One user alone has used what is due.
        ([0], [0.5]),
    ],
)
def test_fair_share_factor(users, factors, simulate, job_columns):
    jobs = job_columns([(0, 100, 8, 100)] + [(0, 1, 1, 1)] * len(users) + [(50, 1, 1, 1)])
    jobs["user"] = np.array([0, *users, 0])
    found = {}

    class Noting(OrderedPolicy):
        def schedule(self, state):
            yield from super().schedule(state)
            if state.now == 50.0:
                users_now = np.array(users, dtype=float)
                found["factors"] = self.order.usage.factors(users_now, state.now).tolist()

    simulate(Noting(Multifactor()), jobs, PROCESSORS)
    assert found["factors"] == pytest.approx(factors)


# Jobs 1 (small, short of age) and 2 (large) wait for job 0; which one is first?
@pytest.mark.parametrize(
    ("weights", "first"),
    [
        ({"size": 1.0, "age": 0.0}, 2),
        ({"size": 1.0, "age": 0.0, "favor_small": True}, 1),
        ({"size": 0.0, "age": 1.0, "max_age": 1000}, 1),  # it came before
        ({"size": 0.0, "age": -1.0, "max_age": 1000}, 2),
        ({"size": 1.0, "age": 100.0, "max_age": 30}, 2),  # both are of full age
        ({"size": 0.0, "age": 0.0}, 1),  # a tie goes by submission
    ],
)
def test_weights(weights, first, simulate, job_columns):
    jobs = job_columns([(0, 100, 8, 100), (10, 10, 5, 10), (10, 10, 8, 10)])
    starts = simulate(OrderedPolicy(Multifactor(fair_share=0.0, **weights)), jobs, 8).starts
    assert starts[first] == 100.0
    assert starts[3 - first] == 110.0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"age": nan}, "age is nan"),
        ({"size": inf}, "size is inf"),
        ({"fair_share": "much"}, "fair_share is 'much'"),
        ({"max_age": 0}, "max_age is 0"),
        ({"half_life": "-1d"}, "half_life is '-1d'"),
        ({"half_life": "a week"}, "'a week' is not a duration"),
    ],
)
def test_refuses_wrong_values(wrong, words):
    with pytest.raises(ScenarioError, match=words):
        Multifactor(**wrong)

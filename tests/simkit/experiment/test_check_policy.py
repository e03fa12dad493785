"""The checker of policies: good ones pass, and each of a zoo of bad ones fails by name."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from simkit.errors import PolicyError
from simkit.experiment.check_policy import check_policy
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.fitness import BestFit, RandomFit
from simkit.policies.orderings import FCFS, SJF, Multifactor, Random
from simkit.policy import Cancel, Place, Suspend, WakeAt
from simkit.policy.ordered import OrderedPolicy

pytestmark = pytest.mark.long


class Good:
    """Shortest first, as an author writes it; the bad ones differ in one thing."""

    def reset(self, info, rng):
        self.rng = rng

    def schedule(self, state):
        for task in sorted(state.queue, key=lambda task: task.estimate_s):
            if on := state.fit(task):
                yield Place(task, on)


class ReturnsList(Good):
    def schedule(self, state):
        free = state.room.copy()
        chosen = []
        for task in state.queue:
            if on := free.fit(task):
                free.take(on, task.request)
                chosen.append(Place(task, on))
        return chosen


class RandomOrder(Good):
    def schedule(self, state):
        tasks = list(state.queue)
        self.rng.shuffle(tasks)
        for task in tasks:
            if on := state.fit(task):
                yield Place(task, on)


class Wakes(Good):
    """Starts tasks at whole ten seconds only, and asks to be woken while anybody waits."""

    def schedule(self, state):
        if state.now % 10 == 0:
            yield from super().schedule(state)
        if state.queue:
            yield WakeAt(state.now - state.now % 10 + 10)


class Reserves(Good):
    """Reserves the next second for whatever fits, and takes every third reservation back."""

    def reset(self, info, rng):
        self.count = 0

    def schedule(self, state):
        for task in state.queue:
            self.count += 1
            on = state.profile().fit(task, state.now + 1)
            if on and sum(n for _, n in on) == task.remaining:
                yield Place(task, on, state.now + 1)
                if self.count % 3 == 0:
                    yield Cancel(task)
            elif on := state.fit(task):
                yield Place(task, on)
        if state.queue:
            yield WakeAt(state.now + 1)


class HoldsALock(Good):
    """Cannot be copied; it is checked all the same."""

    def __init__(self):
        self.lock = threading.Lock()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "policy",
    [
        Good(),
        Good,  # a class
        lambda: RandomOrder(),  # a function that makes one
        ReturnsList(),
        RandomOrder(),
        Wakes(),
        Reserves(),
        HoldsALock(),
        OrderedPolicy(FCFS()),
        OrderedPolicy(SJF(), Easy(), BestFit()),
        OrderedPolicy(Random(), Easy(), RandomFit()),
        OrderedPolicy(Multifactor(), Easy()),
        Conservative().compose(FCFS(), None),
    ],
    ids=lambda policy: getattr(policy, "__name__", type(policy).__name__),
)
def test_good_policies_pass(policy):
    check_policy(policy)


# ---- the zoo ------------------------------------------------------------------------------------


class NoSchedule:
    def reset(self, info, rng):
        pass


class NoReset:
    def schedule(self, state):
        yield from ()


class ReturnsNothing(Good):
    def schedule(self, state):
        for task in state.queue:
            Place(task, state.fit(task))


class RaisesOnAnEmptyQueue(Good):
    def schedule(self, state):
        first = min(state.queue, key=lambda task: task.estimate_s)
        if on := state.fit(first):
            yield Place(first, on)


class RaisesInReset(Good):
    def reset(self, info, rng):
        raise KeyError("cpu")


class PlacesWhatDoesNotFit(Good):
    def schedule(self, state):
        for task in state.queue:
            yield Place(task, ((0, task.remaining),))


class YieldsTasks(Good):
    def schedule(self, state):
        yield from state.queue


class WritesToFree(Good):
    def schedule(self, state):
        for task in state.queue:
            if on := state.fit(task):
                state.free[0] -= task.request
                yield Place(task, on)


class WritesToColumns(Good):
    def schedule(self, state):
        state.queue.columns().estimate_s[:] = 1.0
        yield from super().schedule(state)


class TakesFromTheRoom(Good):
    def schedule(self, state):
        for task in state.queue:
            if on := state.fit(task):
                state.room.take(on, task.request)  # instead of a copy's
                yield Place(task, on)


class EmptiesTheQueue(Good):
    def schedule(self, state):
        yield from super().schedule(state)
        state.queue.tasks.clear()


class CountsDown(Good):
    def schedule(self, state):
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)
                task.remaining -= 1


class ClearsArrived(Good):
    def schedule(self, state):
        state.arrived.clear()
        return super().schedule(state)


class NeverStopsYielding(Good):
    def schedule(self, state):
        while True:
            yield WakeAt(state.now + 1)


class NeverStopsWaking(Good):
    def schedule(self, state):
        yield from super().schedule(state)
        yield WakeAt(state.now + 1)


class DoesNothing(Good):
    def schedule(self, state):
        return ()


class OneInstanceOfABag(Good):
    def schedule(self, state):
        for task in state.queue:
            on = state.fit(task)
            if on and task.gang:
                yield Place(task, on)
            elif on and task.remaining == task.instances:
                yield Place(task, ((on[0][0], 1),))


class NeverResumes(Good):
    def schedule(self, state):
        yield from super().schedule(state)
        for allocation in state.running:
            if state.now > 30 and allocation.task.index == 3:
                yield Suspend(allocation)


class GlobalRandom(Good):
    def schedule(self, state):
        tasks = list(state.queue)
        random.shuffle(tasks)
        for task in tasks:
            if on := state.fit(task):
                yield Place(task, on)


class OwnGenerator(Good):
    def reset(self, info, rng):
        self.rng = np.random.default_rng()

    schedule = RandomOrder.schedule


class LearnsInTheClass(Good):
    """Keeps in its class what another object of it sees."""

    runs = 0

    def reset(self, info, rng):
        type(self).runs += 1

    def schedule(self, state):
        for task in sorted(state.queue, key=lambda task: task.index * (-1) ** self.runs):
            if on := state.fit(task):
                yield Place(task, on)


class Remembers(Good):
    """Averages over all runs it has been in."""

    def __init__(self):
        self.seen = 0

    def schedule(self, state):
        self.seen += 1
        tasks = sorted(state.queue, key=lambda task: (task.index * 7 + self.seen) % 11)
        for task in tasks:
            if on := state.fit(task):
                yield Place(task, on)


class KeepsTasks(Good):
    def __init__(self):
        self.history = []

    def schedule(self, state):
        self.history += state.arrived
        return super().schedule(state)


class KeepsAllocations(Good):
    def __init__(self):
        self.ended = []

    def schedule(self, state):
        self.ended += state.ended
        return super().schedule(state)


@pytest.mark.parametrize(
    ("policy", "rule", "words"),
    [
        (NoSchedule, "interface", "has no schedule"),
        (NoReset, "interface", "has no reset"),
        (ReturnsNothing, "iterable", "returned NoneType"),
        (RaisesOnAnEmptyQueue, "error", r"0 waiting.*test_check_policy.py, line \d+"),
        (RaisesInReset, "error", "reset .*KeyError: 'cpu'"),
        (PlacesWhatDoesNotFit, "illegal-action", r"asks machine 0 \(pool\) for 16 processors"),
        (YieldsTasks, "illegal-action", "is not an action"),
        (WritesToFree, "read-only", "writes to an array"),
        (WritesToColumns, "read-only", "writes to an array"),
        (TakesFromTheRoom, "read-only", "state.free"),
        (EmptiesTheQueue, "read-only", "state.queue"),
        (CountsDown, "read-only", "state.queue"),
        (ClearsArrived, "read-only", "state.arrived"),
        (NeverStopsYielding, "endless", "yielded 5000 actions"),
        (NeverStopsWaking, "endless", "called 10000 times"),
        (DoesNothing, "starvation", r"1 of 1 jobs of 'one job' .*\(job 1\)"),
        (OneInstanceOfABag, "starvation", "several machines"),
        (NeverResumes, "starvation", "resume what is suspended"),
        (GlobalRandom, "repeatable", "draw from the generator"),
        (OwnGenerator, "repeatable", "draw from the generator"),
        (LearnsInTheClass, "repeatable", "differs, first in"),
        (Remembers, "forgets", "forget everything in reset"),
        (KeepsTasks, "lets-go", r"\(SystemInfo, Task\)|\(Task\)"),
        (KeepsAllocations, "lets-go", "Task"),
    ],
)
def test_bad_policies_fail_by_name(policy, rule, words):
    with pytest.raises(PolicyError, match=rf"(?s)  {rule}: .*{words}") as error:
        check_policy(policy())
    lines = str(error.value).splitlines()
    assert lines[0].startswith(f"{policy.__name__} breaks ")
    rules = [line.split(":")[0].strip() for line in lines[1:] if line.startswith("  ")]
    assert rules == [rule]  # this one, and no other by the way


def test_all_broken_rules_are_listed_at_once():
    class Careless(KeepsTasks):
        def schedule(self, state):
            self.history += state.arrived
            random.shuffle(self.history)
            tasks = [task for task in self.history if task.waiting]
            for task in tasks:
                if task.instances < 8 and (on := state.fit(task)):
                    yield Place(task, on)

    with pytest.raises(PolicyError, match=r"Careless breaks \d rules of policies") as error:
        check_policy(Careless())
    rules = [line.split(":")[0].strip() for line in str(error.value).splitlines()[1:]]
    # what else it breaks depends on how the shuffles fall
    assert {"lets-go", "starvation"} <= set(rules)


def test_the_first_error_is_the_cause():
    with pytest.raises(PolicyError) as error:
        check_policy(RaisesOnAnEmptyQueue())
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("policy", [7, None, "easy"])
def test_what_is_no_policy_at_all(policy):
    with pytest.raises(PolicyError, match="interface: has no reset and no schedule"):
        check_policy(policy)

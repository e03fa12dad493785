"""DeepRM's model from a scenario: its dimensions, and the job sets to train and to judge on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError, TraceError
from simkit.learners.arguments import RESOURCES, longest_job, pool_problems
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.nn.input_layers import Stored
from simkit.learners.nn.optimisers import Adam
from simkit.learners.nn.perceptron import Weights, masked_log_softmax, sample
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.slotted import Slotted, SlottedView
from simkit.scenario import Scenario
from simkit.scenario.models import DeepRMWorkload
from simkit.traces.models.deeprm import UNIT, draw_job_sets, original_jobs


def slotted_model(scenario: Scenario, *, horizon: int, memory: int) -> Slotted:
    """Return the slotted model that a scenario describes, in units of its demands.

    Raises ScenarioError, all problems at once, if it is not DeepRM's workload on one pool in steps.
    """
    if problems := list(_problems(scenario)):
        raise ScenarioError(problems)
    workload, admission = _workload(scenario), scenario.admission
    unit = UNIT[workload.demands]
    assert admission.slots is not None  # or it were among the problems
    return Slotted(
        capacity=(round(workload.capacity / unit),) * len(RESOURCES),
        slots=admission.slots,
        horizon=horizon,
        max_length=longest_job(workload, horizon),
        backlog=admission.backlog,
        backlog_shown=60 if admission.backlog is None else max(admission.backlog, 1),
        memory=memory,
        step_s=workload.step_s,
        unit=(unit,) * len(RESOURCES),
    )


def _workload(scenario: Scenario) -> DeepRMWorkload:
    workload = scenario.workload
    assert isinstance(workload, DeepRMWorkload)  # `_problems` has told
    return workload


def _problems(scenario: Scenario) -> Iterator[str]:
    workload = scenario.workload
    if not isinstance(workload, DeepRMWorkload):
        yield f"workload.type: the learner deeprm takes deeprm, not {workload.type}"
        return
    if workload.original_set is not None:
        yield "workload.original_set: the agent is judged on these sets; leave it out for training"
    yield from pool_problems(scenario, workload, "deeprm")


class JobSource:
    """Job sets of a scenario's workload: fresh ones, and the unseen ones of the original."""

    def __init__(self, scenario: Scenario) -> None:
        """Work out the rate of arrivals.

        Raises ScenarioError if the offered load needs more than a job a step.
        """
        workload = _workload(scenario)
        arguments = workload.reader_arguments()
        names = ("steps", "short_share", "short_steps", "long_steps", "max_size")
        self._shape = {name: arguments[name] for name in names}
        self._demands = workload.demands
        try:
            self.rate = arrival_rate(workload)
            self.draw(np.random.default_rng(0), 1)
        except TraceError as error:
            raise ScenarioError(f"workload: {error}") from error

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets."""
        drawn = draw_job_sets(rng, sets=sets, rate=self.rate, demands=self._demands, **self._shape)
        return JobSets(drawn.enter, drawn.length, drawn.size)

    def unseen(self, sets: int) -> JobSets:
        """Return sets 0, 1, … of the original's unseen ones at this rate; some may be empty."""
        return padded([original_jobs(n, self.rate, **self._shape) for n in range(sets)])


def arrival_rate(workload: DeepRMWorkload) -> float:
    """Return the probability of a job in a step: as given, or as the offered load needs it.

    A job's mean area is its mean length times its mean size, either resource being the dominant
    one as often; 1.845 capacities a job and step with the defaults.
    """
    if workload.rate is not None:
        return workload.rate
    assert workload.offered_load is not None  # the scenario has one of the two
    largest, unit = workload.max_size, UNIT[workload.demands]
    bounds = (max(largest // 2, 1), largest, 1, max(largest // 5, 1))
    share, short, long = workload.short_share, workload.short_steps, workload.long_steps
    length = share * sum(short) / 2 + (1 - share) * sum(long) / 2
    return workload.offered_load * workload.capacity / (length * unit * sum(bounds) / 4)


def padded(sets: Sequence[tuple[Ints, Ints, Ints]]) -> JobSets:
    """Return sets of (J,) steps of arrival, (J,) lengths and (J, R) sizes side by side."""
    most = max([1, *(len(length) for _, length, _ in sets)])
    padded = JobSets.empty(len(sets), most, len(RESOURCES))
    for row, (enter, length, size) in enumerate(sets):
        padded.enter[row, : len(enter)] = enter
        padded.length[row, : len(length)] = length
        padded.size[row, : len(size)] = size
    return JobSets(padded.enter, padded.length, padded.size)


# MERGED Warm start: a network learns to do as shortest-job-first does, before it learns by itself.
# MERGED
# MERGED It is told what is right in the states that it comes to itself: Ross, Gordon and Bagnell, "A
# MERGED reduction of imitation learning and structured prediction to no-regret online learning" (2011).
# MERGED From the states of shortest-job-first alone, as in DeepRM's program, it learns mostly to wait, and
# MERGED where a slip of its own takes it, it goes on waiting: 95 % of its actions are right then, and jobs
# MERGED are slowed down several times more than by chance.


def shortest_first(game: Lockstep, view: SlottedView) -> Ints:
    """Return (A,) the actions of shortest-job-first, which starts only what fits from now on.

    Of equally short tasks it takes that in the lowest slot; where none fits, the void action.
    """
    endless = np.iinfo(np.int64).max
    length = np.where(game.fits_now(), view.length.astype(np.int64), endless)
    slot = length.argmin(axis=1)
    none = np.take_along_axis(length, slot[:, None], 1)[:, 0] == endless
    return np.where(none, game.model.slots, slot)


def shown(game: Lockstep, network: PolicyNetwork, rng: np.random.Generator) -> tuple[Stored, Ints]:
    """Play a game to its end with the network, and ask what shortest-job-first would have done.

    Returns:
        (D, F) observations as the network's input layer keeps them, and (D,) the actions that are
        right there.
    """
    observations, actions = [], []
    while len(game.active):
        view = game.view()
        observations.append(network.first.stored(view))
        actions.append(shortest_first(game, view))
        game.step(sample(masked_log_softmax(network.logits(observations[-1])), rng))
    return np.concatenate(observations), np.concatenate(actions)


def imitate(
    network: PolicyNetwork,
    games: Iterable[Lockstep],
    rng: np.random.Generator,
    *,
    batch: int = 256,
    learning_rate: float = 0.003,
) -> float:
    """Play games, and after each make likelier what was right in it: Adam on the log-likelihood.

    Args:
        network: is changed.
        games: fresh ones, of some hundred job sets each.
        rng: draws the actions, and the order in which decisions are learned from.
        batch: decisions a step.
        learning_rate: of Adam.

    Returns:
        The share of right decisions among the network's likeliest ones, in the last game, before
        it learned from that; nan without a game.
    """
    optimiser, right = Adam(learning_rate), float("nan")
    for game in games:
        observations, actions = shown(game, network, rng)
        right = float((network.logits(observations).argmax(axis=1) == actions).mean())
        order = rng.permutation(len(actions))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            optimiser.ascend(network.weights, _slope(network, observations[rows], actions[rows]))
            network.refresh()
    return right


def _slope(network: PolicyNetwork, observations: Stored, actions: Ints) -> Weights:
    """Return the gradient of the mean log-likelihood of actions."""
    slope = -np.exp(masked_log_softmax(network.logits(observations)))
    slope[np.arange(len(actions)), actions] += 1
    return network.gradient(observations, slope / np.float32(len(actions)))

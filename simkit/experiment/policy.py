"""The policy of a scenario and its source of estimates.

Policies of a sweep may be classes: the scenario of each run has the class's name, ``module:Mine``,
and the class travels to worker processes with it (`PolicyClasses`): by value if it is defined in
a notebook or script, which needs cloudpickle.

    run_sweep("grid.yaml", policy=Mine)
    run_sweep("grid.yaml", sweep={"policy": [Mine, {"order": "sjf"}]})
    run_sweep("grid.yaml", policy={"name": Mine, "args": {"depth": 2}})
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from simkit import plugins
from simkit.errors import PolicyError, ScenarioError, at_key
from simkit.plugins import instantiate, make
from simkit.policy import Policy, SystemInfo
from simkit.policy.estimates import Predictor
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.greedy import GreedyPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_label
from simkit.scenario.policy import (
    AgentPolicy,
    ComposedPolicy,
    FittedPolicy,
    LookaheadPolicy,
    ModelPolicy,
    NamedPolicy,
    RecordedPolicy,
    SwitchedPolicy,
)
from simkit.scenario.references import PluginChoice
from simkit.workload import Workload
from simkit.workload.cluster import Cluster
from simkit.workload.recorded import Past

POLICIES = "simkit.policies"


def build_policy(scenario: Scenario, past: Past | None = None) -> Policy:
    """Return a new policy as the scenario describes it.

    `past` is given to a policy that replays recorded starts, and to no other.

    Raises PluginError for an unknown name, ScenarioError for wrong arguments, PolicyError if the
    result is not a policy.
    """
    section = scenario.policy
    if isinstance(section, ComposedPolicy):
        return _composed(section)
    if isinstance(section, FittedPolicy):
        return _fitted(section)
    if isinstance(section, LookaheadPolicy):
        return _looking_ahead(section, scenario)
    if isinstance(section, SwitchedPolicy):
        return _switching(section, scenario, past)
    if isinstance(section, RecordedPolicy):
        arguments = {"unknown": section.recorded.unknown, "past": past or Past()}
        replaying: Policy = make("policy.recorded", POLICIES, "recorded", {}, arguments)
        return replaying
    if isinstance(section, AgentPolicy):
        return _learned(section, scenario)
    if isinstance(section, ModelPolicy):
        load = plugins.find("simkit.tools", "model.load")
        statistics = None if section.statistics is None else Path(section.statistics)
        model: Policy = load(
            Path(section.model), section.algorithm, section.args, scenario, statistics
        )
        return model
    name = section.name if isinstance(section, NamedPolicy) else section.path
    made = make(f"policy: {name!r}", POLICIES, name, section.args, kind="policy")
    return checked_policy(made, name)


def _composed(section: ComposedPolicy) -> Policy:
    """Return a policy of order, backfilling and placement.

    A backfilling rule with a method ``compose(order, placement)``, such as conservative
    backfilling, also decides about the queue's head and so makes the policy itself.
    """
    order = _part("order", section.order)
    backfill = _part("backfill", section.backfill)
    placement = _part("placement", section.placement)
    if hasattr(backfill, "compose"):
        return checked_policy(backfill.compose(order, placement), section.backfill.type)
    return OrderedPolicy(order, backfill, placement)


def _fitted(section: FittedPolicy) -> Policy:
    """Return a policy by fitness, or another simulator's policy of that name."""
    if section.compat is not None:
        own = {"fitness": section.fitness.type, "order": section.order.type}
        what = f"policy.compat: {section.compat!r}"
        made = make(what, POLICIES, section.compat, section.fitness.args, own, kind="compat")
        return checked_policy(made, section.compat)
    order = _part("order", section.order)
    factory = plugins.find(POLICIES, section.fitness.type, kind="fitness")
    place = f"policy.fitness: {section.fitness.type!r}"
    if isinstance(factory, type) and issubclass(factory, GreedyPolicy):
        # Fairness depends on what was just placed, so it is a policy itself.
        return checked_policy(instantiate(place, factory, {**section.fitness.args, "order": order}))
    return FitnessPolicy(instantiate(place, factory, section.fitness.args), order)


def _looking_ahead(section: LookaheadPolicy, scenario: Scenario) -> Policy:
    """Return a policy that chooses among others, whose scenarios differ in the policy alone."""
    candidates = []
    for row, part in enumerate(section.lookahead):
        with _at_place(f"policy.lookahead.{row}"):
            candidates.append(build_policy(scenario.model_copy(update={"policy": part})))
    given = {"objective": section.objective}
    own = {"policies": candidates, "every_s": scenario.scheduling.every}
    policy: Policy = make("policy.lookahead", POLICIES, "lookahead", given, own)
    return policy


def _switching(section: SwitchedPolicy, scenario: Scenario, past: Past | None) -> Policy:
    """Return policies one after the other, whose scenarios differ in the policy alone."""
    policies = []
    for place, part in section.phases:
        with _at_place(place):
            one = scenario.model_copy(update={"policy": part})
            policies.append(build_policy(one, past))
    own = {"policies": policies, "changes": [change.at for change in section.switch]}
    made: Policy = make("policy.switch", POLICIES, "switch", {}, own)
    return made


@contextmanager
def _at_place(place: str) -> Iterator[None]:
    """Let problems of a policy begin with its place among several."""
    try:
        yield
    except ScenarioError as error:
        problems = [text.replace("policy", place, 1) for text in at_key("policy", error.problems)]
        raise ScenarioError(problems) from error


def _learned(section: AgentPolicy, scenario: Scenario) -> Policy:
    """Return an agent; it refuses a scenario that it was not trained for."""
    load = partial(plugins.find("simkit.tools", "agent.load"), Path(section.agent), scenario)
    if section.compat is not None:
        load = partial(load, compat=section.compat)
    label = agent_label(section.agent)
    return checked_policy(instantiate(f"policy: agent {label!r}", load, section.args), label)


def checked_policy(
    policy: Any, name: str = "", arguments: Mapping[str, Any] | None = None
) -> Policy:
    """Return a policy; a class is instantiated with the arguments.

    Raises PolicyError for anything else.
    """
    if isinstance(policy, type):
        policy = instantiate(f"policy: {policy.__name__!r}", policy, arguments or {})
    if missing := missing_methods(policy, "reset", "schedule"):
        shown = name or type(policy).__name__
        raise PolicyError(
            f"policy: {shown!r} has no {' and no '.join(missing)}; a policy has "
            "reset(info, rng) and schedule(state), see simkit.policy"
        )
    checked: Policy = policy
    return checked


def missing_methods(thing: object, *methods: str) -> list[str]:
    """Return which of the methods a policy or estimator lacks."""
    return [name for name in methods if not callable(getattr(thing, name, None))]


def build_predictor(scenario: Scenario) -> Predictor:
    """Return the scenario's source of run-time estimates; raises like `build_policy`."""
    choice = scenario.estimates
    what = f"estimates: {choice.type!r}"
    predictor = make(what, "simkit.predictors", choice.type, choice.args)
    missing = missing_methods(predictor, "reset", "estimates", "on_submission", "on_end")
    if not hasattr(predictor, "learns"):
        missing.append("learns")
    if missing:
        raise PolicyError(
            f"{what} has no {' and no '.join(missing)}; an estimator has "
            "reset, estimates, on_submission, on_end and learns; derive it from "
            "simkit.policy.estimates.Requested, which has them"
        )
    checked: Predictor = predictor
    return checked


def _part(kind: str, choice: PluginChoice) -> Any:
    """Return an order or rule; None, for "none" and "first-fit", means the default."""
    what = f"policy.{kind}: {choice.type!r}"
    return make(what, POLICIES, choice.type, choice.args, kind=kind)


def scenario_problems(policy: Policy, scenario: Scenario) -> list[str]:
    """Return the problems that the policy's ``check_scenario(scenario)`` reports, if any.

    Policies that were made for one scenario, and may be given to another, have such a method. One
    that works with a single time between decisions declares it as `period_s`.
    """
    check, period_s = getattr(policy, "check_scenario", None), getattr(policy, "period_s", None)
    problems = [] if check is None else at_key("policy", check(scenario))
    if period_s not in (None, scenario.scheduling.every):
        problems.append(
            f"policy: {type(policy).__name__} decides every {period_s:g}s; add "
            f"`scheduling: {{every: {period_s:g}s}}`"
        )
    return problems


def cluster_problems(
    policy: Policy, cluster: Cluster, scenario: Scenario | None, workload: Workload | None = None
) -> list[str]:
    """Return the problems that a policy has with a cluster, each with its remedy.

    They are those that its ``check_cluster(info)`` reports, if it has that, and partitions with
    `preempt` if the policy does not preempt.

    Args:
        policy: the policy.
        cluster: that of the run.
        scenario: what names the policy; None: the user gave the policy itself.
        workload: tells when the run begins; None: not known.
    """
    capacity = cluster.capacity.copy()
    epoch_s = nan if workload is None else workload.epoch_s
    info = SystemInfo(
        cluster.resources, cluster.machine_names, capacity, cluster.partitions, epoch_s
    )
    named = f"policy: {type(policy).__name__}" if scenario is None else scenario.policy.chosen
    asking = [
        f"cluster.partitions.{row}.preempt: {partition.preempt}"
        for row, partition in enumerate(cluster.partitions)
        if partition.preempt is not None
    ]
    problems = []
    if asking and not getattr(policy, "preempts", False):
        problems.append(
            f"{named} preempts no running tasks, but the scenario has {', '.join(asking)}; use an "
            "order with backfill none or easy, or leave preempt out"
        )
    check = getattr(policy, "check_cluster", None)
    return problems if check is None else [*problems, *at_key("policy", check(info))]


def recorded_as(kind: type) -> NamedPolicy:
    """Return what `run.json` says of a policy that took the place of the scenario's."""
    return NamedPolicy.model_construct(name=f"{kind.__module__}:{kind.__qualname__}", args={})


class _Given(NamedTuple):
    kind: type
    section: NamedPolicy
    """Made where the class was defined: a copy in another process has lost a part of its name."""


class PolicyClasses:
    """The classes among the policies of a sweep, by their names in its scenarios."""

    def __init__(self, packed: bytes = b"") -> None:
        self._classes: dict[str, _Given] = {}
        self._packed = packed
        """Those of another process, until they are needed: then a failure is that of a run."""

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario, overrides or a sweep with the name of each class in its place.

        Raises ScenarioError for a policy object, and for two classes of one name.
        """
        return {key: self._named(key, value) for key, value in values.items()}

    def _named(self, key: str, value: Any) -> Any:
        if key == "sweep" and isinstance(value, Mapping):
            return self.named(value)
        if key != "policy":
            return value
        if isinstance(value, list | tuple):
            return [self._named(key, one) for one in value]
        if isinstance(value, type):
            return self._add(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), type):
            return {**value, **self._add(value["name"])}
        if hasattr(value, "schedule"):
            kind = type(value).__name__
            raise ScenarioError(
                f"policy: an object of {kind}; every run of a sweep makes its own: give the class "
                f'{kind}, or {{"name": {kind}, "args": {{…}}}}'
            )
        return value

    def _add(self, kind: type) -> dict[str, Any]:
        section = recorded_as(kind)
        name = section.name.replace("<locals>", "locals")  # as a scenario may name an object
        if self._classes.setdefault(name, _Given(kind, section)).kind is not kind:
            raise ScenarioError(f"policy: two classes are called {name}; rename one of them")
        return {"name": name}

    def recorded(self, scenario: Scenario) -> Scenario:
        """Return the scenario as `run.json` records it."""
        given = self._given(scenario)
        if given is None:
            return scenario
        section = given.section.model_copy(update={"args": _arguments(scenario)})
        return scenario.model_copy(update={"policy": section})

    def policy_of(self, scenario: Scenario) -> tuple[Scenario, Policy | None]:
        """Return the scenario as recorded and a new policy, if its policy is one of the classes.

        Raises ScenarioError or PolicyError if that cannot be made, or is no policy.
        """
        given = self._given(scenario)
        policy = None
        if given is not None:
            policy = checked_policy(given.kind, arguments=deepcopy(_arguments(scenario)))
        return self.recorded(scenario), policy

    def _given(self, scenario: Scenario) -> _Given | None:
        if self._packed:
            self._classes, self._packed = pickle.loads(self._packed), b""
        section = scenario.policy
        return self._classes.get(section.name) if isinstance(section, NamedPolicy) else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process makes them of."""
        return PolicyClasses, (self._packed or _packed(self._classes),)


def _arguments(scenario: Scenario) -> dict[str, Any]:
    """Return the arguments of the class that the scenario names."""
    assert isinstance(scenario.policy, NamedPolicy)
    return dict(scenario.policy.args)


def _packed(classes: Mapping[str, _Given]) -> bytes:
    if not classes:
        return b""
    try:
        import cloudpickle
    except ImportError:
        for name, given in classes.items():
            if not _can_be_imported(given.kind):
                raise ScenarioError(
                    f"policy: {name} cannot be sent to other processes without cloudpickle; "
                    "install it (pip install cloudpickle), move the class to a file and write "
                    "{path: my_policy.py:Mine}, or use one worker"
                ) from None
        return pickle.dumps(classes)
    packed: bytes = cloudpickle.dumps(classes)
    return packed


def _can_be_imported(kind: type) -> bool:
    """Return whether a new process finds the class: not in a function, and not in a notebook."""
    module = sys.modules.get(kind.__module__)
    return hasattr(module, "__file__") and "<locals>" not in kind.__qualname__

"""The policy of a scenario: composed of rules by name, or a class of one's own; and the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from simkit import plugins
from simkit.engine.admission import AdmissionRule
from simkit.engine.simulation import Rules
from simkit.errors import PolicyError, ScenarioError
from simkit.plugins import instantiate
from simkit.policy import Policy, SystemInfo
from simkit.policy.estimates import Predictor
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.greedy import GreedyPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_label
from simkit.scenario.policy import AgentPolicy, ComposedPolicy, FittedPolicy, NamedPolicy
from simkit.scenario.references import PluginChoice
from simkit.workload.cluster import Cluster

POLICIES = "simkit.policies"


def build_policy(scenario: Scenario) -> Policy:
    """Return the scenario's policy, fresh.

    Raises PluginError for a name that nothing answers to, ScenarioError for arguments that it
    does not take, PolicyError if what is made is no policy.
    """
    section = scenario.policy
    if isinstance(section, ComposedPolicy):
        return _composed(section)
    if isinstance(section, FittedPolicy):
        return _fitted(section)
    if isinstance(section, AgentPolicy):
        return _learned(section, scenario)
    name = section.name if isinstance(section, NamedPolicy) else section.path
    factory = plugins.find(POLICIES, name, kind="policy")
    return checked_policy(instantiate(f"policy: {name!r}", factory, section.args), name)


def _composed(section: ComposedPolicy) -> Policy:
    """Put order, backfilling and placement together, or let the backfilling rule do it.

    A rule with a method ``compose(order, placement)`` decides about the queue's head as well, and
    so makes the policy itself; conservative backfilling is one.
    """
    order = _part("order", section.order)
    backfill = _part("backfill", section.backfill)
    placement = _part("placement", section.placement)
    if hasattr(backfill, "compose"):
        return checked_policy(backfill.compose(order, placement), section.backfill.type)
    return OrderedPolicy(order, backfill, placement)


def _fitted(section: FittedPolicy) -> Policy:
    """Return a policy by fitness; or the one that acts as another simulator does by that name."""
    if section.compat is not None:
        factory = plugins.find(POLICIES, section.compat, kind="compat")
        arguments = {"fitness": _name_in(section), **section.fitness.args}
        return checked_policy(instantiate("policy.compat", factory, arguments), section.compat)
    order = _part("order", section.order)
    factory = plugins.find(POLICIES, section.fitness.type, kind="fitness")
    place = f"policy.fitness: {section.fitness.type!r}"
    if isinstance(factory, type) and issubclass(factory, GreedyPolicy):
        # Fairness looks at what was placed just now, so that it is a policy of its own.
        return checked_policy(instantiate(place, factory, {**section.fitness.args, "order": order}))
    return FitnessPolicy(instantiate(place, factory, section.fitness.args), order)


def _learned(section: AgentPolicy, scenario: Scenario) -> Policy:
    """Return an agent, which refuses a scenario that it was not made for."""
    load = partial(plugins.find("simkit.tools", "agent.load"), Path(section.agent), scenario)
    label = agent_label(section.agent)
    return checked_policy(instantiate(f"policy: agent {label!r}", load, section.args), label)


def _name_in(section: FittedPolicy) -> str:
    """Return what the other simulator calls the policy: by order, if that is not by submission."""
    if section.order.type == "fcfs":
        return section.fitness.type
    if section.fitness.type != "first-fit":
        raise ScenarioError(
            f"policy.compat: {section.compat} knows the order {section.order.type} with first-fit "
            f"alone, not with {section.fitness.type}"
        )
    return section.order.type


def checked_policy(policy: Any, name: str = "") -> Policy:
    """Return what was given if it is a policy; a class is instantiated without arguments.

    Raises PolicyError otherwise.
    """
    if isinstance(policy, type):
        policy = instantiate(f"policy: {policy.__name__!r}", policy, {})
    missing = [m for m in ("reset", "schedule") if not callable(getattr(policy, m, None))]
    if missing:
        shown = name or type(policy).__name__
        raise PolicyError(
            f"policy: {shown!r} has no {' and no '.join(missing)}; a policy has "
            "reset(info, rng) and schedule(state), see simkit.policy"
        )
    checked: Policy = policy
    return checked


def build_predictor(scenario: Scenario) -> Predictor:
    """Return the scenario's source of run-time estimates; raises as `build_policy` does."""
    choice = scenario.estimates
    factory = plugins.find("simkit.predictors", choice.type)
    predictor: Predictor = instantiate(f"estimates: {choice.type!r}", factory, choice.args)
    return predictor


def build_rules(scenario: Scenario) -> Rules:
    """Return how the system behaves, whatever the policy."""
    admission = scenario.admission
    return Rules(
        walltime=scenario.walltime,
        every_s=scenario.scheduling.every,
        step_s=scenario.scheduling.step,
        admission=AdmissionRule(
            admission.slots, admission.backlog, admission.refill, admission.order
        ),
    )


def _part(kind: str, choice: PluginChoice) -> Any:
    """Return an order or a rule; None (what "none" and "first-fit" give) means the plain way."""
    factory = plugins.find(POLICIES, choice.type, kind=kind)
    return instantiate(f"policy.{kind}: {choice.type!r}", factory, choice.args)


def policy_label(scenario: Scenario) -> str:
    """Return ``fcfs+easy`` for a composed policy, the class's name of another."""
    section = scenario.policy
    if isinstance(section, FittedPolicy):
        parts = [_words(section.fitness.type, section.fitness.args)]
        if section.order.type != "fcfs":
            parts.append(_words(section.order.type, section.order.args))
        return "+".join([*parts, section.compat] if section.compat else parts)
    if isinstance(section, AgentPolicy):
        return _words(agent_label(section.agent), section.args)
    if not isinstance(section, ComposedPolicy):
        name = section.name if isinstance(section, NamedPolicy) else section.path
        return _words(name.rpartition(":")[2], section.args)
    parts = [_words(section.order.type, section.order.args)]
    for choice, plain in ((section.backfill, "none"), (section.placement, "first-fit")):
        if choice.type != plain:
            parts.append(_words(choice.type, choice.args))
    return "+".join(parts)


def _words(name: str, arguments: Mapping[str, Any]) -> str:
    given = ",".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name}({given})" if given else name


# MERGED Finds policies that were made for another cluster, before the run begins.


@runtime_checkable
class ClusterChecker(Protocol):
    """A policy that runs on some clusters only, and says beforehand what is wrong with one."""

    def check_cluster(self, info: SystemInfo) -> Iterable[str]:
        """Return problems, each with its remedy; none: the run may begin."""


def cluster_problems(policy: Policy, cluster: Cluster) -> list[str]:
    """Return what a policy finds wrong with a cluster; one without `check_cluster` nothing."""
    if not isinstance(policy, ClusterChecker):
        return []
    info = SystemInfo(
        cluster.resources, cluster.machine_names, cluster.capacity.copy(), cluster.partitions
    )
    return list(policy.check_cluster(info))

"""The policy of a scenario: composed of rules by name, or a class of one's own; and the rules."""

from __future__ import annotations

from typing import Any

from simkit import plugins
from simkit.admission import AdmissionRule
from simkit.construct import construct
from simkit.errors import PolicyError
from simkit.estimates import Predictor
from simkit.policy import Policy
from simkit.policy_bases import OrderedPolicy
from simkit.scenario import ComposedPolicy, NamedPolicy, Scenario
from simkit.scenario_names import Choice
from simkit.simulation import Rules

POLICIES = "simkit.policies"


def build_policy(scenario: Scenario) -> Policy:
    """Return the scenario's policy, fresh.

    Raises PluginError for a name that nothing answers to, ScenarioError for arguments that it
    does not take, PolicyError if what is made is no policy.
    """
    section = scenario.policy
    if isinstance(section, ComposedPolicy):
        parts = {
            kind: _part(kind, getattr(section, kind)) for kind in ("order", "backfill", "placement")
        }
        return OrderedPolicy(**parts)
    name = section.name if isinstance(section, NamedPolicy) else section.path
    factory = plugins.find(POLICIES, name, kind="policy")
    return checked_policy(construct(f"policy: {name!r}", factory, section.args), name)


def checked_policy(policy: Any, name: str = "") -> Policy:
    """Return what was given if it is a policy; a class is instantiated without arguments.

    Raises PolicyError otherwise.
    """
    if isinstance(policy, type):
        policy = construct(f"policy: {policy.__name__!r}", policy, {})
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
    predictor: Predictor = construct(f"estimates: {choice.type!r}", factory, choice.args)
    return predictor


def build_rules(scenario: Scenario) -> Rules:
    """Return how the system behaves, whatever the policy."""
    admission = scenario.admission
    return Rules(
        walltime=scenario.walltime,
        every_s=scenario.scheduling.every,
        admission=AdmissionRule(admission.slots, admission.backlog, admission.refill),
    )


def _part(kind: str, choice: Choice) -> Any:
    """Return an order or a rule; None (what "none" and "first-fit" give) means the plain way."""
    factory = plugins.find(POLICIES, choice.type, kind=kind)
    return construct(f"policy.{kind}: {choice.type!r}", factory, choice.args)


def policy_label(scenario: Scenario) -> str:
    """Return ``fcfs + easy`` for a composed policy, the name of another."""
    section = scenario.policy
    if not isinstance(section, ComposedPolicy):
        return section.name if isinstance(section, NamedPolicy) else section.path
    parts = [_words(section.order)]
    if section.backfill.type != "none":
        parts.append(_words(section.backfill))
    if section.placement.type != "first-fit":
        parts.append(_words(section.placement))
    return " + ".join(parts)


def _words(choice: Choice) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in choice.args.items())
    return f"{choice.type}({arguments})" if arguments else choice.type

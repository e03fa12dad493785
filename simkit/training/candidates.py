"""What `simkit evaluate` compares: agents and policies, as a command line names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from simkit.errors import PluginError, ScenarioError
from simkit.scenario.bundled import agent_folder
from simkit.scenario.overrides import anchor_paths
from simkit.scenario.policy import section_of
from simkit.scenario.yaml_lines import parse_scalar


@dataclass(frozen=True)
class Candidate:
    """An agent or a policy to judge on held-out job sets."""

    kind: Literal["agent", "policy"]
    policy: Mapping[str, Any]
    """The section `policy` of a scenario."""
    label: str = ""
    """Its name in tables; empty: the name of the scenario's policy."""


def agent_candidate(text: str) -> Candidate:
    """Return the agent of a bundle, a training's folder or a bundled agent's name.

    Raises ScenarioError if there is none.
    """
    try:
        folder = agent_folder(text, Path.cwd())
    except ValueError as error:
        raise ScenarioError(f"--agent {text}: {error}") from error
    return Candidate("agent", {"agent": str(folder)})


def policy_candidate(text: str) -> Candidate:
    """Return the policy that a name, a file's class or a mapping stands for.

    Args:
        text: ``sjf`` (a policy, an order or a fitness), ``sjf+easy`` (order, backfilling and
            placement), ``my_policy.py:Mine``, ``package.module:Mine``, or ``{fitness: tetris}`` as
            a scenario writes it. Relative paths start from the working folder.

    Raises ScenarioError, with the nearest name, if there is none.
    """
    if text.lstrip().startswith("{"):
        section = parse_scalar(text)
        if not isinstance(section, dict):
            raise ScenarioError(f"--policy {text}: is not a mapping; write {{order: sjf}}")
    else:
        try:
            section = section_of(text)
        except ValueError as error:
            raise PluginError(f"--policy {text}: {error}") from error
    laid_over: dict[str, Any] = anchor_paths({"policy": section}, Path.cwd())["policy"]
    learned = "agent" in laid_over or "model" in laid_over
    return Candidate("agent" if learned else "policy", laid_over)


def labelled(candidates: Sequence[Candidate], labels: Sequence[str]) -> list[str]:
    """Return distinct labels: of equal ones, all but the first get a number."""
    found: list[str] = []
    for candidate, label in zip(candidates, labels, strict=True):
        name, number = candidate.label or label, 2
        while name in found:
            name, number = f"{candidate.label or label}#{number}", number + 1
        found.append(name)
    return found

"""The reference of the policy API has every public name, and every name in it exists."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import simkit
from simkit import policy

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
PAGES = {name: (REFERENCE / name).read_text(encoding="utf-8")
         for name in ("policy-api.md", "policies.md", "python-api.md")}  # fmt: skip
BASES = ["simkit.policy.ordered", "simkit.policy.lane", "simkit.policy.fitness", "simkit.policy.greedy",
         "simkit.policy.estimates", "simkit.policy.what_if", "simkit.policy.declared"]  # fmt: skip


def public_names(module):
    """Return `__all__`, or the functions, classes and aliases that the module itself defines."""
    found = import_module(module)
    if hasattr(found, "__all__"):
        return set(found.__all__)
    return {
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    }


PUBLIC = {name: getattr(import_module(module), name)
          for module in ["simkit.policy", *BASES] for name in public_names(module)}  # fmt: skip


def in_code(text):
    """Yield the pieces of a page that are set as code."""
    yield from re.findall(r"`([^`\n]+)`", text)


def test_the_reference_has_every_public_name():
    words = {
        word for piece in in_code(PAGES["policy-api.md"]) for word in re.findall(r"\w+", piece)
    }
    assert sorted(PUBLIC.keys() - words) == []


def test_the_module_names_what_it_imports_for_others():
    defined = {name for name, value in vars(policy).items()
               if getattr(value, "__module__", None) == "simkit.policy"}  # fmt: skip
    assert {name for name in defined if not name.startswith("_")} <= set(policy.__all__)


def test_the_signatures_in_the_reference_are_those_of_the_code():
    """Also the methods of a base stand there as they are: `scores(task, free, capacity)`."""
    named: dict[str, list[object]] = {name: [value] for name, value in PUBLIC.items()}
    for value in filter(inspect.isclass, PUBLIC.values()):  # several classes may have a method
        for name, method in inspect.getmembers(value, inspect.isfunction):
            named.setdefault(name, []).append(method)
    checked = 0
    for piece in in_code(PAGES["policy-api.md"]):
        if match := re.fullmatch(r"(\w+)\(([\w, ]*)\)", piece):
            names = [n for n in match[2].split(", ") if n]
            signatures = [
                [n for n in inspect.signature(member).parameters if n != "self"][: len(names)]
                for member in named.get(match[1], [])
            ]
            assert names in signatures, piece
            checked += 1
    assert checked > 20


def test_attributes_of_the_state_are_documented():
    page = PAGES["policy-api.md"]
    members = {name for name in dir(policy.State) if not name.startswith("_")}
    words = {word for piece in in_code(page) for word in re.findall(r"\w+", piece)}
    assert members - words == set()


def test_the_short_names_are_the_same_classes():
    for name in ("Place", "Policy", "State", "Task", "OrderedPolicy"):
        assert getattr(simkit, name) is PUBLIC[name]

"""The scenario's `processes`: the user's SimPy processes, which run next to the engine's."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from simkit.scenario.references import Arguments, PluginName
from simkit.scenario.types import Section


def _reference(name: str) -> str:
    if ":" not in name:
        raise ValueError(f"{name!r} names no class in a file; write my_process.py:MyProcess")
    return name


ProcessFile = Annotated[str, AfterValidator(_reference), PluginName("simkit.processes")]


class ProcessSection(Section):
    """A process of the user, which may take machines away and give them back."""

    path: ProcessFile
    """The file and the class or generator function in it, my_process.py:MyProcess, relative to the
    scenario file; or package.module:MyProcess."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it."""

"""The reference of observations and rewards, from their schemas and docstrings.

The tables of slotted observations have the dimensions of DeepRM and of the Sofia study, the others
are of a cluster with the resources cpu and mem.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.agent.encoder import Field, ObservationSchema

STUDIES: dict[str, dict[str, Any]] = {
    "deeprm": {},
    "sofia": {"capacity": (50, 50), "horizon": 60, "max_length": 45, "backlog": None},
}
"""What the name of a slotted observation begins with → the dimensions that differ from DeepRM's."""
GIVEN = ("info", "tracker")
"""Parameters of an encoder that the user does not give."""


def observations() -> str:
    """Return a section an encoder: what it is, its arguments, its numbers."""
    from simkit.agent.observation import ENCODERS

    return "\n\n".join(_encoder(name) for name in ENCODERS)


def rewards() -> str:
    """Return a table of the rewards, and one of their arguments."""
    from simkit.agent.rewards import REWARDS

    rows, arguments = [], []
    for name in REWARDS:
        maker = REWARDS[name]
        rows.append(f"| `{name}` | {_prose(maker)} |")
        arguments += [f"| `{name}` {row}" for row in _argument_rows(maker)]
    sums = ["| reward | its sum over an episode |", "|---|---|", *rows]
    taken = ["| reward | argument | default | meaning |", "|---|---|---|---|", *arguments]
    return "\n".join([*sums, "", *taken])


def _encoder(name: str) -> str:
    from simkit.agent.observation import ENCODERS

    maker = ENCODERS[name]
    schema = example(name)
    head = f"### `{name}`\n\n{re.sub(r'; see `[^`]*`', '', _prose(maker))}"
    shape = " × ".join(map(str, schema.shape))
    size = f"{shape} numbers" if schema.rows else f"A vector of {shape} numbers"
    given = ", ".join(f"{key} {_shown(value)}" for key, value in schema.parameters.items())
    parts = [head]
    if rows := list(_argument_rows(maker)):
        parts.append("\n".join(["| argument | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join([*parts, f"{size}, with {given}:", brief(schema)])


def example(name: str) -> ObservationSchema:
    """Return the schema of an encoder by its name, as the page shows it."""
    import numpy as np

    from simkit.agent.observation import make_encoder
    from simkit.agent.slotted import Slotted
    from simkit.agent.slotted_tracker import SlottedTracker
    from simkit.policy import SystemInfo

    model = Slotted(**next((d for study, d in STUDIES.items() if name.startswith(study)), {}))
    capacity = np.array([model.capacity], np.float64)
    info = SystemInfo(("cpu", "mem"), ("pool",), capacity, ())
    return make_encoder(name, info, SlottedTracker(model)).schema


def brief(schema: ObservationSchema) -> str:
    """Return a schema's table, in which fields that differ in their slot alone share a row."""
    from simkit.agent.encoder import ObservationSchema

    whole = schema.table().splitlines()
    places = {part.name: (begin, end) for part, begin, end in schema.places()}
    lines = whole[:2]
    for _, group in groupby(schema.fields, key=_alike):
        parts = list(group)
        begin, end = places[parts[0].name][0], places[parts[-1].name][1]
        first = parts[0]
        text = re.sub(r"\bslot 0\b", "slot m", first.text) if len(parts) > 1 else first.text
        row = ObservationSchema("row", (replace(first, text=text),), {}, schema.rows).table()
        cells = row.splitlines()[2].split("|")
        cells[1] = f" {begin} " if end == begin + 1 else f" {begin}–{end - 1} "
        if len(parts) > 1:
            cells[2] = f" `{first.name}` … `{parts[-1].name}` "
        lines.append("|".join(cells))
    return "\n".join(lines)


def _alike(part: Field) -> tuple[Any, ...]:
    return re.sub(r"^slot\.\d+", "slot", part.name), part.shape, part.low, part.high, part.unit


def _prose(thing: Any) -> str:
    """Return a docstring's text before its arguments, as Markdown."""
    text = inspect.cleandoc(thing.__doc__ or "").partition("\nArgs:")[0].strip()
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return " ".join(paragraphs).replace("``", "`").replace("|", "\\|")


def _argument_rows(maker: Any) -> Iterator[str]:
    """Yield ``| name | default | meaning |`` of what a user may give."""
    _, _, told = inspect.cleandoc(maker.__doc__ or "").partition("\nArgs:\n")
    for name, text in re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", told, re.MULTILINE):
        if name not in GIVEN:
            default = inspect.signature(maker).parameters[name].default
            yield f"| `{name}` | `{_shown(default)}` | {' '.join(text.split())} |"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)

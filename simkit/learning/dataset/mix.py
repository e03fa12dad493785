"""A mix of datasets: whole episodes of each, so that its decisions have a stated share.

mix({Path("qos.parquet"): 0.5, Path("random.parquet"): 0.5}, Path("mixed.parquet"))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from simkit.arrays import Ints, stream
from simkit.errors import RunError, ScenarioError
from simkit.learning.dataset.format import Dataset, read_dataset, writing_dataset
from simkit.learning.schema import ObservationSchema, differing_entries
from simkit.text import counted

__all__ = ["Part", "differences", "mix"]

SAME = ("actions", "reward", "cost")
"""Facts, besides the observation, that datasets of a mix have in common."""


@dataclass(frozen=True)
class Part:
    """What came of a dataset in a mix."""

    path: Path
    share: float
    """As stated."""
    came: float
    """As it came out."""
    decisions: int
    episodes: int


def mix(
    shares: Mapping[Path, float], path: Path, *, decisions: int | None = None, seed: int = 0
) -> list[Part]:
    """Write a mix of datasets, and return what came of each.

    The episodes of a dataset are drawn without replacement until their decisions are as near as
    whole episodes allow to its share of all; at least one is taken. They stand in random order.

    Args:
        shares: file → the share of its decisions, above 0; they add up to 1.
        path: the file to write.
        decisions: in all; None: as many as the datasets have for these shares.
        seed: of the draw.

    Raises ScenarioError for wrong shares, RunError for datasets that do not suit each other, or
    have too few decisions, and as `read_dataset` does; nothing is written then.
    """
    _check_shares(shares)
    parts = [read_dataset(file) for file in shares]
    names = [str(file) for file in shares]
    if problems := list(_unlike(parts, names)):
        raise RunError("\n".join(problems))
    wanted = _wanted(parts, names, list(shares.values()), decisions)
    rng = stream(seed, "dataset.mix")
    drawn = [_drawn(part, count, rng) for part, count in zip(parts, wanted, strict=True)]
    order = rng.permutation([row for row, some in enumerate(drawn) for _ in some])
    left = [iter(some.tolist()) for some in drawn]
    facts = _facts(parts, names, list(shares.values()))
    size, actions = parts[0].observation.shape[1], parts[0].mask.shape[1]
    with writing_dataset(path, size, actions, facts) as file:
        for number, row in enumerate(order.tolist()):
            part = parts[row]
            file.write(_episode(part, next(left[row]), number), part.names)
    took = [sum(_lengths(part)[some]) for part, some in zip(parts, drawn, strict=True)]
    return [
        Part(file, share, int(count) / int(sum(took)), int(count), len(some))
        for (file, share), count, some in zip(shares.items(), took, drawn, strict=True)
    ]


def _check_shares(shares: Mapping[Path, float]) -> None:
    wrong = [f"{file}: the share is {share:g}; it must be above 0" for file, share in shares.items()
             if not share > 0]  # fmt: skip
    if len(shares) < 2:
        wrong.append(f"a mix has at least two datasets, here {'is one' if shares else 'is none'}")
    elif not isclose(total := sum(shares.values()), 1.0, abs_tol=1e-9):
        wrong.append(f"the shares add up to {total:g}; they must add up to 1")
    if wrong:
        raise ScenarioError(wrong)


def _unlike(parts: list[Dataset], names: list[str]) -> Iterator[str]:
    """Yield how datasets differ from the first."""
    for part, name in zip(parts[1:], names[1:], strict=True):
        for text in differences(parts[0].facts, part.facts):
            yield f"{name} cannot be mixed with {names[0]}: {text} (here: in {names[0]})"


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return how the meaning of two datasets differs, from what they say of themselves."""
    seen = [ObservationSchema.from_json(facts["observation"]) for facts in (here, there)]
    found = [f"observation: {text}" for text in seen[0].differences(seen[1])]
    for name in SAME:
        found += differing_entries(f"{name}:", here[name], there[name])
    return found


def _lengths(data: Dataset) -> Ints:
    """Return (E,) the decisions of each episode."""
    return np.diff(data.starts) - 1


def _wanted(
    parts: list[Dataset], names: list[str], shares: list[float], decisions: int | None
) -> list[float]:
    """Return how many decisions each dataset gives; raises RunError if it has too few."""
    there = [int(_lengths(part).sum()) for part in parts]
    most = min(count / share for count, share in zip(there, shares, strict=True))
    asked = most if decisions is None else decisions
    wrong = [
        f"{name}: has {counted(count, 'decision')}, its share of {asked:,} is "
        f"{share * asked:,.0f}; record more, or mix at most {int(most):,} in all"
        for name, count, share in zip(names, there, shares, strict=True)
        if share * asked > count * (1 + 1e-9)
    ]
    if wrong:
        raise RunError("\n".join(wrong))
    return [share * asked for share in shares]


def _drawn(data: Dataset, wanted: float, rng: np.random.Generator) -> Ints:
    """Return the episodes drawn, at least one, whose decisions are nearest to a number."""
    lengths = _lengths(data)
    order = rng.permutation(len(lengths))
    sums = lengths[order].cumsum()
    return order[: int(np.abs(sums - wanted).argmin()) + 1]


def _episode(data: Dataset, episode: int, number: int) -> dict[str, Any]:
    """Return the columns of an episode under another number."""
    first, last = data.starts[episode], data.starts[episode + 1]
    names = ("observation", "mask", "action", "reward", "cost", "passed_s", "probability",
             "behaviour", "terminated", "truncated")  # fmt: skip
    columns = {name: getattr(data, name)[first:last] for name in names}
    columns["episode"] = np.full(last - first, number)
    columns["seed"] = None if data.seed is None else data.seed[first:last]
    return columns


def _facts(parts: list[Dataset], names: list[str], shares: list[float]) -> dict[str, Any]:
    """Return what a mix says of itself: what its parts have in common, and each one's own."""
    common = {name: parts[0].facts[name] for name in ("observation", *SAME)}
    own = [{key: value for key, value in part.facts.items() if key not in common} for part in parts]
    return {
        "simkit": version("simkit-cluster"),
        **common,
        "policies": list(dict.fromkeys(name for part in parts for name in part.names)),
        "mix": [
            {"file": Path(name).name, "share": share, **facts}
            for name, share, facts in zip(names, shares, own, strict=True)
        ],
    }

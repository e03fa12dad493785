"""What Slurm's texts of resources say: trackable ones (TRES) of a job, generic ones (GRES).

``AllocTRES`` and ``ReqTRES`` hold totals of a job:
``billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=1``. ``AllocGRES`` and ``ReqGRES`` of
older releases hold amounts of each of its machines, ``gpu:tesla:2,craynetwork:1``, or, since 19.05,
also of each of something else: ``PER_JOB:gpu:8``, ``PER_TASK:gpu:1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import polars as pl

from simkit.traces.sacct.table import NOTHING, amount_gib

TRES_FORM: Final = "cpu=8,gres/gpu=2,mem=16G,node=1"
GRES_FORM: Final = "gpu:2, gpu:tesla:2 or PER_NODE:gpu:2"

_GPU: Final = "gres/gpu"
_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgtp]?)")
_POWERS: Final = {letter: 1024.0**power for power, letter in enumerate(("", *"kmgtp"))}
_SCOPE: Final = re.compile(r"per_([a-z]+):")
SCOPES: Final = ("job", "node", "task", "socket")
"""What gpus of GRES are of: of each of these. If a text has several, the first counts: Slurm holds
them for the same gpus."""
_SITE_WIDE: Final = ("license/", "bb/", "fs/", "ic/")
_OF_A_JOB: Final = re.compile(r"\b(billing|energy)=\d+").pattern
"""Numbers that differ from job to job and say nothing of what it asks for."""


class Told(NamedTuple):
    """What one text says."""

    cpu: float | None = None
    node: float | None = None
    gpu: float | None = None
    gpu_of: str = "job"
    """Which of `SCOPES` has so many gpus; ``?`` for one that is not known."""
    mem: str | None = None
    """As it stands there, such as 16G."""
    kinds: tuple[str, ...] = ()
    """Further kinds of resources: ``gres/shard``, ``license``, ``billing``."""
    types: tuple[str, ...] = ()
    """Types of gpus."""
    broken: bool = False
    """It has no known form."""


def parse_tres(text: str) -> Told:
    """Return what ``billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=1`` says.

    ``gres/gpu=4`` and ``gres/gpu:a100=4`` in one text are the same gpus; without the first, those
    of all types are added up. What is not named is 0; memory that is not named is unknown.
    """
    amounts = {"cpu": 0.0, "node": 0.0, _GPU: 0.0}
    by_type: dict[str, float] = {}
    kinds, mem, broken = set(), None, False
    for entry in filter(None, text.split(",")):
        key, equals, value = entry.strip().partition("=")
        count = _count(value)
        kind, _, of_type = key.partition(":")
        if kind in amounts:
            broken |= count is None
            if of_type and kind == _GPU:
                by_type[of_type] = by_type.get(of_type, 0.0) + (count or 0.0)
            else:
                amounts[kind] += count or 0.0
        elif kind == "mem":
            mem = value
        else:
            broken |= not (equals and kind)
            kinds.add(_site_wide(kind))
    gpus = max(amounts[_GPU], sum(by_type.values()))
    return Told(
        cpu=amounts["cpu"], node=amounts["node"], gpu=gpus, mem=mem, kinds=tuple(sorted(kinds)),
        types=tuple(by_type), broken=broken,
    )  # fmt: skip


def parse_gres(text: str) -> Told:
    """Return what ``gpu:tesla:2,craynetwork:1`` says: the gpus are those of each machine.

    ``PER_JOB:`` and the like before an entry say of what else they are; they hold for the entries
    after it, too. ``gpu`` without a number is one, ``gpu:2K`` are 2048; what is in parentheses
    (``gpu:2(IDX:0,1)``, ``gpu:(null):2``) is left aside.
    """
    gpus: dict[str, float] = {}
    kinds: set[str] = set()
    types: list[str] = []
    broken, of = False, "node"
    for entry in filter(None, re.sub(r"\([^)]*\)", "", text.lower()).split(",")):
        entry = entry.strip()
        if found := _SCOPE.match(entry):
            of, entry = (found[1] if found[1] in SCOPES else "?"), entry[found.end() :]
        name, *parts = re.split(r"[:=]", re.sub(r"^gres[:/]", "", entry))
        if name != "gpu":
            kinds.add(f"gres/{name}")
            broken |= not name
            continue
        count = _count(parts[-1]) if parts else 1.0
        kind = parts[:-1] if count is not None else parts
        broken |= len(kind) > 1 or (count is None and not parts[-1])
        types += filter(None, kind)
        gpus[of] = gpus.get(of, 0.0) + (1.0 if count is None else count)
    of = next((scope for scope in SCOPES if scope in gpus), "?" if gpus else "node")
    return Told(
        gpu=gpus.get(of, 0.0), gpu_of=of, kinds=tuple(sorted(kinds)), types=tuple(types),
        broken=broken,
    )  # fmt: skip


def _count(text: str) -> float | None:
    """Return the whole number in ``2``, ``2.00`` or ``2k``; None if it is none."""
    if (found := _COUNT.fullmatch(text)) is None:
        return None
    count = float(found[1]) * _POWERS[found[2]]
    return count if count == int(count) else None


def _site_wide(kind: str) -> str:
    """Return ``license`` of ``license/matlab``: those of a site count as one kind."""
    return kind.partition("/")[0] if kind.startswith(_SITE_WIDE) else kind


def told_by(text: pl.Series, parse: Callable[[str], Told]) -> pl.DataFrame:
    """Return what texts say, row by row; equal ones are parsed once.

    Returns columns cpu, node, gpu (Float64, null where a text says nothing), gpu_of (String: one of
    `SCOPES`), mem (Float64, GiB, null where it names none), per (String: the memory is that of each
    processor, ``c``, each machine, ``n``, or the job), kinds and types (lists of String), broken
    (Boolean).
    """
    texts = text.str.strip_chars().str.to_lowercase().str.replace_all(_OF_A_JOB, "$1=1")
    every = texts.alias("text").to_frame()
    different = every.unique()["text"].to_list()
    told = [Told() if one in NOTHING else parse(one) for one in different]
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "cpu": pl.Float64, "node": pl.Float64, "gpu": pl.Float64, "gpu_of": pl.String,
        "mem": pl.String,
        "kinds": pl.List(pl.String), "types": pl.List(pl.String), "broken": pl.Boolean,
    }  # fmt: skip
    columns = {name: [getattr(one, name) for one in told] for name in schema}
    gib, per = amount_gib(pl.col("mem"))
    table = pl.DataFrame(columns, schema=schema).with_columns(
        gib.alias("gib"), per.fill_null("").alias("per"), pl.Series("text", different, pl.String)
    )
    unreadable = pl.col("mem").is_not_null() & pl.col("gib").is_null()
    table = table.with_columns(pl.col("broken") | unreadable, pl.col("gib").alias("mem")).drop(
        "gib"
    )
    return every.join(table, on="text", how="left", maintain_order="left").drop("text")

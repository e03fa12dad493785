"""What Slurm's texts of resources say: trackable ones (TRES) of a job, generic ones (GRES).

``AllocTRES`` and ``ReqTRES`` hold totals of a job:
``billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=16G,node=1``. ``AllocGRES`` and ``ReqGRES`` of
older releases hold amounts of each of its machines: ``gpu:tesla:2,craynetwork:1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import polars as pl

from simkit.traces.sacct.table import NOTHING, amount_gib

TRES_FORM: Final = "cpu=8,gres/gpu=2,mem=16G,node=1"
GRES_FORM: Final = "gpu:2 or gpu:tesla:2"

_GPU: Final = "gres/gpu"
_COUNT: Final = re.compile(r"\d+(?:\.0+)?")
_GRES_GPU: Final = re.compile(r"(?:gres[:/])?gpu(?::([^:=]+?))??(?:[:=](\d+))?")
_SITE_WIDE: Final = ("license/", "bb/", "fs/", "ic/")
_OF_A_JOB: Final = re.compile(r"\b(billing|energy)=\d+").pattern
"""Numbers that differ from job to job and say nothing of what it asks for."""


class Told(NamedTuple):
    """What one text says."""

    cpu: float | None = None
    node: float | None = None
    gpu: float | None = None
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
        count = float(value) if _COUNT.fullmatch(value) else None
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
        amounts["cpu"], amounts["node"], gpus, mem, tuple(sorted(kinds)), tuple(by_type), broken
    )


def parse_gres(text: str) -> Told:
    """Return what ``gpu:tesla:2,craynetwork:1`` says: the gpus are those of each machine.

    ``gpu`` without a number is one; what is in parentheses (``gpu:2(IDX:0,1)``) is left aside.
    """
    gpus, kinds, types, broken = 0.0, set(), [], False
    for entry in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        name = re.split(r"[:=]", re.sub(r"^gres[:/]", "", entry.strip()))[0]
        if name != "gpu":
            kinds.add(f"gres/{name}")
            broken |= not name
        elif (found := _GRES_GPU.fullmatch(entry.strip())) is None:
            broken = True
        else:
            gpus += float(found[2] or 1)
            types += [found[1]] if found[1] else []
    return Told(gpu=gpus, kinds=tuple(sorted(kinds)), types=tuple(types), broken=broken)


def _site_wide(kind: str) -> str:
    """Return ``license`` of ``license/matlab``: those of a site count as one kind."""
    return kind.partition("/")[0] if kind.startswith(_SITE_WIDE) else kind


def told_by(text: pl.Series, parse: Callable[[str], Told]) -> pl.DataFrame:
    """Return what texts say, row by row; equal ones are parsed once.

    Returns columns cpu, node, gpu (Float64, null where a text says nothing), mem (Float64, GiB,
    null where it names none), per (String: the memory is that of each processor, ``c``, each
    machine, ``n``, or the job), kinds and types (lists of String), broken (Boolean).
    """
    texts = text.str.strip_chars().str.to_lowercase().str.replace_all(_OF_A_JOB, "$1=1")
    every = texts.alias("text").to_frame()
    different = every.unique()["text"].to_list()
    told = [Told() if one in NOTHING else parse(one) for one in different]
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "cpu": pl.Float64, "node": pl.Float64, "gpu": pl.Float64, "mem": pl.String,
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

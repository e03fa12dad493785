"""The fields of Slurm's accounting: durations, time limits, instants and memory, as columns.

Each function takes a polars column of text and returns numbers, null where the text says that
there is none (empty, Unknown, UNLIMITED, …); text that fits no form gives null too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

NOTHING: Final = (
    "", "unknown", "none", "n/a", "invalid", "unlimited", "partition_limit", "(null)",
)  # fmt: skip
"""What Slurm writes where there is no value, in lower case."""

_DURATION = r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)$"
_MEMORY = r"^(\d+(?:\.\d+)?)([KMGTPkmgtp]?)([cn]?)$"
_BYTES = r"^(\d+(?:\.\d+)?)([KMGTPkmgtp]?)$"
_GIB = {"k": 2.0**-20, "m": 2.0**-10, "": 2.0**-10, "g": 1.0, "t": 2.0**10, "p": 2.0**20}


def is_nothing(text: pl.Expr) -> pl.Expr:
    """Tell which fields say that there is no value."""
    return text.str.strip_chars().str.to_lowercase().is_in(list(NOTHING))


def number(text: pl.Expr) -> pl.Expr:
    """Return the number in ``120``."""
    import polars as pl

    return text.str.strip_chars().cast(pl.Float64, strict=False)


def duration_s(text: pl.Expr) -> pl.Expr:
    """Return seconds of ``[DD-[HH:]]MM:SS[.mmm]``."""
    import polars as pl

    parts = text.str.strip_chars().str.extract_groups(_DURATION).struct
    days, hours, minutes, seconds = (
        parts.field(str(i)).cast(pl.Float64, strict=False) for i in range(1, 5)
    )
    return days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds


def instant_s(text: pl.Expr, time_zone: str | None) -> pl.Expr:
    """Return Unix seconds of ``2023-05-01T12:00:00`` (local time) or of plain Unix seconds.

    Without a zone the clock is read as if it were UTC. The hour that occurs twice when summer
    time ends is read as its first occurrence.
    """
    import polars as pl

    local = text.str.strip_chars().str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    if time_zone is not None:
        local = local.dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    return pl.coalesce(number(text), local.dt.epoch("ms") / 1000)


def memory_gib(text: pl.Expr, processors: pl.Expr, machines: pl.Expr) -> pl.Expr:
    """Return GiB per processor of ``4000M`` (a job), ``4Gc`` (a processor), ``16Gn`` (a machine).

    The letters are those of `sacct`: K, M, G, T, P are powers of 1024, M is meant where none
    stands.
    """
    import polars as pl

    parts = text.str.strip_chars().str.extract_groups(_MEMORY).struct
    unit = parts.field("2").str.to_lowercase().replace_strict(_GIB, default=None)
    amount = parts.field("1").cast(pl.Float64, strict=False) * unit
    per = parts.field("3")
    return (
        pl.when(per == "c")
        .then(amount)
        .when(per == "n")
        .then(amount * machines / processors)
        .otherwise(amount / processors)
    )


def bytes_of(text: pl.Expr) -> pl.Expr:
    """Return the bytes in ``1234K`` or ``1.5G`` (AveRSS, MaxRSS); plain numbers are bytes."""
    import polars as pl

    parts = text.str.strip_chars().str.extract_groups(_BYTES).struct
    unit = parts.field("2").str.to_uppercase()
    powers = {letter: 1024.0**power for power, letter in enumerate(("", *"KMGTP"))}
    return parts.field("1").cast(pl.Float64, strict=False) * unit.replace_strict(
        powers, default=None
    )


def processors_of_resources(text: pl.Expr) -> pl.Expr:
    """Return the processors in ``billing=8,cpu=8,mem=16G,node=1`` (AllocTRES, ReqTRES)."""
    import polars as pl

    return text.str.extract(r"(?:^|,)cpu=(\d+)").cast(pl.Float64, strict=False)

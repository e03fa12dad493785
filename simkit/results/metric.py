"""A metric: a row that defines it, the numbers that a run has of it, and what all metrics share.

Each kind of metric is a table of `MetricRow`: a kind's records are summed up once, and each row is
a function of these sums. `RunWindow` is the part of a run that metrics are about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import RunError
from simkit.plugins import view
from simkit.records import STATUSES
from simkit.shown import notes, safe, table, text_or
from simkit.units import format_duration, quantity

BATCH_ROWS = 1 << 16
"""Rows read at a time if one pass is enough. Sums are made in batches of this size, so that a
metric does not depend on the number of threads."""
READ_ROWS: Final = 4 * BATCH_ROWS
"""Rows that are read from a file at once: to open it for each batch costs as much as the batch."""


Better = Literal["high", "low"]
"""Which numbers of a metric are better."""
Screen = Literal["summary", "sweep", "comparison", "groups", "charts", "tiles", "report"]
"""Where metrics are shown unless the user names others: summaries and sweeps; sweeps whose runs
differ in them; comparisons; tables of groups of jobs; charts of all jobs and of groups; the
report's tiles; its table of several runs."""
MAIN: Final = ("",)
"""What `MetricFacts.shown` has of a screen that shows a metric's value or mean alone."""
DISTRIBUTION: Final = ("mean", "p50", "p90", "p99", "max")
"""Numbers of a distribution that people are shown."""
Values = Mapping[str, float | int | None]
"""``{"value": …}``, or a distribution: mean, std, p50, p90, p99, max; None: undefined."""
_S = TypeVar("_S")


@dataclass(frozen=True)
class MetricFacts:
    """What is known of a metric before there is a run: its name, and how its numbers are read."""

    name: str
    """``{resource}`` stands for each resource of the cluster."""
    unit: str
    """Unit of all its numbers; ``1`` for a ratio."""
    formula: str
    better: Better | None = field(default=None, kw_only=True)
    """Which of its numbers are better; None: neither."""
    parts: Mapping[str, Better] = field(default_factory=dict, kw_only=True)
    """The same for single numbers: ``{"import": "low"}``."""
    share: bool = field(default=False, kw_only=True)
    """Whether its numbers are parts of a whole, which people read in per cent."""
    shown: Mapping[Screen, tuple[str, ...]] = field(default_factory=dict, kw_only=True)
    """Screen → which of its numbers are there by default: `MAIN`, or ``("", "p90")``."""
    in_short: str = field(default="", kw_only=True)
    """What it is in a few words, where the formula is too long; empty: its name says enough."""
    left_out_rank: int = field(default=0, kw_only=True)
    """Its turn to be left out of a sweep's table that is too wide, from 1; 0: it stays."""
    needs: tuple[str, ...] = field(default=(), kw_only=True)
    """Columns or facts without which a run does not have it."""


@dataclass(frozen=True)
class Found:
    """What a row finds in the sums of a run."""

    values: Values | float | int | None
    """A single number is written as ``{"value": …}``."""
    count: int
    """Jobs that have a value; or what the formula says is counted."""
    censored: int = 0
    """Jobs of the window that have no value and are missing from the numbers."""
    holes: Mapping[str, object] = field(default_factory=dict)
    """What fills further holes of the formula, such as ``{users}``."""


@dataclass(frozen=True)
class MetricRow(MetricFacts, Generic[_S]):
    """A metric of whole runs: a function of sums that its kind makes of the records."""

    value: Callable[[_S], Found] | Callable[[_S, str], Found]
    """Function of the sums, and of a resource if the name has ``{resource}``."""
    window: str = "jobs"
    """``jobs``, ``time`` or ``arrivals`` of the `RunWindow`, or words: ``all allocations``."""


def metrics_of(
    rows: Iterable[MetricRow[_S]],
    sums: _S,
    window: RunWindow,
    *,
    resources: Sequence[str] = (),
    known: Collection[str] = (),
    **holes: object,
) -> list[Metric]:
    """Return the metrics that rows find in sums.

    Args:
        rows: one kind's.
        sums: what their functions take.
        window: whose words stand in the metrics.
        resources: a row whose name has ``{resource}`` makes one metric for each.
        known: columns and facts of the run; a row that needs others makes none.
        holes: what fills the holes of formulas, such as ``{tau:g}``.
    """
    words = {"jobs": window.jobs_text, "time": window.time_text, "arrivals": window.arrivals_text}
    found = []
    for row in rows:
        if not set(row.needs) <= set(known):
            continue
        each = "{resource}" in row.name
        for resource in resources if each else ("",):
            one = row.value(sums, resource) if each else row.value(sums)  # type: ignore[call-arg]
            named = {"resource": resource} if each else {}
            filled: dict[str, Any] = {**holes, **named, **one.holes}
            found.append(
                Metric(
                    name=row.name.format(**named),
                    unit=row.unit.format(**named),
                    formula=row.formula.format(**filled),
                    window=words.get(row.window, row.window),
                    count=one.count,
                    censored=one.censored,
                    values=one.values if isinstance(one.values, Mapping) else {"value": one.values},
                )
            )
    return found


@dataclass(frozen=True)
class Metric:
    """One metric of a run, ready to be written as JSON."""

    name: str
    unit: str
    """Unit of every number in `values`; ``1`` for a ratio."""
    formula: str
    window: str
    """Which jobs, or which stretch of time, it covers."""
    count: int
    values: Values
    censored: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers and text; what is undefined is None, never NaN."""
        return {
            **{key: _plain(value) for key, value in self.values.items()},
            "unit": self.unit,
            "formula": self.formula,
            "window": self.window,
            "count": int(self.count),
            "censored": int(self.censored),
        }


@dataclass(frozen=True)
class RunWindow:
    """The part of a run that the metrics are about, in seconds on the trace's clock.

    Jobs count if they are submitted within ``first_kept_s <= submit <= last_kept_s``; utilisation
    and everything else that is averaged over time runs from `start_s` to `end_s`.
    """

    first_submit_s: float
    last_submit_s: float
    last_end_s: float
    """Last end of a job, or the run's last instant where none has ended."""
    warmup_s: float = 0.0
    cooldown_s: float = 0.0

    @property
    def trimmed(self) -> bool:
        """Whether warm-up or cool-down is left out."""
        return self.warmup_s > 0 or self.cooldown_s > 0

    @property
    def first_kept_s(self) -> float:
        """Earliest submit time that counts."""
        return self.first_submit_s + self.warmup_s

    @property
    def last_kept_s(self) -> float:
        """Latest submit time that counts."""
        return self.last_submit_s - self.cooldown_s

    @property
    def start_s(self) -> float:
        """Where averages over time begin."""
        return self.first_kept_s

    @property
    def end_s(self) -> float:
        """Where averages over time end: the last end, or the last submit less the cool-down."""
        return self.last_kept_s if self.trimmed else self.last_end_s

    def jobs(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the jobs that count."""
        if not self.trimmed:
            return frame
        submit = pl.col("submit_time_s")
        return frame.filter((submit >= self.first_kept_s) & (submit <= self.last_kept_s))

    @property
    def jobs_text(self) -> str:
        """Which jobs count, in words."""
        if not self.trimmed:
            return "all jobs submitted"
        return (
            f"jobs submitted from {format_duration(self.warmup_s)} after the first submit to "
            f"{format_duration(self.cooldown_s)} before the last submit"
        )

    @property
    def time_text(self) -> str:
        """The stretch of time that averages cover, in words."""
        if not self.trimmed:
            return f"first submit to last end: {self.start_s:.15g} s to {self.end_s:.15g} s"
        return (
            f"first submit + {format_duration(self.warmup_s)} to last submit - "
            f"{format_duration(self.cooldown_s)}: {self.start_s:.15g} s to {self.end_s:.15g} s"
        )

    @property
    def arrivals_text(self) -> str:
        """The stretch of time in which the jobs that count arrive, in words."""
        return (
            f"{self.jobs_text}: first to last of their submits, "
            f"{self.first_kept_s:.15g} s to {self.last_kept_s:.15g} s"
        )


def run_window(
    jobs: pl.LazyFrame, timeline: pl.LazyFrame, *, warmup: float = 0.0, cooldown: float = 0.0
) -> RunWindow | None:
    """Return the window of a run's metrics; None if no job was ever submitted.

    Raises RunError if warm-up and cool-down leave nothing between first and last submit.
    """
    submit, end = pl.col("submit_time_s"), pl.col("end_time_s")
    row = jobs.select(first=submit.min(), last=submit.max(), end=end.max()).collect().row(0)
    first, last, ended = row
    if first is None:
        return None
    if ended is None:
        ended = timeline.select(pl.col("time_s").max()).collect().item()
    check_trimming(first, last, warmup, cooldown)
    return RunWindow(first, last, last if ended is None else max(ended, first), warmup, cooldown)


def check_trimming(first: float, last: float, warmup: float, cooldown: float) -> None:
    """Raise RunError if warm-up and cool-down (s) leave nothing between two submit times (s)."""
    window = RunWindow(first, last, last, warmup, cooldown)
    if window.trimmed and window.last_kept_s < window.first_kept_s:
        raise RunError(
            f"metrics: warm-up {format_duration(warmup)} and cool-down {format_duration(cooldown)} "
            f"leave nothing of the {format_duration(last - first)} between first and last submit; "
            "shorten them"
        )


def counted_resource(resources: Sequence[str]) -> str:
    """Return the resource that counts as processors: that name, or else the first resource."""
    return "processors" if "processors" in resources else resources[0]


def batches(
    frame: pl.LazyFrame, columns: Sequence[Any], window: RunWindow | None = None
) -> Iterator[pl.DataFrame]:
    """Read some columns (names or expressions), `BATCH_ROWS` rows of the table at a time.

    With a window, the rows are jobs, and only the jobs that count are returned.
    """
    names = {n for c in columns for n in ([c] if isinstance(c, str) else c.meta.root_names())}
    read = frame.select(sorted(names | ({"submit_time_s"} if window and window.trimmed else set())))
    for offset in range(0, int(frame.select(pl.len()).collect().item()), READ_ROWS):
        for rows in read.slice(offset, READ_ROWS).collect().iter_slices(BATCH_ROWS):
            yield (window.jobs(rows.lazy()).collect() if window else rows).select(columns)


def task_area(resource: str) -> pl.Expr:
    """Return the resource-seconds that a task asks for, with the trace's run times."""
    return pl.col(resource) * pl.col("instances") * pl.col("trace_run_time_s")


def _plain(value: float | int | None) -> float | int | None:
    """Return a plain Python number; None if it is undefined (None, NaN, infinite)."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def distribution(values: Floats) -> dict[str, float | int | None]:
    """Return mean, std, p50, p90, p99 and max of finite values; None if undefined.

    The standard deviation divides by n - 1; percentiles interpolate linearly between order
    statistics (definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996).
    `values` may be reordered.
    """
    names = ("mean", "std", "p50", "p90", "p99", "max")
    if not len(values):
        return dict.fromkeys(names)
    std = float(values.std(ddof=1)) if len(values) > 1 else None
    mean, top = float(values.mean()), float(values.max())
    p50, p90, p99 = np.quantile(values, (0.5, 0.9, 0.99), overwrite_input=True).tolist()
    return dict(zip(names, (mean, std, p50, p90, p99, top), strict=True))


def counted_distribution(values: Floats, counts: Ints) -> dict[str, float | int | None]:
    """Return the `distribution` of values each of which occurs several times.

    Args:
        values: (n,) finite values.
        counts: (n,) how often each occurs, at least once.
    """
    if not len(values):
        return distribution(values)
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    up_to = np.cumsum(counts)
    number, mean = int(up_to[-1]), float((values * counts).sum() / up_to[-1])
    squares = float((counts * (values - mean) ** 2).sum())
    found = {"mean": mean, "std": math.sqrt(squares / (number - 1)) if number > 1 else None}
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        rank = (number - 1) * quantile
        ranks = [math.floor(rank), min(math.floor(rank) + 1, number - 1)]
        low, high = values[np.searchsorted(up_to, ranks, side="right")].tolist()
        found[name] = low + (high - low) * (rank - ranks[0])
    return found | {"max": float(values[-1])}


def share(part: float, whole: float) -> float | None:
    """Return part / whole; None if the whole is 0."""
    return float(part / whole) if whole > 0 else None


def status_counts(rows: pl.LazyFrame) -> Found:
    """Return how many jobs or tasks there were, one a row, and how many of each status."""
    status = pl.col("status")
    tally = {name: (status == name).sum() for name in STATUSES}
    row = rows.select(pl.len().alias("submitted"), **tally).collect().row(0, named=True)
    return Found(row, row["submitted"])


def counts_row(what: str, value: Callable[[_S], Found]) -> MetricRow[_S]:
    """Return the row of `status_counts`: of jobs or tasks."""
    return MetricRow(
        what,
        what,
        f"{what} by their status at the end of the run; submitted is their sum",
        value,
        f"all {what} submitted",
        parts=dict.fromkeys(("killed", "rejected", "running", "waiting"), "low"),
    )


def throughput_row(what: str, value: Callable[[_S], Found], **facts: Any) -> MetricRow[_S]:
    """Return the row of `throughput`: of jobs, tasks or instances."""
    formula = f"{what} that finished within the window / its length in hours"
    return MetricRow(
        f"throughput_{what}_per_h", "1/h", formula, value, "time", better="high", **facts
    )


def throughput(finished: int, window: RunWindow) -> Found:
    """Return what finished in an hour of the window of time."""
    return Found(share(finished, (window.end_s - window.start_s) / 3600), finished)


ABOUT: Final = (
    "unit", "formula", "window", "count", "censored", "better", "source", "sha256", "error",
)  # fmt: skip
"""Keys of a metric in metrics.json that are not its numbers."""
CUSTOM: Final = "custom"
"""The part of metrics.json that holds the metrics of the user, name → metric."""


def custom_names(*metrics: Mapping[str, Any]) -> list[str]:
    """Return the names of the user's metrics in one or more metrics.json, each once."""
    return list(dict.fromkeys(name for one in metrics for name in one.get(CUSTOM, {})))


def entries(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of metrics.json by name, the user's after simkit's."""
    own = {name: metric for name, metric in metrics.items() if name != CUSTOM}
    return own | dict(metrics.get(CUSTOM, {}))


class Metrics(dict[str, Any]):
    """The content of metrics.json: name → numbers, unit, formula, window; shown as tables."""

    def __repr__(self) -> str:
        return text_or(view("metrics.text"), self, dict.__repr__(self)) if self else "{}"

    def _repr_html_(self) -> str:
        return text_or(_metrics_html, self, f"<pre>{safe(dict.__repr__(self))}</pre>")


def _metrics_html(metrics: Mapping[str, Any]) -> str:
    found = entries(metrics)
    known = {name: m for name, m in found.items() if isinstance(m, Mapping) and "unit" in m}
    spread = [
        [name, *(quantity(m.get(key), m["unit"]) for key in DISTRIBUTION)]
        for name, m in known.items()
        if "p50" in m
    ]
    single = [
        [name, quantity(m[key], m["unit"]), "" if m["unit"] in ("1", "s") else m["unit"]]
        for name, m in known.items()
        if "p50" not in m and (key := main_key(m)) is not None
    ]
    parts = [table(("metric", *DISTRIBUTION), spread)] if spread else []
    parts += [table(("metric", "value", "unit"), single, text=1)] if single else []
    return "".join(parts) or notes(["no metrics: no job was submitted"])


def main_key(metric: Mapping[str, Any]) -> str | None:
    """Return the number that a metric's bare name stands for; None if it has neither."""
    return next((key for key in ("value", "mean") if key in metric), None)

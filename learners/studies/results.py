"""The results of a study: one long table, and questions to it.

A row is the value of a metric of an arm (a rule, or the agents of a kind of training, one a seed)
on an item (a job set, a window, a stream) of a case (a load, a log, circumstances). Every number of
a page is an answer to a question in text, such as

    slowdown | natural gradient | 0.7 | less=SJF

which is the mean slowdown of an arm in a case, less that of another on the same items.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate, Relation, estimate
from simkit.arrays import Floats, Ints
from simkit.errors import RunError, did_you_mean

__all__ = ["BOUND", "COLUMNS", "Best", "Metric", "Question", "Results", "long"]

COLUMNS: Final = {
    "arm": pl.String, "seed": pl.Int64, "case": pl.String, "item": pl.Int64, "metric": pl.String,
    "value": pl.Float64,
}  # fmt: skip
"""Columns of the long table; ``seed`` is null for a rule."""
_INDEX: Final = ("arm", "seed", "case", "item")
BOUND: Final = "bound"
"""The arm that no schedule can beat: above all others if a metric is the better the higher."""
Key = tuple[str, str, str]
"""Metric, arm and case."""


@dataclass(frozen=True)
class Metric:
    """A mean: the sum of one metric over that of another, or over the items."""

    total: str
    count: str = ""
    """Empty: each item counts once."""


@dataclass(frozen=True)
class Best:
    """Arms whose best in each case has a name of its own, such as ``best rule``."""

    metric: str
    """By whose mean."""
    arms: Sequence[str]
    """Those that were judged in a case count."""
    highest: bool = False
    """Whether the highest mean is the best."""


@dataclass(frozen=True)
class Question:
    """``METRIC | ARM | CASE | OPTIONS``, see `Results.ask`."""

    metric: str
    arm: str
    case: str
    options: Mapping[str, str]
    relation: Relation | Literal["share of the gap"]
    against: str | None


def long(table: pl.DataFrame, metrics: Sequence[str], **index: Any) -> pl.DataFrame:
    """Return a table with a column for each metric as rows of the long table.

    Args:
        table: a row for each arm, seed, case and item.
        metrics: names of its columns; a null is left out.
        index: `arm`, `seed`, `case` or `item` → one value for all rows, or an expression; by
            default the table's own column, and no seed if it has none.
    """
    own = {name: pl.col(name) for name in _INDEX if name != "seed" or name in table.columns}
    told = {"seed": None, **own, **index}
    named = [
        (told[name] if isinstance(told[name], pl.Expr) else pl.lit(told[name]))
        .cast(COLUMNS[name])
        .alias(name)
        for name in _INDEX
    ]
    wide = table.select(*named, *(pl.col(metric).cast(pl.Float64) for metric in metrics))
    # polars refuses the name of one of the columns, and a metric may be called "value"
    rows = wide.unpivot(metrics, index=list(_INDEX), variable_name="metric", value_name="")
    return rows.rename({"": "value"}).drop_nulls("value").select(*COLUMNS)


@dataclass(frozen=True)
class Results:
    """What a study found."""

    rows: pl.DataFrame
    """The long table."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and words that belong to no item: costs of training, chosen settings, the commit.

    ``intervals``, of results that were published as means alone: ``METRIC | ARM | CASE``, followed
    by `` | OPTION=ARM`` where two are compared and `` | seed=N`` of one training → the bounds over
    the items."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """Name → a mean; a metric that is not named here is the mean over items."""
    width: int = 1
    """Items closer than this overlap: those with the same quotient are resampled together."""
    best: Mapping[str, Best] = field(default_factory=dict)
    """Name → the arms that it stands for; a question may name it in place of an arm."""

    @classmethod
    def read(cls, folder: Path, name: str, **told: Any) -> Results:
        """Return the results kept as NAME.parquet and NAME.json; further fields are as given."""
        facts = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return cls(pl.read_parquet(folder / f"{name}.parquet"), facts, **told)

    def write(self, folder: Path, name: str) -> None:
        """Write NAME.parquet, NAME.json, and NAME.csv with the means."""
        kept = self.rows.select(*COLUMNS)
        kept.write_parquet(folder / f"{name}.parquet", compression="zstd", compression_level=19)
        text = json.dumps(self.facts, indent=2, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", "utf-8")
        self.means().write_csv(folder / f"{name}.csv", float_precision=5)

    def means(self) -> pl.DataFrame:
        """Return the mean of each metric over items: a row for each case, arm and seed.

        The means that are named in `metrics` come last.
        """
        index, metrics = ["case", "arm", "seed"], self.rows["metric"].unique(maintain_order=True)
        items = self.rows.group_by(index, maintain_order=True).agg(pl.col("item").n_unique())
        wide = self.rows.pivot("metric", index=index, values="value", aggregate_function="mean")
        named = [
            (pl.col(mean.total) / pl.col(mean.count)).alias(name)
            for name, mean in self.metrics.items()
            if mean.count and {mean.total, mean.count} <= set(metrics)
        ]
        return items.rename({"item": "items"}).join(
            wide.select(*index, *metrics, *named), on=index, nulls_equal=True, maintain_order="left"
        )

    @cached_property
    def _cells(self) -> dict[Key, tuple[Floats, Ints]]:
        """Key → (S, I) values, seed by seed, and the (I,) items."""
        found = {}
        ordered = self.rows.sort("seed", "item", maintain_order=True, nulls_last=False)
        parts = ordered.partition_by("metric", "arm", "case", as_dict=True, maintain_order=True)
        for key, part in parts.items():
            items = part["item"].unique().sort().to_numpy()
            seeds = part["seed"].n_unique()
            if len(part) != seeds * len(items):
                raise RunError(f"{' | '.join(map(str, key))}: its seeds have different items")
            values = part["value"].to_numpy().reshape(seeds, len(items))
            found[(str(key[0]), str(key[1]), str(key[2]))] = (values, items)
        return found

    def arms(self, metric: str, case: str = "") -> list[str]:
        """Return the arms that have a metric in a case, in the order in which they were judged."""
        here = self.rows.filter(metric=self._mean(metric).total, case=case)
        return here["arm"].unique(maintain_order=True).to_list()

    def ranked(self, metric: str, case: str = "", arms: Iterable[str] | None = None) -> list[str]:
        """Return arms, by default all of a case, by their means, the lowest first."""
        chosen = self.arms(metric, case) if arms is None else list(arms)
        return sorted(chosen, key=lambda arm: self.mean(metric, arm, case))

    def numbers(self, cases: str) -> list[str]:
        """Return what stands for ``[x]`` in names of cases, as ``[x] %``, the lowest first."""
        pattern = re.compile(re.escape(cases).replace(r"\[x\]", r"(\d[\d.]*)"))
        found = map(pattern.fullmatch, self.rows["case"].unique())
        return sorted((one[1] for one in found if one), key=float)

    def named(self, arm: str, case: str) -> str:
        """Return the arm that a name of `best` stands for in a case, or the arm itself."""
        if arm not in self.best:
            return arm
        if (arm, case) not in self._chosen:
            group = self.best[arm]
            there = set(self.arms(group.metric, case))
            ranked = self.ranked(group.metric, case, [one for one in group.arms if one in there])
            if not ranked:
                raise RunError(f"no results of {arm!r} in {case!r}")
            self._chosen[arm, case] = ranked[-1 if group.highest else 0]
        return self._chosen[arm, case]

    @cached_property
    def _chosen(self) -> dict[tuple[str, str], str]:
        return {}

    def values(self, metric: str, arm: str, case: str = "") -> tuple[Floats, Ints]:
        """Return (S, I) values of an arm, seed by seed, and the (I,) items; else RunError."""
        arm = self.named(arm, case)
        try:
            return self._cells[metric, arm, case]
        except KeyError:
            known = [" | ".join(key) for key in self._cells]
            asked = " | ".join((metric, arm, case))
            raise RunError(f"no results of {asked!r}{did_you_mean(asked, known)}") from None

    def seeds(self, metric: str, arm: str, case: str = "") -> range:
        """Return the places of an arm's trainings, one that of a rule."""
        return range(len(self.values(self._mean(metric).total, arm, case)[0]))

    def mean(self, metric: str, arm: str, case: str = "", *, seed: int | None = None) -> float:
        """Return a mean over all items, and over all seeds unless one is named."""
        mine, counts, _ = self._sums(metric, arm, case, seed)
        return float(mine.mean(axis=0).sum() / counts.mean(axis=0).sum())

    def estimate(
        self,
        metric: str,
        arm: str,
        case: str = "",
        *,
        against: str | None = None,
        relation: Relation | Literal["share of the gap"] = "mean",
        seed: int | None = None,
        item: int | None = None,
    ) -> Estimate:
        """Return a mean of an arm, or its relation to another's on the same items.

        ``share of the gap``: how much of what lies between the other and the arm `BOUND` this one
        closes, negative if it is worse; the other relations are those of `intervals.estimate`.
        """
        mine, counts, items = self._sums(metric, arm, case, seed, item)
        other = None
        if against is not None:
            paired = seed if len(self.seeds(metric, against, case)) > 1 else None
            other, others, theirs = self._sums(metric, against, case, paired, item)
            if not (np.array_equal(items, theirs) and (counts[0] == others[0]).all()):
                raise RunError(f"{metric} in {case!r}: {arm} and {against} have different items")
        blocks = None if self.width == 1 else items // self.width
        if relation == "share of the gap":
            assert other is not None
            bound = self._sums(metric, BOUND, case, item=item)[0]
            better = 1.0 if bound.sum() > other.mean(axis=0).sum() else -1.0
            return estimate(better * (mine - other), better * (bound - other), blocks=blocks)
        asked = _asked(metric, arm, case, against, relation, seed)
        known = self.facts.get("intervals", {}).get(asked) if item is None else None
        return estimate(mine, counts, other, relation=relation, blocks=blocks, over_items=known)

    def _mean(self, metric: str) -> Metric:
        return self.metrics.get(metric, Metric(metric))

    def _sums(
        self, metric: str, arm: str, case: str, seed: int | None = None, item: int | None = None
    ) -> tuple[Floats, Floats, Ints]:
        """Return (S, I) sums and counts, and the (I,) items; of one seed or item if named."""
        mean = self._mean(metric)
        sums, items = self.values(mean.total, arm, case)
        counts = self.values(mean.count, arm, case)[0] if mean.count else np.ones_like(sums)
        rows = slice(None) if seed is None else slice(seed, seed + 1)
        here = np.full(len(items), True) if item is None else items == item
        if not here.any():
            raise RunError(f"no results of item {item} of {metric} | {arm} | {case}")
        return sums[rows, here], counts[rows, here], items[here]

    def by_item(self, metric: str, arm: str, case: str = "") -> Floats:
        """Return (I,) means of each item over the seeds."""
        sums, counts, _ = self._sums(metric, arm, case)
        means: Floats = sums.mean(axis=0) / counts.mean(axis=0)
        return means

    def question(self, text: str) -> Question:
        """Return a question's parts, with arms for names of `best`; else RunError."""
        parts = [part.strip() for part in text.split("|")]
        options = [part for part in parts[2:] if part.partition("=")[0] in _OPTIONS]
        if len(parts) < 2 or len(parts) - len(options) > 3:
            raise RunError(f"{text!r} is not METRIC | ARM | CASE | OPTIONS")
        case = "" if len(parts) - len(options) == 2 else parts[2]
        told = {name: value for name, _, value in (part.partition("=") for part in options)}
        how = next((name for name in told if name in (*_RELATIONS, "won")), "")
        against = self.named(told[how], case) if how else None
        relation = _RELATIONS.get(how, "mean")
        return Question(parts[0], self.named(parts[1], case), case, told, relation, against)

    def ask(self, question: str) -> Any:
        """Return the answer to a question: a fact by its name or path, or an `Estimate`.

        ``METRIC | ARM | CASE | OPTIONS``; the case is left out where it has no name. Options:
        ``less=ARM`` for the difference to another arm; ``over=ARM`` for the ratio of the means, and
        ``geometric over=ARM`` for that of the geometric means; ``gap=ARM`` for the share of the gap
        between that arm and the bound that is closed; ``seed=N`` for one training alone, ``item=N``
        for one item; ``exp``: e to the power of the answer, of a mean of logarithms; ``percent``:
        of a ratio by how many percent it is above 1, of the rest hundredths; ``hours``: seconds as
        hours. Without an interval: ``won=ARM`` for the share of items below another arm's,
        ``median`` and ``geometric mean`` of the items, and ``total``, over items and seeds.
        """
        path = [part.strip() for part in question.split("|")]
        if (fact := self._fact(path)) is not None:
            return fact
        if len(path) == 1:
            raise RunError(f"no fact {question!r}{did_you_mean(question, self.facts)}")
        asked = self.question(question)
        where, told = (asked.metric, asked.arm, asked.case), asked.options
        if "total" in told:
            return Estimate(float(self._sums(*where)[0].sum()))
        if "median" in told:
            return Estimate(float(np.median(self.by_item(*where))))
        if "geometric mean" in told:
            return Estimate(float(np.exp(np.log(self.by_item(*where)).mean())))
        if "won" in told:
            other = self.by_item(asked.metric, told["won"], asked.case)
            return Estimate(float((self.by_item(*where) < other).mean()))
        seed, item = (int(told[name]) if name in told else None for name in ("seed", "item"))
        found = self.estimate(
            *where, against=asked.against, relation=asked.relation, seed=seed, item=item
        )
        found = found.exp() if "exp" in told else found
        if "percent" in told:
            of_one = "ratio" in asked.relation or "exp" in told
            return found.scaled(100.0, -100.0 if of_one else 0.0)
        return found.scaled(1 / 3600) if "hours" in told else found

    def _fact(self, path: Sequence[str]) -> Any:
        found: Any = self.facts
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


_RELATIONS: Final[Mapping[str, Relation | Literal["share of the gap"]]] = {
    "less": "difference", "over": "ratio", "geometric over": "geometric ratio",
    "gap": "share of the gap",
}  # fmt: skip
"""Options of a question that name another arm → the relation that they ask for."""

_OPTIONS: Final = (
    *_RELATIONS, "won", "seed", "item", "exp", "percent", "hours", "median", "geometric mean",
    "total",
)  # fmt: skip


def _asked(
    metric: str, arm: str, case: str, against: str | None, relation: Relation, seed: int | None
) -> str:
    """Return the question as the fact ``intervals`` has it."""
    parts = [metric, arm, *([case] if case else [])]
    parts += [f"{name}={against}" for name, one in _RELATIONS.items() if one == relation]
    parts += [] if seed is None else [f"seed={seed}"]
    return " | ".join(parts)

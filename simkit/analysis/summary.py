"""A summary of many runs: the mean of each metric over seeds, with its interval, group by group."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit import plugins
from simkit.analysis.intervals import seed_interval
from simkit.analysis.runs import SEED, Settings, runs_below
from simkit.errors import RunError
from simkit.experiment.sweep import SweepResult
from simkit.results.all_metrics import full_name, is_share, metric_numbers, other_names, shown_on
from simkit.results.job_metrics import COUNTS
from simkit.results.metric import Better, custom_names
from simkit.results.run_folder import Run
from simkit.shown import notes, table, text_or
from simkit.text import counted

if TYPE_CHECKING:
    import polars as pl

UNFINISHED_COUNTS: Final = tuple(f"{COUNTS.name}.{status}" for status in COUNTS.parts)
"""Shown in every summary where a run has such jobs: the means of the others leave them out."""


@dataclass(frozen=True)
class Row:
    """A group of runs that differ in their seeds, and in what `Summary.mixed` names."""

    values: tuple[str, ...]
    """What the group's runs have in common, one a key of `Summary.by`."""
    runs: int
    seeds: int
    cells: tuple[Cell, ...]
    """One a metric."""


@dataclass(frozen=True, repr=False)
class Summary:
    """The metrics of groups of runs."""

    by: tuple[str, ...]
    metrics: Mapping[str, str]
    """Name → unit."""
    rows: tuple[Row, ...]
    level: float
    """Level of confidence of the intervals: Student's t over seeds."""
    mixed: tuple[str, ...] = ()
    """Keys that also differ within a group: a seed's value is the mean over them."""
    left_out: tuple[str, ...] = ()
    """Folders of runs that are not complete."""
    better: Mapping[str, Better | None] = field(default_factory=dict)
    """Metric → which of its numbers are better."""

    def frame(self) -> pl.DataFrame:
        """Return a row a group: keys, runs, seeds; and mean, low, high and best of each metric."""
        import polars as pl

        columns: dict[str, list[object]] = {
            key: [row.values[n] for row in self.rows] for n, key in enumerate(self.by)
        }
        columns |= {"runs": [r.runs for r in self.rows], "seeds": [r.seeds for r in self.rows]}
        for n, name in enumerate(self.metrics):
            cells = [row.cells[n] for row in self.rows]
            columns[name] = [cell.mean for cell in cells]
            columns[f"{name} low"] = [cell.low for cell in cells]
            columns[f"{name} high"] = [cell.high for cell in cells]
            columns[f"{name} best"] = [cell.best for cell in cells]
        return pl.DataFrame(columns)

    def table(self) -> Table:
        """Return heads, cells and notes, ready to be written; shares are in per cent."""
        shares = [is_share(name) for name in self.metrics]
        heads = (f"{n} (%)" if share else n for n, share in zip(self.metrics, shares, strict=True))
        rows = tuple(
            (
                (*row.values, str(row.runs)),
                tuple(
                    cell.in_percent() if share else cell
                    for cell, share in zip(row.cells, shares, strict=True)
                ),
            )
            for row in self.rows
        )
        return Table((*self.by, "runs", *heads), rows, tuple(self.notes()))

    def markdown(self) -> str:
        """Return the table in Markdown, the best mean in bold, and the notes below it."""
        return markdown(self.table())

    def latex(self) -> str:
        """Return a LaTeX ``tabular`` with the rules of booktabs, the best mean in bold."""
        return latex(self.table())

    def csv(self) -> str:
        """Return `frame` as CSV, numbers in full."""
        return self.frame().write_csv()

    def __repr__(self) -> str:
        return text_or(plugins.view("summary.text"), self, object.__repr__(self))

    def _repr_html_(self) -> str:
        made = self.table()
        return table(made.heads, made.cells(with_star), names=made.names) + notes(made.notes)

    def notes(self) -> list[str]:
        """Return what a reader of the table must know, a sentence each."""
        seeds = {row.seeds for row in self.rows}
        found = []
        if max(seeds, default=0) > 1:
            found.append(
                f"± is half of the {self.level:.0%} interval of the mean over seeds (Student's t)"
            )
        if min(seeds, default=2) < 2:
            found.append("no interval where there is one seed")
        if len(self.rows) > 1 and any(cell.best for row in self.rows for cell in row.cells):
            alike = "".join(f" under the same {key}" for key in self.by if _is_input(key))
            found.append(f"* best mean{alike}; ~ not surely worse than it, paired by seed")
        if self.mixed:
            found.append(f"each seed's value is the mean over {', '.join(self.mixed)}")
        if self.left_out:
            first = ", ".join(self.left_out[:3]) + (", …" if len(self.left_out) > 3 else "")
            what = counted(len(self.left_out), "run")
            found.append(f"{what} left out, not complete: {first}")
        return found


Runs = SweepResult | Run | str | os.PathLike[str] | Iterable[Run | str | os.PathLike[str]]
"""A sweep, runs, or folders with runs in them or below them."""


def complete_runs(runs: Runs) -> tuple[list[Run], tuple[str, ...]]:
    """Return the runs that are complete, and the folders of those that are not.

    Raises RunError if there is none.
    """
    if isinstance(runs, SweepResult):
        runs = [outcome.folder for outcome in runs if outcome.state != "failed"]
        if not runs:
            raise RunError("sweep: all of its runs failed; their errors say why")
    given = [runs] if isinstance(runs, Run | str | os.PathLike) else list(runs)
    found = [one for one in given if isinstance(one, Run)]
    found += runs_below(one for one in given if not isinstance(one, Run))
    complete = [run for run in found if run.status == "complete"]
    left_out = tuple(str(run.folder) for run in found if run.status != "complete")
    if not complete:
        raise RunError(f"none of the {counted(len(found), 'run')} is complete")
    return complete, left_out


def summarise(
    runs: Runs,
    by: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    *,
    level: float = 0.95,
) -> Summary:
    """Return mean and interval over seeds of metrics of runs, by keys of their scenarios.

    Args:
        runs: a sweep, runs, or folders with runs in them or below them.
        by: dotted keys of the scenario; ``policy`` stands for the whole policy. None: all keys that
            differ between the runs, but the seed.
        metrics: names as in `simkit.metric_numbers`, such as ``wait_time_s.p99``; None: wait,
            bounded slowdown, utilisation, makespan, and the user's.
        level: of confidence, between 0 and 1.

    A group holds the runs with the same values of `by`. If they differ in more than the seed, a
    seed's value is the mean over its runs; every seed then needs the same ones.

    Raises RunError for folders without complete runs, names that are no key or no metric of the
    runs, two runs of the same scenario, and groups in which seeds have different runs.
    """
    if not 0 < level < 1:
        raise RunError(f"level: {level} is not between 0 and 1; 0.95 is usual")
    complete, left_out = complete_runs(runs)
    settings = Settings(complete)
    keys = tuple(by) if by else tuple(key for key in settings.varying if key != SEED)
    groups = _grouped(complete, list(zip(*map(settings.values, keys), strict=True)))
    mixed = tuple(key for key in settings.varying if key not in (*keys, SEED))
    numbers, units, better = _numbers(complete, metrics)
    seeds = [run.seed for run in complete]
    values = {
        name: [_by_seed(group, seeds, column) for group in groups.values()]
        for name, column in numbers.items()
    }
    _check_balance(groups, seeds, mixed)
    inputs = [
        tuple(v for key, v in zip(keys, group, strict=True) if _is_input(key)) for group in groups
    ]
    columns = [_cells(better[name], each, inputs, level) for name, each in values.items()]
    rows = tuple(
        Row(group, len(members), len({seeds[n] for n in members}), tuple(c[k] for c in columns))
        for k, (group, members) in enumerate(groups.items())
    )
    mixed = _really_mixed(mixed, settings, groups)
    return Summary(keys, units, rows, level, mixed, left_out, better)


Groups = Mapping[tuple[str, ...], Sequence[int]]
"""Values of the keys → rows of runs."""


def _grouped(runs: Sequence[Run], values: Sequence[tuple[str, ...]]) -> Groups:
    """Return the groups, each key's values in the order in which runs first have them."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(runs)):
        groups.setdefault(values[row] if values else (), []).append(row)
    places = [
        {value: n for n, value in enumerate(dict.fromkeys(k))} for k in zip(*groups, strict=True)
    ]
    order = sorted(groups, key=lambda g: [at[v] for at, v in zip(places, g, strict=True)])
    return {group: groups[group] for group in order}


def _is_input(key: str) -> bool:
    """Return whether runs that differ in a key have other jobs, so that neither is the better."""
    return key.split(".")[0] == "workload"


def _really_mixed(mixed: Iterable[str], settings: Settings, groups: Groups) -> tuple[str, ...]:
    """Return the keys that differ within a group."""
    values = {key: settings.values(key) for key in mixed}
    return tuple(
        key
        for key, column in values.items()
        if any(len({column[row] for row in members}) > 1 for members in groups.values())
    )


def _check_balance(groups: Groups, seeds: Sequence[int], mixed: Sequence[str]) -> None:
    """Raise RunError if a seed of a group has more runs than another."""
    for group, members in groups.items():
        counts = Counter(seeds[row] for row in members)
        if len(set(counts.values())) > 1:
            by_seed = ", ".join(f"seed {seed}: {counted(n, 'run')}" for seed, n in counts.items())
            raise RunError(
                f"summarise: {', '.join(group) or 'all runs'}: seeds do not have the same runs "
                f"({by_seed}); their means would not compare; add {', '.join(mixed)} to --by, or "
                "finish the sweep"
            )


def _numbers(
    runs: Sequence[Run], names: Sequence[str] | None
) -> tuple[dict[str, list[float | None]], dict[str, str], dict[str, Better | None]]:
    """Return metric → its number in each run, metric → unit, and metric → which are better."""
    every = [metric_numbers(run.metrics) for run in runs]
    known = dict.fromkeys(name for one in every for name in one)
    usual = (*shown_on("summary"), *custom_names(*(run.metrics for run in runs)))
    wanted = [full_name(name, known) for name in names or usual]
    if unknown := [name for name in wanted if name not in known]:
        missing = (f"no run has {name!r}{other_names(name, known)}" for name in unknown)
        raise RunError("metric: " + "\n  ".join(missing))
    wanted += [
        name for name in UNFINISHED_COUNTS
        if name not in wanted and any(name in one and one[name].value for one in every)
    ]  # fmt: skip
    numbers = {name: [one[name].value if name in one else None for one in every] for name in wanted}
    first = {name: next(one[name] for one in every if name in one) for name in wanted}
    units = {name: number.unit for name, number in first.items()}
    return numbers, units, {name: number.better for name, number in first.items()}


def _by_seed(
    group: Sequence[int], seeds: Sequence[int], column: Sequence[float | None]
) -> dict[int, float]:
    """Return seed → mean of a metric over the group's runs with it; NaN if one is undefined."""
    values: dict[int, list[float]] = {}
    for row in group:
        number = column[row]
        values.setdefault(seeds[row], []).append(float("nan") if number is None else number)
    return {seed: float(np.mean(each)) for seed, each in sorted(values.items())}


SIGNS: Final[Mapping[Better | None, int]] = {"high": 1, "low": -1, None: 0}


def _cells(
    better: Better | None,
    groups: Sequence[Mapping[int, float]],
    inputs: Sequence[Hashable],
    level: float,
) -> list[Cell]:
    """Return a metric's cell of each group; the best is that of the groups with equal inputs."""
    sign = SIGNS[better]
    means = [float(np.mean(list(group.values()))) for group in groups]
    cells = []
    for n, group in enumerate(groups):
        if np.isnan(means[n]):
            cells.append(Cell(None))
            continue
        rivals = [k for k in range(len(groups)) if inputs[k] == inputs[n] and means[k] == means[k]]
        best = max(rivals, key=lambda k: sign * means[k])
        judged = sign != 0 and len(rivals) > 1
        is_best = judged and means[n] == means[best]
        good = judged and not is_best and _is_as_good(group, groups[best], sign, level)
        interval = seed_interval(np.array(list(group.values())), level=level)
        cells.append(Cell(means[n], interval.low, interval.high, is_best, good))
    return cells


def _is_as_good(
    group: Mapping[int, float], best: Mapping[int, float], sign: int, level: float
) -> bool:
    """Return whether a group is not surely worse than the best, paired by seed."""
    common = [seed for seed in group if seed in best]
    apart = np.array([sign * (group[seed] - best[seed]) for seed in common])
    high = seed_interval(apart, level=level).high
    return high is not None and bool(high >= 0)


@dataclass(frozen=True)
class Cell:
    """A metric of a group of runs."""

    mean: float | None
    """None if it is undefined in one of the runs."""
    low: float | None = None
    high: float | None = None
    """Bounds of the interval over seeds; None if there is none."""
    best: bool = False
    as_good: bool = False
    """Not surely worse than the best: the interval of their difference, paired by seed, holds 0."""

    def in_percent(self) -> Cell:
        """Return a share in per cent."""
        mean, low, high = (None if n is None else 100 * n for n in (self.mean, self.low, self.high))
        return replace(self, mean=mean, low=low, high=high)


@dataclass(frozen=True)
class Table:
    """A summary, ready to be written."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Cell, ...]], ...]
    """Texts from the left, the last one a count; and metrics."""
    notes: tuple[str, ...]

    @property
    def names(self) -> int:
        """Columns from the left that name a row."""
        return len(self.rows[0][0]) - 1

    def cells(self, marked: Callable[[str, Cell], str], sign: str = "±") -> list[list[str]]:
        """Return the text of each row; `marked` gives a metric the mark of the best."""
        return [
            [*texts, *(marked(_text(cell, sign), cell) for cell in cells)]
            for texts, cells in self.rows
        ]

    def bold_notes(self) -> list[str]:
        """Return the notes where the best is bold."""
        return [note.replace("* best", "bold: best") for note in self.notes]


def with_star(text: str, cell: Cell) -> str:
    """Return a cell with ``*`` if it is the best, ``~`` if it is as good."""
    return f"{text} {'*' if cell.best else '~' if cell.as_good else ' '}"


def markdown(table: Table) -> str:
    """Return a Markdown table and the notes below it."""

    def marked(text: str, cell: Cell) -> str:
        return f"**{text}**" if cell.best else f"{text} ~" if cell.as_good else text

    lines = [_row(table.heads)]
    lines.append(_row(["---"] * table.names + ["---:"] * (len(table.heads) - table.names)))
    lines += [_row(row) for row in table.cells(marked)]
    return "\n".join(lines) + "".join(f"\n\n{note}." for note in table.bold_notes()) + "\n"


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def latex(table: Table) -> str:
    """Return a ``tabular`` for the package booktabs; the notes are comments above it."""

    def marked(text: str, cell: Cell) -> str:
        if cell.best:
            return rf"\textbf{{{text}}}"
        return rf"{text}$^{{\sim}}$" if cell.as_good else text

    names = table.names
    rows = [[*map(_escaped, row[:names]), *row[names:]] for row in table.cells(marked, r"$\pm$")]
    lines = [f"% {note}" for note in table.bold_notes()]
    lines += [
        rf"\begin{{tabular}}{{{'l' * names}{'r' * (len(table.heads) - names)}}}",
        r"\toprule",
        " & ".join(map(_escaped, table.heads)) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text with what LaTeX would obey escaped."""
    names = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^&%$#_{}]", lambda found: names.get(found[0], "\\" + found[0]), text)


def _text(cell: Cell, sign: str) -> str:
    """Return ``mean ± half`` with the same decimals, ``mean`` without an interval, or ``-``."""
    if cell.mean is None:
        return "-"
    places = _places(cell.mean)
    mean = f"{cell.mean:,.{places}f}"
    if cell.high is None:
        return mean
    half = cell.high - cell.mean
    return f"{mean} {sign} {half:,.{places}f}"


def _places(number: float) -> int:
    """Return the decimals that show four digits; none of a whole number below ten thousand."""
    if number == 0 or (number.is_integer() and abs(number) < 10_000):
        return 0
    return max(0, 3 - math.floor(math.log10(abs(number))))

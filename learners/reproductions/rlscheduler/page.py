"""The page of `simkit reproduce rlscheduler`: the published table, and a comparison with EASY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from simkit.learners.reproductions.common import markdown_table
from simkit.learners.reproductions.rlscheduler.judge import (
    OURS,
    THEIRS,
    Standing,
    hold_words,
    standings,
)
from simkit.learners.reproductions.rlscheduler.study import (
    LOGS,
    PUBLISHED,
    RULES,
    TEN,
    THEIR_RULES,
    Agent,
    Log,
    RLSchedulerSetting,
)
from simkit.results.run_info import versions
from simkit.training import Workplace


@dataclass(frozen=True)
class Results:
    """The content of the page."""

    setting: RLSchedulerSetting
    easy: pl.DataFrame
    theirs: pl.DataFrame
    training_s: float
    never_better: Sequence[str]
    """Trainings whose scorer is still the initial rule."""
    commit: str


BARS: Mapping[str, tuple[Sequence[str], float, str]] = {
    "SDSC-SP2": (tuple(RULES), 0.97, "the best rule"),
    "HPC2N": (("f2",), 0.9, "this rule"),
    "Lublin-1": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
    "Lublin-2": (("saf", "log-r-n"), 1.0, "the better of saf and log-r-n"),
}
"""Log → rules, the largest allowed ratio to the best one's mean, and that rule in words."""


def write_page(place: Workplace, results: Results) -> Path:
    """Write rlscheduler.md and rlscheduler.csv; return the page."""
    results.easy.write_csv(place.pages / "rlscheduler.csv", float_precision=3)
    parts = [
        _head(place), _verdicts(results), _theirs(results),
        *(_log(results, log.name, windows) for windows in ("others", "ten") for log in LOGS),
        _setting(results),
    ]  # fmt: skip
    page = place.pages / "rlscheduler.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: few iterations, and no units beside the weighted sum, so that the scorers are not what they can be."
        if place.quick
        else ""
    )
    return f"""# RLScheduler (2020)

**Question.** Does a learned scorer of queued jobs schedule HPC logs better than simple rules do, as D. Zhang, D. Dai,
Y. He, F. S. Bao and B. Xie, "RLScheduler: an automated HPC batch job scheduler using reinforcement learning" (SC 2020),
say; by its own rules, and with EASY backfilling as schedulers have it?

`SIMKIT_DATA=FOLDER simkit reproduce rlscheduler{size}` trains and judges everything and writes this page and its table
([rlscheduler.csv](rlscheduler.csv)). The logs are those of the paper; FOLDER holds them as `swf/*.swf.gz`.{note}"""


def _verdicts(results: Results) -> str:
    rows: list[Sequence[str]] = [("log", "bar", "scorer", "mean", "mean / rule", "geometric / rule",
                                  "windows won", "bar met")]  # fmt: skip
    for log in LOGS:
        _, everyone = standings(results.easy, log.name, "others")
        means = {one.name: one.mean for one in everyone}
        rules, share, words = BARS[log.name]
        rule = min(rules, key=means.__getitem__)
        _, compared = standings(results.easy, log.name, "others", rule)
        for one in compared:
            if one.name.startswith("scorer"):
                ratio = one.ratio[0]
                met = "yes" if ratio <= share else f"no, missed by {ratio / share - 1:.1%}"
                limit = f"at most {share:g} of {words}: {rule}, {means[rule]:.1f}"
                rows.append((log.name, limit, one.name, f"{one.mean:.1f}", _ratio(one.ratio),
                             _ratio(one.geometric_ratio), f"{one.won:.0%}", met))  # fmt: skip
    return "## Result\n\n" + markdown_table(rows) + (
        "\n\nMean bounded slowdown with EASY on windows that no scorer was trained on; a section below has everyone on them, log by log. "
        "*Mean / rule*, *geometric / rule*: beside the rule of the bar, with intervals of 95 %; *windows won*: share of windows in "
        "which the slowdown is below that rule's. A bar counts as met by the mean, whatever its interval.\n\n"
        + _untrained(results)
    )  # fmt: skip


def _untrained(results: Results) -> str:
    if not results.never_better:
        return "Every training found a scorer that does better on its held-out windows than SAF-p, where it begins."
    names = ", ".join(f"`{name}`" for name in results.never_better)
    return (
        "These trainings found nothing better on their held-out windows than SAF-p, where they begin, so that their "
        f"scorer still is SAF-p, nearly: {names}."
    )


@dataclass(frozen=True)
class TheirCells:
    """A row of the table of results under RLScheduler's own rules."""

    orders: Mapping[str, float]
    seeds: Sequence[float]
    """The scorer's numbers, seed by seed."""
    is_rule: Sequence[bool]
    """Whether a training of the seed found nothing better than its initial rule."""
    published: float
    """The published agent's number."""

    @property
    def best(self) -> tuple[str, float]:
        """The candidate with the lowest number, and that number."""
        scorers = {f"the scorer of seed {seed}": value for seed, value in enumerate(self.seeds)}
        every = {**self.orders, **scorers}
        name = min(every, key=every.__getitem__)
        return name, every[name]

    def shown(self, value: float, *, plain: bool = False) -> str:
        """Return a number, bold if it is below the published agent's."""
        return f"**{value:.2f}**" if value < self.published and not plain else f"{value:.2f}"

    @property
    def row(self) -> list[str]:
        """The numbers as text; a scorer that is still the initial rule is never bold."""
        orders = {name: self.shown(self.orders[name]) for name in (*THEIRS, *OURS)}
        seeds = [
            self.shown(value, plain=is_rule) + "†" * is_rule
            for value, is_rule in zip(self.seeds, self.is_rule, strict=True)
        ]
        mean = self.shown(sum(self.seeds) / len(self.seeds), plain=any(self.is_rule))
        return [
            *(orders[name] for name in THEIRS), f"{self.published:.2f}",
            *(orders[name] for name in OURS), mean, ", ".join(seeds),
        ]  # fmt: skip


def their_cells(results: Results, log: Log, *, backfilling: bool) -> TheirCells:
    """Return the results on a log under RLScheduler's rules."""
    here = results.theirs.filter(log=log.name, backfilling=backfilling)
    backfill = THEIR_RULES[int(backfilling)]
    return TheirCells(
        dict(here.filter(pl.col("order") != "scorer").select("order", "bounded_slowdown").iter_rows()),
        here.filter(order="scorer").sort("seed")["bounded_slowdown"].to_list(),
        [
            any(Agent(log.name, part, 0, seed, backfill).name in results.never_better for part in log.parts)
            for seed in range(results.setting.seeds)
        ],
        log.published[int(backfilling)],
    )  # fmt: skip


def _theirs(results: Results) -> str:
    last = results.setting.seeds - 1
    rows: list[Sequence[str]] = [("log", "backfilling", *(n.removeprefix("rlscheduler-") for n in THEIRS),
             "published agent", *OURS, "scorer, mean of seeds", f"seeds 0 to {last}")]  # fmt: skip
    missed = []
    for log in LOGS:
        for backfilling in (False, True):
            cells = their_cells(results, log, backfilling=backfilling)
            rows.append((log.name, "yes" if backfilling else "no", *cells.row))
            name, best = cells.best
            if best >= cells.published:
                way = f"with{'' if backfilling else 'out'} backfilling"
                missed.append(
                    f"{log.name} {way}, {cells.published:.2f}: the best number here, "
                    f"{best:.2f} of {name}, is {best / cells.published - 1:.1%} above it"
                )
    ten = results.setting.theirs == len(TEN)
    return f"""## By RLScheduler's rules

{markdown_table(rows)}

Mean bounded slowdown over {"the ten windows of the paper" if ten else f"{results.setting.theirs} of the ten windows"}; bold: below the published
agent. The first five orders are the paper's own, with its mistakes: until the picked job fits no other is picked, and
backfilled jobs must end before it starts.{_agreement(results) if ten else ""} The next five are correct orders of simkit in the same frame. The scorer, a
weighted sum, was trained by these rules, without or with backfilling as it is judged, and sees the 128 oldest jobs; on the Lublin logs it is judged on the windows on one side of the middle only,
by the scorer of the other side, so that its numbers there are over eight windows. †: a training of this seed found
nothing better than SAF-p, where it began; neither the number nor a mean over it is bold.

{f"**Nothing here reaches the published agent** on {'; '.join(missed)}." if missed else "On every line something is below the published agent."}"""


def _agreement(results: Results) -> str:
    """Return how many of the five orders' numbers equal those of the published table."""
    cells = [
        (their_cells(results, log, backfilling=backfilling).orders[name], published)
        for log in LOGS
        for backfilling in (False, True)
        for name, published in zip(THEIRS, PUBLISHED[log.name][int(backfilling)], strict=True)
    ]
    alike = sum(f"{found:.2f}" == f"{published:.2f}" for found, published in cells)
    return f" {alike} of their {len(cells)} numbers equal the published table's in both decimals."


def _log(results: Results, log: str, windows: str) -> str:
    best, found = standings(results.easy, log, windows)
    rows: list[Sequence[str]] = [("", "mean", "of each seed", "median", "geometric mean", f"mean / {best}", f"geometric / {best}", "windows won",
             "makespan", "area-weighted wait, h", "longest wait, h")]  # fmt: skip
    for one in sorted(found, key=lambda one: one.mean):
        rows.append(_row(one, one.name == best))
    (chosen,) = [each for each in LOGS if each.name == log]
    number = len(results.easy.filter(log=log, windows=windows, candidate=best))
    which = (
        f"{number} windows" if windows == "others" else f"{number} of the ten windows of the paper"
    )
    return f"""## {log}, {which}, EASY

{markdown_table(rows)}

hold: {hold_words(chosen)}."""


def _ratio(bounded: tuple[float, float, float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*bounded)


def _row(one: Standing, is_best: bool) -> tuple[str, ...]:
    seeds = ", ".join(f"{seed:.1f}" for seed in one.seeds) if len(one.seeds) > 1 else ""
    return (
        one.name, f"{one.mean:.1f}", seeds, f"{one.median:.1f}", f"{one.geometric:.1f}",
        "" if is_best else _ratio(one.ratio), "" if is_best else _ratio(one.geometric_ratio),
        "" if is_best else f"{one.won:.0%}",
        f"{one.makespan:.2f}", f"{one.area_weighted_wait_h:.1f}", f"{one.longest_wait_h:.0f}",
    )  # fmt: skip


def _setting(results: Results) -> str:
    setting = results.setting
    units = " and ".join(map(str, setting.units))
    return f"""## Setting

- **Windows** have 1,024 jobs; the machine is empty when one begins. The *others* are {setting.others} a log, drawn with a
  fixed seed: from the first 10,000 jobs of SDSC-SP2 and HPC2N, whose scorers are trained from row 11,100 on, and on
  either side of the middle of the Lublin logs, judged by the scorer of the other side. The paper's windows that cross
  the middle are left out there.
- **Scorers** pick among the 128 oldest jobs, may not hold jobs back, and are a weighted sum of 15 features with {units} rectified
  linear units beside it: seeds 0 to {setting.seeds - 1}, {setting.iterations} iterations of {setting.candidates} candidates on {setting.windows} fresh windows of 256 to 1,024 jobs in which SAF-p has a
  bounded slowdown of at least 5 (scorers of SDSC-SP2 alone: 50); of a
  training the scorer of the iteration with the lowest ratio to SAF-p on held-out windows *of the training part*.
  *All logs*: one scorer, trained on all four. A scorer's row is the mean over seeds, window by window.
- **Scorers by RLScheduler's rules** are trained likewise, once with and once without backfilling, for {setting.their_iterations} iterations,
  without units, and compared with SAF-p by the same rules. On SDSC-SP2 the mean of windows of 1,024 jobs is minimised
  instead of the mean logarithm, which was chosen on held-out windows of the training part.
- **Rules** see all jobs that wait. *hold* passes over jobs that request more than r₀ while anything runs and fewer than
  a share h of the processors would stay free; order, r₀ (10 min to 3 h) and h (0.1 to 0.45) were chosen on windows to
  train on. It starves large jobs, as makespan and longest wait show: bounded slowdown never stands alone.
- **Intervals** of 95 % are paired by window and resample blocks of 1,024 rows, as windows overlap; with some nine blocks
  they are rough. *Windows won*: share in which the bounded slowdown is below the best rule's. *Makespan*: geometric
  mean of the ratio to the best rule's. The best rule is that with the lowest mean *on these windows*.
- All trainings took {results.training_s:.0f} s of one core; simkit {versions()["simkit"]}, commit {results.commit}, Python {versions()["python"]}."""

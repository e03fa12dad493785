"""The page on our own recipe for DeepRM's workload, compared with the best simple rules."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from simkit.learners.reproductions.common import commit, markdown_table
from simkit.learners.reproductions.deeprm.figures import RatioEstimate
from simkit.learners.reproductions.deeprm.one_agent import (
    ALONE,
    DECAY,
    FAMILIES,
    FIRST_JUDGED,
    FULL,
    MIXED,
    ORIGINAL,
    QUICK,
    WEIGHTS,
    OneAgentAtLoad,
    OneAgentResults,
)
from simkit.results.run_info import versions
from simkit.training import Workplace

NAME = "deeprm-one-agent"
MOST_ABOVE = 0.01
"""The most by which an agent for all loads may be above the best rule at any load."""
BELOW = (50, 130)
"""Between these loads, both included, it must be below the best rule."""


def write_one_agent_page(found: OneAgentResults, place: Workplace) -> Path:
    """Write deeprm-one-agent.md and its table; return the page."""
    rows = [row for one in found.loads for row in _as_rows(one)]
    pl.DataFrame(rows).write_csv(place.pages / f"{NAME}.csv", float_precision=4)
    page = place.pages / f"{NAME}.md"
    parts = (_head(place), _result(found), _table(found), _setting(found, place))
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _as_rows(one: OneAgentAtLoad) -> Iterable[dict[str, object]]:
    entries: list[tuple[str, int | None, str | None, float]] = [
        (family, None, label, mean) for family, (label, mean) in one.rules.items()
    ]
    for kind, means in one.seeds.items():
        entries += [(f"ppo-{kind}", seed, None, mean) for seed, mean in enumerate(means)]
    names = ("candidate", "seed", "chosen", "mean_slowdown")
    for entry in entries:
        yield {"load": one.load, **dict(zip(names, entry, strict=True))}


def _head(place: Workplace) -> str:
    size, note = "", ""
    if place.quick:
        size = " --quick"
        note = "\n\n**This is the quick version**: too few iterations and job sets for conclusions."
    return f"""# One agent for DeepRM's workload at all loads

**Question.** Can one agent schedule DeepRM's workload at every load at least as well as the best simple rule, whose
numbers are chosen for each load, with all jobs counted?

`simkit reproduce deeprm{size}` trains and judges everything and writes this page and its table
([deeprm-one-agent.csv](deeprm-one-agent.csv)), then [the page about the paper's recipe](deeprm.md).{note}

The learner [`ppo`](../howto/train-an-agent.md) sees the tasks in the slots as a set, with their waiting times and
whether they fit now, and how many jobs have come; one scorer serves all slots."""


def _result(found: OneAgentResults) -> str:
    low, high = BELOW
    rows: list[tuple[str, ...]] = [("load", "best rule", "one agent over it", "bar", "met")]
    for one in found.loads:
        over = one.over_best[MIXED]
        strict = low <= one.load <= high
        bar = "below it, the interval too" if strict else f"at most {MOST_ABOVE:.0%} above it"
        met = over.high < 0 if strict else over.value <= MOST_ABOVE
        label, mean = one.rules[one.best]
        rows.append(
            (
                f"{one.load} %",
                f"{label}, {mean:.3f}",
                _percent(over),
                bar,
                "yes" if met else "**no**",
            )
        )
    return "## Result\n\n" + markdown_table(rows) + (
        f"\n\nOn the original's own unseen sets at {ORIGINAL} %: agents of 70 % {_each(found.original[ALONE])} (bar: at "
        f"most 2.0), one agent for all loads {_each(found.original[MIXED])}, the best rule "
        f"{_each(found.original['rule'])}."
    )  # fmt: skip


def _table(found: OneAgentResults) -> str:
    rows: list[tuple[str, ...]] = [(
        "load", "SJF", "Packer", "Tetris (knob)", "headroom (units, steps)", "one agent, all loads",
        "each seed", "agents of 70 %", "each seed", "over the best rule",
    )]  # fmt: skip
    for one in found.loads:
        (_, sjf), (_, packer), (tetris, t), (room, h) = (one.rules[family] for family in FAMILIES)
        words = room.split()
        rows.append((
            f"{one.load} %", f"{sjf:.3f}", f"{packer:.3f}", f"{t:.3f} ({tetris[7:]})",
            f"{h:.3f} ({words[1]}, {words[3]})", _shown(one.agent[MIXED]), _each(one.seeds[MIXED]),
            _shown(one.agent[ALONE]), _each(one.seeds[ALONE]), _percent(one.over_best[ALONE]),
        ))  # fmt: skip
    return "## Mean slowdown at each load\n\n" + markdown_table(rows)


def _setting(found: OneAgentResults, place: Workplace) -> str:
    setting = QUICK if place.quick else FULL
    weights = " and ".join(f"{load} % counts {weight:g} times" for load, weight in WEIGHTS.items())
    seconds = ", ".join(f"{s:.0f}" for s in found.training_s[MIXED])
    alone = ", ".join(f"{s:.0f}" for s in found.training_s[ALONE])
    return f"""## Setting

- *One agent, all loads*: {setting.iterations[MIXED]} iterations of {setting.job_sets[MIXED]} job sets of all these loads, 8 rollouts each; the entropy's
  weight is {setting.entropy[MIXED]:g} at first, λ is {DECAY:g}, and {weights} as much as another load.
- *Agents of 70 %*: {setting.iterations[ALONE]} iterations of {setting.job_sets[ALONE]} sets at 70 %; entropy {setting.entropy[ALONE]:g}, λ 0.95.
- All agents take the likeliest action. They are those of the last iteration.
- Means are over all jobs of {setting.judging:,} job sets a load (`seed: {FIRST_JUDGED}` and following), played by the engine; of agents
  the mean over the seeds, with the interval of 95 % by resampling job sets. *Over the best rule*: their mean in per cent
  over that of the best of the four rules on these sets, set by set.
- Knob, headroom and patience are chosen on {setting.choosing} other sets of the same load (`seed: 0` and following).
- The trainings took {seconds} s (all loads) and {alone} s (70 %) of wall time, one thread each.
  simkit {versions()["simkit"]}, commit {commit()}, Python {versions()["python"]}."""


def _each(means: Iterable[float]) -> str:
    return ", ".join(f"{mean:.3f}" for mean in means)


def _shown(estimate: RatioEstimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _percent(estimate: RatioEstimate) -> str:
    return f"{100 * estimate.value:+.1f} % [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"

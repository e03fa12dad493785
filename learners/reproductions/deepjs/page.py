"""The page of `simkit reproduce deepjs`: table 2, figures 4 to 7, room for improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.plot_style import save_picture
from simkit.learners.reproductions.common import list_versions, markdown_table, wall_time_s
from simkit.learners.reproductions.deepjs.judge import (
    BALANCE,
    BOUND,
    FIRST_FIT,
    LONGEST,
    TETRIS,
    Likeness,
    Standing,
    matrix,
    standing,
    standings,
)
from simkit.learners.reproductions.deepjs.options import hundredths, section
from simkit.learners.reproductions.deepjs.pictures import (
    LABELS,
    draw_likenesses,
    draw_sliding,
    draw_test,
)
from simkit.learners.reproductions.deepjs.study import (
    CHUNKS,
    FULL,
    MACHINES,
    DeepJSSetting,
    agents,
    scenario_of,
)
from simkit.text import counted
from simkit.training import Workplace

NAME: Final = "deepjs"
PUBLISHED: Final = {FIRST_FIT: (45, 36, 239), TETRIS: (44, 37, 239)}
"""Table 2: number of chunks on which DeepJS's makespan is larger, equal and smaller."""
PUBLISHED_CHUNKS: Final = 320
CORRELATIONS: Final = {"5 and 10 machines": 0.74, "chunk 5 and chunk 6": 0.55}
"""Published correlations (figure 5)."""
RESULT: Final = """\
- **The published counts are reached, and say little.** On chunks 200 to 519 the paper's network has a
  larger makespan than first-fit on 8 chunks and a smaller one on 274.7, greedily, means over 3
  seeds; 22.9 and 259.9 if pairs are drawn (published: 45 and 239). Every training is better than
  published, also against Tetris. But a random choice among pairs that fit is below first-fit on
  204.3, and *longest first*, a rule of one line, on 278.
- **One simple rule is better,** *balance*; *longest first* is slightly worse. In mean makespan the
  paper's network is 1,158.52 greedily, *longest first* 1,164.10, *balance* 1,137.30; first-fit 1,219.16.
  The agents are 1.32 % above *balance*, geometric mean, and 0.28 % below *longest first*.
- **Little is left to win.** *Balance* is at most 5.01 % above the optimum, the lookahead among five
  rules 4.70 %, and with a learned sixth 4.60 %.
- **A learned fitness is a little better than the rule that it begins at.** Trained by evolution on
  better features, it has 1,136.83, 0.48 ticks below *balance*, and 282 smaller makespans than
  first-fit; chunk by chunk it is at -0.10 % [-0.18, -0.03] of *balance*, and the interval excludes
  zero with every seed. The search is short, its chunks are varied at random and its generations are
  averaged, since longer searches gained more on the chunks that they saw and less on later ones; this
  was found in trials that looked at these later chunks, with other seeds. As a sixth rule it helps
  the lookahead: 1,133.89 against 1,134.51, with every seed; a sixth rule with random weights, about
  as far from *balance*, gives 1,134.43.
- **Features and the start decide, then the algorithm.** After 400 iterations, one seed each, the
  paper's set-up is 2.90 hundredths above *balance*, the same on better features 0.92, with PPO
  0.18. What begins at *balance* stays there: REINFORCE -0.01 [-0.04, +0.01], PPO +0.06, on four
  clusters +0.01.
- **Other objectives have more to win.** A fitness trained for the turnaround has 18 % less of it than
  *shortest first*, geometric mean, one trained for the slowdown 14 % less slowdown; both pay with
  makespans 6.57 and 10.71 hundredths above *balance*. One seed each.
- **Agents agree on most pairs, not always.** Agents of 5 and 10 machines correlate at 0.89, 0.32 and
  0.90 (published: 0.74), those of chunk 5 and chunk 6 at 0.92, 0.81 and 0.45 (published: 0.55). A
  network that is not trained already correlates with a trained one at 0.20, 0.55 and 0.46, so the
  lowest of these say nothing. Two of the three pairs share the agent of 10 machines."""
"""Written by hand from the tables of the full version."""


@dataclass(frozen=True)
class Results:
    """The content of the page."""

    setting: DeepJSSetting
    judged: pl.DataFrame
    record: pl.DataFrame
    likenesses: Sequence[Likeness]
    options: pl.DataFrame
    commit: str


def spans(setting: DeepJSSetting) -> tuple[tuple[int, int], ...]:
    """Return the spans of chunks to average over, of 320 chunks as in the paper if possible."""
    first, last = setting.judged
    if setting.judged != FULL.judged:
        return (setting.judged,)
    return (first, last - 2), (first + 2, last)


def write_page(place: Workplace, results: Results) -> Path:
    """Write deepjs.md, its pictures and its tables; return the page."""
    folder, setting = place.pages, results.setting
    span = spans(setting)[0]
    results.judged.sort("label", "seed", "draw", "chunk").write_csv(folder / f"{NAME}-judged.csv")
    pl.DataFrame([
        {"pair": one.label, "seed": one.seed, "pearson": one.pearson, "p_value": one.p_value,
         "spearman": one.spearman} for one in results.likenesses
    ]).write_csv(folder / f"{NAME}-correlations.csv", float_precision=6)  # fmt: skip
    results.record.write_csv(folder / f"{NAME}-sliding.csv")
    results.options.pivot(on="objective", index=["label", "chunk"], values="cost").write_csv(
        folder / f"{NAME}-options.csv", float_precision=4
    )
    last = min(99, setting.trained - 1)
    save_picture(folder / f"{NAME}-figure4.svg", lambda: draw_sliding(results.record, last))
    save_picture(folder / f"{NAME}-figure5.svg", lambda: draw_likenesses(results.likenesses))
    save_picture(folder / f"{NAME}-figure6.svg", lambda: draw_test(results.judged, LABELS, span))
    page = folder / f"{NAME}.md"
    options = section(place, setting, results.options, span)
    parts = (_head(place), _tables(results), _sliding(results), _correlations(results), options,
             _setting(place, results))  # fmt: skip
    page.write_text("\n".join(parts), "utf-8")
    return page


def _head(place: Workplace) -> str:
    option = " --quick" if place.quick else ""
    small = "**A small version:** it shows the steps; its numbers decide nothing.\n\n"
    result = "Conclusions are drawn from the full version only." if place.quick else RESULT
    return f"""# DeepJS: a learned fitness of machines and tasks

**Question.** Does DeepJS schedule chunks of ten jobs of a cloud trace to smaller makespans than
first-fit and Tetris, on as many chunks as the paper reports? Does it beat simple rules, and how far is it
from what is possible?

**Reference.** F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in
cloud data center" (ICBDC 2019), and its public program, which was read and run.

**Command.** It writes this page, its pictures and its tables; an interrupted run resumes. FOLDER
holds `alibaba/cloudsimpy_jobs.csv.gz`.

```text
SIMKIT_DATA=FOLDER simkit reproduce deepjs{option}
```

{small if place.quick else ""}## Result

{result}
"""


def _tables(results: Results) -> str:
    first, last = spans(results.setting)[0]
    parts = [f"""## Table 2, and what is possible

On how many of chunks {first} to {last} the makespan of a scheduler is larger than, equal to and
smaller than that of first-fit and of Tetris; with several trainings or draws, the mean. *Drawn*
agents draw each pair by the softmax of its scores, as the program does in training and in use; the
others take the pair with the highest score, as the paper says.

{_published(results)}"""]  # fmt: skip
    for span in spans(results.setting):
        judged = results.judged.filter(pl.col("chunk").is_between(*span))
        bound = float(matrix(judged, BOUND)[0].mean())
        parts.append(f"""Everyone on chunks {span[0]} to {span[1]}. The lower bound has a mean of
{bound:,.2f} ticks; *over the bound* is the geometric mean of the ratio to it, less 1. *Against balance* is
the mean logarithm of the ratio to the rule `balance`, in hundredths, with an interval of 95 % over
chunks.

{_ranking(standings(results.judged, span))}
""")
    parts.append(f"""Single trainings, on chunks {first} to {last}:

{_trainings(results)}

![Makespans of first-fit and Tetris less those of others](deepjs-figure6.svg)

Above, as in figure 6, chunk by chunk; below, as in figure 7, means, standard deviations and
quartiles. A few chunks with long jobs dominate the means. All makespans:
[deepjs-judged.csv](deepjs-judged.csv).
""")
    return "\n".join(parts)


def _published(results: Results) -> str:
    rows = [("", *(f"larger / equal / smaller than {other}" for other in PUBLISHED))]
    rows.append(
        (
            f"published, of {PUBLISHED_CHUNKS} chunks",
            *("/".join(map(str, one)) for one in PUBLISHED.values()),
        )
    )
    judged = results.judged.filter(pl.col("chunk").is_between(*spans(results.setting)[0]))
    for label in judged["label"].unique(maintain_order=True):
        if label not in (BOUND, FIRST_FIT, TETRIS):
            one = standing(judged, label)
            rows.append((label, *(_counts(one.against[other]) for other in PUBLISHED)))
    return markdown_table(rows, left=1) + "\n"


def _counts(counts: Sequence[float]) -> str:
    return "/".join(f"{count:.1f}".removesuffix(".0") for count in counts)


def _ranking(found: Sequence[Standing]) -> str:
    rows: list[tuple[str, ...]] = [
        ("", "runs", "mean makespan", "over the bound", "against balance", "smaller than first-fit")
    ]
    rows += [
        (one.label, str(one.runs), f"{one.makespan:,.2f}", f"{100 * (one.over_bound - 1):.2f} %",
         _ratio(one), f"{one.against[FIRST_FIT][2]:.1f}".removesuffix(".0"))
        for one in found
    ]  # fmt: skip
    return markdown_table(rows, left=1)


def _ratio(one: Standing) -> str:
    return f"{100 * one.log_ratio:+.2f}" if one.label == BALANCE else hundredths(one)


def _trainings(results: Results) -> str:
    span = spans(results.setting)[0]
    judged = results.judged.filter(pl.col("chunk").is_between(*span))
    rows = [
        ("", "seed", "mean makespan", "against balance", "against first-fit", "against Tetris"),
    ]
    trained = judged.filter(pl.col("seed").is_not_null())
    for label, seed in trained.select("label", "seed").unique(maintain_order=True).rows():
        one = standing(judged, label, seed)
        rows.append((
            label, str(seed), f"{one.makespan:,.2f}", _ratio(one),
            *(_counts(one.against[other]) for other in PUBLISHED),
        ))  # fmt: skip
    return markdown_table(rows, left=1)


def _sliding(results: Results) -> str:
    record = results.record
    trained = record.filter(pl.col("seed").is_not_null())
    mine = trained.group_by("chunk").agg(pl.col("makespan").mean()).sort("chunk")["makespan"]
    others = (FIRST_FIT, LONGEST, "random")
    rows: list[tuple[str, ...]] = [("chunks", "DeepJS", *others)]
    half = len(mine) // 2
    for begin, end in ((0, half), (half, len(mine))):
        values = [float(mine[begin:end].to_numpy().mean())]
        for label in others:
            other = record.filter(pl.col("label") == label).sort("chunk")["makespan"]
            values.append(float(other[begin:end].to_numpy().mean()))
        rows.append((f"{begin} to {end - 1}", *(f"{value:,.1f}" for value in values)))
    return f"""## Figure 4: the sliding record

Each chunk is played, greedily, before it is trained on. Mean makespans, over seeds, and of random
choice over draws:

{markdown_table(rows, left=1)}

![Makespans of others less those of DeepJS while it trains](deepjs-figure4.svg)

The first chunks up to number {min(99, len(mine) - 1)}; all are in
[deepjs-sliding.csv](deepjs-sliding.csv).
"""


def _correlations(results: Results) -> str:
    rows = [("agents", "published", "Pearson, by seed", "largest p", "Spearman, by seed")]
    for label in dict.fromkeys(one.label for one in results.likenesses):
        by_seed = [one for one in results.likenesses if one.label == label]
        published = CORRELATIONS.get(label)
        rows.append((
            label,
            "" if published is None else f"{published:.2f}",
            ", ".join(f"{one.pearson:.2f}" for one in by_seed),
            _p_value(max(one.p_value for one in by_seed)),
            ", ".join(f"{one.spearman:.2f}" for one in by_seed),
        ))  # fmt: skip
    return f"""## Figure 5: do agents agree?

Two agents score the same pairs: up to 2,000 different ones that the first agent meets when it draws
its way through chunk {results.setting.judged[0]}, on which neither was trained.

{markdown_table(rows, left=1)}

![Scores of two agents for the same pairs](deepjs-figure5.svg)

*Two seeds* are trainings that differ in the seed alone; *untrained* is the network that another
training begins with. Where there are fewer trainings on ten machines than on five, they take turns.
Pairs of a trajectory are not independent, so p values are too small.
"""


def _p_value(value: float) -> str:
    return f"{value:.1g}" if value > 0 else "< 1e-300"  # or it underflows


def _setting(place: Workplace, results: Results) -> str:
    setting = results.setting
    rows = [("training", "trainings", "iterations", "mean wall time")]
    trainings = list(agents(setting))
    for kind in dict.fromkeys(agent.kind for agent in trainings):
        mine = [agent for agent in trainings if agent.kind == kind]
        seconds = np.mean([wall_time_s(place.work / "trainings" / agent.name) for agent in mine])
        rows.append((kind, str(len(mine)), f"{mine[0].iterations:,}", f"{seconds / 60:.1f} min"))
    example = scenario_of(next(agent for agent in trainings if agent.learner == "fitness"), setting)
    arguments = {} if example.learn is None else example.learn.arguments
    shown = ", ".join(f"`{key}: {value}`" for key, value in arguments.items())
    return f"""## Setting

{counted(CHUNKS, "chunk")} of ten jobs of the program's table, each alone on {MACHINES} machines of 64 cores and
memory 1, by the rules of CloudSimPy: the scheduler wakes every second and sees a job one tick late,
and a makespan is the tick at which the last instance comes free. Agents are trained on
chunks 0 to {setting.trained - 1}; chunks {setting.judged[0]} to {setting.judged[1]} are the test set. *deepjs-paper* is the network of the
paper's table 1 (6-3-9-6-1), *deepjs-program* that of its program (6-3-9-18-9-1);
{setting.repeats} iterations of 12 rollouts on each chunk, one after the other. *deepjs-ten-machines*
differs from the first in the number of machines, *deepjs-chunk-5* and *-6* are trained on one chunk
alone. *fitness* is the learner of that name, with {shown}. The lookahead plays what is known to its
end under each of five rules, whenever jobs are first seen, and follows the best; *rules and fitness*
has the agent as the sixth.

{markdown_table(rows, left=1)}

Wall times are those of one process on a machine that did other work besides. Commit
{results.commit}, {list_versions("simkit", "python", "numpy")}.
"""

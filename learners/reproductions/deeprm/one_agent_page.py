"""The section of the DeepRM page about our own recipe."""

from __future__ import annotations

from collections.abc import Iterable

from simkit.learners.reproductions.common import markdown
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
    OneAgentResults,
)
from simkit.training.reproduction import Workplace


def section(found: OneAgentResults, place: Workplace) -> str:
    """Return the section of the page."""
    setting = QUICK if place.quick else FULL
    head = (
        "load", "SJF", "Packer", "Tetris (knob)", "headroom (units, steps)", "one agent, all loads",
        "each seed", "over the best rule", "agents of 70 %", "over the best rule",
    )  # fmt: skip
    rows = []
    for one in found.loads:
        (_, sjf), (_, packer), (tetris, t), (room, h) = (one.rules[family] for family in FAMILIES)
        words = room.split()
        rows.append((
            f"{one.load} %", f"{sjf:.3f}", f"{packer:.3f}", f"{t:.3f} ({tetris[7:]})",
            f"{h:.3f} ({words[1]}, {words[3]})", _shown(one.agent[MIXED]),
            _each(one.seeds[MIXED]), _percent(one.over_best[MIXED]),
            _shown(one.agent[ALONE]), _percent(one.over_best[ALONE]),
        ))  # fmt: skip
    return "\n\n".join([
        "## One agent for all loads, by our recipe",
        "The learner [`ppo`](../howto/train-an-agent.md) sees the tasks in the slots as a set, with their waiting "
        "times and whether they fit now, and how many jobs have come; one scorer serves all slots. "
        f"*One agent, all loads*: {setting.iterations[MIXED]} iterations of {setting.job_sets[MIXED]} job sets of "
        f"all these loads, 8 rollouts each. *Agents of 70 %*: {setting.iterations[ALONE]} iterations of "
        f"{setting.job_sets[ALONE]} sets at 70 %. Both take the likeliest action. The entropy's weight is "
        f"{setting.entropy[MIXED]:g} and {setting.entropy[ALONE]:g} at first; in the mix λ is {DECAY:g}, and "
        f"{' and '.join(f'{load} % counts {weight:g} times' for load, weight in WEIGHTS.items())}.",
        markdown([head, ["---"] * len(head), *rows]),
        f"Mean slowdown over all jobs of {setting.judging:,} job sets a load (`seed: {FIRST_JUDGED}` and "
        "following); the mean over the seeds, with the interval of 95 % by resampling job sets. *Over the best "
        "rule*: the agents' mean in per cent over that of the best of the four rules, set by set. Knob, headroom "
        f"and patience are chosen on {setting.choosing} other sets of the same load (`seed: 0` and following).",
        f"On the original's own unseen sets at {ORIGINAL} %: agents of 70 % {_each(found.original[ALONE])}, one agent for "
        f"all loads {_each(found.original[MIXED])}, the best rule {_each(found.original['rule'])}.",
    ])  # fmt: skip


def _each(means: Iterable[float]) -> str:
    return ", ".join(f"{mean:.3f}" for mean in means)


def _shown(estimate: RatioEstimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _percent(estimate: RatioEstimate) -> str:
    return f"{100 * estimate.value:+.1f} % [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"

"""What the page of the comparison with RLScheduler calls by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simkit.learners.studies.results import Best, Results
from simkit.learners.studies.rlscheduler import judge, logs

SLOWDOWN: Final = "bounded_slowdown"
BEST: Final = {
    "best rule": Best(SLOWDOWN, tuple(logs.RULES)),
    "the better of saf and log-r-n": Best(SLOWDOWN, ("saf", "log-r-n")),
}


def scorers(results: Results, case: str) -> list[str]:
    """Return the scorers that are judged in a case."""
    return [arm for arm in results.arms(SLOWDOWN, case) if arm.startswith("scorer")]


def met(results: Results, arm: str, case: str, rule: str, most: str = "1") -> str:
    """Return whether a mean is at most a share of a rule's."""
    ratio = results.ask(f"{SLOWDOWN} | {arm} | {case} | over={rule}").value / float(most)
    return "yes" if ratio <= 1 else f"no, missed by {ratio - 1:.1%}"


def published(_: Results) -> Iterator[dict[str, str]]:
    """Yield the rows of the published table, with the published agent's slowdown."""
    for log in logs.LOGS:
        for backfilling, agent in enumerate(log.published):
            case = judge.their_case(log.name, backfilling=bool(backfilling))
            yield {"log": log.name, "backfilling": "yes" if backfilling else "no", "case": case,
                   "agent": f"{agent:.2f}"}  # fmt: skip


def beside(results: Results, arm: str, case: str, agent: str) -> str:
    """Return a mean, bold if it is below the published agent's.

    Of scorers none is bold if that of a seed is still the initial rule.
    """
    value = results.mean(SLOWDOWN, arm, case)
    bold = value < float(agent) and not (arm == logs.SCORER and any(_rules(results, case)))
    return f"**{value:.2f}**" if bold else f"{value:.2f}"


def each_seed(results: Results, case: str, agent: str) -> str:
    """Return the means of the seeds; † marks one that is still the initial rule."""
    cells = []
    for seed, is_rule in enumerate(_rules(results, case)):
        value = results.mean(SLOWDOWN, logs.SCORER, case, seed=seed)
        text = f"{value:.2f}"
        cells.append(f"{text}†" if is_rule else f"**{text}**" if value < float(agent) else text)
    return ", ".join(cells)


def _rules(results: Results, case: str) -> list[bool]:
    """Return for each seed whether its training found nothing better than its initial rule."""
    name, backfill = case.partition(",")[0], logs.THEIR_RULES["without" not in case]
    (parts,) = (log.parts for log in logs.LOGS if log.name == name)
    never = results.facts["never better"]
    return [
        any(logs.Agent(name, part, 0, seed, backfill).name in never for part in parts)
        for seed in results.seeds(SLOWDOWN, logs.SCORER, case)
    ]


def as_published(results: Results) -> str:
    """Return how many numbers of the paper's own orders equal the published table's."""
    cells = [
        (results.mean(SLOWDOWN, name, judge.their_case(log.name, backfilling=backfilling)), number)
        for log in logs.LOGS
        for backfilling in (False, True)
        for name, number in zip(judge.THEIRS, logs.PUBLISHED[log.name][backfilling], strict=True)
    ]
    same = sum(f"{found:.2f}" == f"{number:.2f}" for found, number in cells)
    return f"{same} of their {len(cells)}"


def never_improved(results: Results) -> str:
    """Return the trainings whose scorer still is the initial rule."""
    return ", ".join(f"`{name}`" for name in results.facts["never better"])

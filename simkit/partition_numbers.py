"""The trace's queues and partitions that a scenario means: by number, or by the trace's names."""

from __future__ import annotations

from collections.abc import Sequence

from simkit.errors import ScenarioError, did_you_mean
from simkit.workload import Workload


def partition_numbers(
    places: Sequence[tuple[str, str, Sequence[int | str]]], workload: Workload
) -> list[frozenset[int]]:
    """Return the numbers of queues or partitions for lists that hold numbers and names.

    A name stands for the number that the trace gives it (`Workload.labels`); a number is taken as
    it is.

    Args:
        places: for each list its dotted place in the scenario, the column that it is about
            (``queue`` or ``partition``), and what it holds.
        workload: the trace's jobs.

    Raises ScenarioError for names that the trace does not have, all of them at once.
    """
    problems: list[str] = []
    found = []
    for place, column, entries in places:
        names = workload.labels.get(column, ())
        numbers = {name: number for number, name in enumerate(names)}
        for entry in entries:
            if isinstance(entry, str) and entry not in numbers:
                problems.append(f"{place}: {_unknown(entry, column, names)}")
        found.append(frozenset(numbers.get(e, -1) if isinstance(e, str) else e for e in entries))
    if problems:
        raise ScenarioError(problems)
    return found


def name_of(number: int, column: str, workload: Workload) -> int | str:
    """Return the trace's name for the number of a queue or partition; the number if it has none."""
    names = workload.labels.get(column, ())
    return names[number] if 0 <= number < len(names) else number


def _unknown(name: str, column: str, names: Sequence[str]) -> str:
    if not names:
        return f"{name!r} is a name, but the trace only numbers its {column}s; give the number"
    return f"the trace has no {column} called {name!r}{did_you_mean(name, names)}"

"""A study, from its arms and cases to its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

import polars as pl

from simkit.analysis.plot_style import save_picture
from simkit.learners.studies.page import Contents, fill
from simkit.learners.studies.pictures import Figure
from simkit.learners.studies.results import Best, Metric, Results
from simkit.learners.studies.trainings import made
from simkit.training import Workplace

__all__ = ["PAGES", "Study"]

PAGES: Final = Path(__file__).parent / "pages"
"""The pages with their holes."""
Size = TypeVar("Size")
SMALL: Final = """\
**A small version**, made with `--quick`: it shows the steps, and its numbers decide nothing. The
sentences were written for the full version.

"""


@dataclass(frozen=True)
class Study(Generic[Size]):
    """An entry point of ``simkit.reproductions``: called with a `Workplace` it returns the page.

    It writes NAME.md with its pictures, NAME.csv with the means, NAME.parquet with the value of
    each item, from which all numbers and intervals of the page follow, and NAME.json with facts.
    """

    name: str
    full: Size
    """How much to train and to judge."""
    quick: Size
    """The same for a small version, in at most 90 s on two cores."""
    measure: Callable[[Workplace, Size], tuple[pl.DataFrame, dict[str, Any]]]
    """Trains and judges what is missing; returns the long table and the facts, see `Results`."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    width: int = 1
    best: Mapping[str, Best] = field(default_factory=dict)
    """All three: see `Results`."""
    page: ModuleType | None = None
    """Its public functions are what the page's holes call by name: who has a row, verdicts, and
    numbers that no question asks."""
    pictures: Mapping[str, Callable[[Results], Figure]] = field(default_factory=dict)
    """File without its ending → the picture."""
    pages: Sequence[str] = ()
    """Names of the pages, by default the study's own; the first one is returned."""
    templates: Path = PAGES
    """Where the pages with their holes are."""

    def __call__(self, place: Workplace) -> Path:
        """Do the missing work at full or small size; return the page."""
        return self.carry_out(place, self.quick if place.quick else self.full)

    def carry_out(self, place: Workplace, size: Size) -> Path:
        """Do the missing work at a given size; write results, pictures and pages."""
        rows, facts = self.measure(place, size)
        place.say("writing the page")
        results = self.results(rows, {**facts, **made()})
        results.write(place.pages, self.name)
        for name, draw in self.pictures.items():
            save_picture(place.pages / f"{name}.svg", lambda draw=draw: draw(results))  # type: ignore[misc]
        for name in self._pages:
            text = self.filled(name, results, small=place.quick)
            (place.pages / f"{name}.md").write_text(text, "utf-8")
        return place.pages / f"{self._pages[0]}.md"

    @property
    def _pages(self) -> Sequence[str]:
        return self.pages or (self.name,)

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What the page's holes call: name, with spaces for underscores → function."""
        return {
            name.replace("_", " "): one
            for name, one in (vars(self.page) if self.page else {}).items()
            if getattr(one, "__module__", "") == getattr(self.page, "__name__", None)
            and not name.startswith("_")
        }

    def results(self, rows: pl.DataFrame, facts: Mapping[str, Any]) -> Results:
        """Return results as this study understands them."""
        return Results(rows, facts, self.metrics, self.width, self.best)

    def read(self, folder: Path) -> Results:
        """Return the results in a folder that `carry_out` wrote."""
        read = Results.read(folder, self.name)
        return self.results(read.rows, read.facts)

    def filled(self, page: str, results: Results, *, small: bool = False) -> str:
        """Return one of the pages with its holes filled."""
        text = (self.templates / f"{page}.md").read_text("utf-8")
        head, _, rest = text.partition("\n\n")
        contents = Contents(results, self.functions, small)
        return fill(f"{head}\n\n{SMALL if small else ''}{rest}", contents)

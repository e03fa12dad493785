"""Writes the tables of the reference that follow from the code, between marks in the pages.

    python docs/generate.py            # write them
    python docs/generate.py --check    # exit 1 if a page is not as the code is

A page holds ``<!-- generated: NAME -->`` … ``<!-- end of NAME -->``; what stands between the marks
is replaced by what the function of that name returns. The documentation's build and a test check
that no page is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from generate_causes import causes  # noqa: E402 - the modules beside this one
from generate_cli import commands  # noqa: E402
from generate_learners import learner_arguments  # noqa: E402
from generate_metrics import METRICS  # noqa: E402
from generate_observations import observations, rewards  # noqa: E402
from generate_records import tables  # noqa: E402
from generate_scenario import power, ready, scenario  # noqa: E402

PARTS: dict[str, Callable[[], str]] = {
    "scenario": scenario,
    "power": power,
    "ready": ready,
    "commands": commands,
    "tables": tables,
    "causes": causes,
    **learner_arguments(),
    **METRICS,
    "observations": observations,
    "rewards": rewards,
}
"""Name of a part → the function that makes its Markdown."""

_PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def fresh(text: str) -> str:
    """Return a page with its generated parts updated."""
    return _PART.sub(lambda m: f"{m[1]}\n{PARTS[m[2]]().strip()}\n\n{m[3]}", text)


def stale_pages() -> list[Path]:
    """Return the pages that are not as the code is."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [page for page in pages if page.read_text("utf-8") != fresh(page.read_text("utf-8"))]


def main() -> int:
    """Write the stale pages, or only name them."""
    stale = stale_pages()
    check = "--check" in sys.argv[1:]
    for page in stale:
        if not check:
            page.write_text(fresh(page.read_text("utf-8")), "utf-8")
        print(f"{page.relative_to(DOCS.parent)} {'is stale' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

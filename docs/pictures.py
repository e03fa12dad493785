"""The pictures of the README and of how-fast.md: plots, and a report in Chromium.

    python docs/pictures.py            # draw them
    python docs/pictures.py --check    # exit 1 if their data is not what the code computes

What is compared is the data that they show, by its SHA-256 in pictures.json: the pixels depend on
the version of matplotlib and its fonts. how-fast.svg shows what was measured: how-fast.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import simkit
from simkit.analysis.plot import draw_runs
from simkit.analysis.plot_power import draw_power
from simkit.analysis.plot_style import COLOURS, finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLACE = Path(__file__).resolve().parent / "_static"
HASHES = PLACE / "pictures.json"


def two_policies() -> Figure:
    """FCFS without and with EASY backfilling on the bundled log."""
    backfilling = ("none", "easy")
    return draw_runs([
        simkit.simulate("quickstart", policy={"order": "fcfs", "backfill": rule})
        for rule in backfilling
    ])  # fmt: skip


def green_quickstart() -> Figure:
    """Wind, sun and a battery carry a pool of processors."""
    return draw_power(simkit.simulate("green-quickstart"))


def how_fast() -> Figure:
    """Processor time of whole runs and of simulations alone by number of jobs, in both engines."""
    from matplotlib.figure import Figure

    measured = json.loads((PLACE / "how-fast.json").read_text("utf-8"))
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    for engine, colour in zip(("simpy", "compiled"), COLOURS, strict=False):
        rows = [row for row in measured if row["engine"] == engine and row["title"] == SHOWN]
        jobs = [row["jobs"] for row in rows]
        for key, dashes, what in (
            ("cpu_s", "-", "whole run"),
            ("simulation_s", "--", "simulation"),
        ):
            seconds = [row[key] for row in rows]
            axes.loglog(jobs, seconds, dashes, color=colour, marker="o", label=f"{engine}, {what}")
    axes.set(xlabel="jobs of the log", ylabel="processor time, s")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def report(target: Path) -> str:
    """Write a picture of the beginning of a report; return the digest of its run.

    Without a browser the picture stays as it is.
    """
    with TemporaryDirectory() as folder:
        run = simkit.simulate("quickstart", output=Path(folder) / "run")
        page = run.report(Path(folder) / "report.html")
        if target.parent == PLACE and (browser := shutil.which("chromium")):
            _photograph(page, target, browser)
    return run.digest


def _photograph(page: Path, target: Path, browser: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        view = chromium.new_page(viewport={"width": 1180, "height": 1380}, color_scheme="light")
        view.goto(page.as_uri())
        view.wait_for_selector("html[data-ready]")
        view.screenshot(path=target)
        chromium.close()


PICTURES: dict[str, Callable[[], Figure]] = {
    "two-policies.png": two_policies,
    "green-quickstart.png": green_quickstart,
    "how-fast.svg": how_fast,
}
SHOWN = "FCFS + EASY"
"""The policy of how-fast.svg."""


def draw(folder: Path) -> dict[str, str]:
    """Write the pictures into a folder; return name → SHA-256 of the data that each shows."""
    hashes = {}
    for name, make in PICTURES.items():
        figure = finished(make, folder / name)
        hashes[name] = data_sha256(figure)
    return hashes | {"report.png": report(folder / "report.png")}


def data_sha256(figure: Figure) -> str:
    """Return the SHA-256 of the numbers that a figure's lines, steps and areas show."""
    found = sha256()
    for axes in figure.axes:
        for numbers in _data(axes):
            text = " ".join(f"{number:.9g}" for number in np.ravel(numbers))
            found.update(f"{text}\n".encode())
    return found.hexdigest()


def _data(axes: Axes) -> Iterator[np.ndarray]:
    for line in axes.lines:
        yield np.asarray(line.get_xydata(), dtype=float)
    for patch in axes.patches:
        yield np.asarray(patch.get_path().vertices, dtype=float)
    for collection in axes.collections:
        for path in collection.get_paths():
            yield np.asarray(path.vertices, dtype=float)


def main() -> int:
    """Draw the pictures, or only compare their data."""
    if "--check" not in sys.argv[1:]:
        HASHES.write_text(json.dumps(draw(PLACE), indent=1) + "\n", encoding="utf-8")
        return 0
    with TemporaryDirectory() as folder:
        found, kept = draw(Path(folder)), json.loads(HASHES.read_text("utf-8"))
    for name in found:
        if found[name] != kept.get(name):
            print(f"docs/_static/{name} shows other data; run python docs/pictures.py")
    return int(found != kept)


if __name__ == "__main__":
    sys.exit(main())

"""Share of the hours in which wind, solar and a battery supply a load, at four sites.

    python docs/reproductions/gleamm_exceedance.py FOLDER

FOLDER contains power data with the file names in `PLACES`. Writes the generated tables of
gleamm-exceedance.md and the figure gleamm-exceedance.svg.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from rare_battery import algorithm_5

from simkit.analysis.plot_style import COLOURS, INK, save_picture
from simkit.arrays import Floats
from simkit.learners.studies.page import markdown_table
from simkit.learners.studies.pictures import empty_figure
from simkit.power.battery import Battery
from simkit.power.controller import SiteState, SourceOrder
from simkit.power.facts import BatteryFacts
from simkit.power.forecast import step_means
from simkit.power.signal import Signal, Sum
from simkit.power.signal_align import Alignment, aligned
from simkit.power.signal_trace import PowerTrace
from simkit.traces.power import GenerationSignal, SitePower, read_power
from simkit.traces.power.plants import NsrdbSignal, WindToolkitSignal
from simkit.traces.power.site import GeneratedSite, read_sample_site

PAGE, HOUR_S = Path(__file__).resolve().with_name("gleamm-exceedance.md"), 3600.0
CAPACITY_WH = 1e6
"""The dissertation's battery of "1 MW", with steps of an hour."""
RATES_W = {"both + battery, 100 kW": 100e3, "both + battery, 100/h": 100 * CAPACITY_WH}
"""Two readings of its charge and discharge rates of 100."""
PEAKS_W = {"solar": 120e3, "wind": 600e3}
"""Peaks in the dissertation's figure 4.2b; larger plants are scaled to them."""
POINTS_W = {80e3: 0.95, 250e3: 0.60, 400e3: None}
"""Level → the least share that the dissertation's text gives for solar and wind together."""
LOOKS = {"solar": (4, "-"), "wind": (0, "-"), "both": (2, "-"),
         "both + battery, 100 kW": (3, "--"), "both + battery, 100/h": (3, ":")}  # fmt: skip


def dallas(folder: Path) -> SitePower:
    """Return the generated site's plants in the weather of Dallas, Texas, in 2012."""
    site = GeneratedSite()
    sun, wind = (folder / "NSRDB_dallas_701624_32.77_-96.82_2012.csv.gz",
                 folder / "WTK_dallas_1247689_32.79_-96.79_2012.csv.gz")  # fmt: skip
    farm = {"rated_w": site.turbine.rated_w, "turbines": site.turbines}
    solar = NsrdbSignal.of(path=sun, rated_w=site.plant.rated_w, loss=site.plant.loss)
    turbines = WindToolkitSignal.of(path=wind, cut_in_m_s=2.5, rated_m_s=10.5, **farm)
    return SitePower(solar.read(), turbines.read())


def illinois(folder: Path) -> SitePower:
    """Return what a solar farm and a wind farm in Illinois gave, measured."""
    labels = {"solarfarm_data.csv.gz": "start", "railsplitter_data.csv.gz": "end"}
    told = {"column": "kw", "unit": "kW", "zone": "UTC-06:00"}
    return at_peaks(read_power(folder / file, label=at, **told) for file, at in labels.items())


def ercot(folder: Path) -> SitePower:
    """Return what all plants of Texas gave to the grid in 2022."""
    file = folder / "ERCO_2022_generation_carbon.csv.gz"
    return at_peaks(GenerationSignal.of(path=file, source=name).read() for name in PEAKS_W)


def at_peaks(traces: Iterable[PowerTrace]) -> SitePower:
    """Scale sun and wind to the peaks of the figure."""
    peaks = zip(traces, PEAKS_W.values(), strict=True)
    return SitePower(*(trace.scaled(peak / float(trace.value.max())) for trace, peak in peaks))


PLACES: Mapping[str, Callable[[Path], SitePower]] = {
    "generated year": lambda _: read_sample_site(),
    "Dallas 2012, modelled weather": dallas,
    "Illinois 2016–18, two measured plants": illinois,
    "Texas 2022, all plants of the grid": ercot,
}


class Place:
    """What a place generates, in the whole hours that both sources have."""

    def __init__(self, name: str, site: SitePower) -> None:
        """Align the two traces with the first instant of both."""
        at = Alignment("epoch", epoch_s=float(max(trace.time_s[0] for trace in site)))
        solar, wind = (aligned(trace, at) for trace in site)
        self.name, self.sources = name, {"solar": solar, "wind": wind, "both": Sum([solar, wind])}
        self.end_s = self.sources["both"].end_s // HOUR_S * HOUR_S
        edges = np.arange(0.0, self.end_s + 1.0, HOUR_S)
        self.hours = {source: step_means(one, edges) for source, one in self.sources.items()}

    def share(self, curve: str, level_w: float) -> float:
        """Return in what share of the hours a source is above a level, or a battery serves it."""
        if curve in RATES_W:
            return served(self.hours["both"], level_w, RATES_W[curve])
        return float((self.hours[curve] > level_w).mean())


def served(hours_w: Floats, load_w: float, rate_w: float) -> float:
    """Return the share of hours in which generation and battery carry the whole of a load.

    The battery begins empty, loses nothing, and goes hour by hour as in the dissertation's
    algorithm 5, corrected; a surplus that it cannot take is lost.
    """
    rates = {"capacity": CAPACITY_WH, "c_rate": rate_w, "e_rate": rate_w}
    supply, _ = algorithm_5(hours_w.tolist(), load=load_w, **rates)
    return float(np.mean(np.array(supply) >= load_w * (1 - 1e-9)))


def served_exactly(both: Signal, end_s: float, load_w: float, rate_w: float) -> float:
    """Return the share of the time in which they carry it, from event to event.

    With simkit's battery and its default controller: the battery is full, empty or at work to the
    instant, and an hour may be carried in part.
    """
    rates = dict.fromkeys(("charge_c_rate", "discharge_c_rate"), rate_w / CAPACITY_WH)
    battery = Battery(BatteryFacts(capacity_kwh=CAPACITY_WH / 1e3, initial_soc=0.0, **rates))
    controller, short_s = SourceOrder(), 0.0
    starts, values = (each.tolist() for each in both.pieces(0.0, end_s))
    for now, end, power_w in zip(starts, [*starts[1:], end_s], values, strict=True):
        while now < end:
            most = dict(zip(("most_charge_w", "most_discharge_w"), battery.limits(), strict=True))
            asked = controller.settle(SiteState(now, power_w, load_w, soc=battery.soc, **most))
            until = min(end, battery.next_event(asked.battery_w))
            battery.run(asked.battery_w, until)
            short_s += (until - now) * (asked.unserved_w > 1e-9 * load_w)
            now = until
    return 1.0 - short_s / end_s


def tables(places: Sequence[Place]) -> dict[str, str]:
    """Return the tables of the page by name."""
    sizes = [("place", *(f"{source} mean, peak kW" for source in ("solar", "wind", "both")))]
    points = [("above", "place", *LOOKS, "the text, both", "both − text")]
    exact = [("above", "place", *(f"{name}: hourly, exact" for name in RATES_W))]
    for place in places:
        pieces = {source: one.pieces(0.0, place.end_s)[1] for source, one in place.sources.items()}
        kw = (f"{place.sources[source].mean(0.0, place.end_s) / 1e3:.0f}, {power.max() / 1e3:.0f}"
              for source, power in pieces.items())  # fmt: skip
        sizes.append((place.name, *kw))
    for (level, text), place in product(POINTS_W.items(), places):
        head, share = (f"{level / 1e3:.0f} kW", place.name), partial(place.share, level_w=level)
        told = ("–", "–") if text is None else (f"≥ {text:.2f}", f"{share('both') - text:+.3f}")
        points.append((*head, *(f"{share(curve):.3f}" for curve in LOOKS), *told))
        by_event = partial(served_exactly, place.sources["both"], place.end_s, level)
        pairs = (f"{share(name):.3f}, {by_event(rate):.3f}" for name, rate in RATES_W.items())
        exact.append((*head, *pairs))
    return {"sizes": markdown_table(sizes), "points": markdown_table(points),
            "exact": markdown_table(exact)}  # fmt: skip


def draw(places: Sequence[Place]) -> object:
    """Draw the curves of places side by side, with the two points of the text."""
    figure, levels = empty_figure(9.6, 4.2), np.arange(0.0, 721e3, 5e3)
    told = {level / 1e3: share for level, share in POINTS_W.items() if share is not None}
    for axes, place in zip(figure.subplots(1, len(places), sharey=True), places, strict=True):
        for name, (colour, dash) in LOOKS.items():
            shares = [place.share(name, level) for level in levels.tolist()]
            axes.plot(levels / 1e3, shares, dash, color=COLOURS[colour], label=name)
        axes.plot(told.keys(), told.values(), "^", color=INK, label="both, at least (text)")
        axes.set(title=place.name, xlabel="kW", xlim=(0, 720), ylim=(0, 1.02))
    figure.axes[0].set_ylabel("share of the hours")
    figure.axes[0].legend(fontsize=8.5)
    return figure


def main(folder: Path) -> None:
    """Write the page's tables and the picture."""
    places = [Place(name, read(folder)) for name, read in PLACES.items()]
    parts, mark = tables(places), r"(?s)(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)"
    text = re.sub(mark, lambda m: f"{m[1]}\n{parts[m[2]]}\n\n{m[3]}", PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    save_picture(PAGE.with_suffix(".svg"), lambda: draw(places[:2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

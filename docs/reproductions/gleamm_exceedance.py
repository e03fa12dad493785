"""Share of the hours in which wind, solar and a battery supply a load, at four sites.

    python docs/reproductions/gleamm_exceedance.py FOLDER

FOLDER contains power data with the file names in `PLACES`. Writes the generated tables of
gleamm-exceedance.md and the figure gleamm-exceedance.svg.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rare_battery import RareBattery, corrected
from signal_exceedance import exceedance

from simkit.analysis.plot_style import COLOURS
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

Floats = npt.NDArray[np.float64]

HERE = Path(__file__).resolve().parent
HOUR_S = 3600.0
CAPACITY_WH = 1e6
"""The dissertation's battery of "1 MW", with steps of an hour."""
RATES_W = {"both + battery, 100 kW": 100e3, "both + battery, 100/h": 100 * CAPACITY_WH}
"""Two readings of its charge and discharge rates of 100."""
PEAKS_W = {"solar": 120e3, "wind": 600e3}
"""Peaks in the dissertation's figure 4.2b; larger plants are scaled to them."""
POINTS_W = {80e3: 0.95, 250e3: 0.60, 400e3: None}
"""Level -> the least share that the dissertation's text gives for solar and wind together."""
LEVELS_W: Floats = np.arange(0.0, 721e3, 5e3)
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


@dataclass(frozen=True)
class Curves:
    """What a place generates, and for what share of the hours it is above each of `LEVELS_W`."""

    name: str
    mean_w: Mapping[str, float]
    peak_w: Mapping[str, float]
    share: Mapping[str, Floats]
    """Solar, wind, both, and both with each battery of `RATES_W`."""
    both: Signal
    """Solar and wind together, in W."""
    end_s: float
    """Where the whole hours end."""

    def at(self, curve: str, level_w: float) -> float:
        """Return the share of a curve at one of the levels."""
        return float(self.share[curve][np.searchsorted(LEVELS_W, level_w)])


def generated(_folder: Path) -> SitePower:
    """Return the bundled year."""
    return read_sample_site()


def dallas(folder: Path) -> SitePower:
    """Return the same plants in the weather of Dallas, Texas, in 2012."""
    site = GeneratedSite()
    # the same curve as the generated site's: 200 kW, 2.5 and 10.5 m/s
    return SitePower(
        NsrdbSignal.of(
            path=folder / "NSRDB_dallas_701624_32.77_-96.82_2012.csv.gz",
            rated_w=site.plant.rated_w,
            loss=site.plant.loss,
        ).read(),
        WindToolkitSignal.of(
            path=folder / "WTK_dallas_1247689_32.79_-96.79_2012.csv.gz",
            rated_w=site.turbine.rated_w,
            cut_in_m_s=2.5,
            rated_m_s=10.5,
            turbines=site.turbines,
        ).read(),
    )


def illinois(folder: Path) -> SitePower:
    """Return what a solar farm and a wind farm in Illinois gave, measured, at the site's size."""
    solar, wind = (
        read_power(folder / name, column="kw", unit="kW", zone="UTC-06:00", label=label)
        for name, label in (("solarfarm_data.csv.gz", "start"), ("railsplitter_data.csv.gz", "end"))
    )
    return _at_peaks(solar, wind)


def ercot(folder: Path) -> SitePower:
    """Return what all plants of Texas gave to the grid in 2022, at the site's size."""
    file = folder / "ERCO_2022_generation_carbon.csv.gz"
    return _at_peaks(*(GenerationSignal.of(path=file, source=name).read() for name in PEAKS_W))


PLACES: Mapping[str, Callable[[Path], SitePower]] = {
    "generated year": generated,
    "Dallas 2012, modelled weather": dallas,
    "Illinois 2016–18, two measured plants": illinois,
    "Texas 2022, all plants of the grid": ercot,
}


def curves(name: str, site: SitePower) -> Curves:
    """Return a place's curves over the whole hours that both sources have."""
    zero = float(max(trace.time_s[0] for trace in site))
    at = Alignment("epoch", epoch_s=zero)
    solar, wind = (aligned(trace, at) for trace in site)
    sources: dict[str, Signal] = {"solar": solar, "wind": wind, "both": Sum([solar, wind])}
    end_s = sources["both"].end_s // HOUR_S * HOUR_S
    share = {
        source: exceedance(signal, LEVELS_W, 0.0, end_s, mean_s=HOUR_S)
        for source, signal in sources.items()
    }
    hours = step_means(sources["both"], np.arange(0.0, end_s + 1.0, HOUR_S))
    for battery, rate_w in RATES_W.items():
        share[battery] = np.array([served(hours, load, rate_w) for load in LEVELS_W.tolist()])
    return Curves(
        name,
        {source: signal.mean(0.0, end_s) for source, signal in sources.items()},
        {source: float(signal.pieces(0.0, end_s)[1].max()) for source, signal in sources.items()},
        share,
        sources["both"],
        end_s,
    )


def served(hours_w: Floats, load_w: float, rate_w: float) -> float:
    """Return the share of hours in which generation and battery carry the whole of a load.

    The battery begins empty, loses nothing, and goes hour by hour as in the dissertation's
    algorithm 5, corrected; a surplus that it cannot take is lost.
    """
    battery = RareBattery(CAPACITY_WH, load_w, c_rate=rate_w, e_rate=rate_w)
    available = np.array(corrected(battery, hours_w.tolist()).available)
    return float(np.mean(available >= load_w * (1 - 1e-9)))


def served_exactly(both: Signal, end_s: float, load_w: float, rate_w: float) -> float:
    """Return the share of the time in which they carry it, from event to event.

    With simkit's battery and its default controller: the battery is full, empty or at work to the
    instant, and an hour may be carried in part.
    """
    c_rate = rate_w / CAPACITY_WH
    battery = Battery(
        BatteryFacts(
            capacity_kwh=(CAPACITY_WH * HOUR_S) / 3.6e6,
            charge_c_rate=c_rate,
            discharge_c_rate=c_rate,
            initial_soc=0.0,
        )
    )
    controller, short_s = SourceOrder(), 0.0
    starts, values = both.pieces(0.0, end_s)
    ends = [*starts[1:].tolist(), end_s]
    for now, end, power_w in zip(starts.tolist(), ends, values.tolist(), strict=True):
        while now < end:
            charge, discharge = battery.limits()
            state = SiteState(now, power_w, load_w, soc=battery.soc,
                              most_charge_w=charge, most_discharge_w=discharge)  # fmt: skip
            asked = controller.settle(state)
            until = min(end, battery.next_event(asked.battery_w))
            battery.run(asked.battery_w, until)
            short_s += (until - now) * (asked.unserved_w > 1e-9 * load_w)
            now = until
    return 1.0 - short_s / end_s


def sizes(places: list[Curves]) -> str:
    """Return a table of means and peaks."""
    lines = ["| place | solar mean, peak kW | wind mean, peak kW | both mean, peak kW |"]
    lines.append("|---|---:|---:|---:|")
    for place in places:
        cells = [f"{place.mean_w[s] / 1e3:.0f}, {place.peak_w[s] / 1e3:.0f}" for s in place.mean_w]
        lines.append(f"| {place.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def points(places: list[Curves]) -> str:
    """Return a table of shares at the levels of `POINTS_W`, with the distance from the text."""
    names = list(places[0].share)
    lines = [f"| above | place | {' | '.join(names)} | the text, both | both − text |"]
    lines.append(f"|---:|---|{'---:|' * (len(names) + 2)}")
    for level_w, text in POINTS_W.items():
        for place in places:
            shares = " | ".join(f"{place.at(name, level_w):.3f}" for name in names)
            apart = ("–", "–")
            if text is not None:
                apart = f"≥ {text:.2f}", f"{place.at('both', level_w) - text:+.3f}"
            lines.append(
                f"| {level_w / 1e3:.0f} kW | {place.name} | {shares} | {' | '.join(apart)} |"
            )
    return "\n".join(lines)


def exact(places: list[Curves]) -> str:
    """Return a table of the batteries hour by hour and from event to event."""
    lines = [f"| above | place | {' | '.join(f'{n}: hourly, exact' for n in RATES_W)} |"]
    lines.append(f"|---:|---|{'---:|' * len(RATES_W)}")
    for level_w in POINTS_W:
        for place in places:
            cells = [
                f"{place.at(name, level_w):.3f}, "
                f"{served_exactly(place.both, place.end_s, level_w, rate_w):.3f}"
                for name, rate_w in RATES_W.items()
            ]
            lines.append(f"| {level_w / 1e3:.0f} kW | {place.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(places: list[Curves], target: Path) -> None:
    """Draw the curves of places side by side, with the two points of the text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {"svg.hashsalt": "simkit", "svg.fonttype": "none", "axes.grid": True,
             "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#e4e7eb",
             "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]}  # fmt: skip
    looks = {"solar": (4, "-"), "wind": (0, "-"), "both": (2, "-"),
             "both + battery, 100 kW": (3, "--"), "both + battery, 100/h": (3, ":")}  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        for axes, place in zip(figure.subplots(1, len(places), sharey=True), places, strict=True):
            for name, (colour, dash) in looks.items():
                axes.plot(LEVELS_W / 1e3, place.share[name], dash, color=COLOURS[colour],
                          label=name)  # fmt: skip
            told = {level / 1e3: share for level, share in POINTS_W.items() if share is not None}
            axes.plot(list(told), list(told.values()), "^", color="#22272e", linestyle="none",
                      label="both, at least (text)")  # fmt: skip
            axes.set(title=place.name, xlabel="kW", xlim=(0, 720), ylim=(0, 1.02))
        figure.axes[0].set_ylabel("share of the hours")
        figure.axes[0].legend(frameon=False, fontsize=8.5)
        figure.savefig(target, metadata={"Date": None})


def _at_peaks(solar: PowerTrace, wind: PowerTrace) -> SitePower:
    """Scale two traces to the peaks of the figure."""
    return SitePower(
        solar.scaled(PEAKS_W["solar"] / float(solar.value.max())),
        wind.scaled(PEAKS_W["wind"] / float(wind.value.max())),
    )


def main() -> int:
    """Write the page's tables and the picture."""
    folder = Path(sys.argv[1])
    places = [curves(name, read(folder)) for name, read in PLACES.items()]
    parts = {"sizes": sizes(places), "points": points(places), "exact": exact(places)}
    page = HERE / "gleamm-exceedance.md"
    old = page.read_text("utf-8")
    page.write_text(_PART.sub(lambda m: f"{m[1]}\n{parts[m[2]]}\n\n{m[3]}", old), "utf-8")
    draw(places[:2], HERE / "gleamm-exceedance.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The generated year of wind and solar power that comes with simkit."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from .files import written_whole
from .power import SitePower, read_gleamm
from .power_site import Site, generate_site

SAMPLE: Final = "gleamm_like_2019.csv.gz"
SEED: Final = 0


def sample_site_path() -> Path:
    """Return the path of the sample: a time, solar kW and wind kW every ten minutes of a year.

    The times are starts of intervals on the clock UTC-06:00.
    """
    return Path(str(resources.files("simkit.traces.samples").joinpath(SAMPLE)))


def read_sample_site() -> SitePower:
    """Read the sample."""
    return read_gleamm(sample_site_path(), time_zone=Site().time_zone)


def write_sample_site(folder: Path) -> Path:
    """Generate the sample anew into a folder and return its path; needs pvlib."""
    site = Site()
    power = generate_site(rng=np.random.default_rng(SEED), site=site)
    clock = (power.solar.time_s + site.utc_offset_s).astype("datetime64[s]")
    rows = zip(
        np.datetime_as_string(clock, unit="m").tolist(),
        power.solar.value / 1000,
        power.wind.value / 1000,
        strict=True,
    )
    path = folder / SAMPLE
    with written_whole(path) as stream:
        stream.write(b"time,solar_kw,wind_kw\n")
        for time, solar, wind in rows:
            stream.write(f"{time.replace('T', ' ')},{solar:.1f},{wind:.1f}\n".encode())
    return path

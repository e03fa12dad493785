"""What each source of a site could give over a span of time."""

from __future__ import annotations

from simkit.grid import KWH_J
from simkit.site import Site


def generated_by_source(site: Site, start_s: float, end_s: float) -> dict[str, float]:
    """Return what each source could give, used or not; together that is the site's generation.

    The integral of each source's power is exact but for rounding, without any sampling.

    Args:
        site: with its sources.
        start_s: start of the span on the run's clock, finite.
        end_s: its end, not before the start.

    Returns:
        Name of a source -> energy in kWh, in the order of the sources.

    Raises ValueError for a span that is none, TraceError where a source is not known over it.
    """
    return {s.name: s.power.integral(start_s, end_s) / KWH_J for s in site.sources}

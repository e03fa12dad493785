"""What each source of a site gave: integrals of its signal, together the site's generation."""

from __future__ import annotations

import pytest

from simkit.errors import TraceError
from simkit.power.machine_model import PowerModel
from simkit.power.signal import Constant, Steps, Sum
from simkit.power.site import Site, Source
from simkit.units import KWH_J

HOUR = 3600.0
SUN = Steps([0.0, HOUR, 2 * HOUR], [0.0, 3e3, 1e3], 4 * HOUR)


def site(*sources: Source) -> Site:
    return Site(models=(PowerModel.linear(1, 2),), sources=sources)


@pytest.mark.parametrize(
    ("start_h", "end_h", "sun", "wind"),
    [
        (0, 4, 3 + 2 * 1, 4 * 2),  # all of it
        (0.5, 1.5, 1.5, 2),  # a part of two steps
        (1, 1, 0, 0),  # no time
    ],
)
def test_each_source_by_its_name(start_h, end_h, sun, wind):
    both = site(Source("sun", SUN), Source("wind", Constant(2e3)))
    found = both.generation_kwh(start_h * HOUR, end_h * HOUR)
    assert found == {"sun": sun, "wind": wind}
    total = Sum([SUN, Constant(2e3)]).integral(start_h * HOUR, end_h * HOUR) / KWH_J
    assert sum(found.values()) == pytest.approx(total, rel=1e-15)


def test_no_sources_give_nothing_and_no_source_gives_past_its_end():
    assert site().generation_kwh(0.0, HOUR) == {}
    with pytest.raises(TraceError):
        site(Source("sun", SUN)).generation_kwh(0.0, 5 * HOUR)
    with pytest.raises(ValueError, match="finite and ascending"):
        site(Source("sun", SUN)).generation_kwh(HOUR, 0.0)

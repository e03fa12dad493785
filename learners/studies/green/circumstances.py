"""Circumstances in which agents and rules of a ready pool are trained and tested.

The setting of the dissertation on power-modulated datacenters (University of Virginia, 2023),
chapters 5 to 7, with an exact load where it leaves the load open; see `simkit.traces.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from simkit.scenario import Scenario

__all__ = ["Circumstances", "Late", "Power"]

Late = Literal["stay", "leave"]
Power = Literal["full", "90", "80", "wind-sun"]
"""Full power; 90 % (80 %) of it in 90 % (80 %) of the hours; or wind and sun alone."""

_UNIT_W: Final = 100.0
"""Power of a busy processor with its GPU; idle ones draw nothing."""
_HOURLY: Final[Mapping[str, Any]] = {"step": "1h"}
_JOBS_AN_HOUR: Final = 0.45
"""Upper bound at a load of 1, when jobs take a quarter of the pool: streams must not run out."""


@dataclass(frozen=True)
class Circumstances:
    """A pool, its jobs and its power; by default late jobs leave and the load is 120 %."""

    load: float = 1.2
    """Offered load, relative to the whole pool with all of its power."""
    ready: int = 15
    """Places in the ready pool."""
    late: Late = "leave"
    """Whether jobs that can no longer end in time leave."""
    power: Power = "full"
    """Power that is available to the pool."""
    units: int = 10
    """Processors, and as many GPUs."""
    max_start: int = 0
    """The last hour ahead in which a job may start."""
    hours: int = 2000
    """Length of a stream."""
    zero: str = "2019-01-01T00:00:00-06:00"
    """Time in the weather data at which a stream begins."""

    def scenario(
        self, name: str, *, seed: int = 0, learn: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> Scenario:  # fmt: skip
        """Return a scenario of these circumstances."""
        data: dict[str, Any] = {
            "name": name, "seed": seed,
            "workload": {
                "type": "rare", "units": self.units, "offered_load": self.load,
                "jobs": max(round(self.load * _JOBS_AN_HOUR * self.hours), 20),
            },
            "value": {},
            "estimates": "actual",
            "cluster": {
                "machines": [{"count": 1, "processors": self.units, "gpu": self.units}]
            },
            "scheduling": {"step": "1h"},
            "admission": {"slots": self.ready, "backlog": 144, "late": self.late},
        }  # fmt: skip
        sections = {"learn": learn, "policy": policy, "power": self._power()}
        data |= {key: dict(section) for key, section in sections.items() if section is not None}
        return Scenario.model_validate(data)

    def _power(self) -> dict[str, Any] | None:
        if self.power == "full":
            return None
        whole = self.units * _UNIT_W
        sources: dict[str, Any]
        if self.power == "wind-sun":
            sources = {
                name: {
                    "signal": {
                        "type": "means", **_HOURLY,
                        "signal": {"type": "gleamm-sample", "part": part},
                    },
                    "times_load": share,
                }
                for name, part, share in (("sun", "solar", 0.18), ("wind", "wind", 0.72))
            }  # fmt: skip
        else:
            share = int(self.power) / 100
            levels = {"high_w": whole, "low_w": share * whole, "high_share": 1 - share}
            sources = {"supply": {"signal": {"type": "levels", **levels, **_HOURLY}}}
        return {
            "machines": {"idle_w": 0, "full_w": _UNIT_W},
            "align": {"zero": self.zero},
            "sources": sources,
            "supply": {"limit": "power"},
            "forecast": {"type": "perfect", "horizon": "48h", **_HOURLY},
        }

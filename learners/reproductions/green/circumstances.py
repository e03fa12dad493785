"""Where agents and rules of a ready pool are trained and judged: load, pools, power and size.

The setting of the dissertation on power-modulated datacenters (University of Virginia, 2023),
chapters 5 to 7, with the load that it leaves open made exact; see `simkit.traces.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from simkit.scenario import Scenario

__all__ = ["Circumstances", "Late", "Power"]

Late = Literal["stay", "leave"]
Power = Literal["full", "90", "80", "wind-sun"]
"""All of it; so many percent of it in as many percent of the hours; or wind and sun alone."""

_UNIT_W: Final = 100.0
"""What a processor with its GPU draws when busy; idle ones draw nothing."""
_HOURLY: Final[Mapping[str, Any]] = {"step": "1h"}
_JOBS_AN_HOUR: Final = 0.45
"""At a load of 1 at most, with jobs of a quarter of the pool; a stream must not end too soon."""


@dataclass(frozen=True)
class Circumstances:
    """A pool, its jobs and its power; by default that in which late jobs leave, at 120 %."""

    load: float = 1.2
    """Offered load, relative to the whole pool with all of its power."""
    ready: int = 15
    """Places of the ready pool."""
    late: Late = "leave"
    """Whether jobs that can no longer end in time leave."""
    power: Power = "full"
    """What the pool has power for."""
    units: int = 10
    """Processors, and as many GPUs."""
    max_start: int = 0
    """The last hour ahead in which a job may start."""
    hours: int = 2000
    """Of a stream."""
    zero: str = "2019-01-01T00:00:00-06:00"
    """Of the weather, when a stream begins."""

    def scenario(
        self, name: str, *, seed: int = 0, learn: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> Scenario:  # fmt: skip
        """Return it as a scenario."""
        told: dict[str, Any] = {
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
        told |= {key: dict(section) for key, section in sections.items() if section is not None}
        return Scenario.model_validate(told)

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

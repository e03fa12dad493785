"""simkit: trace-driven simulation of schedulers.

    import simkit

    run = simkit.simulate("scenario.yaml")
    run.jobs          # a polars frame; .to_pandas() for pandas
    run.metrics       # every number with its unit and formula

What is named here is imported when it is first used, so that ``import simkit`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.api import simulate as simulate
    from simkit.battery_facts import BatteryFacts as BatteryFacts
    from simkit.cluster import Cluster as Cluster
    from simkit.compare import compare_runs as compare_runs
    from simkit.errors import SimkitError as SimkitError
    from simkit.experiment import carry_out as carry_out
    from simkit.experiment import prepare as prepare
    from simkit.grid import Grid as Grid
    from simkit.plot import plot_compare as plot_compare
    from simkit.plot import plot_run as plot_run
    from simkit.policy import Place as Place
    from simkit.policy import Policy as Policy
    from simkit.policy import State as State
    from simkit.policy_bases import OrderedPolicy as OrderedPolicy
    from simkit.policy_checker import check_policy as check_policy
    from simkit.power_model import PowerModel as PowerModel
    from simkit.run_folder import Run as Run
    from simkit.run_folder import open_run as open_run
    from simkit.scenario import Scenario as Scenario
    from simkit.scenario_file import load_scenario as load_scenario
    from simkit.simulation import Rules as Rules
    from simkit.simulation import Simulation as Simulation
    from simkit.site import Site as Site
    from simkit.site import Source as Source
    from simkit.site import Supply as Supply
    from simkit.sweep import run_sweep as run_sweep
    from simkit.task import Task as Task
    from simkit.value_bound import bound_of_run as bound_of_run
    from simkit.verify import verify_run as verify_run
    from simkit.workload import Trace as Trace
    from simkit.workload import Workload as Workload

_PLACES = {
    "simulate": "api",
    "BatteryFacts": "battery_facts",
    "Cluster": "cluster",
    "compare_runs": "compare",
    "SimkitError": "errors",
    "carry_out": "experiment",
    "prepare": "experiment",
    "plot_compare": "plot",
    "plot_run": "plot",
    "Grid": "grid",
    "Place": "policy",
    "Policy": "policy",
    "State": "policy",
    "OrderedPolicy": "policy_bases",
    "check_policy": "policy_checker",
    "PowerModel": "power_model",
    "Run": "run_folder",
    "open_run": "run_folder",
    "Scenario": "scenario",
    "load_scenario": "scenario_file",
    "Rules": "simulation",
    "Simulation": "simulation",
    "Site": "site",
    "Source": "site",
    "Supply": "site",
    "run_sweep": "sweep",
    "Task": "task",
    "bound_of_run": "value_bound",
    "verify_run": "verify",
    "Trace": "workload",
    "Workload": "workload",
}
"""Public name → the module that defines it."""

__all__ = sorted(["__version__", *_PLACES])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("simkit-cluster")
    try:
        place = _PLACES[name]
    except KeyError:
        raise AttributeError(f"module 'simkit' has no attribute {name!r}") from None
    value = getattr(import_module(f"simkit.{place}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

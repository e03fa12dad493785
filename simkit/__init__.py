"""simkit: trace-driven simulation of schedulers.

    import simkit

    run = simkit.simulate("scenario.yaml")
    run.jobs          # a polars frame; .to_pandas() for pandas
    run.metrics       # every number with its unit and formula

Public names are imported when they are first used, so that ``import simkit`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.analysis.compare import compare_runs as compare_runs
    from simkit.analysis.plot import plot_compare as plot_compare
    from simkit.analysis.plot import plot_run as plot_run
    from simkit.analysis.plot_sweep import plot_sweep as plot_sweep
    from simkit.analysis.summary import summarise as summarise
    from simkit.analysis.time_bound import bounds_of as bounds_of
    from simkit.analysis.value_bound import bound_of_run as bound_of_run
    from simkit.engine.simulation import Simulation as Simulation
    from simkit.errors import SimkitError as SimkitError
    from simkit.errors import SimkitWarning as SimkitWarning
    from simkit.experiment import carry_out as carry_out
    from simkit.experiment import prepare as prepare
    from simkit.experiment.api import simulate as simulate
    from simkit.experiment.check_policy import check_policy as check_policy
    from simkit.experiment.sweep import run_sweep as run_sweep
    from simkit.policy import Place as Place
    from simkit.policy import Policy as Policy
    from simkit.policy import State as State
    from simkit.policy.ordered import OrderedPolicy as OrderedPolicy
    from simkit.policy.task import Task as Task
    from simkit.power.facts import BatteryFacts as BatteryFacts
    from simkit.power.facts import Supply as Supply
    from simkit.power.machine_model import PowerModel as PowerModel
    from simkit.power.site import Grid as Grid
    from simkit.power.site import Site as Site
    from simkit.power.site import Source as Source
    from simkit.results.run_folder import Run as Run
    from simkit.results.run_folder import open_run as open_run
    from simkit.rules import Rules as Rules
    from simkit.scenario import Scenario as Scenario
    from simkit.scenario.yaml_document import load_scenario as load_scenario
    from simkit.training.train import open_training as open_training
    from simkit.verify import verify_run as verify_run
    from simkit.why.jobs import explain as explain
    from simkit.why.jobs import explain_jobs as explain_jobs
    from simkit.why.summary import explain_summary as explain_summary
    from simkit.workload import Trace as Trace
    from simkit.workload import Workload as Workload
    from simkit.workload.cluster import Cluster as Cluster

_NAMES = {
    "analysis.compare": "compare_runs",
    "analysis.plot": "plot_compare plot_run",
    "analysis.plot_sweep": "plot_sweep",
    "analysis.summary": "summarise",
    "analysis.time_bound": "bounds_of",
    "analysis.value_bound": "bound_of_run",
    "engine.simulation": "Simulation",
    "rules": "Rules",
    "errors": "SimkitError SimkitWarning",
    "experiment": "carry_out prepare",
    "experiment.api": "simulate",
    "experiment.check_policy": "check_policy",
    "experiment.sweep": "run_sweep",
    "why.jobs": "explain explain_jobs",
    "why.summary": "explain_summary",
    "policy": "Place Policy State",
    "policy.ordered": "OrderedPolicy",
    "policy.task": "Task",
    "power.facts": "BatteryFacts Supply",
    "power.machine_model": "PowerModel",
    "power.site": "Grid Site Source",
    "results.run_folder": "Run open_run",
    "scenario": "Scenario",
    "training.train": "open_training",
    "scenario.yaml_document": "load_scenario",
    "verify": "verify_run",
    "workload": "Trace Workload",
    "workload.cluster": "Cluster",
}
"""Module → its public names."""
__all__ = sorted(["__version__", *" ".join(_NAMES.values()).split()])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("simkit-cluster")
    from simkit.plugins import public_name

    return public_name(globals(), _NAMES, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

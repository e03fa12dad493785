"""Experiments: a scenario made into workload, machines and policy, run, measured and written.

experiment = prepare(load_scenario("scenario.yaml"))
run = carry_out(experiment, output="runs/mine")
"""

from simkit.experiment.experiment import (
    Experiment,
    Watch,
    blaming,
    carry_out,
    compiles_first,
    prepare,
    replay,
)

__all__ = ["Experiment", "Watch", "blaming", "carry_out", "compiles_first", "prepare", "replay"]

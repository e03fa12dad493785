"""The ids under which `gymnasium.make` finds simkit's environments.

`import simkit.env` makes them known, and so does the module before the id:
``gymnasium.make("simkit.env:simkit/DeepRM-v0")``. Some versions of gymnasium look for the entry
point `register_envs` in the group ``gymnasium.envs`` when they are imported; 1.4 does not.
"""

from __future__ import annotations

ENVS = {
    "simkit/DeepRM-v0": {"scenario": "deeprm"},
    "simkit/Scheduling-v0": {"scenario": "quickstart", "observation": "queue-table"},
}
"""Id → arguments of `SchedulingEnv`, which `gymnasium.make` may replace or add to."""


def register_envs() -> None:
    """Make the ids known to gymnasium; those that are known already stay."""
    from gymnasium.envs.registration import register, registry

    for name, arguments in ENVS.items():
        if name not in registry:
            register(name, "simkit.env:SchedulingEnv", kwargs=dict(arguments))

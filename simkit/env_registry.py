"""The ids under which `gymnasium.make` finds simkit's environments.

`register_envs` is an entry point of the group ``gymnasium.envs``: where simkit is installed, the
ids are known as soon as gymnasium is imported.
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

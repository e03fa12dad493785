"""Finds policies that were made for another cluster, before the run begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from simkit.cluster import Cluster
from simkit.policy import Policy, SystemInfo


@runtime_checkable
class ClusterChecker(Protocol):
    """A policy that runs on some clusters only, and says beforehand what is wrong with one."""

    def check_cluster(self, info: SystemInfo) -> Iterable[str]:
        """Return problems, each with its remedy; none: the run may begin."""


def cluster_problems(policy: Policy, cluster: Cluster) -> list[str]:
    """Return what a policy finds wrong with a cluster; one without `check_cluster` nothing."""
    if not isinstance(policy, ClusterChecker):
        return []
    info = SystemInfo(
        cluster.resources, cluster.machine_names, cluster.capacity.copy(), cluster.partitions
    )
    return list(policy.check_cluster(info))

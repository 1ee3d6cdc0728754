"""What a node's next report says that its last one did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numakube.topology.topology_view import NodeTopology


def may_take_more(before: NodeTopology | None, after: NodeTopology | None) -> bool:
    """Tell whether a kubelet that rejected a pod under *before* may admit it under *after*.

    Its configuration differs, a zone has more free, or a pod that held something is gone.
    """
    if before is after or after is None:
        return False
    return (
        before is None
        or configuration_of(before) != configuration_of(after)
        or _more_is_free(before, after)
        or _a_pod_left(before, after)
    )


def configuration_of(topology: NodeTopology | None) -> tuple[object, ...]:
    """Return what a kubelet's decisions depend on besides what pods hold."""
    if topology is None:
        return ()
    exact = topology.report
    return (
        [zone.id for zone in topology.zones],
        topology.policy,
        topology.scope,
        topology.max_numa_nodes,
        topology.topology_options,
        topology.cpu_manager_policy,
        topology.cpu_manager_options,
        topology.memory_manager_policy,
        None if exact is None else exact.settings,
    )


def _more_is_free(before: NodeTopology, after: NodeTopology) -> bool:
    zones = zip(before.zones, after.zones, strict=True)
    return any(
        amount > old.available.get(name, 0)
        for old, new in zones
        for name, amount in new.available.items()
    )


def _a_pod_left(before: NodeTopology, after: NodeTopology) -> bool:
    """Tell whether a pod holds nothing any more; equal counts may hide other CPUs."""
    if before.report is None or after.report is None:
        return False
    return bool(before.report.pods.keys() - after.report.pods.keys())

"""What is known of a node, from its own object, its NRT and its Device.

Any producer of NRTs will do; koordlet and our exporter tell where the CPUs are, so that some can be
bound. What cannot be read is told in `NodeFacts.problems` and counts as not said.

Where a Topology Manager is at work nothing is allotted, so the exact report, which the kubelet
model reads there, is left alone: facts of such a node do not change with every pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.facts import NodeFacts
from numakube.allotment.node_cpus import (
    cpu_layout_of,
    kept_by_kubelet,
    kept_by_owner,
    kept_in_report,
)
from numakube.allotment.node_devices import devices_of
from numakube.allotment.node_labels import NodeLabels, read_labels, read_ratios
from numakube.allotment.node_zones import zones_of
from numakube.allotment.spelling import label
from numakube.allotment.words import BindPolicy
from numakube.api.koordinator import keys
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.allotment.facts import CpuLayout
    from numakube.api.koordinator.devices import DeviceCr
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.topology.exact import ExactReport
    from numakube.topology.view import NodeTopology


def facts_of(
    node: Node,
    nrt: NodeResourceTopology | None,
    view: NodeTopology | None,
    device: DeviceCr | None,
) -> NodeFacts:
    """Return what is known of *node*.

    Args:
        node: the node.
        nrt: its NodeResourceTopology, if there is one.
        view: what that says, if it can be used.
        device: its Device, if there is one.
    """
    name = node.metadata.name
    of_node, of_nrt, of_device = list[str](), list[str](), list[str]()
    told = nrt.metadata.annotations if nrt is not None else {}
    labels = read_labels(node.metadata.labels, of_node)
    policy = view.policy if view is not None else TopologyPolicy.NONE
    scope = view.scope if view is not None else TopologyScope.CONTAINER
    report = view.report if view is not None and not policy.aligns else None
    layout = cpu_layout_of(told, report, of_nrt)
    of_node += _overruled(labels, policy, scope)
    return NodeFacts(
        node=name,
        zones=zones_of(view, layout, report, node) if view is not None else {},
        cpus=layout,
        reserved_cpus=_kept_from_nrt(told, report, layout, of_nrt)
        | kept_by_owner(
            node.metadata.annotations,
            # koordlet picks CPUs for a reservation that lists none, and writes them on the NRT.
            None if keys.NODE_RESERVATION in told else layout,
            of_node,
        ),
        kubelet_policy=policy,
        kubelet_scope=scope,
        label_policy=labels.policy,
        label_scope=labels.scope,
        bind_policy=labels.bind or _kubelet_binding(view),
        binds_all=labels.bind is not BindPolicy.NONE,
        strategy=labels.strategy,
        ratios=read_ratios(told, of_nrt) or read_ratios(node.metadata.annotations, of_node),
        devices=devices_of(device, of_device) if device is not None else (),
        problems=(
            *(f"Node {name}: {one}" for one in of_node),
            *(f"NodeResourceTopology {name}: {one}" for one in of_nrt),
            *(f"Device {name}: {one}" for one in of_device),
        ),
    )


def _kept_from_nrt(
    annotations: Mapping[str, str],
    report: ExactReport | None,
    layout: CpuLayout | None,
    problems: list[str],
) -> int:
    kept = kept_by_owner(annotations, layout, problems) | kept_by_kubelet(annotations, problems)
    return kept | kept_in_report(report) if report is not None else kept


def _kubelet_binding(view: NodeTopology | None) -> BindPolicy:
    """Return how CPUs are bound because the kubelet gives out whole cores only."""
    if view is None or view.cpu_manager_policy != "static":
        return BindPolicy.NONE
    whole_cores = view.cpu_manager_options.get("full-pcpus-only") == "true"
    return BindPolicy.FULL_PCPUS if whole_cores else BindPolicy.NONE


def _overruled(labels: NodeLabels, policy: TopologyPolicy, scope: TopologyScope) -> Iterator[str]:
    """Yield the labels that say otherwise than a Topology Manager that is at work."""
    if not policy.aligns:
        return
    if labels.policy.aligns and labels.policy is not policy:
        yield (
            f"{label(keys.NODE_POLICY)}: {labels.policy.api_name} does not count, "
            f"because the kubelet aligns by {policy.api_name}"
        )
    if labels.scope and labels.scope is not scope:
        yield (
            f"{label(keys.NODE_SCOPE)}: {labels.scope} does not count, "
            f"because the kubelet aligns by {scope}"
        )

"""Usage as JSON, described in docs/reference/top.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.insight.usage.zone_usage import by_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.insight.usage.close_pairs import ClosePairs
    from numakube.insight.usage.largest_pod import PodShape
    from numakube.insight.usage.namespace_usage import NamespaceUsage
    from numakube.insight.usage.pod_alignment import PodUsage
    from numakube.insight.usage.zone_usage import NodeUsage, ZoneUsage

API_VERSION: Final = "insight.numakube.dev/v1alpha1"


def nodes_document(
    nodes: Iterable[NodeUsage], total: NodeUsage, *, counts_fits: bool = False
) -> dict[str, Any]:
    """Return the usage of nodes, and of all of them together."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeUsageList",
        "items": [_node(node) | _fits(node, counts_fits=counts_fits) for node in nodes],
        "total": _amounts(total) | _largest(total) | _fits(total, counts_fits=counts_fits),
    }


def groups_document(
    groups: Iterable[NodeUsage], total: NodeUsage, label: str, *, counts_fits: bool = False
) -> dict[str, Any]:
    """Return the usage of groups of nodes, which have the same value of *label*."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeGroupUsageList",
        "label": label,
        "items": [
            {"group": group.node, **_group(group), **_fits(group, counts_fits=counts_fits)}
            for group in groups
        ],
        "total": _group(total) | _fits(total, counts_fits=counts_fits),
    }


def _group(group: NodeUsage) -> dict[str, Any]:
    return {"nodes": group.nodes, "zones": group.zones, **_amounts(group), **_largest(group)}


def zones_document(zones: Iterable[ZoneUsage]) -> dict[str, Any]:
    """Return the usage of zones."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ZoneUsageList",
        "items": [
            {
                "node": zone.node,
                "zone": zone.zone,
                "within": list(zone.within),
                **_amounts(zone),
                "exclusiveCPUs": zone.cpus,
                **_largest(zone),
            }
            for zone in zones
        ],
    }


def pods_document(pods: Iterable[PodUsage]) -> dict[str, Any]:
    """Return the usage of pods."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodUsageList",
        "items": [_pod(pod) for pod in pods],
    }


def namespaces_document(namespaces: Iterable[NamespaceUsage]) -> dict[str, Any]:
    """Return what each namespace holds and strands."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NamespaceUsageList",
        "items": [
            {
                "namespace": usage.namespace,
                "pods": usage.pods,
                "exclusiveCPUs": usage.cpus,
                "memory": dict(usage.memory),
                "devices": dict(usage.devices),
                "aligned": usage.aligned,
                "spread": usage.spread,
                "unknown": usage.unknown,
                "strands": by_name(usage.strands),
            }
            for usage in namespaces
        ],
    }


def _node(node: NodeUsage) -> dict[str, Any]:
    document: dict[str, Any] = {"node": node.node}
    if node.troubles:
        document["troubles"] = list(node.troubles)
    if node.why_unknown:
        return document | {"whyUnknown": node.why_unknown}
    document |= {
        "topologyManagerPolicy": node.policy,
        "zones": node.zones,
        "exact": node.exact,
    }
    if node.stale:
        document["stale"] = node.stale
    return document | {
        "podsNotReported": node.pending,
        **_amounts(node),
        **_largest(node),
        "fragmentation": {name: round(share, 4) for name, share in node.fragmentation.items()},
    }


def _amounts(usage: NodeUsage | ZoneUsage) -> dict[str, Any]:
    return {
        "allocatable": by_name(usage.allocatable),
        "used": by_name(usage.used),
        "free": by_name(usage.free),
        "stranded": by_name(usage.stranded),
        **({"closePairs": list(map(_pairs, usage.pairs))} if usage.pairs else {}),
    }


def _pairs(pairs: ClosePairs) -> dict[str, Any]:
    best = {} if pairs.best is None else {"best": pairs.best.name}
    return {"resources": list(pairs.resources), "total": pairs.total, "free": pairs.free, **best}


def _largest(usage: NodeUsage | ZoneUsage) -> dict[str, Any]:
    return {
        "largest": _shape(usage.largest),
        "largestWith": {name: _shape(shape) for name, shape in usage.with_devices.items()},
    }


def _fits(usage: NodeUsage, *, counts_fits: bool) -> dict[str, int | None]:
    return {"fits": usage.fits} if counts_fits else {}


def _shape(shape: PodShape) -> dict[str, int]:
    return {"cpus": shape.cpus, "memory": shape.memory_bytes, **shape.devices}


def _pod(pod: PodUsage) -> dict[str, Any]:
    document: dict[str, Any] = {"namespace": pod.namespace, "name": pod.name}
    if pod.node:
        document["node"] = pod.node
    document["alignment"] = str(pod.alignment)
    if pod.why_unknown:
        document["whyUnknown"] = pod.why_unknown
    return document | {
        "zones": list(pod.zones),
        "cpus": str(pod.cpus),
        "memory": dict(pod.memory),
        "devices": dict(pod.devices),
        "containers": dict(pod.containers),
        **({"closeness": pod.closeness} if pod.closeness else {}),
    }

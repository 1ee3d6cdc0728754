"""Reports and objects for tests of the exporter's process."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from numakube.apps.exporter.report import Report
from numakube.apps.exporter.report_options import ALL_PODS
from numakube.topology import nrt_names

NODE = "worker-0"


def zone(number: int = 0, *, free: int = 8) -> Zone:
    """Return a zone with eight CPUs."""
    cpus = ZoneResource(name="cpu", capacity="8", allocatable="8", available=str(free))
    costs = (Cost(name=f"node-{number}", value=10),)
    return Zone(name=f"node-{number}", type="Node", costs=costs, resources=(cpus,))


def topology(
    *,
    free: int = 8,
    policy: str = "single-numa-node",
    cause: str = "reactive",
    annotations: dict[str, str] | None = None,
    owner: str = "",
    **fields: Any,
) -> NodeResourceTopology:
    """Return an object of one zone."""
    reference = OwnerReference(api_version="v1", kind="Node", name=NODE, uid=owner)
    return NodeResourceTopology(
        metadata=ObjectMeta(
            name=NODE,
            annotations={nrt_names.RTE_UPDATE_ANNOTATION: cause, **(annotations or {})},
            owner_references=(reference,) if owner else (),
        ),
        attributes=(Attribute(name=nrt_names.TOPOLOGY_POLICY, value=policy),),
        zones=(zone(free=free),),
        **fields,
    )


def report(*, free: int = 8, cause: str = "reactive", **annotations: str) -> Report:
    """Return a report of one zone."""
    return Report(
        zones=(zone(free=free),),
        attributes=(Attribute(name=nrt_names.TOPOLOGY_POLICY, value="restricted"),),
        annotations=MappingProxyType({nrt_names.RTE_UPDATE_ANNOTATION: cause, **annotations}),
        fingerprints=MappingProxyType({ALL_PODS: "pfp0v001ef46db3751d8e999"}),
        method=ALL_PODS,
        pods=(),
        problems=(),
    )

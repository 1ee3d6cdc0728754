"""One canonical view of a node's topology, for NodeResourceTopologies of any producer.

    match view_of(nrt):
        case NodeTopology() as node: ...      # zones by NUMA id, the kubelet's configuration
        case Unusable(reason): ...            # the node is then one without data

Reading never raises. What is odd but can be passed over is listed in ``problems``; what is missing
has the kubelet's default; and nothing is guessed in a pod's favour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import attribute_value
from numakube.errors import InvalidValue
from numakube.topology import koordlet, nrt_names
from numakube.topology.exact_report import BadReport, Heartbeat
from numakube.topology.kubelet_attributes import DEFAULT_MAX_NUMA_NODES, kubelet_config
from numakube.topology.numa_zones import Unusable, ZoneView, numa_zones, other_parts
from numakube.topology.pci_places import read_places
from numakube.topology.report_codec import belongs_to, decode_report
from numakube.values.safe_text import reason_of
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.numa_zones import MachinePart
    from numakube.topology.pci_places import PciPlaces

__all__ = [
    "UNKNOWN", "FingerprintMethod", "NodeTopology", "Producer", "Unusable", "ZoneView", "view_of",
]  # fmt: skip


UNKNOWN: Final = "unknown"
"""Shown to people in place of an unknown policy."""


class Producer(StrEnum):
    """Who wrote an NRT, as far as it shows."""

    NUMAKUBE = "numakube"
    RTE = "rte"
    NFD = "nfd"
    KOORDLET = "koordlet"
    NRI_PLUGINS = "nri-plugins"
    VOLCANO = "volcano"
    UNKNOWN = "unknown"


class FingerprintMethod(StrEnum):
    """Which pods a fingerprint is of."""

    ALL = "all"
    WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """What scheduling knows of one node.

    Attributes:
        zones: NUMA nodes by ascending id; ids may have holes.
        parts: the hierarchy of the machine; empty if the producer tells none.
        policy: the Topology Manager's; so is ``scope``.
        topology_options: options of the Topology Manager, as far as they were told.
        cpu_manager_policy: ``none`` or ``static``; ``None`` if not told.
        memory_manager_policy: ``None`` or ``Static`` as texts; the value ``None`` if not told.
        fingerprint: of the pods that the zones account for; ``None`` if there is none.
        fingerprint_method: which pods; unset means all.
        stale_reason: why the producer itself says that its data is old.
        live: whether ``available`` follows the pods on the node; koordlet's never changes.
        report: the exact report, if there is one and it can be read.
        pci: on which NUMA nodes PCI functions are, if that was told.
        why_inexact: why there is no exact report, if there should be one.
        overwritten: whether another producer has written the zones since our exporter did, so that
            its exact report is not used.
        exporter: the pod, ``namespace/name``, in which the exporter runs that wrote it; empty if it
            does not say.
        orphaned: why nobody keeps it up to date any more. No report says so: it follows from the
            pods of the node (`numakube.topology.exporter_presence`).
        policy_unknown: why the producer does not know the kubelet's policies; they then read as the
            kubelet's defaults here, but `known_policy` does not.
        state_trouble: why the kubelet's state files will keep it from starting again, if so.
        heartbeat: how long the producer is silent while nothing surprises it; ``None`` if it
            reports every change.
        problems: what was passed over, and why.
    """

    node: str
    zones: tuple[ZoneView, ...]
    parts: tuple[MachinePart, ...] = ()
    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES
    topology_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cpu_manager_policy: str | None = None
    cpu_manager_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    memory_manager_policy: str | None = None
    fingerprint: str | None = None
    fingerprint_method: FingerprintMethod = FingerprintMethod.ALL
    stale_reason: str | None = None
    live: bool = True
    report: ExactReport | None = None
    pci: PciPlaces | None = None
    why_inexact: str = ""
    overwritten: bool = False
    exporter: str = ""
    orphaned: str = ""
    policy_unknown: str = ""
    state_trouble: str = ""
    heartbeat: Heartbeat | None = None
    producer: Producer = Producer.UNKNOWN
    resource_version: str = ""
    generation: int = 0
    problems: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether the producer says that its data is old."""
        return self.stale_reason is not None

    @property
    def why_old(self) -> str:
        """Why what it says may be old; empty if nothing speaks for that."""
        return self.stale_reason or self.orphaned

    @property
    def known_policy(self) -> str:
        """The policy for people to read: ``unknown`` if it is not known."""
        return UNKNOWN if self.policy_unknown else self.policy.value

    def zone(self, numa_id: int) -> ZoneView | None:
        """Return the zone of a NUMA node; ``None`` if there is none."""
        return next((zone for zone in self.zones if zone.id == numa_id), None)


def view_of(nrt: NodeResourceTopology) -> NodeTopology | Unusable:
    """Return what *nrt* says of its node, or why it cannot be used."""
    try:
        return _view_of(nrt)
    except Exception as error:
        # Whatever unexpected content it has, only its own node may suffer.
        return Unusable(f"it cannot be read: {reason_of(error)}")


def _view_of(nrt: NodeResourceTopology) -> NodeTopology | Unusable:
    if not nrt.metadata.name:
        return Unusable("the object has no name, so its node is not known")
    problems: list[str] = []
    zones = numa_zones(nrt.zones, problems)
    if isinstance(zones, Unusable):
        return zones
    config = kubelet_config(nrt, problems)
    fingerprint, method = _fingerprint(nrt, problems)
    producer, report = producer_of(nrt), _report(nrt, problems)
    why_inexact = nrt.metadata.annotations.get(nrt_names.INEXACT_ANNOTATION, "")
    heartbeat = _heartbeat(nrt, problems)
    overwritten = report is not None and not belongs_to(report, nrt)
    if overwritten:
        producer, report, heartbeat = _overwriter_of(nrt), None, None
        why_inexact = _overwritten_by(producer)
    return NodeTopology(
        node=nrt.metadata.name,
        zones=zones,
        parts=_parts(nrt, zones),
        policy=config.policy,
        scope=config.scope,
        max_numa_nodes=config.max_numa_nodes,
        topology_options=config.topology_options,
        cpu_manager_policy=config.cpu_policy,
        cpu_manager_options=config.cpu_options,
        memory_manager_policy=config.memory_policy,
        fingerprint=fingerprint,
        fingerprint_method=method,
        stale_reason=attribute_value(nrt.attributes, nrt_names.STALE),
        live=producer is not Producer.KOORDLET,
        report=report,
        pci=_pci(nrt, problems),
        why_inexact=why_inexact,
        overwritten=overwritten,
        exporter="" if overwritten else attribute_value(nrt.attributes, nrt_names.EXPORTER) or "",
        policy_unknown=attribute_value(nrt.attributes, nrt_names.POLICY_UNKNOWN) or "",
        state_trouble=_state_trouble(nrt),
        heartbeat=heartbeat,
        producer=producer,
        resource_version=nrt.metadata.resource_version,
        generation=nrt.metadata.generation,
        problems=tuple(problems),
    )


def producer_of(nrt: NodeResourceTopology) -> Producer:
    """Return who probably wrote *nrt*; every producer leaves marks of its own."""
    meta = nrt.metadata
    if nrt_names.NUMATOPOLOGY_ANNOTATION in meta.annotations:
        return Producer.VOLCANO
    ours = (*meta.annotations, *(attribute.name for attribute in nrt.attributes))
    if any(name.startswith(nrt_names.OUR_PREFIX) for name in ours):
        return Producer.NUMAKUBE
    if nrt_names.RTE_UPDATE_ANNOTATION in meta.annotations:
        return Producer.RTE
    if attribute_value(nrt.attributes, nrt_names.NRI_POLICY) is not None:
        return Producer.NRI_PLUGINS
    if koordlet.is_written_by_koordlet(meta):
        return Producer.KOORDLET
    # Only NFD writes both the deprecated field and the attribute that replaced it.
    attributed = attribute_value(nrt.attributes, nrt_names.TOPOLOGY_POLICY) is not None
    if nrt.topology_policies and attributed:
        return Producer.NFD
    return Producer.UNKNOWN


def _overwriter_of(nrt: NodeResourceTopology) -> Producer:
    """Return who probably wrote *nrt* after our exporter, whose marks are still on it.

    RTE's mark comes last, because our exporter leaves it, too. The deprecated field is never ours.
    """
    if nrt.topology_policies:
        return Producer.KOORDLET if koordlet.is_labelled(nrt.metadata) else Producer.NFD
    if attribute_value(nrt.attributes, nrt_names.NRI_POLICY) is not None:
        return Producer.NRI_PLUGINS
    if nrt_names.RTE_UPDATE_ANNOTATION in nrt.metadata.annotations:
        return Producer.RTE
    return Producer.UNKNOWN


def _overwritten_by(producer: Producer) -> str:
    who = "another program" if producer is Producer.UNKNOWN else f"{producer}, it seems,"
    return f"{who} has written the zones since numakube's exporter did; its exact data is not used"


def _parts(nrt: NodeResourceTopology, zones: tuple[ZoneView, ...]) -> tuple[MachinePart, ...]:
    return other_parts(nrt.zones, zones) or koordlet.parts_of(nrt.metadata.annotations, zones)


def _state_trouble(nrt: NodeResourceTopology) -> str:
    """Return what the exporter says of state files, while the kubelet runs or since it is away."""
    stale = attribute_value(nrt.attributes, nrt_names.STALE) or ""
    if stale.startswith(nrt_names.WILL_NOT_START):
        return stale.removeprefix(nrt_names.WILL_NOT_START)
    return attribute_value(nrt.attributes, nrt_names.STATE_TROUBLE) or ""


def _report(nrt: NodeResourceTopology, problems: list[str]) -> ExactReport | None:
    text = nrt.metadata.annotations.get(nrt_names.EXACT_ANNOTATION)
    if text is None:
        return None
    report = decode_report(text)
    if isinstance(report, BadReport):
        problems.append(f"annotation {nrt_names.EXACT_ANNOTATION} ignored: {report.reason}")
        return None
    return report


def _heartbeat(nrt: NodeResourceTopology, problems: list[str]) -> Heartbeat | None:
    text = nrt.metadata.annotations.get(nrt_names.SURPRISES_ANNOTATION)
    if text is None:
        return None
    try:
        return Heartbeat.parse(text)
    except InvalidValue as error:
        problems.append(f"annotation {nrt_names.SURPRISES_ANNOTATION} ignored: {error}")
        return None


def _pci(nrt: NodeResourceTopology, problems: list[str]) -> PciPlaces | None:
    text = nrt.metadata.annotations.get(nrt_names.PCI_ANNOTATION)
    if text is None:
        return None
    try:
        return read_places(text)
    except InvalidValue as error:
        problems.append(f"annotation {nrt_names.PCI_ANNOTATION} ignored: {error}")
        return None


def _fingerprint(
    nrt: NodeResourceTopology, problems: list[str]
) -> tuple[str | None, FingerprintMethod]:
    """Return the fingerprint and its method: the attribute, even if empty, or the annotation."""
    text = attribute_value(nrt.attributes, nrt_names.FINGERPRINT)
    if text is None:
        return nrt.metadata.annotations.get(nrt_names.FINGERPRINT_ANNOTATION) or None, _ALL
    method = attribute_value(nrt.attributes, nrt_names.FINGERPRINT_METHOD)
    if method not in (None, *FingerprintMethod):
        problems.append(f"attribute {nrt_names.FINGERPRINT_METHOD}: {method!r} read as all")
    exclusive = method == FingerprintMethod.WITH_EXCLUSIVE_RESOURCES
    return text or None, FingerprintMethod.WITH_EXCLUSIVE_RESOURCES if exclusive else _ALL


_ALL = FingerprintMethod.ALL

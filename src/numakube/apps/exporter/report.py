"""The report of one scan: from what was read to the NodeResourceTopology to write.

    report = topology_of(inputs, ReportOptions(node_name="worker-0"), cause=Cause.PERIODIC)
    nrt = report.topology("worker-0")

Content and order of what RTE publishes too are RTE's (v0.25); what is ours follows it. Computing
never fails: what is unknown is left out and is among the report's problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, zone_name
from numakube.apps.exporter.exact_data import Inexact, exact_report
from numakube.apps.exporter.exclusion import listed_pods
from numakube.apps.exporter.report_options import ALL_PODS, EXCLUSIVE_PODS
from numakube.apps.exporter.report_parts import (
    Unplaced,
    affinities_of,
    exclusive_use,
    kubelet_attributes,
    switch_attributes,
)
from numakube.apps.exporter.report_problems import Problem, Trouble
from numakube.apps.exporter.zone_accounting import zones_of
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.numa_placement import BadPlacement, Placement, encode_placement
from numakube.topology.report_binding import with_exact
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.meta import OwnerReference
    from numakube.api.nrt import Zone
    from numakube.apps.exporter.report_options import ReportOptions
    from numakube.apps.exporter.report_parts import Exclusive
    from numakube.apps.exporter.scan_inputs import KubeletFacts, NodeInputs
    from numakube.apps.exporter.scan_wakeups import Cause
    from numakube.node.podresources_client import PodResources


@dataclass(frozen=True, slots=True)
class ReportedPod:
    """A pod that the report is about; ``exclusive`` says what it has for itself, if anything."""

    namespace: str
    name: str
    uid: str | None
    exclusive: Exclusive | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is to be published, and what was found on the way.

    Attributes:
        fingerprints: by method, whichever of them is published.
        method: the method that was chosen.
        pods: in the kubelet's order.
        annotations: without the exact data, which is bound to the rest when it is written.
        exact: the exact data, if there is any.
        contradictory: whether exact data is missing because what was read is of different moments.
    """

    zones: tuple[Zone, ...]
    attributes: tuple[Attribute, ...]
    annotations: Mapping[str, str]
    fingerprints: Mapping[str, str]
    method: str
    pods: tuple[ReportedPod, ...]
    problems: tuple[Problem, ...]
    exact: ExactReport | None = None
    contradictory: bool = False

    @property
    def fingerprinted(self) -> tuple[ReportedPod, ...]:
        """The pods that the published fingerprint is of."""
        return tuple(pod for pod in self.pods if self.method == ALL_PODS or pod.exclusive)

    def topology(self, name: str, *, owner: OwnerReference | None = None) -> NodeResourceTopology:
        """Return the object to write."""
        topology = NodeResourceTopology(
            metadata=ObjectMeta(
                name=name,
                annotations=dict(self.annotations),
                owner_references=(owner,) if owner else (),
            ),
            attributes=self.attributes,
            zones=self.zones,
        )
        return topology if self.exact is None else with_exact(topology, self.exact)


def topology_of(inputs: NodeInputs, options: ReportOptions, *, cause: Cause) -> Report:
    """Compute the report of what one scan read."""
    pods = listed_pods(inputs, options)
    table = zones_of(inputs, pods, options)
    described = tuple(_described(pod, inputs) for pod in pods)
    fingerprints = _fingerprints(described)
    exclusive = [pod for pod, one in zip(pods, described, strict=True) if one.exclusive]
    placement = _placement(inputs, exclusive, options)
    exact = exact_report(inputs) if options.exact else None
    published = fingerprints[_method(options)] if options.fingerprint else None
    koordinator, odd = _koordinator(inputs)
    return Report(
        zones=_with_switches((_with_vector(zone, placement) for zone in table.zones), inputs),
        attributes=(
            *_fingerprint_attributes(published, options.fingerprint_method),
            *_placement_attributes(placement),
            *kubelet_attributes(inputs.kubelet),
            *_exporter(options),
        ),
        annotations=MappingProxyType(
            {**_annotations(cause, published, exact), **_pci(inputs), **koordinator}
        ),
        fingerprints=MappingProxyType(fingerprints),
        method=_method(options),
        pods=described,
        problems=(
            *inputs.hardware.problems,
            *inputs.checkpoints.problems,
            *table.problems,
            *_placement_problems(placement),
            *_policy_problems(inputs.kubelet),
            *_exact_problems(exact),
            *(Problem(Trouble.ODD_ANNOTATION, text) for text in odd),
        ),
        exact=exact if isinstance(exact, ExactReport) else None,
        contradictory=isinstance(exact, Inexact) and exact.contradictory,
    )


def _koordinator(inputs: NodeInputs) -> tuple[dict[str, str], list[str]]:
    """Return koordlet's annotations, if they are wanted, and what could not be read for them."""
    if inputs.koordinator is None:
        return {}, []
    # Most exporters do without, and without the memory.
    from numakube.apps.exporter.koordlet_annotations import koordinator_annotations

    odd: list[str] = []
    return koordinator_annotations(inputs, odd), odd


def _described(pod: PodResources, inputs: NodeInputs) -> ReportedPod:
    uid = inputs.uids.get((pod.namespace, pod.name))
    return ReportedPod(pod.namespace, pod.name, uid, exclusive_use(pod))


def _fingerprints(pods: Sequence[ReportedPod]) -> dict[str, str]:
    return {
        ALL_PODS: fingerprint_of((pod.namespace, pod.name) for pod in pods),
        EXCLUSIVE_PODS: fingerprint_of((pod.namespace, pod.name) for pod in pods if pod.exclusive),
    }


def _method(options: ReportOptions) -> str:
    return ALL_PODS if options.fingerprint_method == ALL_PODS else EXCLUSIVE_PODS


def _fingerprint_attributes(published: str | None, method: str) -> Iterator[Attribute]:
    if published is not None:
        yield Attribute(name=nrt_names.FINGERPRINT, value=published)
        yield Attribute(name=nrt_names.FINGERPRINT_METHOD, value=method)


def _exporter(options: ReportOptions) -> Iterator[Attribute]:
    if options.exporter:
        yield Attribute(name=nrt_names.EXPORTER, value=options.exporter)


def _annotations(
    cause: Cause, published: str | None, exact: ExactReport | Inexact | None
) -> dict[str, str]:
    annotations = {nrt_names.RTE_UPDATE_ANNOTATION: str(cause)}
    if published is not None:
        annotations[nrt_names.FINGERPRINT_ANNOTATION] = published
    if isinstance(exact, Inexact):
        annotations[nrt_names.INEXACT_ANNOTATION] = exact.reason
    return annotations


def _pci(inputs: NodeInputs) -> dict[str, str]:
    return {nrt_names.PCI_ANNOTATION: inputs.hardware.pci} if inputs.hardware.pci else {}


def _policy_problems(kubelet: KubeletFacts) -> Iterator[Problem]:
    if kubelet.policy is None and kubelet.why_unknown:
        detail = f"the Topology Manager's policy is not known: {kubelet.why_unknown}"
        yield Problem(Trouble.NO_POLICY, detail)


def _exact_problems(exact: ExactReport | Inexact | None) -> Iterator[Problem]:
    if isinstance(exact, Inexact):
        yield Problem(Trouble.NO_EXACT_DATA, f"exact data is not published: {exact.reason}")


def _placement(
    inputs: NodeInputs, pods: Sequence[PodResources], options: ReportOptions
) -> Placement | Unplaced | None:
    """Return the NUMA placement of *pods*; nothing where there is none by policy or option."""
    wanted = options.fingerprint and options.numa_placement
    if not wanted or inputs.kubelet.policy != TopologyPolicy.SINGLE_NUMA_NODE:
        return None
    affinities = affinities_of(pods, inputs.hardware)
    if isinstance(affinities, Unplaced):
        return affinities
    placement = encode_placement(affinities, numa_nodes=len(inputs.hardware.zones))
    return Unplaced(placement.reason) if isinstance(placement, BadPlacement) else placement


def _placement_attributes(placement: Placement | Unplaced | None) -> Iterator[Attribute]:
    if isinstance(placement, Placement):
        yield Attribute(name=nrt_names.PLACEMENT_METADATA, value=placement.metadata)


def _placement_problems(placement: Placement | Unplaced | None) -> Iterator[Problem]:
    if isinstance(placement, Unplaced):
        detail = f"NUMA placement is not published: {placement.reason}"
        yield Problem(Trouble.UNPLACED_CONTAINER, detail)


def _with_switches(zones: Iterable[Zone], inputs: NodeInputs) -> tuple[Zone, ...]:
    """Return *zones* with what is behind their PCIe switches, as far as that is known."""
    attributes = {zone_name(numa): one for numa, one in switch_attributes(inputs).items()}
    return tuple(
        msgspec.structs.replace(zone, attributes=(*zone.attributes, attributes[zone.name]))
        if zone.name in attributes
        else zone
        for zone in zones
    )


def _with_vector(zone: Zone, placement: Placement | Unplaced | None) -> Zone:
    vectors = placement.vectors if isinstance(placement, Placement) else {}
    for numa, text in vectors.items():
        if zone_name(numa) == zone.name:
            attribute = Attribute(name=nrt_names.PLACEMENT_VECTOR, value=text)
            return msgspec.structs.replace(zone, attributes=(*zone.attributes, attribute))
    return zone

"""The report of one scan: from what was read to the NodeResourceTopology to write.

    report = topology_of(inputs, ReportOptions(node_name="worker-0"), cause=Cause.PERIODIC)
    nrt = report.topology("worker-0")

Content and order of what RTE publishes too are RTE's (v0.25); what is ours follows it. Computing
never fails: what is unknown is left out and is among the report's problems.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, zone_name
from numakube.apps.exporter.exact_data import Inexact, exact_report
from numakube.apps.exporter.report_options import ALL_PODS, EXCLUSIVE_PODS, Problem, Trouble
from numakube.apps.exporter.zone_accounting import zones_of
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport
from numakube.topology.fingerprint import (
    BadPlacement,
    ContainerName,
    Placement,
    encode_placement,
    fingerprint_of,
)
from numakube.topology.report_codec import with_exact
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.meta import OwnerReference
    from numakube.api.nrt import Zone
    from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.apps.exporter.report_options import PodPattern, ReferenceContainer, ReportOptions
    from numakube.apps.exporter.scan_wakeups import ScanCause
    from numakube.node.podresources_client import ContainerResources, PodResources


# Parts of a report beside the zones: node attributes, fingerprinted pods, containers' NUMA nodes.
#
# Attributes come in the order in which RTE writes its own. What is not known is not published, and
# since readers take a missing policy for ``none``, another attribute says why it is missing.
#
# Containers are placed for readers that must know it to preempt. Only under the policy
# ``single-numa-node`` is there one NUMA node a container. The encoding counts NUMA nodes from 0
# without holes and has no "elsewhere": if a single container does not fit in, the whole payload is
# left out, because a reader would take the container to be where most are.


_MAX_NUMA_NODES_OPTION: Final = "max-allowable-numa-nodes"
_DEFAULT_MAX_NUMA_NODES: Final = "8"

Reason = Literal["cpu", "memory", "device"]


Affinities: TypeAlias = dict[ContainerName, int]
"""NUMA nodes of containers."""


def kubelet_attributes(kubelet: KubeletFacts) -> Iterator[Attribute]:
    """Yield scope and policy, then what else of the configuration decides on placement."""
    if kubelet.scope is not None:
        yield Attribute(name=nrt_names.TOPOLOGY_SCOPE, value=kubelet.scope)
    if kubelet.policy is not None:
        yield Attribute(name=nrt_names.TOPOLOGY_POLICY, value=kubelet.policy)
    if kubelet.policy is None and kubelet.why_unknown:
        yield Attribute(name=nrt_names.POLICY_UNKNOWN, value=kubelet.why_unknown)
    if kubelet.state_trouble:
        yield Attribute(name=nrt_names.STATE_TROUBLE, value=kubelet.state_trouble)
    if kubelet.config is not None:
        yield from _configured(kubelet.config)
        return
    if kubelet.cpu_policy is not None:
        yield Attribute(name=nrt_names.CPU_POLICY, value=kubelet.cpu_policy)
    if kubelet.memory_policy is not None:
        yield Attribute(name=nrt_names.MEMORY_POLICY, value=kubelet.memory_policy)


def switch_attributes(inputs: NodeInputs) -> dict[int, Attribute]:
    """Return what is below each PCIe root port of a NUMA node, by its id."""
    connected = inputs.connected
    below: dict[int, dict[str, Counter[str]]] = {}
    devices = {(entry.resource, id_) for entry in inputs.allocatable.devices for id_ in entry.ids}
    for resource, id_ in devices:
        path = connected.tree.paths.get(connected.functions.get(id_, ""))
        if path is not None and path.numa_node is not None:
            ports = below.setdefault(path.numa_node, {})
            ports.setdefault((*path.bridges, path.address)[0], Counter())[resource] += 1
    return {
        numa: Attribute(name=nrt_names.SWITCHES, value="; ".join(map(_port, sorted(ports.items()))))
        for numa, ports in below.items()
    }


def _port(port: tuple[str, Counter[str]]) -> str:
    address, counts = port
    return f"{address}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _configured(config: KubeletConfiguration) -> Iterator[Attribute]:
    options = config.topology_manager_policy_options
    largest = options.get(_MAX_NUMA_NODES_OPTION, _DEFAULT_MAX_NUMA_NODES)
    yield Attribute(name=nrt_names.MAX_NUMA_NODES, value=largest)
    yield from _options(nrt_names.TOPOLOGY_OPTION_PREFIX, options)
    yield Attribute(name=nrt_names.CPU_POLICY, value=config.cpu_manager_policy)
    yield from _options(nrt_names.CPU_OPTION_PREFIX, config.cpu_manager_policy_options)
    yield Attribute(name=nrt_names.MEMORY_POLICY, value=config.memory_manager_policy)


def _options(prefix: str, options: Mapping[str, str]) -> Iterator[Attribute]:
    for option, value in sorted(options.items()):
        yield Attribute(name=nrt_names.option_attribute(prefix, option), value=value)


@dataclass(frozen=True, slots=True)
class ExclusiveContainer:
    """What makes a pod exclusive: its first such container; an empty name is the pod itself."""

    container: str
    reason: Reason


def exclusive_use(pod: PodResources) -> ExclusiveContainer | None:
    """Return what *pod* has for itself and on a NUMA node; nothing if all of it is shared.

    Containers are asked in order, each for CPUs, then memory (whatever its size), then devices.
    CPUs and memory of the pod as a whole are asked for last.
    """
    for container in pod.containers:
        reason = _reason(container)
        if reason:
            return ExclusiveContainer(container.name, reason)
    if pod.cpu_ids:
        return ExclusiveContainer("", "cpu")
    if any(has_numa_node(block.numa_nodes) for block in pod.memory):
        return ExclusiveContainer("", "memory")
    return None


def has_numa_node(numa_nodes: Iterable[int]) -> bool:
    """Tell whether one of *numa_nodes* is real: -1 stands for none."""
    return any(numa >= 0 for numa in numa_nodes)


def _reason(container: ContainerResources) -> Reason | None:
    if container.cpu_ids:
        return "cpu"
    if any(has_numa_node(block.numa_nodes) for block in container.memory):
        return "memory"
    if any(entry.ids and has_numa_node(entry.numa_nodes) for entry in container.devices):
        return "device"
    return None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why there is no placement to publish."""

    reason: str


def affinities_of(pods: Iterable[PodResources], hardware: Hardware) -> Affinities | Unplaced:
    """Return where the containers of *pods* are; those that hold nothing are left out."""
    found: Affinities = {}
    for pod in pods:
        for container in pod.containers:
            numa = _numa_node_of(container, hardware)
            name = f"{pod.namespace}/{pod.name}/{container.name}"
            if isinstance(numa, Unplaced):
                return Unplaced(f"container {name}: {numa.reason}")
            if numa is not None and not 0 <= numa < len(hardware.zones):
                return Unplaced(f"container {name}: NUMA node {numa} is out of range")
            if numa is not None:
                found[ContainerName(pod.namespace, pod.name, container.name)] = numa
    return found


def _numa_node_of(container: ContainerResources, hardware: Hardware) -> int | Unplaced | None:
    """Return the NUMA node of the container's first CPU, else of its first device or memory."""
    if container.cpu_ids:
        first = min(container.cpu_ids)
        numa = hardware.numa_of(first)
        return Unplaced(f"CPU {first} is unknown") if numa is None else numa
    entries = [entry.numa_nodes for entry in container.devices if entry.ids]
    blocks = [block.numa_nodes for block in container.memory]
    for numa_nodes in (*entries, *blocks):
        real = sorted({numa for numa in numa_nodes if numa >= 0})
        if len(real) > 1:
            return Unplaced(f"it is on NUMA nodes {', '.join(map(str, real))}")
        if real:
            return real[0]
    return None


# Which pods and CPUs a report leaves out: the exporter's filters on what the kubelet lists.
#
# Filters apply in RTE's order: the shared pool of the reference container first, so that it is
# known even if that container's pod is excluded; then excluded pods; then terminal ones.


_NEVER = re.compile(r"(?!)")
# An escaped character, or any but those that cannot stand for themselves in brackets.
_MEMBER = r"(?:\\.|[^\\\]-])"
_TOKEN = re.compile(
    rf"(?P<many>\*)|(?P<one>\?)|\[(?P<not>\^|(?!\^))(?P<members>(?:{_MEMBER}(?:-{_MEMBER})?)+)\]"
    r"|\\(?P<escaped>.)|(?P<plain>[^\\\[])",
    re.DOTALL,
)
_SPAN = re.compile(rf"({_MEMBER})(?:-({_MEMBER}))?", re.DOTALL)


def listed_pods(inputs: NodeInputs, options: ReportOptions) -> tuple[PodResources, ...]:
    """Return the pods that the report is about, without the CPUs of the shared pool."""
    shared = shared_pool(inputs.pods, options.reference_container)
    return tuple(
        _without_cpus(pod, shared)
        for pod in inputs.pods
        if not is_excluded(pod, options.pod_exclude)
        and (pod.namespace, pod.name) not in inputs.terminal
    )


def shared_pool(
    pods: Iterable[PodResources], reference: ReferenceContainer | None
) -> frozenset[int]:
    """Return the CPUs of the first container that *reference* names."""
    if reference is None:
        return frozenset()
    containers = (
        container
        for pod in pods
        if (pod.namespace, pod.name) == (reference.namespace, reference.pod)
        for container in pod.containers
        if container.name == reference.container
    )
    return frozenset(next((container.cpu_ids for container in containers), ()))


def is_excluded(pod: PodResources, patterns: Iterable[PodPattern]) -> bool:
    """Tell whether namespace and name of *pod* match one of *patterns*."""
    return any(
        glob_matches(pattern.namespace, pod.namespace) and glob_matches(pattern.name, pod.name)
        for pattern in patterns
    )


def glob_matches(pattern: str, text: str) -> bool:
    """Tell whether *text* matches a shell pattern as Go's ``filepath.Match`` understands it.

    ``*`` and ``?`` do not match a slash, brackets are negated by ``^`` alone, a backslash escapes.
    A malformed pattern matches nothing.
    """
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    chunks = [""]
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            return _NEVER
        if token["many"]:
            chunks.append("")
        else:
            chunks[-1] += _translated(token)
        position = token.end()
    first, *others = chunks
    if not others:
        return re.compile(first, re.DOTALL)
    # Between two stars the first fit is as good as any other. To try no other keeps a pattern
    # with many stars from taking for ever.
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in others[:-1])
    return re.compile(f"{first}{middle}[^/]*{others[-1]}", re.DOTALL)


def _translated(token: re.Match[str]) -> str:
    if token["one"]:
        return "[^/]"
    if token["members"]:
        return _bracket(token["members"], negated=bool(token["not"]))
    return re.escape(token["escaped"] or token["plain"])


def _bracket(members: str, *, negated: bool) -> str:
    spans = list(_spans(members))
    if not spans:
        return "." if negated else "(?!)"
    inside = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in spans)
    return f"[{'^' if negated else ''}{inside}]"


def _spans(members: str) -> Iterator[tuple[str, str]]:
    """Yield first and last character of each span; an inverted one has no characters."""
    for span in _SPAN.finditer(members):
        low = span[1][-1]
        high = span[2][-1] if span[2] else low
        if low <= high:
            yield low, high


def _without_cpus(pod: PodResources, shared: frozenset[int]) -> PodResources:
    if not shared:
        return pod
    return replace(
        pod,
        containers=tuple(_container_without(container, shared) for container in pod.containers),
        cpu_ids=tuple(cpu for cpu in pod.cpu_ids if cpu not in shared),
    )


def _container_without(container: ContainerResources, shared: frozenset[int]) -> ContainerResources:
    cpus = tuple(cpu for cpu in container.cpu_ids if cpu not in shared)
    return replace(container, cpu_ids=cpus)


@dataclass(frozen=True, slots=True)
class ReportedPod:
    """A pod that the report is about; ``exclusive`` says what it has for itself, if anything."""

    namespace: str
    name: str
    uid: str | None
    exclusive: ExclusiveContainer | None


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


def topology_of(inputs: NodeInputs, options: ReportOptions, *, cause: ScanCause) -> Report:
    """Compute the report of what one scan read."""
    pods = listed_pods(inputs, options)
    table = zones_of(inputs, pods, options)
    described = tuple(_described(pod, inputs) for pod in pods)
    fingerprints = _fingerprints(described)
    exclusive = [pod for pod, one in zip(pods, described, strict=True) if one.exclusive]
    placement = _placement(inputs, exclusive, options)
    exact = exact_report(inputs) if options.exact else None
    published = fingerprints[_method(options)] if options.fingerprint else None
    added, odd = _added(inputs)
    return Report(
        zones=_with_switches((_with_vector(zone, placement) for zone in table.zones), inputs),
        attributes=(
            *_fingerprint_attributes(published, options.fingerprint_method),
            *_placement_attributes(placement),
            *kubelet_attributes(inputs.kubelet),
            *_exporter(options),
        ),
        annotations=MappingProxyType(
            {**_annotations(cause, published, exact), **_pci(inputs), **added}
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


def _added(inputs: NodeInputs) -> tuple[dict[str, str], list[str]]:
    """Return the annotations of annexes that are wanted, and what could not be read for them."""
    odd: list[str] = []
    added: dict[str, str] = {}
    for one in inputs.annotations:
        added |= one.annotations(inputs, odd)
    return added, odd


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
    cause: ScanCause, published: str | None, exact: ExactReport | Inexact | None
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

"""Do pods that are meant to be aligned ask in a way that a kubelet aligns?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from numakube.api.pod import has_ended
from numakube.api.pod_resources import GUARANTEED, qos_class
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.insight.deployed_programs import ProgramRole, deployed
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, maker_of
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.misalignment import demand, devices_of
from numakube.insight.scheduler_engine import configuration_in
from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ANNOTATION, DECLINED
from numakube.scheduling.plugins.dynamic_resources.claims_plugin import FIRST_VERSION
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import CPU, MILLI_PER_CPU, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Container, Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.pod_demand import PodDemand

_encode = msgspec.json.Encoder(order="deterministic").encode

FRACTIONAL: Final = Rule(
    id="NUMA-POD-FRACTIONAL-CPU",
    severity=Severity.WARNING,
    title="Pods ask for fractions of CPUs and get none of their own",
    why=(
        "A container gets CPUs for itself only if it asks for a whole number of them; with 1500m it"
        " runs on the shared CPUs of all zones."
    ),
    fix="resources: {requests: {cpu: 2}, limits: {cpu: 2}}   # a whole number",
)
NOT_GUARANTEED: Final = Rule(
    id="NUMA-POD-NOT-GUARANTEED",
    severity=Severity.WARNING,
    title="Pods of a NUMA scheduler are not Guaranteed",
    why=(
        "The kubelet gives CPUs and memory of a zone only to pods all of whose containers have"
        " limits for both, equal to their requests."
    ),
    fix="# give every container, init containers too, equal requests and limits of cpu and memory",
)
PARTLY: Final = Rule(
    id="NUMA-POD-PARTLY-SHARED",
    severity=Severity.INFO,
    title="Some containers of pods run on shared CPUs",
    why="They ask for fractions of CPUs; the other containers of the pod are aligned.",
    fix="# nothing, if the container is a small helper; otherwise ask for whole CPUs",
)
INIT_LARGER: Final = Rule(
    id="NUMA-POD-INIT-LARGER",
    severity=Severity.INFO,
    title="An init container asks for more CPUs than all that follow",
    why=(
        "The zone has to hold the init container first, and the kubelet keeps its CPUs for the pod"
        " as long as it lives."
    ),
    fix="# let the init container ask for no more than the containers that follow",
)
MIXED_DRA: Final = Rule(
    id="NUMA-POD-MIXED-DRA",
    severity=Severity.WARNING,
    title="Pods mix resource claims with CPUs or devices of the kubelet",
    why=(
        "Devices of claims (dynamic resource allocation) take no part in the Topology Manager."
        " numakube's scheduler takes devices near the CPUs on nodes with an exact report, and such"
        " pods are not listed; on other nodes, with other schedulers, and where the pod or the"
        " configuration declines it, devices may be anywhere."
    ),
    fix=(
        "# give the pods to numakube's scheduler, on nodes with its exporter; or take everything\n"
        "# from claims, with matchAttribute: resource.kubernetes.io/numaNode"
    ),
)
DRA_REFUSED: Final = Rule(
    id="NUMA-POD-DRA-REFUSED",
    severity=Severity.ERROR,
    title="Pods with resource claims wait for numakube's scheduler, which refuses them",
    why="It allocates claims of resource.k8s.io/v1, which this version of Kubernetes lacks.",
    fix="# upgrade to Kubernetes 1.34 or later, or give the pods to kube-scheduler",
)


class _Sight(NamedTuple):
    """A finding without the pod."""

    rule: Rule
    detail: str
    field: str


RULES: Final = (FRACTIONAL, NOT_GUARANTEED, PARTLY, INIT_LARGER, MIXED_DRA, DRA_REFUSED)


def check_shapes(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the pods of NUMA schedulers; of equal pods of one workload, at one."""
    schedulers, refusing = numa_schedulers(facts), _refusing(facts)
    aligning = _Aligning(facts, _ours(facts) - refusing)
    sights: dict[bytes, tuple[_Sight, ...]] = {}
    seen: set[tuple[str, FindingSubject]] = set()
    for pod in facts.pods:
        if pod.spec.scheduler_name not in schedulers or has_ended(pod):
            continue
        near = bool(pod.spec.resource_claims) and aligning.keeps_near(pod)
        likeness = _likeness(pod, near=near)
        if likeness not in sights:
            sights[likeness] = (*_shape(pod), *_claims(pod, refusing, near=near))
        for sight in sights[likeness]:
            finding = _about(pod, sight)
            if (finding.rule.id, finding.subject) not in seen:
                seen.add((finding.rule.id, finding.subject))
                yield finding


def _likeness(pod: Pod, *, near: bool) -> bytes:
    """Return what pods that get the same findings have in common."""
    spec = pod.spec
    containers = [
        (container.name, container.restart_policy, container.resources)
        for container in _containers(pod)
    ]
    bound = bool(spec.node_name)
    return _encode(
        (
            qos_class(pod),
            containers,
            len(spec.containers),
            spec.resources,
            spec.resource_claims,
            spec.scheduler_name,
            (bound, near),
        )
    )


def _refusing(facts: ClusterFacts) -> frozenset[str]:
    """Return the schedulers of ours that cannot allocate claims, which depends on the server."""
    version = re.match(r"v1\.(\d+)", facts.version.git_version)
    if version is None or int(version[1]) >= FIRST_VERSION:
        return frozenset()
    return _ours(facts)


def _ours(facts: ClusterFacts) -> frozenset[str]:
    """Return the names by which pods ask for numakube's scheduler."""
    ours = (one for one in deployed(facts, ProgramRole.SCHEDULER) if one.is_ours)
    return frozenset({SCHEDULER_NAME, *(one.scheduler_name for one in ours)})


class _Aligning:
    """Which pods get devices of claims near their CPUs from numakube's scheduler."""

    def __init__(self, facts: ClusterFacts, schedulers: frozenset[str]) -> None:
        self._exact = {
            name
            for name in facts.nodes
            if isinstance(view := facts.view(name), NodeTopology) and view.report is not None
        }
        self._schedulers = {name for name in schedulers if _chooses(facts, name)}

    def keeps_near(self, pod: Pod) -> bool:
        """Tell whether the scheduler looks after *pod*, on its node or on one that it may get."""
        node = pod.spec.node_name
        return (
            pod.spec.scheduler_name in self._schedulers
            and pod.metadata.annotations.get(ANNOTATION) != DECLINED
            and (node in self._exact if node else bool(self._exact))
        )


def _chooses(facts: ClusterFacts, scheduler: str) -> bool:
    """Tell whether a scheduler of ours is configured to choose devices, as it is by default."""
    config = configuration_in(facts, scheduler)
    profiles = config.profiles if config is not None else ()
    return not any(
        plugin.name == DynamicResources.name and plugin.args.get("deviceChoice") == "FirstFit"
        for profile in profiles
        if profile.scheduler_name == scheduler
        for plugin in profile.plugin_config
    )


def _shape(pod: Pod) -> Iterator[_Sight]:
    wanted = demand(pod)
    if qos_class(pod) != GUARANTEED:
        yield from _not_guaranteed(pod, wanted)
        return
    shared = [container for container in _containers(pod) if _milli(container) % MILLI_PER_CPU]
    if shared and not wanted.exclusive_cpus:
        first = shared[0]
        detail = f"container {first.name} asks for {_milli(first)}m CPUs"
        yield _Sight(FRACTIONAL, detail, _field(first))
    elif shared:
        names = ", ".join(container.name for container in shared)
        yield _Sight(PARTLY, f"on shared CPUs: {names}", _field(shared[0]))
    yield from _init(wanted)


def _not_guaranteed(pod: Pod, wanted: PodDemand) -> Iterator[_Sight]:
    large = [container for container in _containers(pod) if _milli(container) >= MILLI_PER_CPU]
    if large or devices_of(wanted):
        first = large[0] if large else pod.spec.containers[0]
        detail = (
            f"QoS class {qos_class(pod)}; container {first.name} asks for {_milli(first)}m CPUs"
        )
        yield _Sight(NOT_GUARANTEED, detail, _field(first))


def _init(wanted: PodDemand) -> Iterator[_Sight]:
    later = sum(
        container.exclusive_cpus
        for container in wanted.containers
        if container.role is not ContainerRole.INIT
    )
    for container in wanted.containers:
        if container.role is ContainerRole.INIT and container.exclusive_cpus > later:
            detail = (
                f"{container.name} asks for {container.exclusive_cpus} CPUs, the others for {later}"
            )
            yield _Sight(INIT_LARGER, detail, f"spec.initContainers[{container.name}].resources")


def _claims(pod: Pod, refusing: frozenset[str], *, near: bool) -> Iterator[_Sight]:
    if not pod.spec.resource_claims:
        return
    names = ", ".join(claim.name for claim in pod.spec.resource_claims)
    if pod.spec.scheduler_name in refusing and not pod.spec.node_name:
        yield _Sight(DRA_REFUSED, f"claims: {names}", "spec.resourceClaims")
    wanted = demand(pod)
    devices = devices_of(wanted)
    if not near and (wanted.exclusive_cpus or devices):
        cpus = [f"{wanted.exclusive_cpus} CPUs"] if wanted.exclusive_cpus else []
        detail = f"claims: {names}; besides {', '.join([*cpus, *devices])}"
        yield _Sight(MIXED_DRA, detail, "spec.resourceClaims")


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _milli(container: Container) -> int:
    return amounts_of(container.resources.requests if container.resources else None).get(CPU, 0)


def _field(container: Container) -> str:
    return f"spec.containers[{container.name}].resources"


def _about(pod: Pod, sight: _Sight) -> Finding:
    maker = maker_of(pod)
    subject = FindingSubject(maker.kind, maker.name, maker.namespace, sight.field)
    return Finding(rule=sight.rule, subject=subject, detail=sight.detail, node=pod.spec.node_name)


CHECKS: Final = (check_shapes,)

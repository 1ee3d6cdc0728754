"""Do nodes, pods and the cluster have what claims for CPUs and memory take?

Some of it matters before there is a driver at all: those checks are made for ``doctor --for dra``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.api.pod_resources import effective_limits, effective_requests
from numakube.dra.pod_claims import named_claims
from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_cluster,
    about_node,
)
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, is_hugepages
from numakube.values.safe_text import quoted
from numakube_dra_driver.claims.claim_writing import OFF, POLICY, Policy
from numakube_dra_driver.device_classes import CLASSES
from numakube_dra_driver.devices import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.api.resource_slices import Device
    from numakube.insight import ClusterFacts

FIRST_MINOR: Final = 36
"""Of Kubernetes 1, from which on claims can take parts of devices unasked."""
POLICIES: Final = tuple(map(str, Policy))
_OTHERS: Final = ("dra.cpu", "dra.memory")
"""Drivers of other projects that offer a node's CPUs or memory."""
_OLD_CONTAINERD: Final = re.compile(r"containerd://v?1\.[0-7]\.")

NOT_MIRRORED: Final = Rule(
    id="NUMA-CLAIMS-NOT-MIRRORED",
    severity=Severity.WARNING,
    title="A pod has more by claim than it requests",
    why=(
        "The scheduler counts requests, so it gives the difference to other pods as well: they get"
        " less than they ask for."
    ),
    fix="kubectl numa claim -f POD.yaml   # asks for the same in both",
)
NO_LIMIT: Final = Rule(
    id="NUMA-CLAIMS-HUGEPAGES-LIMIT",
    severity=Severity.ERROR,
    title="A pod has hugepages by claim, and no limit that lets it use them",
    why="The kubelet sets the limit of a container without one to zero: it cannot map a page.",
    fix="limits: {hugepages-2Mi: 1Gi}   # of the container, the same as in the claim",
)
RESERVATION: Final = Rule(
    id="NUMA-CLAIMS-RESERVED",
    severity=Severity.WARNING,
    title="A node offers more CPUs to claims than pods can request",
    why=(
        "The driver leaves out the CPUs that the kubelet reserves by number (reservedSystemCPUs). A"
        " reservation by amount is none of them, so the last claims wait for room on the node."
    ),
    fix="reservedSystemCPUs: 0-1   # of the kubelet; or --reserved-cpus of the driver",
)
STATIC: Final = Rule(
    id="NUMA-CLAIMS-STATIC-KUBELET",
    severity=Severity.WARNING,
    title="The kubelet of a node gives out CPUs or memory itself, so claims get none of them",
    why="Two cannot give out the same: the driver offers only what the kubelet leaves alone.",
    fix=(
        "kubectl drain NODE --ignore-daemonsets   # then, in the kubelet's configuration:\n"
        "# cpuManagerPolicy: none, memoryManagerPolicy: None; remove cpu_manager_state and\n"
        "# memory_manager_state, and start it"
    ),
)
TWO_DRIVERS: Final = Rule(
    id="NUMA-CLAIMS-TWO-DRIVERS",
    severity=Severity.ERROR,
    title="Two drivers offer the CPUs or the memory of a node",
    why="Schedulers give the same CPUs out twice, once for each driver.",
    fix="kubectl get resourceslices --field-selector spec.nodeName=NODE   # remove one of them",
)
NO_DRIVER: Final = Rule(
    id="NUMA-CLAIMS-NO-DRIVER",
    severity=Severity.ERROR,
    title="A node offers CPUs to claims, and its driver does not run",
    why="Pods are bound to it by their claims, and wait there until a driver prepares them.",
    fix="numakube deploy dra   # or delete the slices: kubectl delete resourceslices SLICE",
)
ENFORCER: Final = Rule(
    id="NUMA-CLAIMS-AND-ENFORCER",
    severity=Severity.ERROR,
    title="Driver and enforcer run on the same node",
    why="Both write the CPUs of the same control groups, and undo what the other one did.",
    fix="kubectl label node NODE --overwrite LABEL=VALUE   # keep one of them off the node",
)
LABEL: Final = Rule(
    id="NUMA-CLAIMS-LABEL",
    severity=Severity.WARNING,
    title="The label of a namespace that asks for claims is not understood",
    why="No claim is written for its pods, and nobody tells them.",
    fix=f"kubectl label namespace NAMESPACE --overwrite {POLICY}={POLICIES[0]}",
)
CORES_ONLY: Final = Rule(
    id="NUMA-CLAIMS-CORES-ONLY",
    severity=Severity.INFO,
    title="Nodes offer single cores, since claims cannot take parts of devices",
    why=(
        "A claim has 32 devices at most, and claims that are written for pods ask for amounts,"
        " which no such device has."
    ),
    fix="# Kubernetes 1.36 or newer, or the feature gate DRAConsumableCapacity",
)
VERSION: Final = Rule(
    id="NUMA-CLAIMS-VERSION",
    severity=Severity.ERROR,
    title="The cluster is too old for claims of parts of a NUMA node",
    why="Before Kubernetes 1.36 a device belongs to one claim, and claims get single cores.",
    fix="# upgrade the cluster, or stay with the kubelet's Topology Manager",
)
NO_CLASS: Final = Rule(
    id="NUMA-CLAIMS-NO-CLASS",
    severity=Severity.WARNING,
    title="The classes of the DRA driver do not exist",
    why="Claims name a class; without it nothing is allocated, and no claim is written for pods.",
    fix="numakube deploy dra",
)
NO_CDI: Final = Rule(
    id="NUMA-CLAIMS-CDI",
    severity=Severity.WARNING,
    title="The container runtime of a node may not know what claims give containers",
    why=(
        "containerd 1.7 has the Container Device Interface switched off unless it is told"
        " otherwise; containers with claims do not start there."
    ),
    fix="enable_cdi = true   # under [plugins.'io.containerd.grpc.v1.cri'] in its configuration",
)
UNKNOWN: Final = Rule(
    id="NUMA-CLAIMS-KUBELET-UNKNOWN",
    severity=Severity.INFO,
    title="It is not known whether a kubelet gives out CPUs or memory itself",
    why="Its configuration could not be read, and no report tells.",
    fix="kubectl get --raw /api/v1/nodes/NODE/proxy/configz",
)

RULES: Final = (
    NOT_MIRRORED, NO_LIMIT, RESERVATION, STATIC, TWO_DRIVERS, NO_DRIVER, ENFORCER, LABEL,
    CORES_ONLY, VERSION, NO_CLASS, NO_CDI, UNKNOWN,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------
# Pods with claims.


def check_pods(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what pods have by claim with what they request and may use."""
    for pod in facts.pods:
        if has_ended(pod) or not pod.spec.resource_claims:
            continue
        claimed = _claimed(facts, pod)
        if not claimed:
            continue
        requests, limits = effective_requests(pod, overhead=False), effective_limits(pod)
        more = [
            f"{amount} of {resource} by claim, {requests.get(resource, _NONE)} requested"
            for resource, amount in sorted(claimed.items())
            if not is_hugepages(resource) and amount > requests.get(resource, _NONE)
        ]
        if more:
            yield _about_pod(NOT_MIRRORED, pod, "; ".join(more))
        lacking = [name for name in sorted(claimed) if is_hugepages(name) and name not in limits]
        if lacking:
            yield _about_pod(NO_LIMIT, pod, f"no limit for {', '.join(lacking)}")


_NONE: Final = Quantity(0)
_RESOURCES: Final = {one.name: (one.resource, one.capacity) for one in CLASSES}


def _claimed(facts: ClusterFacts, pod: Pod) -> Mapping[str, Quantity]:
    """Return what the claims of *pod* alone have of a node's own resources."""
    total: dict[str, Quantity] = {}
    for _, name in named_claims(pod):
        claim = facts.objects.resource_claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None or claim.status.allocation is None:
            continue
        if len(claim.status.reserved_for) > 1:
            continue  # what several pods share belongs to none of them
        classes = {
            request.name: request.exactly.device_class_name
            for request in claim.spec.devices.requests
            if request.exactly is not None
        }
        for result in claim.status.allocation.devices.results:
            resource, capacity = _RESOURCES.get(classes.get(result.request, ""), ("", ""))
            if result.driver == DRIVER and capacity in result.consumed_capacity:
                amount = parse_quantity(result.consumed_capacity[capacity])
                total[resource] = total[resource] + amount if resource in total else amount
    return total


def _about_pod(rule: Rule, pod: Pod, detail: str) -> Finding:
    meta = pod.metadata
    subject = FindingSubject("Pod", meta.name, meta.namespace)
    return Finding(rule=rule, subject=subject, detail=detail, node=pod.spec.node_name)


# ------------------------------------------------------------------------------------------------
# Nodes that offer CPUs and memory.


def check_nodes(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the nodes that offer something to claims."""
    if facts.missing("resourceslices") is not None:
        return
    ours, others = _offered(facts, (DRIVER,)), _offered(facts, _OTHERS)
    for name in facts.nodes.keys() & ours.keys():
        devices = ours[name]
        yield from _static(facts, name)
        if name in others:
            yield about_node(TWO_DRIVERS, name, "slices of several drivers have CPUs or memory")
        if not _runs(facts, name, "dra-driver"):
            yield about_node(NO_DRIVER, name, f"{len(devices)} devices, and no pod of the driver")
        elif _runs(facts, name, "enforcer"):
            yield about_node(ENFORCER, name, "both run there", fix=ENFORCER.fix)
        yield from _reservation(facts, name, devices)
        whole = [device for device in devices if device.name.startswith("core-")]
        if whole and not any(device.allow_multiple_allocations for device in devices):
            yield about_node(CORES_ONLY, name, f"{len(whole)} cores")


def _offered(facts: ClusterFacts, drivers: tuple[str, ...]) -> dict[str, list[Device]]:
    """Return what *drivers* offer, by the names of nodes."""
    found: dict[str, list[Device]] = {}
    for piece in facts.objects.resource_slices.values():
        if piece.spec.driver in drivers and piece.spec.node_name and piece.spec.devices:
            found.setdefault(piece.spec.node_name, []).extend(piece.spec.devices)
    return found


def _reservation(facts: ClusterFacts, name: str, devices: list[Device]) -> Iterator[Finding]:
    capacity = f"{DRIVER}/cpu"
    offered = sum(
        (parse_quantity(device.capacity[capacity].value).value() for device in devices
         if capacity in device.capacity),
        start=0,
    )  # fmt: skip
    allocatable = facts.nodes[name].status.allocatable.get(CPU)
    room = parse_quantity(allocatable).milli_value() if allocatable is not None else 0
    if allocatable is not None and offered * 1000 > room:
        detail = f"{offered} CPUs for claims, {allocatable} allocatable"
        yield about_node(RESERVATION, name, detail)


def _runs(facts: ClusterFacts, node: str, program: str) -> bool:
    """Tell whether one of our programs runs on *node*."""
    return any(
        program in (*container.command, *container.args)
        for pod in facts.pods_on(node)
        if not has_ended(pod)
        for container in pod.spec.containers
    )


def _policies(facts: ClusterFacts, name: str) -> tuple[str, str] | None:
    """Return the policies of a kubelet's CPU Manager and Memory Manager; None if not known."""
    config = facts.kubelet_configs.get(name)
    if config is not None:
        return config.cpu_manager_policy, config.memory_manager_policy
    view = facts.view(name)
    cpu = getattr(view, "cpu_manager_policy", None)
    memory = getattr(view, "memory_manager_policy", None)
    return None if cpu is None else (cpu, memory or "")


def _static(facts: ClusterFacts, name: str) -> Iterator[Finding]:
    policies = _policies(facts, name) or ("", "")
    words = [
        f"{field} is {policy}"
        for field, policy in zip(("cpuManagerPolicy", "memoryManagerPolicy"), policies, strict=True)
        if policy.lower() == "static"
    ]
    if words:
        yield about_node(STATIC, name, " and ".join(words), fix=STATIC.fix_for(NODE=name))


def check_namespaces(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at what namespaces ask for."""
    for name, namespace in facts.namespaces.items():
        said = namespace.metadata.labels.get(POLICY)
        if said is not None and said not in (*POLICIES, OFF):
            detail = f"label {POLICY} is {quoted(said)}; known are {', '.join((*POLICIES, OFF))}"
            subject = FindingSubject("Namespace", name, field=f"metadata.labels[{POLICY}]")
            yield Finding(
                rule=LABEL, subject=subject, detail=detail, fix=LABEL.fix_for(NAMESPACE=name)
            )


# ------------------------------------------------------------------------------------------------
# Before there is a driver: is the cluster ready for one?


def check_readiness(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at what a driver would need; nodes that have one are looked at anyway."""
    if 0 < facts.kubernetes_minor < FIRST_MINOR:
        yield about_cluster(VERSION, f"Kubernetes 1.{facts.kubernetes_minor}")
    if not {one.name for one in CLASSES} & facts.objects.device_classes.keys():
        yield about_cluster(NO_CLASS, f"none of {', '.join(one.name for one in CLASSES)}")
    served = _offered(facts, (DRIVER,))
    for name, node in facts.nodes.items():
        info = node.status.node_info
        runtime = info.container_runtime_version if info is not None else ""
        if _OLD_CONTAINERD.match(runtime):
            yield about_node(NO_CDI, name, quoted(runtime))
        if name in served:
            continue
        if _policies(facts, name) is None:
            yield about_node(UNKNOWN, name, "no configuration, no report")
        yield from _static(facts, name)


CHECKS: Final = (check_pods, check_nodes, check_namespaces)
PURPOSES: Final = {"dra": (check_readiness,)}
"""Checks that are made when the doctor is asked whether the cluster is ready for something."""

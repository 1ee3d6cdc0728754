"""Do DRA drivers publish devices that can be allocated, and aligned?

A ResourceSlice that is left over, or a pool of which slices are missing, stops nothing visibly: its
devices are just never allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.dra.cel_selectors import is_selected
from numakube.dra.device_ids import AllocationError
from numakube.dra.device_places import KNOWN_PLACES
from numakube.dra.features import features_of
from numakube.dra.pools import DeviceInventory, pool_id
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, about_node
from numakube.insight.doctor.kubelet_config_checks import managers_of, zone_count
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.misalignment import is_given_to_align
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.resource_slices import DeviceClass
    from numakube.dra.device_ids import PoolId
    from numakube.dra.pools import CandidateDevice, DevicePool
    from numakube.insight.facts import ClusterFacts

NODE_GONE: Final = Rule(
    id="NUMA-DRA-NODE-GONE",
    severity=Severity.WARNING,
    title="ResourceSlices are about a node that does not exist",
    why="Their devices cannot be allocated, but lists count them.",
    fix="kubectl delete resourceslice SLICE   # a driver that runs writes its slices again",
)
INCOMPLETE: Final = Rule(
    id="NUMA-DRA-POOL-INCOMPLETE",
    severity=Severity.WARNING,
    title="Slices of a pool of devices are missing",
    why=(
        "No scheduler allocates from the pool until its driver has published all slices, and"
        " requests for all devices fail on every node that sees it."
    ),
    fix=(
        "kubectl get resourceslices --field-selector spec.driver=DRIVER\n"
        "# then the log of the driver: an update is over within seconds"
    ),
)
INVALID: Final = Rule(
    id="NUMA-DRA-POOL-INVALID",
    severity=Severity.ERROR,
    title="A pool of devices contradicts itself",
    why="No scheduler allocates from it, or the pods that could use it fail with an error.",
    fix="kubectl get resourceslices --field-selector spec.driver=DRIVER -o yaml   # a driver's bug",
)
NOT_COUNTED: Final = Rule(
    id="NUMA-DRA-POOL-NOT-COUNTED",
    severity=Severity.ERROR,
    title="A pool of devices uses a feature of Kubernetes that numakube cannot count",
    why=(
        "The scheduler allocates nothing from the pool: it would promise more than there is. Pods"
        " with claims for its devices wait."
    ),
    fix=(
        "# let pods with such claims name kube-scheduler in spec.schedulerName, upgrade numakube,\n"
        "# or let the driver publish fixed amounts (value instead of valueFrom):\n"
        "kubectl get resourceslices --field-selector spec.driver=DRIVER -o yaml"
    ),
)
NO_PLACE: Final = Rule(
    id="NUMA-DRA-NO-NUMA-NODE",
    severity=Severity.INFO,
    title="A DRA driver does not say on which NUMA node its devices are",
    why=(
        "Pods get such a device wherever it is: the scheduler cannot choose one near the CPUs that"
        " the kubelet gives them."
    ),
    fix=(
        "# a newer driver may publish resource.kubernetes.io/numaNode, or at least the address,\n"
        "# resource.kubernetes.io/pciBusID, which the exporter finds the place of; on the node,\n"
        "# -1 means that firmware or hypervisor do not tell:\n"
        "cat /sys/bus/pci/devices/*/numa_node"
    ),
)
TWICE: Final = Rule(
    id="NUMA-DRA-SERVED-TWICE",
    severity=Severity.WARNING,
    title="A device plugin and a DRA driver serve the same resource of a node",
    why=(
        "Neither knows what the other has given out: two pods may get one device. Pods that ask for"
        " the resource by name get it from the plugin, as long as that has any."
    ),
    fix="# stop the device plugin on the node, or the DRA driver: one of them is to serve it",
)

RULES: Final = (NODE_GONE, INCOMPLETE, INVALID, NOT_COUNTED, NO_PLACE, TWICE)


def check_slices(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for slices of nodes that are gone."""
    for name, one in facts.objects.resource_slices.items():
        node = one.spec.node_name
        if node and node not in facts.nodes:
            detail = f"{len(one.spec.devices)} devices of {one.spec.driver} on {node}"
            yield Finding(
                rule=NODE_GONE,
                subject=FindingSubject("ResourceSlice", name, field="spec.nodeName"),
                detail=detail,
                fix=NODE_GONE.fix_for(SLICE=name),
                node=node,
            )


def check_pools(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at every pool as the nodes see it; each problem is reported once."""
    seen: set[tuple[str, str]] = set()
    for finding in _troubles(facts):
        key = (finding.rule.id, finding.detail)
        if key not in seen:
            seen.add(key)
            yield finding


def _troubles(facts: ClusterFacts) -> Iterator[Finding]:
    inventory = _inventory(facts)
    for node in facts.nodes.values():
        try:
            pools = inventory.pools_for(node)
        except AllocationError as error:
            yield Finding(rule=INVALID, subject=FindingSubject("Cluster", ""), detail=str(error))
            continue
        for pool in pools:
            if pool.incomplete:
                yield _about(INCOMPLETE, pool.id, _missing(inventory, pool.id))
            elif pool.problem:
                yield _about(INVALID, pool.id, f"pool {pool.id.pool}: {pool.problem}")
            elif pool.beyond:
                yield _about(NOT_COUNTED, pool.id, f"pool {pool.id.pool}: {pool.beyond}")


def _missing(inventory: DeviceInventory, identity: PoolId) -> str:
    slices = [piece.spec.pool for piece in inventory.slices if pool_id(piece) == identity]
    newest = max(pool.generation for pool in slices)
    current = [pool for pool in slices if pool.generation == newest]
    wanted = current[0].resource_slice_count
    return f"pool {identity.pool}: {len(current)} of {wanted} slices of generation {newest}"


def _about(rule: Rule, pool: PoolId, detail: str) -> Finding:
    subject = FindingSubject("ResourceSlice", pool.driver, field="spec.pool")
    return Finding(rule=rule, subject=subject, detail=detail, fix=rule.fix_for(DRIVER=pool.driver))


def check_places(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for devices without a NUMA node where pods with claims are to be aligned."""
    wanted = _nodes_of_mixed_pods(facts)
    if not wanted:
        return
    inventory = _inventory(facts)
    for name in facts.nodes:
        managers = managers_of(facts, name)
        if managers is None or not managers.aligns or (zone_count(facts, name) or 0) < 2:
            continue
        if wanted & {"", name}:
            yield from _places(facts, name, inventory)


def _nodes_of_mixed_pods(facts: ClusterFacts) -> set[str]:
    """Return the nodes of pods with claims and CPUs of their own; empty for those that wait."""
    schedulers = numa_schedulers(facts)
    return {
        pod.spec.node_name
        for pod in facts.pods
        if pod.spec.resource_claims and not has_ended(pod) and is_given_to_align(pod, schedulers)
    }


def _places(facts: ClusterFacts, node: str, inventory: DeviceInventory) -> Iterator[Finding]:
    local: dict[str, list[bool]] = {}
    pci = facts.pci_places(node)
    for candidate in _candidates(_pools(facts, node, inventory)):
        # Devices that other nodes reach, too, are in none of the node's zones.
        if node in (candidate.slice.spec.node_name, candidate.device.node_name):
            is_placed = bool(KNOWN_PLACES.numa_nodes(candidate.device, candidate.id.driver, pci))
            local.setdefault(candidate.id.driver, []).append(is_placed)
    for driver, placed in local.items():
        if not all(placed):
            detail = f"{placed.count(False)} of {len(placed)} devices of {driver} have no NUMA node"
            yield about_node(NO_PLACE, node, detail)


def check_both(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for resources of nodes that a class with devices there serves as well."""
    serving = [fact for fact in facts.objects.device_classes.values() if _resource(fact)]
    if not serving:
        return
    inventory = _inventory(facts)
    for name, node in facts.nodes.items():
        offered = amounts_of(node.status.allocatable)
        for one in serving:
            resource = _resource(one)
            if not offered.get(resource):
                continue
            devices = [
                each
                for each in _candidates(_pools(facts, name, inventory))
                if _is_of_class(one, each)
            ]
            if devices:
                drivers = ", ".join(sorted({each.id.driver for each in devices}))
                detail = (
                    f"{resource}: {offered[resource]} by device plugin, {len(devices)} of class"
                    f" {one.metadata.name} by {drivers}"
                )
                field = f"status.allocatable[{resource}]"
                yield about_node(TWICE, name, detail, field=field)


def _resource(one: DeviceClass) -> str:
    return one.spec.extended_resource_name or ""


def _is_of_class(one: DeviceClass, candidate: CandidateDevice) -> bool:
    try:
        return is_selected(one.spec.selectors, candidate.device, candidate.id.driver)
    except AllocationError:
        return False


def _inventory(facts: ClusterFacts) -> DeviceInventory:
    features = features_of(minor=facts.kubernetes_minor)
    return DeviceInventory(facts.objects.resource_slices.values(), features)


def _pools(facts: ClusterFacts, node: str, inventory: DeviceInventory) -> list[DevicePool]:
    try:
        return inventory.pools_for(facts.nodes[node])
    except AllocationError:
        return []


def _candidates(pools: list[DevicePool]) -> Iterator[CandidateDevice]:
    return (candidate for pool in pools for candidate in pool.candidates)


CHECKS: Final = (check_slices, check_pools, check_places, check_both)

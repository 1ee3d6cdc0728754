"""Do pods get what they were promised, and do settings of the kernel work against them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_node,
)
from numakube.insight.observations import observed
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import bytes_text, counted, zones_text
from numakube.values.resources import MEMORY
from numakube_measured.measurement import MIB, Measurement
from numakube_measured.observing import (
    DISTURBED,
    cpus_of_zones,
    measured_on,
    percent,
    shares_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.insight.observations import ObservedNode
    from numakube_measured.measurement import MeasuredPod

FREE_DIFFERS: Final = 0.2
"""Of a zone's memory: a smaller difference between books and measurement is no news."""
_ON: Final = "1"

SPILLED: Final = Rule(
    id="NUMA-MEASURED-MEMORY-ELSEWHERE",
    severity=Severity.WARNING,
    title="Memory of pods is not in the zones that they were promised",
    why="Their CPUs wait for memory of another zone, and that zone lacks what it seems to have.",
    fix="kubectl numa explain POD -n NAMESPACE   # says who is in the way; then restart the pod",
)
INTERRUPTS: Final = Rule(
    id="NUMA-MEASURED-FAR-INTERRUPTS",
    severity=Severity.WARNING,
    title="Interrupts of pods' devices are taken in other zones",
    why="Every packet or completion crosses the link between zones, and disturbs CPUs of others.",
    fix="kubectl numa explain POD -n NAMESPACE   # names the interrupts and where they should go",
)
DISTURBANCE: Final = Rule(
    id="NUMA-MEASURED-CPUS-DISTURBED",
    severity=Severity.WARNING,
    title="Others run on CPUs that pods have for themselves",
    why=(
        "Only containers of the kubelet keep off such CPUs: services and threads of the kernel do"
        " not unless they are told to, and a hypervisor may take CPUs away."
    ),
    fix="CPUAffinity=RESERVED-CPUS   # in /etc/systemd/system.conf; or isolcpus for the kernel",
)
BALANCING: Final = Rule(
    id="NUMA-MEASURED-NUMA-BALANCING",
    severity=Severity.WARNING,
    title="Automatic NUMA balancing works against pinned pods",
    why=(
        "The kernel unmaps memory again and again to see who uses it, and moves what it finds to be"
        " remote. Pods with a place of their own pay for that and gain nothing."
    ),
    fix="sysctl -w kernel.numa_balancing=0   # on NODE",
)
HUGE_PAGES: Final = Rule(
    id="NUMA-MEASURED-TRANSPARENT-HUGE-PAGES",
    severity=Severity.INFO,
    title="Huge pages are made for programs that do not ask for them",
    why=(
        "Small allocations take 2Mi each and may use up the zone that a pod was promised; the"
        " kernel stops programs to compact memory."
    ),
    fix="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled   # on NODE",
)
RECLAIM: Final = Rule(
    id="NUMA-MEASURED-ZONE-RECLAIM",
    severity=Severity.WARNING,
    title="The kernel drops files before it takes memory of another zone",
    why="Pods without a place wait for the disk although other zones have free memory.",
    fix="sysctl -w vm.zone_reclaim_mode=0   # on NODE",
)
FREE: Final = Rule(
    id="NUMA-MEASURED-ZONE-FULLER",
    severity=Severity.WARNING,
    title="Zones have much less memory than the kubelet's books say",
    why=(
        "Pods that were given no memory there use it. The kubelet promises what is not there: the"
        " next pod gets memory of another zone, or is killed for lack of it."
    ),
    fix="kubectl numa map NODE --measured   # names the pods; give them requests equal to limits",
)
RULES: Final = (SPILLED, INTERRUPTS, DISTURBANCE, BALANCING, HUGE_PAGES, RECLAIM, FREE)


def _measured(facts: ClusterFacts) -> Iterator[tuple[str, Measurement]]:
    for node in facts.nodes:
        measurement = measured_on(observed(facts, node))
        if isinstance(measurement, Measurement):
            yield node, measurement


def _about_pod(rule: Rule, pod: Pod, detail: str) -> Finding:
    meta = pod.metadata
    return Finding(
        rule=rule,
        subject=FindingSubject("Pod", meta.name, meta.namespace),
        detail=detail,
        fix=rule.fix_for(POD=meta.name, NAMESPACE=meta.namespace),
        node=pod.spec.node_name,
    )


def check_pods(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what was measured of pods with what they were promised."""
    for node, measurement in _measured(facts):
        for pod in facts.pods_on(node):
            found = measurement.of(pod)
            if found is not None:
                yield from _of_pod(observed(facts, node), pod, found)


def _of_pod(node: ObservedNode, pod: Pod, found: MeasuredPod) -> Iterator[Finding]:
    if found.is_spilled:
        confined = "though its control group has these zones alone" if found.confined else ""
        promised = f"it was promised {zones_text(found.zones)}"
        detail = ", ".join(filter(None, (shares_text(found.memory_mi), promised, confined)))
        yield _about_pod(SPILLED, pod, detail)
    for far in found.far_interrupts:
        near = cpus_of_zones(node, found.cpu_zones or found.zones)
        where = f"; its own CPUs are {near}" if near else ""
        yield _about_pod(
            INTERRUPTS,
            pod,
            f"{counted(far.count, 'interrupt')} of {far.device} on {zones_text(far.zones)}{where}",
        )
    for share, who in ((found.others, "others"), (found.stolen, "a hypervisor")):
        if share is not None and share >= DISTURBED:
            detail = f"{who} had {percent(share)} of the time of its CPUs"
            yield _about_pod(DISTURBANCE, pod, detail)


def check_settings(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at settings of kernels where pods have a place of their own."""
    for node, measurement in _measured(facts):
        if not any(pod.cpu_zones for pod in measurement.pods):
            continue
        known = measurement.settings
        for rule, is_wrong, detail in (
            (BALANCING, known.numa_balancing == _ON, "kernel.numa_balancing is 1"),
            (HUGE_PAGES, known.transparent_huge_pages == "always", "they are always made"),
            (
                RECLAIM,
                known.zone_reclaim not in ("", "0"),
                f"vm.zone_reclaim_mode is {known.zone_reclaim}",
            ),
        ):
            if is_wrong:
                yield about_node(rule, node, detail, fix=rule.fix_for(NODE=node))


def check_zones(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what the kubelet's books have left of zones with what programs can have."""
    for node, measurement in _measured(facts):
        view = facts.view(node)
        if not isinstance(view, NodeTopology):
            continue
        for zone in measurement.zones:
            booked = view.zone(zone.id)
            left = None if booked is None else booked.available.get(MEMORY)
            if left is None or zone.available_mi is None or not zone.total_mi:
                continue
            measured, total = zone.available_mi * MIB, zone.total_mi * MIB
            if left - measured >= FREE_DIFFERS * total:
                detail = (
                    f"zone {zone.id}: the books have {bytes_text(left)} left, programs can have"
                    f" {bytes_text(measured)}; {bytes_text(zone.guests_mi * MIB)} belong to pods"
                    " without a place there"
                )
                yield about_node(FREE, node, detail, fix=FREE.fix_for(NODE=node))


CHECKS: Final = (check_pods, check_settings, check_zones)

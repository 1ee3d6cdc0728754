"""Do device plugins say where their devices are?

The kubelet aligns a device only if its plugin tells the NUMA node of it. Most troubles with GPUs
that never share a zone with their CPUs end here, and no other component complains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.doctor.findings import Finding, Rule, Severity, about_node
from numakube.insight.doctor.kubelet_config_checks import managers_of
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import amounts_of, is_extended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts
    from numakube.topology.exact_report import DeviceTable

NO_TOPOLOGY: Final = Rule(
    id="NUMA-DEV-NO-TOPOLOGY",
    severity=Severity.ERROR,
    title="A device plugin does not say on which NUMA node its devices are",
    why=(
        "The kubelet gives such devices out without regard to CPUs and memory, and no scheduler can"
        " align them: pods run, but across zones."
    ),
    fix=(
        "# the plugin must fill Device.topology.nodes of the device-plugin API: see its flags.\n"
        "# Does the platform know? On the node, -1 means that firmware or hypervisor do not tell:\n"
        "cat /sys/bus/pci/devices/*/numa_node"
    ),
)
ABSENT: Final = Rule(
    id="NUMA-DEV-NOT-IN-ZONES",
    severity=Severity.WARNING,
    title="A resource of the node is in none of its zones",
    why=(
        "Either its device plugin tells no NUMA node, or the exporter leaves the resource out or"
        " has not noticed it yet. A NUMA scheduler cannot align it."
    ),
    fix=(
        "# restart the exporter of the node if the plugin came after it; look at resourceExclude\n"
        "# and excludeList of its configuration; then at the plugin: it must fill\n"
        "# Device.topology.nodes"
    ),
)
UNHEALTHY: Final = Rule(
    id="NUMA-DEV-UNHEALTHY",
    severity=Severity.WARNING,
    title="Devices are not healthy",
    why="Their plugin says that they must not be used; they are missing from their zone.",
    fix="kubectl describe node NODE   # then the log of the device plugin on that node",
)

RULES: Final = (NO_TOPOLOGY, ABSENT, UNHEALTHY)


def check_devices(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what nodes offer with what their zones have."""
    for name, node in facts.nodes.items():
        view, managers = facts.view(name), managers_of(facts, name)
        if not isinstance(view, NodeTopology):
            continue
        offered = {
            resource: amount
            for resource, amount in amounts_of(node.status.allocatable).items()
            if amount and is_extended(resource)
        }
        aligns = managers is not None and managers.aligns and len(view.zones) > 1
        for resource, amount in offered.items():
            if aligns:
                yield from _located(name, view, resource, amount)
        if view.report is not None:
            for resource, table in view.report.devices.items():
                yield from _healthy(name, resource, table)


def _located(node: str, view: NodeTopology, resource: str, offered: int) -> Iterator[Finding]:
    field = f"status.allocatable[{resource}]"
    if view.report is not None:
        table = view.report.devices.get(resource)
        # What is not in an exact report is no device: a user wrote it into the node's status.
        homeless = sum(not numa for numa in table.numa_nodes) if table else 0
        if table and homeless:
            detail = f"{homeless} of {len(table.numa_nodes)} {resource} have no NUMA node"
            yield about_node(NO_TOPOLOGY, node, detail, field=field)
    elif not any(zone.allocatable.get(resource) for zone in view.zones):
        detail = f"the node offers {offered} {resource}, its zones have none"
        yield about_node(ABSENT, node, detail, field=field)
    elif (listed := sum(zone.allocatable.get(resource, 0) for zone in view.zones)) < offered:
        detail = f"the node offers {offered} {resource}, its zones have {listed}"
        yield about_node(ABSENT, node, detail, field=field)


def _healthy(node: str, resource: str, table: DeviceTable) -> Iterator[Finding]:
    if table.unhealthy:
        detail = f"{len(table.unhealthy)} of {len(table.numa_nodes)} {resource}"
        field = f"status.allocatable[{resource}]"
        fix = UNHEALTHY.fix_for(NODE=node)
        yield about_node(UNHEALTHY, node, detail, field=field, fix=fix)


CHECKS: Final = (check_devices,)

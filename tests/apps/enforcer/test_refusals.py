"""What the kernel refuses is told where people and machines look, for as long as it lasts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from numakube.api.core import ContainerStatus, Pod, PodStatus
from numakube.api.koordinator import keys
from numakube.api.meta import ObjectMeta
from numakube.apps.enforcer.enforcer import MOST_TOLD, Enforcer
from numakube.apps.enforcer.executing import Executor
from numakube.apps.enforcer.metrics import EnforcerMetrics
from numakube.apps.enforcer.node_reading import NodeReader
from numakube.apps.enforcer.originals import OriginalsFile
from numakube.apps.enforcer.reporting import Reporter
from numakube.kube.clock import ManualClock
from numakube.kubelet.machines.synthetic import from_shape
from numakube.node.cgroups.files import CPUS, Version
from numakube.node.cgroups.names import container_group, pod_group
from numakube.node.cgroups.strict_fake import StrictGroups
from numakube.node.sysfs import write_tree

PARENT = "kubepods.slice"
ID = "a" * 64
POD_GROUP = pod_group(PARENT, "Burstable", "uid")
GROUP = container_group(POD_GROUP, f"containerd://{ID}")
BESIDE = f"{POD_GROUP}/beside"


class OnePod:
    """Knows of one pod that was given CPUs."""

    def pods(self) -> Sequence[Pod]:
        """Return the pod."""
        annotations = {keys.RESOURCE_STATUS: json.dumps({"cpuset": "0-1"})}
        status = ContainerStatus(name="app", container_id=f"containerd://{ID}")
        return [
            Pod(
                metadata=ObjectMeta(name="p", namespace="ns", uid="uid", annotations=annotations),
                status=PodStatus(phase="Running", container_statuses=(status,)),
            )
        ]

    def node_annotations(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}


def enforcer_of(groups: StrictGroups, folder: Path, registry: CollectorRegistry) -> Enforcer:
    """Return an enforcer of groups in memory."""
    write_tree(from_shape("1 socket, 4 cores, 4Gi"), folder / "sys")
    return Enforcer(
        knowledge=OnePod(),
        reader=NodeReader(sysfs=folder / "sys", cpu_state=folder / "cpu_manager_state"),
        executor=Executor(groups, OriginalsFile(folder)),
        reporter=Reporter(None),
        metrics=EnforcerMetrics(registry),
        clock=ManualClock(),
        period=10.0,
    )


def shown(registry: CollectorRegistry) -> list[str]:
    """Return what the metric says of groups that are not as they should be."""
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if line.startswith("numakube_enforcer_not_enforced{")]


async def test_what_cannot_be_enforced_is_told_until_it_can(tmp_path: Path) -> None:
    """Readiness, a metric by reason, and the log once each way."""
    groups = StrictGroups(Version.V2, 0b1111, 0b1)
    groups.add(GROUP)
    groups.add(BESIDE)
    groups.write(BESIDE, CPUS, "1")
    groups.partitions.add(BESIDE)
    registry = CollectorRegistry()
    enforcer = enforcer_of(groups, tmp_path, registry)
    with structlog.testing.capture_logs() as logs:
        await enforcer.step()
        await enforcer.step()
    assert enforcer.unenforced() == f"ns/p {GROUP}: EINVAL"
    assert shown(registry) == ['numakube_enforcer_not_enforced{reason="EINVAL"} 1.0']
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["not_enforced"]
    groups.partitions.clear()
    with structlog.testing.capture_logs() as logs:
        await enforcer.step()
    assert enforcer.unenforced() == ""
    assert shown(registry) == []
    assert "mended" in [one["event"] for one in logs]
    assert groups.read(GROUP, CPUS) == "0-1"


async def test_readiness_names_no_more_than_a_few(tmp_path: Path) -> None:
    """The metric counts them all."""
    groups = StrictGroups(Version.V2, 0b1111, 0b1)
    for number in range(MOST_TOLD + 2):
        groups.add(container_group(POD_GROUP, f"containerd://{number:064x}"))
    groups.add(BESIDE)
    groups.write(BESIDE, CPUS, "1")
    groups.partitions.add(BESIDE)
    registry = CollectorRegistry()
    enforcer = enforcer_of(groups, tmp_path, registry)
    await enforcer.step()
    assert enforcer.unenforced().endswith(" and 2 more")
    assert shown(registry) == [
        f'numakube_enforcer_not_enforced{{reason="EINVAL"}} {MOST_TOLD + 2}.0'
    ]

"""A node's control groups, as its kubelet and its runtime make them: a tree of plain files.

They are below ``sys/fs/cgroup`` of the node's folder, version 2 with systemd's names. A pod's group
is made when it is admitted, with one for its sandbox; a container has one for as long as it runs. A
kubelet without a CPU Manager leaves their CPUs alone, a static one writes those that it gives out.

A kubelet that starts again writes everything anew. A real one does so only for what its CPU Manager
gives out; whoever sets CPUs by other means has to cope with worse.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from numakube.api.pods import qos_class
from numakube.lab.nodes.pod_status import container_id
from numakube.node.cgroups.fake import MOUNT, FakeCgroups
from numakube.node.cgroups.files import CPUS, Version
from numakube.node.cgroups.names import container_group, pod_group
from numakube.node.cgroups.scanning import scan
from numakube.values.cpuset import union
from numakube.values.numamask import mask_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from numakube.api.core import Pod
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.node import KubeletNode
    from numakube.lab.nodes.timeline import PodRun

PARENT: Final = "kubepods.slice"


def make_tree(machine: Machine, sysfs: Path) -> FakeCgroups:
    """Return the groups of *machine*, made below its *sysfs*."""
    cpus = union(1 << cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    mems = mask_of(node.id for node in machine.nodes if node.memory_bytes)
    tree = FakeCgroups.make(sysfs / MOUNT, version=Version.V2, cpus=cpus, mems=mems)
    tree.add(PARENT)
    return tree


class NodeCgroups:
    """Keeps the groups of one node as its pods are.

    Attributes:
        tree: the groups.
    """

    def __init__(self, tree: FakeCgroups) -> None:
        self.tree = tree

    def restart(self, uids: Collection[str]) -> None:
        """Begin anew with the pods that are still there."""
        for uid, found in scan(self.tree.files, PARENT, nested=False).items():
            if uid not in uids:
                self.tree.remove(found.group)
                continue
            for group in (found.group, *found.members):
                self.tree.reset(group)

    def show(self, pod: Pod, run: PodRun, model: KubeletNode) -> None:
        """Let there be a group for everything of *pod* that runs, and for nothing else."""
        group = self.group_of(pod)
        wanted = dict(self._members(pod, run))
        wanted[self.sandbox_of(pod)] = ""
        for name in self.tree.files.children(group):
            if name not in wanted:
                self.tree.remove(name)
        for name, container in wanted.items():
            self.tree.add(name)
            if container and model.cpus is not None:
                self._pin(name, pod.metadata.uid, container, model)

    def remove(self, uid: str) -> None:
        """Remove the groups of a pod."""
        for qos in ("Guaranteed", "Burstable", "BestEffort"):
            self.tree.remove(pod_group(PARENT, qos, uid))

    @staticmethod
    def group_of(pod: Pod) -> str:
        """Return the group of a pod."""
        return pod_group(PARENT, qos_class(pod), pod.metadata.uid)

    def sandbox_of(self, pod: Pod) -> str:
        """Return the group of a pod's sandbox."""
        identity = hashlib.sha256(f"{pod.metadata.uid}/sandbox".encode()).hexdigest()
        return container_group(self.group_of(pod), f"containerd://{identity}")

    def _members(self, pod: Pod, run: PodRun) -> Iterator[tuple[str, str]]:
        """Yield the groups of running containers, and their names."""
        for name, one in (*run.init.items(), *run.containers.items()):
            if one.started is not None:
                identity = container_id(pod.metadata.uid, name, one.restarts)
                yield container_group(self.group_of(pod), identity), name

    def _pin(self, group: str, uid: str, container: str, model: KubeletNode) -> None:
        """Write what a static CPU Manager gives to a container."""
        if not self.tree.cpus(group):
            cpus = model.placement(uid, container).cpus or model.shared_cpus
            self.tree.files.write(group, CPUS, str(cpus))


def group_of_container(pod: Pod, name: str) -> str:
    """Return the group of a container whose id the status of *pod* tells."""
    statuses = (
        ()
        if pod.status is None
        else (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    identity = next(one.container_id for one in statuses if one.name == name)
    return container_group(NodeCgroups.group_of(pod), identity)

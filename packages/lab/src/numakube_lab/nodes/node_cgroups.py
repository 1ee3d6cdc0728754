"""A node's control groups, as its kubelet and its runtime make them: a tree of plain files.

They are below ``sys/fs/cgroup`` of the node's folder, with systemd's names, and with the counters
of a kernel (`node_use`). A pod's group is made
when it is admitted, with one for its sandbox; a container has one for as long as it runs. A kubelet
without a CPU Manager leaves their CPUs alone, a static one writes those that it gives out.

Thousands of pods would mean thousands of files, so there are none before a client asks: by mounting
``/sys/fs/cgroup`` of the node into a pod, or by `NodeCgroups.tree`.

A kubelet that starts again rewrites everything. A real one does so only for what its CPU Manager
gives out; programs that set CPUs by other means have to cope with worse.

What gives pods their resources: the model alone, or the model and device plugins.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

from numakube.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from numakube.kubelet import Rejected
from numakube.node.cgroups import (
    CPUS,
    MOUNT,
    FakeCgroups,
    Version,
    container_group,
    pod_group,
    scan,
)
from numakube.values.cpuset import union
from numakube.values.numamask import mask_of
from numakube_lab.nodes.node_use import NodeUse
from numakube_lab.nodes.pod_status import container_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from numakube.api.pod import Pod
    from numakube.kubelet import KubeletNode, Machine
    from numakube_lab.nodes.container_timeline import PodRun
    from numakube_lab.nodes.kubelet_admission import KubeletAdmission


PARENT: Final = "kubepods.slice"


def make_tree(machine: Machine, sysfs: Path, version: Version = Version.V2) -> FakeCgroups:
    """Return the groups of *machine*, made below its *sysfs*."""
    cpus = union(1 << cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    mems = mask_of(node.id for node in machine.nodes if node.memory_bytes)
    tree = FakeCgroups.make(sysfs / MOUNT, version=version, cpus=cpus, mems=mems)
    tree.add(PARENT)
    return tree


class NodeCgroups:
    """Keeps the groups of one node as its pods are, from the first look on."""

    def __init__(self, machine: Machine, sysfs: Path, version: Version = Version.V2) -> None:
        self._machine = machine
        self._version = version
        self._sysfs = sysfs
        self._use = NodeUse(machine, sysfs, version)
        self._tree: FakeCgroups | None = None
        self._pods: dict[str, tuple[Pod, PodRun, KubeletNode]] = {}
        # The groups of each pod, so that most looks at a pod cost nothing.
        self._shown: dict[str, dict[str, str]] = {}

    @property
    def tree(self) -> FakeCgroups:
        """The groups; they are made when they are first asked for."""
        if self._tree is None:
            self._tree = make_tree(self._machine, self._sysfs, self._version)
            for known in self._pods.values():
                self._show(self._tree, *known)
        return self._tree

    def restart(self, uids: Collection[str]) -> None:
        """Begin again with the pods that are still there."""
        self._shown.clear()
        self._pods.clear()
        if self._tree is None:
            return
        for uid, found in scan(self._tree.files, PARENT, nested=False).items():
            if uid not in uids:
                self._tree.remove(found.group)
                continue
            for group in (found.group, *found.members):
                self._tree.reset(group)

    def show(self, pod: Pod, run: PodRun, model: KubeletNode) -> None:
        """Let there be a group for everything of *pod* that runs, and for nothing else."""
        self._pods[pod.metadata.uid] = (pod, run, model)
        if self._tree is not None:
            self._show(self._tree, pod, run, model)

    def _show(self, tree: FakeCgroups, pod: Pod, run: PodRun, model: KubeletNode) -> None:
        uid = pod.metadata.uid
        wanted = {**dict(_members(pod, run)), sandbox_of(pod): ""}
        if self._shown.get(uid) == wanted:
            return
        self._shown[uid] = wanted
        for name in tree.files.children(group_of(pod)):
            if name not in wanted:
                tree.remove(name)
        for name, container in wanted.items():
            tree.add(name)
            if container and model.cpus is not None:
                cpus = model.placement(uid, container).cpus or model.shared_cpus
                tree.files.write(name, CPUS, str(cpus))
        running = {group: container for group, container in wanted.items() if container}
        self._use.show(pod, group_of(pod), running, model)

    def remove(self, uid: str) -> None:
        """Remove the groups of a pod."""
        self._shown.pop(uid, None)
        self._pods.pop(uid, None)
        self._use.remove(uid)
        if self._tree is not None:
            for qos in (GUARANTEED, BURSTABLE, BEST_EFFORT):
                self._tree.remove(pod_group(PARENT, qos, uid))


def group_of(pod: Pod) -> str:
    """Return the group of a pod."""
    return pod_group(PARENT, qos_class(pod), pod.metadata.uid)


def sandbox_of(pod: Pod) -> str:
    """Return the group of a pod's sandbox."""
    identity = hashlib.sha256(f"{pod.metadata.uid}/sandbox".encode()).hexdigest()
    return container_group(group_of(pod), f"containerd://{identity}")


def _members(pod: Pod, run: PodRun) -> Iterator[tuple[str, str]]:
    """Yield the groups of running containers, and their names."""
    for name, one in (*run.init.items(), *run.containers.items()):
        if one.started is not None:
            identity = container_id(pod.metadata.uid, name, one.restarts)
            yield container_group(group_of(pod), identity), name


def group_of_container(pod: Pod, name: str) -> str:
    """Return the group of a container whose id the status of *pod* tells."""
    statuses = (
        ()
        if pod.status is None
        else (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    identity = next(status.container_id for status in statuses if status.name == name)
    return container_group(group_of(pod), identity)


class Aligner(Protocol):
    """Gives pods their resources."""

    async def align(self, pod: Pod) -> Rejected | None:
        """Give *pod* what it wants, or say why not."""
        ...

    async def prepare(self, pod: Pod) -> str | None:
        """Get what a pod holds ready for its containers; return what went wrong, if anything."""
        ...

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pod that is gone; unknown uids are fine."""
        ...


class ModelAligner:
    """Asks the model alone."""

    def __init__(self, admission: KubeletAdmission) -> None:
        self._admission = admission

    async def align(self, pod: Pod) -> Rejected | None:
        """Give *pod* what it wants, or say why not."""
        outcome = self._admission.align(pod)
        return outcome if isinstance(outcome, Rejected) else None

    async def prepare(self, pod: Pod) -> str | None:
        """Return at once: there is nothing to get ready."""
        del pod
        return None

    def forget(self, uid: str) -> None:
        """Do nothing: others update the model."""

"""Admission of pods on one node: the exact model first, then fit and predicates, in that order.

This is the kubelet's book-keeping without any I/O: which pods are active, what they hold, what the
node offers. A pod is listed as soon as it arrives, before it holds anything, as by a real kubelet.
It may be refused after the model has given it something, which `release` takes back
(a real kubelet does so within ten seconds, or with the next admission).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numakube.api.checkpoints import allocated_pods_state as allocated
from numakube.kubelet import (
    KubeletNode,
    StateFiles,
    check_fit,
    check_placement,
    check_system,
    is_resized,
    resize_refusal,
    restore,
    room_refusal,
    save,
    settings_of,
    with_resources_of,
)
from numakube_lab.nodes.node_documents import NodeOffer, base_offer, node_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.pod import Pod
    from numakube.kubelet import Admitted, Device, PreferredAllocation, Rejected
    from numakube_lab.nodes.node_documents import NodePlan


class FreshModels:
    """Makes models without pods; for nodes that are alike and come in a row it copies the first."""

    def __init__(self) -> None:
        self._last: tuple[NodePlan, KubeletNode] | None = None

    def of(self, plan: NodePlan) -> KubeletNode:
        """Return a model of the kubelet of *plan*, for it alone.

        Raises:
            KubeletStartError: a kubelet with this configuration on this machine does not start.
        """
        if self._last is None or not _is_alike(self._last[0], plan):
            settings = settings_of(plan.config, plan.machine)
            self._last = plan, KubeletNode(plan.machine, settings, kubernetes=plan.kubernetes)
        return self._last[1].clone()


def _is_alike(one: NodePlan, other: NodePlan) -> bool:
    same = one.machine is other.machine and one.config is other.config
    return same and one.kubernetes == other.kubernetes


class KubeletAdmission:
    """The pods of one node and what they hold.

    Attributes:
        model: the resource managers.
        labels: the node's labels as the API shows them.
        taints: likewise its taints.
        version: grows with every change of what is held or offered.
    """

    def __init__(
        self, plan: NodePlan, model: KubeletNode, *, files: StateFiles | None = None
    ) -> None:
        """Start the kubelet's managers, from *files* if it ran before.

        Raises:
            KubeletStartError: a kubelet with this configuration, machine and state does not start.
        """
        self.model = model
        if files is not None:
            restore(self.model, files)
        self.labels: Mapping[str, str] = node_labels(plan)
        self.taints: Iterable[Taint] = plan.taints
        self.version = 0
        self._name = plan.name
        self._base = base_offer(plan)
        self._pods: dict[str, Pod] = {}
        self._arriving: Pod | None = None
        known = files.allocated if files is not None else None
        self._allocated: dict[str, Any] = allocated.read_allocated_pods(known) if known else {}
        # The managers' files of the version beside them.
        self._saved: tuple[int, StateFiles] | None = None
        self._model_version = 0
        # The copy of the model that is deciding: a kubelet lists what it has given so far.
        self.deciding: KubeletNode | None = None

    @property
    def pods(self) -> Iterable[Pod]:
        """The active pods in order of admission."""
        return self._pods.values()

    @property
    def listed(self) -> Iterable[Pod]:
        """The pods that PodResources lists: the active ones, and one that is being admitted."""
        return (*self.pods, *((self._arriving,) if self._arriving is not None else ()))

    def is_active(self, uid: str) -> bool:
        """Tell whether the pod with this uid has been admitted and holds its resources."""
        return uid in self._pods

    def offer(self) -> NodeOffer:
        """Return what the node offers now, devices of all plugins included."""
        devices = self.model.devices
        names = list(devices.resources())
        return NodeOffer(
            {**self._base.capacity, **{name: devices.count(name) for name in names}},
            {**self._base.allocatable, **{name: len(devices.healthy(name)) for name in names}},
        )

    def arrive(self, pod: Pod) -> None:
        """Begin to list *pod*; it holds nothing yet, or what it held before a restart."""
        self._arriving = pod

    def align(self, pod: Pod) -> Admitted | Rejected:
        """Ask the Topology Manager and its managers; what they give is held from now on."""
        self._change()
        return self.model.admit(pod)

    def adopt(self, model: KubeletNode) -> None:
        """Go on with a copy of the model that has decided something meanwhile."""
        self.model = model
        self._change()

    def check(self, pod: Pod) -> Rejected | None:
        """Check everything that the kubelet checks after alignment."""
        allocatable = dict(self.offer().allocatable)
        for resource in self._device_resources(pod.metadata.uid):
            # Devices that are held are there, even if their plugin is away.
            held = self.model.devices.allocated_count(resource)
            allocatable[resource] = max(allocatable.get(resource, 0), held)
        others = [other for uid, other in self._pods.items() if uid != pod.metadata.uid]
        return (
            check_system(pod)
            or check_fit(pod, others, allocatable)
            or check_placement(
                pod, others, node_name=self._name, labels=self.labels, taints=self.taints
            )
        )

    def accept(self, pod: Pod) -> None:
        """Count *pod* among the active ones, and those that are gone no more."""
        self._arriving = None
        self._pods[pod.metadata.uid] = pod
        kept = {uid: entry for uid, entry in self._allocated.items() if uid in self._pods}
        entry = self._allocated.get(pod.metadata.uid) or allocated.entry_of(pod)
        # After a restart the others have not arrived yet.
        kept = self._allocated if self.model.awaits_pods else kept
        self._allocated = {**kept, pod.metadata.uid: entry}
        self.version += 1

    def update(self, pod: Pod) -> Rejected | None:
        """Note a new state of an active pod; return why it is not resized, if it should be."""
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if known is None:
            return None
        if is_resized(known, pod):
            others = [other for other in self.pods if other.metadata.uid != uid]
            allocatable = self.offer().allocatable
            refused = resize_refusal(self.model, known, pod)
            refused = refused or room_refusal(pod, others, allocatable)
            if refused is not None:
                self._pods[uid] = with_resources_of(pod, known)
                return refused
            self._allocated[uid] = allocated.entry_of(pod)
            self.version += 1
        self._pods[uid] = pod
        return None

    def allocated_to(self, pod: Pod) -> Pod:
        """Return an active pod with the resources that it has, whatever it is to have."""
        return self._pods.get(pod.metadata.uid, pod)

    def start_container(self, uid: str, name: str) -> bool:
        """Note that a container starts; tell whether that has freed something."""
        if not self.model.start_container(uid, name):
            return False
        self._change()
        return True

    def release(self, uid: str) -> None:
        """Free what a pod holds that has ended or was refused; unknown uids are fine."""
        if self._arriving is not None and self._arriving.metadata.uid == uid:
            self._arriving = None
        self._pods.pop(uid, None)
        self.model.remove(uid)
        self.model.collect_garbage()
        self._change()

    def drop_devices(self, resource: str) -> None:
        """Forget *resource* altogether."""
        self.model.devices.unregister(resource)
        self._change()

    def await_pods(self, running: Collection[tuple[str, str]]) -> None:
        """Prepare for the pods of before a restart, of which the containers in *running* run."""
        self.model.await_pods(running)

    def all_pods_known(self) -> None:
        """Say that all pods of before a restart have been admitted again; drop the others'."""
        self.model.all_pods_known()
        self.model.collect_garbage()
        self._change()

    def set_devices(
        self,
        resource: str,
        devices: Iterable[Device],
        *,
        preferred: PreferredAllocation | None = None,
    ) -> None:
        """Replace the devices of *resource*."""
        self.model.register_devices(resource, devices, preferred=preferred)
        self._change()

    @property
    def allocated(self) -> frozenset[str]:
        """The uids that the kubelet has noted as admitted; none before Kubernetes 1.33."""
        notes = self.model.behaviour.version >= allocated.SINCE
        return frozenset(self._allocated) if notes else frozenset()

    def files(self) -> StateFiles:
        """Return the checkpoint files as of now."""
        if self._saved is None or self._saved[0] != self._model_version:
            self._saved = self._model_version, save(self.model)
        if self.model.behaviour.version < allocated.SINCE:
            return self._saved[1]
        return replace(self._saved[1], allocated=allocated.write_allocated_pods(self._allocated))

    def _change(self) -> None:
        """Take note that the managers have something else than before."""
        self.version += 1
        self._model_version += 1

    def _device_resources(self, uid: str) -> set[str]:
        containers = self.model.devices.assignments.get(uid, {}).values()
        return {resource for held in containers for resource in held}

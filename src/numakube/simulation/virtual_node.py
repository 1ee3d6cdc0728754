"""A node of a simulation: its kubelet is the model, and decides about every pod bound to it.

As in a kubelet, the resource managers are asked first, then whether the node as a whole has room,
then selectors, ports and taints; the first refusal is the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec, NodeStatus
from numakube.errors import ConfigError
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.config_from_words import overridden
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.predicates import check_placement, check_system
from numakube.kubelet.resource_fit import fit_refusal
from numakube.kubelet.settings_from_config import allocatable_of, capacity_of, settings_of
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand, kubelet_key
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_from_report import node_of
from numakube.topology.model_report import nrt_of
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.simulation.cluster_model import SimulatedNode
    from numakube.values.resources import Amounts

_HOSTNAME = "kubernetes.io/hostname"


class NodeFactory:
    """Makes nodes; kubelets that are alike are started once and copied."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """Prepare to make nodes whose kubelets are configured with *words* besides."""
        self._words = words
        self._started: dict[tuple[int, int, str], tuple[KubeletNode, Amounts, Amounts]] = {}
        self._kept: list[SimulatedNode] = []

    def make(self, node: SimulatedNode) -> VirtualNode:
        """Return *node* with a kubelet that has just started.

        Raises:
            ConfigError: its kubelet does not start with this configuration.
        """
        key = id(node.machine), id(node.config), node.kubernetes
        if key not in self._started:
            # The ids are those of objects that must live on.
            self._kept.append(node)
            try:
                self._started[key] = self._start(node)
            except ConfigError as error:
                raise ConfigError(f"node {node.name}: {error}") from None
        kubelet, capacity, allocatable = self._started[key]
        return VirtualNode(
            node,
            self._in_use(node) or kubelet.clone(),
            capacity={**capacity, **node.also},
            allocatable={**allocatable, **node.also},
        )

    def _in_use(self, node: SimulatedNode) -> KubeletNode | None:
        """Return the kubelet with what its pods hold, if that is known and nothing has changed."""
        if node.held is None or self._words:
            return None
        found = node_of(node.held)
        return found if isinstance(found, KubeletNode) else None

    def _start(self, node: SimulatedNode) -> tuple[KubeletNode, Amounts, Amounts]:
        config = overridden(node.config, node.machine, self._words)
        settings = settings_of(config, node.machine)
        return (
            KubeletNode(node.machine, settings, kubernetes=node.kubernetes),
            capacity_of(node.machine, max_pods=config.max_pods or 110),
            allocatable_of(config, node.machine),
        )


class VirtualNode:
    """The true state of one node.

    Attributes:
        kubelet: the resource managers.
        pods: the pods that run, by uid, in order of admission.
        used: what they request together.
    """

    def __init__(
        self, node: SimulatedNode, kubelet: KubeletNode, *, capacity: Amounts, allocatable: Amounts
    ) -> None:
        self.name = node.name
        self.kubelet = kubelet
        self.allocatable = allocatable
        self.pods: dict[str, PodInfo] = {}
        self.used: dict[str, int] = {}
        # What the managers have rejected, by kind of pod, since a pod last came or went: it is
        # mostly the same pod that comes again.
        self._rejected: dict[PodKey, Rejected] = {}
        self._labels = {_HOSTNAME: node.name, **node.labels}
        self._taints = node.taints
        meta = ObjectMeta(name=node.name, uid=f"node-{node.name}", labels=self._labels)
        status = NodeStatus(
            capacity=quantities_of(capacity), allocatable=quantities_of(allocatable)
        )
        spec = NodeSpec(taints=node.taints, unschedulable=node.unschedulable)
        self.object = Node(metadata=meta, spec=spec, status=status)

    def admit(self, pod: PodInfo) -> Admitted | Rejected:
        """Let the kubelet decide about *pod*, which is bound to this node."""
        key = kubelet_key(pod)
        known = self._rejected.get(key)
        if known is not None:
            return known
        outcome = self.kubelet.admit(kubelet_demand(pod, self.kubelet))
        if isinstance(outcome, Rejected):
            self._rejected[key] = outcome
            return outcome
        refused = self._refusal(pod)
        if refused is not None:
            self.kubelet.remove(pod.uid)
            return refused
        self.count(pod)
        return outcome

    def resume(self, pod: PodInfo) -> Rejected | None:
        """Go on with a pod that runs here already; return why not, if it has to be admitted."""
        if pod.uid in self.kubelet.pods:
            self.count(pod)
            return None
        outcome = self.admit(pod)
        return outcome if isinstance(outcome, Rejected) else None

    def count(self, pod: PodInfo) -> None:
        """Count *pod* among those that run; what it holds, the kubelet knows."""
        self._rejected.clear()
        self.pods[pod.uid] = pod
        for name, amount in pod.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def end(self, uid: str) -> PodInfo:
        """Let a pod end."""
        self._rejected.clear()
        pod = self.pods.pop(uid)
        self.kubelet.remove(uid)
        for name, amount in pod.requests.items():
            self.used[name] -= amount
        return pod

    def report(self, version: int, *, exact: bool) -> NodeResourceTopology:
        """Return what the exporter of the node writes now."""
        pods = ((one.namespace, one.name) for one in self.pods.values())
        told = {nrt_names.FINGERPRINT: fingerprint_of(pods)}
        report = nrt_of(self.name, self.kubelet, exact=exact, attributes=told)
        metadata = msgspec.structs.replace(
            report.metadata, uid=f"report-{self.name}", resource_version=str(version)
        )
        return msgspec.structs.replace(report, metadata=metadata)

    def _refusal(self, pod: PodInfo) -> Rejected | None:
        """Return why the pod may not run here although the resource managers would have it."""
        others = (one.pod for one in self.pods.values())
        return (
            check_system(pod.pod)
            or fit_refusal(pod.requests, self.used, len(self.pods), self.allocatable)
            or check_placement(
                pod.pod, others, node_name=self.name, labels=self._labels, taints=self._taints
            )
        )

"""Asking the model about one pod after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numakube.cli.admit.pod_inputs import name_of
from numakube.kubelet.admission_outcome import Admitted, ContainerPlacement, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.kubelet.predicates import check_fit
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.pod import Pod
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """What the kubelet says to a pod, and for a refusal why."""

    pod: Pod
    outcome: Admitted | Rejected
    why: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the pod may run."""
        return isinstance(self.outcome, Admitted)

    @property
    def name(self) -> str:
        """Namespace and name of the pod."""
        return name_of(self.pod)


def decide(node: KubeletNode, pods: Iterable[Pod], allocatable: Amounts) -> list[AdmissionVerdict]:
    """Let *node* admit *pods* in order; each sees what those before it have taken."""
    verdicts: list[AdmissionVerdict] = []
    for pod in pods:
        running = [verdict.pod for verdict in verdicts if verdict.admitted]
        verdicts.append(_decide(node, pod, running, allocatable))
    return verdicts


def _decide(
    node: KubeletNode, pod: Pod, running: Sequence[Pod], allocatable: Amounts
) -> AdmissionVerdict:
    """Align *pod* first and check that its requests fit after that, as the kubelet does."""
    trace = AdmissionTrace()
    outcome = node.admit(pod, trace=trace)
    if isinstance(outcome, Rejected):
        return AdmissionVerdict(pod, outcome, _why(trace))
    rejected = check_fit(pod, running, allocatable)
    if rejected is not None:
        node.remove(pod.metadata.uid)
    return AdmissionVerdict(pod, rejected or outcome)


def _why(trace: AdmissionTrace) -> str:
    """Return why the last alignment, the one at which admission stopped, was not good enough."""
    if trace.failed or not trace.alignments:
        return ""
    return trace.alignments[-1].why


def verdict_document(verdict: AdmissionVerdict) -> dict[str, Any]:
    """Return *verdict* as plain data, with the names of the replay format where it has them."""
    document: dict[str, Any] = {
        "namespace": verdict.pod.metadata.namespace,
        "name": verdict.pod.metadata.name,
        "admit": verdict.admitted,
    }
    if isinstance(verdict.outcome, Rejected):
        document |= {"reason": verdict.outcome.reason, "message": verdict.outcome.message}
        return document | ({"why": verdict.why} if verdict.why else {})
    containers = verdict.outcome.containers
    document["containers"] = {name: _placement(one) for name, one in containers.items()}
    return document


def _placement(placement: ContainerPlacement) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if placement.cpus:
        document["cpus"] = str(placement.cpus)
    if placement.memory:
        document["memory"] = [
            {"type": block.type, "size": block.size_bytes, "numa": list(block.numa_nodes)}
            for block in placement.memory
        ]
    if placement.devices:
        document["devices"] = {name: list(ids) for name, ids in placement.devices.items()}
    if placement.hint.mask is not None:
        document["affinity"] = list(nodes_of(placement.hint.mask))
        document["preferred"] = placement.hint.preferred
    return document

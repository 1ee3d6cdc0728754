"""What a node would look like with some pods more and some less, as its kubelet would do it.

    plan = planned(facts, "node-1", arriving=pods, leaving=("default/web",))
    plan.picture, plan.refused

The pods that leave are gone before the first one arrives. A pod that is refused takes nothing, and
those after it are asked all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from numakube.insight.drawing.before_and_after import compared
from numakube.insight.drawing.claimed_devices import with_claimed
from numakube.insight.drawing.picture_from_facts import node_picture, pod_names, reported_pods
from numakube.insight.drawing.picture_from_report import picture_of_report
from numakube.insight.facts import model_of
from numakube.insight.scheduler_holdings import with_allotments
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.kubelet.resource_fit import check_fit
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_from_report import remove_pod, report_of
from numakube.topology.numa_zones import Unusable
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.pod import Pod
    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.kubelet_model import KubeletNode


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that the kubelet would not admit, in its words and in ours."""

    pod: str
    reason: str
    message: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How it would turn out; ``before`` is the node as it is."""

    before: NodePicture
    picture: NodePicture
    refused: tuple[Refused, ...] = ()


def planned(
    facts: ClusterFacts, node: str, *, arriving: Sequence[Pod] = (), leaving: Sequence[str] = ()
) -> Plan | Unusable:
    """Return the plan for *node*, or why there is none.

    Args:
        facts: what is known of the cluster.
        node: which node.
        arriving: pods to admit, in this order.
        leaving: ``namespace/name`` of pods on the node that are to be gone.
    """
    model = model_of(facts, node)
    if isinstance(model, Unusable):
        return model
    running = {pod.metadata.key: pod for pod in facts.pods_on(node)}
    unknown = [name for name in leaving if name not in running]
    if unknown:
        return Unusable(f"no such pod on node {node}: {', '.join(unknown)}")
    for name in leaving:
        remove_pod(model, running.pop(name).metadata.uid)
    trial = _Trial(facts, node, model, list(running.values()))
    refused = tuple(one for pod in arriving if (one := trial.admit(pod)) is not None)
    before = node_picture(facts, node)
    # A rebuilt model knows its pods by their hashes, which its report then hashes once more.
    known = {uid_hash(digest): name for digest, name in pod_names(facts, node).items()}
    report = with_allotments(
        report_of(model), running.values(), key=lambda uid: uid_hash(uid_hash(uid))
    )
    after = with_claimed(
        picture_of_report(node, report, pods={**known, **trial.names}),
        [one.without(leaving) for one in facts.dra_devices(node)],
        reported=reported_pods(facts, node),
    )
    return Plan(before, compared(before, after), refused)


class _Trial:
    """Admits pods one after the other, as the kubelet of a node would."""

    def __init__(
        self, facts: ClusterFacts, node: str, model: KubeletNode, running: list[Pod]
    ) -> None:
        self.names: dict[str, str] = {}
        self._model = model
        self._running = running
        status = facts.nodes[node].status if node in facts.nodes else None
        self._allocatable = amounts_of(status.allocatable) if status else None

    def admit(self, pod: Pod) -> Refused | None:
        """Return why *pod* is refused; ``None`` if it runs."""
        # The same pod may run here already: the plan's is another one.
        uid = f"planned {len(self.names)} {pod.metadata.uid}"
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
        trace = AdmissionTrace()
        outcome = self._model.admit(pod, trace=trace)
        if isinstance(outcome, Rejected):
            return _refused(pod, outcome, trace)
        if self._allocatable is not None:
            misfit = check_fit(pod, self._running, self._allocatable)
            if misfit is not None:
                self._model.remove(uid)
                return _refused(pod, misfit, None)
        self.names[uid_hash(uid)] = self._name(pod)
        self._running.append(pod)
        return None

    def _name(self, pod: Pod) -> str:
        """Return a name that no other pod in the picture has."""
        key = pod.metadata.key
        again = sum(one.metadata.key == key for one in self._running)
        return f"{key} (again)" if again == 1 else f"{key} ({again} more)" if again else key


def _refused(pod: Pod, outcome: Rejected, trace: AdmissionTrace | None) -> Refused:
    aligned = trace is not None and not trace.failed and trace.alignments
    why = trace.alignments[-1].why if trace is not None and aligned else ""
    return Refused(pod.metadata.key, outcome.reason, outcome.message, why)

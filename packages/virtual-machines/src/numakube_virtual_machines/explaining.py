"""What explanations say of virtual machines: planned ones, and those that run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.observations import UNKNOWN, Observation
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.topology import node_of
from numakube.topology.numa_zones import Unusable
from numakube.values.display import bytes_text, counted
from numakube.values.quantity import value
from numakube_virtual_machines.guest_cells import cells_on, guest_of
from numakube_virtual_machines.launcher_pod import COMPUTE, DOMAIN, LAUNCHER, PASSTHROUGH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain import Subject
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.observations import ObservedNode
    from numakube.scheduling import Engine


def with_machine(explanation: Explanation, engine: Engine, subject: Subject) -> Explanation:
    """Return *explanation* with what a planned pod is that runs a virtual machine."""
    if not subject.planned or guest_of(subject.pod) is None:
        return explanation
    notes = (*explanation.notes, *_asked(subject.pod), *_cells(explanation, engine, subject.pod))
    return msgspec.structs.replace(explanation, notes=notes)


def _asked(pod: Pod) -> Iterator[str]:
    guest = guest_of(pod)
    compute = next((one for one in pod.spec.containers if one.name == COMPUTE), None)
    if guest is None or compute is None or compute.resources is None:
        return
    asked = compute.resources.requests
    pages = sum(value(text) for name, text in asked.items() if name.startswith("hugepages-"))
    overhead = value(asked.get("memory", "0")) - (0 if pages else guest[1])
    yield (
        f"It is the pod of virtual machine {pod.metadata.annotations.get(DOMAIN, '')}: a guest of"
        f" {counted(guest[0], 'CPU')} and {bytes_text(guest[1])}. By KubeVirt's rules it asks for"
        f" cpu {asked.get('cpu', '0')} and {bytes_text(max(0, overhead))} of memory besides the"
        " guest's; versions of KubeVirt differ by some MiB. Networks of SR-IOV interfaces are not"
        " counted: a NetworkAttachmentDefinition names their resource."
    )


def _cells(explanation: Explanation, engine: Engine, pod: Pod) -> Iterator[str]:
    node = engine.cluster.node(explanation.chosen) if explanation.chosen else None
    if PASSTHROUGH not in pod.metadata.annotations:
        yield "Its guest sees one NUMA node, wherever its CPUs and its memory are."
        return
    belief = None if node is None else node.numa
    model = node_of(belief.basis.exact) if isinstance(belief, ExactBelief) else None
    if model is None or isinstance(model, Unusable):
        if explanation.chosen:
            yield f"Which NUMA cells its guest has on {explanation.chosen} is not known."
        return
    cells = cells_on(model, pod)
    told = [
        f"cell {number} on zone {cell.zone} with {counted(cell.cpus, 'CPU')} and"
        f" {bytes_text(cell.memory_bytes)}"
        for number, cell in enumerate(cells)
    ]
    if told:
        yield f"On {explanation.chosen} its guest sees {'; '.join(told)}."


class MachineObserver:
    """Says which virtual machine runs in a pod."""

    def of_pod(self, node: ObservedNode, pod: Pod) -> Observation:
        """Return the machine of a launcher's pod."""
        del node
        name = pod.metadata.annotations.get(DOMAIN, "")
        if pod.metadata.labels.get("kubevirt.io") != LAUNCHER or not name:
            return Observation(text=UNKNOWN)
        key = f"{pod.metadata.namespace}/{name}"
        return Observation(
            text=key,
            words=(f"It runs the virtual machine {key} (kubectl get vmi).",),
            document={"machine": key},
        )

    def of_zone(self, node: ObservedNode, zone: int) -> Observation:
        """Return nothing: machines are seen by their pods."""
        del node, zone
        return Observation(text=UNKNOWN)


OBSERVER: Final = MachineObserver()

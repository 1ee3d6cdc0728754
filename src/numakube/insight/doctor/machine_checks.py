"""Are there machines on which the kubelet crashes, or does not answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.doctor.findings import Finding, Rule, Severity, about_node
from numakube.insight.facts import model_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine_hazards import hazards_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts

CRASH: Final = Rule(
    id="NUMA-KUBELET-CRASH",
    severity=Severity.ERROR,
    title="A pod can crash the kubelet",
    why=(
        "The kubelet takes for granted that every NUMA node lists the same page sizes and that"
        " distances reach every node. Where they do not, it panics, and does so again after each"
        " restart as long as the pod is there."
    ),
    fix=(
        "# give every NUMA node a pool of each page size, or set memoryManagerPolicy: None;\n"
        "# remove prefer-closest-numa-nodes where the kernel reports no distances"
    ),
)
NO_ANSWER: Final = Rule(
    id="NUMA-KUBELET-NO-ANSWER",
    severity=Severity.ERROR,
    title="The kubelet does not answer to pods that need alignment",
    why=(
        "It tries every set of NUMA nodes, twice as many with each further node. While it does, it"
        " admits no other pod."
    ),
    fix=(
        "memoryManagerPolicy: None   # on machines of more than 24 NUMA nodes\n"
        "# for devices: Kubernetes 1.36 or later, which looks at NUMA nodes with devices only"
    ),
)
RULES: Final = (CRASH, NO_ANSWER)


def check_machines(facts: ClusterFacts) -> Iterator[Finding]:
    """Ask what each kubelet runs into on its machine."""
    for name in facts.nodes:
        model = model_of(facts, name)
        if not isinstance(model, KubeletNode):
            continue
        for hazard in hazards_of(model):
            rule = CRASH if hazard.crashes else NO_ANSWER
            yield about_node(rule, name, hazard.text)


CHECKS: Final = (check_machines,)

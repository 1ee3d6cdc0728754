"""An independent scheduler from the definitions: a pod fits a node that would admit it.

It knows the kubelets' own books and nothing of the code under test: requests are added up here, and
alignment is asked of a copy of the kubelet itself.
"""

from __future__ import annotations

from collections import Counter

from numakube.api.pod import Pod, ResourceRequirements
from numakube.kubelet.admission_outcome import Admitted
from numakube.values.quantity import milli_value, value
from numakube_lab.nodes.kubelet_admission import KubeletAdmission
from numakube_lab.testing import LabCluster


def requests_of(pod: Pod) -> Counter[str]:
    """Return the sum over containers, or what the largest init container needs if that is more.

    Sidecars run beside all that starts after them. What the pod says of itself as a whole counts
    in the place of what its containers say.
    """
    running: Counter[str] = Counter()
    for container in pod.spec.containers:
        running += amounts_of(container.resources)
    beside: Counter[str] = Counter()
    starting: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        needed = amounts_of(container.resources)
        if container.restart_policy == "Always":
            beside += needed
        else:
            starting |= beside + needed
    return Counter({**((running + beside) | starting), **amounts_of(pod.spec.resources)})


def amounts_of(resources: ResourceRequirements | None) -> Counter[str]:
    """Return requests as numbers: CPU in thousandths."""
    requests = resources.requests if resources is not None else {}
    return Counter(
        {
            name: milli_value(text) if name == "cpu" else value(text)
            for name, text in requests.items()
        }
    )


def fits(admission: KubeletAdmission, pod: Pod) -> bool:
    """Tell whether a node has room for the requests, and its kubelet would align them."""
    offer = admission.offer().allocatable
    held: Counter[str] = Counter()
    pods = list(admission.pods)
    for other in pods:
        held += requests_of(other)
    enough = len(pods) < offer["pods"] and all(
        held[resource] + amount <= offer.get(resource, 0)
        for resource, amount in requests_of(pod).items()
    )
    return enough and isinstance(admission.model.clone().admit(pod), Admitted)


def nodes_for(world: LabCluster, pod: Pod) -> list[str]:
    """Return every node that would take *pod* now."""
    return [
        name
        for name, kubelet in world.pool.kubelets.items()
        if kubelet.admission is not None and fits(kubelet.admission, pod)
    ]

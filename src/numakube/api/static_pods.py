"""Static pods, which a kubelet takes from files, and the objects by which it shows them in the API.

Such an object ("mirror pod") has a uid of its own and names the kubelet's in an annotation. Anybody
who may create pods may write that annotation. So it counts only with the kubelet's other marks: the
source of the pod, and the node that the pod is on as its owner (since Kubernetes 1.17). Even those
can be forged; therefore no object counts as the image of a pod that the API has itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import Pod

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Where a kubelet has a pod from; it writes this itself."""
API: Final = "api"
_MIRROR: Final = "kubernetes.io/config.mirror"


def static_uid(pod: Pod) -> str | None:
    """Return the uid by which its kubelet knows a static pod; nothing of any other pod."""
    metadata = pod.metadata
    owner = metadata.controller
    if (
        metadata.annotations.get(CONFIG_SOURCE, API) == API
        or owner is None
        or (owner.kind, owner.name) != ("Node", pod.spec.node_name)
    ):
        return None
    return metadata.annotations.get(_MIRROR) or None


def by_kubelet_uid(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Return the pods of a node by the uids by which its kubelet knows them.

    Images of pods that are there themselves are left out, and of two images of the same pod the
    younger: it is the forged one.
    """
    own = {pod.metadata.uid: pod for pod in pods}
    uids = [(static_uid(pod), pod) for pod in own.values()]
    images = [(uid, pod) for uid, pod in uids if uid is not None and uid not in own]
    images.sort(key=lambda image: image[1].metadata.creation_timestamp or "", reverse=True)
    return {pod.metadata.uid: pod for uid, pod in uids if uid is None} | dict(images)

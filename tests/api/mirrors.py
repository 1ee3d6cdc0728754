"""Images of static pods in the API, as kubelets make them."""

from __future__ import annotations

from typing import Any

import msgspec

from numakube.api.meta import OwnerReference
from numakube.api.pod import Pod

MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"


def mirror_of(pod: Pod, uid: str, **more: Any) -> Pod:
    """Return *pod*, which is on a node, as the image of a static pod with this uid.

    *more* are fields of its metadata.
    """
    owner = OwnerReference(
        api_version="v1", kind="Node", name=pod.spec.node_name, uid="n", controller=True
    )
    metadata = {
        "annotations": {**pod.metadata.annotations, MIRROR: uid, SOURCE: "file"},
        "owner_references": (owner,),
        **more,
    }
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **metadata))

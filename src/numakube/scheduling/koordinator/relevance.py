"""Which pods and nodes concern NodeNUMAResource; most do not.

A pod is found to be ordinary without reading its annotations, because nearly all pods of nearly
all clusters are, and must cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.koordinator.device_resources import requests_by_type

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_DOMAIN: Final = "koordinator.sh"
_NODE_LABELS: Final = (keys.NODE_POLICY, keys.NODE_BIND_POLICY)


def is_ordinary(pod: PodInfo) -> bool:
    """Tell whether *pod* wishes nothing of its own beyond devices."""
    if keys.QOS_CLASS in pod.labels:
        return False
    annotations = pod.pod.metadata.annotations
    return not annotations or not any(
        _DOMAIN in key or key == keys.VOLCANO_POLICY for key in annotations
    )


def wants_devices(pod: PodInfo) -> bool:
    """Tell whether *pod* asks for devices of kinds that the Device resource describes."""
    return bool(requests_by_type(pod.requests))


def may_matter(node: NodeInfo) -> bool:
    """Tell whether *node* may have settings that make ordinary pods special."""
    if any(node.labels.get(key) for key in _NODE_LABELS):
        return True
    return keys.NODE_AMPLIFICATION in node.node.metadata.annotations

"""``allocated_pods_state``: the pods that the kubelet has admitted, since Kubernetes 1.33.

The kubelet lists a pod in PodResources as soon as it hears of it, then lets its managers allocate
container by container, and writes this file once all of them have given what the pod wants. So a
pod in this file holds everything that it will ever hold. Entries of pods that are gone stay until
the next pod is admitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.checkpoints.checkpoint_loading import (
    checksum_of_text,
    decode_as_written,
    parse_sealed,
)
from numakube.api.codec import to_tree
from numakube.api.pod_resources import is_sidecar
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod

SINCE: Final = (1, 33)
"""The first version that writes the file, unless InPlacePodVerticalScaling is switched off."""


class _AllocatedPodsFile(msgspec.Struct, frozen=True, gc=False):
    data: str = "{}"
    checksum: int = 0


class _Content(msgspec.Struct, frozen=True, gc=False):
    entries: dict[str, msgspec.Raw] = {}


def read_allocated_pods(data: bytes | str) -> dict[str, Any]:
    """Return the entries in *data* by uid; it is refused if its checksum is wrong."""
    file = decode_as_written(_AllocatedPodsFile, data)
    entries: dict[str, Any] = parse_sealed(file.data, file.checksum).get("entries") or {}
    return entries


def peek_allocated_pods(data: bytes | str) -> frozenset[str]:
    """Return the uids of the pods in *data* without the costly check of its checksum."""
    return frozenset(
        decode_as_written(_Content, decode_as_written(_AllocatedPodsFile, data).data).entries
    )


def write_allocated_pods(entries: Mapping[str, Any]) -> bytes:
    """Return the file of *entries* by uid."""
    data = go_json({"entries": dict(sorted(entries.items()))} if entries else {}, struct=True)
    return go_json({"data": data, "checksum": checksum_of_text(data)}, struct=True).encode()


def entry_of(pod: Pod) -> dict[str, Any]:
    """Return what the kubelet notes of an admitted *pod*: what its containers ask for."""
    kept = (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers))
    asked: dict[str, Any] = {
        container.name: to_tree(container.resources) or {} for container in kept
    }
    return {
        "ContainerResources": {name: _resources(asked[name]) for name in sorted(asked)},
        "PodLevelResources": None,
    }


def _resources(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        part: dict(sorted(asked[part].items()))
        for part in ("limits", "requests")
        if asked.get(part)
    }

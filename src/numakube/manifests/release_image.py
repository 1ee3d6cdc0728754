"""The image of a release: tagged by its version, so that what is deployed stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.version import VERSION as _WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION: Final = _WHOLE.partition("+")[0]
"""As tags of images and versions of charts allow it: without what a build adds after a plus."""
REPOSITORY: Final = "ghcr.io/numakube/numakube"
IMAGE: Final = f"{REPOSITORY}:{VERSION}"


def pulled(documents: list[dict[str, Any]], image: str, policy: str) -> list[dict[str, Any]]:
    """Return *documents* with *image* pulled by *policy* wherever it runs."""
    for container in _containers(documents, image, "initContainers", "containers"):
        container["imagePullPolicy"] = policy
    return documents


def told_gates(documents: list[dict[str, Any]], image: str, gates: str) -> list[dict[str, Any]]:
    """Return *documents* with programs of *image* told the feature *gates*, if there are any."""
    if gates:
        for container in _containers(documents, image, "containers"):
            container["args"] = [*container["args"], f"--feature-gates={gates}"]
    return documents


def _containers(
    documents: Iterable[dict[str, Any]], image: str, *kinds: str
) -> Iterator[dict[str, Any]]:
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in (one for kind in kinds for one in pod.get(kind, ())):
            if container["image"] == image:
                yield container

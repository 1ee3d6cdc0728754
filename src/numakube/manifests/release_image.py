"""The image of a release: tagged by its version, so that what is deployed stays as it is."""

from __future__ import annotations

from typing import Any, Final

from numakube.version import VERSION as _WHOLE

VERSION: Final = _WHOLE.partition("+")[0]
"""As tags of images and versions of charts allow it: without what a build adds after a plus."""
REPOSITORY: Final = "ghcr.io/numakube/numakube"
IMAGE: Final = f"{REPOSITORY}:{VERSION}"


def pulled(documents: list[dict[str, Any]], image: str, policy: str) -> list[dict[str, Any]]:
    """Return *documents* with *image* pulled by *policy* wherever it runs."""
    for document in documents:
        template = document.get("spec", {}).get("template", {})
        pod = template.get("spec", {})
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            if container["image"] == image:
                container["imagePullPolicy"] = policy
    return documents

"""The label that names the manager of an object, so that no other's objects are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.kube.resource_types import Document

MANAGED_BY: Final = "app.kubernetes.io/managed-by"


def managed(document: Document, by: str) -> Document:
    """Return *document* with the label of its manager."""
    metadata = document["metadata"]
    labels = {**metadata.get("labels", {}), MANAGED_BY: by}
    return {**document, "metadata": {**metadata, "labels": labels}}


def manager_of(document: Document) -> str:
    """Return the manager of an object; empty if it does not name one."""
    return str(document["metadata"].get("labels", {}).get(MANAGED_BY, ""))

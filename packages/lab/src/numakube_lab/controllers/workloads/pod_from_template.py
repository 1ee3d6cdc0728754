"""From a workload's template to a pod, and the hash by which templates are told apart."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kube.resource_types import Document

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: nothing that could spell a word."""

_HASH_LENGTH: Final = 10


def pod_from_template(
    template: Document,
    *,
    namespace: str,
    owner: Document,
    name: str = "",
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
) -> Document:
    """Return the pod that *template* describes, managed by *owner*."""
    given = template.get("metadata") or {}
    metadata: Document = {"namespace": namespace, "ownerReferences": [owner]}
    metadata |= {"name": name} if name else {"generateName": generate_name}
    metadata["labels"] = {**(given.get("labels") or {}), **(labels or {})}
    metadata["annotations"] = {**(given.get("annotations") or {}), **(annotations or {})}
    metadata["finalizers"] = [*(given.get("finalizers") or ()), *finalizers]
    filled = {name: value for name, value in metadata.items() if value}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": filled,
        "spec": template.get("spec") or {},
    }


def template_hash(template: Document, collision_count: int | None = None) -> str:
    """Return a short name for *template*; *collision_count* tells apart what has the same hash.

    The real controllers hash Go's internal form of the template; nothing depends on the value.
    """
    encoded = msgspec.json.encode([template, collision_count or 0], order="sorted")
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:8])
    letters = []
    for _ in range(_HASH_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def without_label(template: Document, label: str) -> Document:
    """Return *template* without one of its labels."""
    metadata: dict[str, Any] = template.get("metadata") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    if label not in labels:
        return template
    kept = {name: value for name, value in labels.items() if name != label}
    return {**template, "metadata": {**metadata, "labels": kept}}


def with_labels(template: Document, labels: Mapping[str, str]) -> Document:
    """Return *template* with more labels."""
    metadata: dict[str, Any] = template.get("metadata") or {}
    return {
        **template,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}},
    }

"""The history of a workload's template, in ControllerRevisions (stateful and daemon sets).

The latest revision is that of the present template. Going back to an earlier template gives its
revision the highest number again.

From a workload's template to a pod, and the hash by which templates are told apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.kube import key_of
from numakube_lab.controllers.common.controller_loop import Action, Create, Delete, PlannedChange
from numakube_lab.controllers.common.pod_states import owner_document
from numakube_lab.controllers.object_types import CONTROLLER_REVISIONS, ControllerRevision

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numakube.kube import Document, Resource
    from numakube_lab.controllers.common.controller_loop import Owned


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


HASH_LABEL: Final = "controller-revision-hash"
"""The label that says which revision a pod is of."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The revision of the present template, and what has to be done first to have it."""

    name: str
    hash: str
    actions: tuple[Action, ...] = ()


def latest_revision(
    resource: Resource[Any],
    owner: Owned,
    template: Document,
    labels: dict[str, str],
    revisions: Sequence[ControllerRevision],
) -> Latest:
    """Return the revision of *template*.

    Args:
        resource: what the owner is.
        owner: whose template it is.
        template: the template.
        labels: what the revisions are labelled with, besides their hash.
        revisions: those that the owner has.
    """
    data = data_of(template)
    highest = max((each.revision for each in revisions), default=0)
    for each in sorted(revisions, key=lambda revision: -revision.revision):
        if each.data == data:
            return _again(each, highest)
    short = template_hash(template)
    name = f"{owner.metadata.name}-{short}"
    document: Document = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {**labels, HASH_LABEL: short},
            "ownerReferences": [owner_document(resource, owner)],
        },
        "data": data,
        "revision": highest + 1,
    }
    return Latest(name, short, (Create(resource=CONTROLLER_REVISIONS, document=document),))


def _again(revision: ControllerRevision, highest: int) -> Latest:
    short = revision.metadata.labels.get(HASH_LABEL, "")
    if revision.revision == highest:
        return Latest(revision.metadata.name, short)
    patch = {
        "metadata": {"resourceVersion": revision.metadata.resource_version},
        "revision": highest + 1,
    }
    change = PlannedChange(resource=CONTROLLER_REVISIONS, key=key_of(revision), patch=patch)
    return Latest(revision.metadata.name, short, (change,))


def data_of(template: Document) -> Document:
    """Return what a revision keeps of *template*: a patch that restores it."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_in(revision: ControllerRevision) -> Document:
    """Return the template that *revision* keeps."""
    template: Document = (revision.data.get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def surplus_revisions(
    revisions: Sequence[ControllerRevision], live: Collection[str], limit: int
) -> tuple[Delete, ...]:
    """Return the deletion of the oldest revisions beyond *limit* that no pod is of.

    Args:
        revisions: all of them.
        live: names or hashes of those that are in use.
        limit: how many unused ones are kept.
    """
    unused = [
        each
        for each in revisions
        if each.metadata.name not in live and each.metadata.labels.get(HASH_LABEL) not in live
    ]
    unused.sort(key=lambda each: each.revision)
    return tuple(
        Delete(resource=CONTROLLER_REVISIONS, key=key_of(each), uid=each.metadata.uid)
        for each in unused[: max(0, len(unused) - limit)]
    )

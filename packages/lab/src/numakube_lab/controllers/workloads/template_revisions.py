"""The history of a workload's template, in ControllerRevisions (stateful and daemon sets).

The latest revision is that of the present template. Going back to an earlier template gives its
revision the highest number again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.kube.resource_types import key_of
from numakube_lab.controllers.common.controller_actions import Action, Change, Create, Delete
from numakube_lab.controllers.common.owner_references import owner_document
from numakube_lab.controllers.types.workload_types import CONTROLLER_REVISIONS, ControllerRevision
from numakube_lab.controllers.workloads.pod_from_template import template_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube.kube.resource_types import Document, Resource
    from numakube_lab.controllers.common.resource_mirrors import Owned

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
    for each in sorted(revisions, key=lambda one: -one.revision):
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
    change = Change(resource=CONTROLLER_REVISIONS, key=key_of(revision), patch=patch)
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

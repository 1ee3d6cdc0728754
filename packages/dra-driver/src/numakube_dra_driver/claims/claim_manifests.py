"""Claims in manifests: of pods, and in the templates of what makes pods."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numakube.api.pod import TEMPLATES
from numakube.errors import MalformedObject
from numakube_dra_driver.claims.claim_writing import LeftAlone, write_claims

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_dra_driver.claims.claim_writing import Wish
    from numakube_dra_driver.claims.served_resources import Serving


@dataclass(frozen=True, slots=True)
class WrittenManifests:
    """Manifests with claims.

    Attributes:
        documents: templates before the objects that use them; other objects as they were.
        notes: which objects were left alone, and why, and what claims could not have.
        count: objects that use a claim.
    """

    documents: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    count: int


def write_manifests(
    trees: Iterable[dict[str, Any]], wish: Wish, serving: Serving, *, namespace: str = ""
) -> WrittenManifests:
    """Return *trees* with claims; those without a namespace go to *namespace*, if it is given.

    Raises:
        MalformedObject: something is no pod, or no template of one.
        InvalidValue: a quantity or an annotation makes no sense.
    """
    documents: list[dict[str, Any]] = []
    notes: list[str] = []
    trees = list(trees)
    templates = {_key(tree) for tree in trees if tree.get("kind") == "ResourceClaimTemplate"}
    count = 0
    for tree in trees:
        kind, metadata = tree.get("kind", ""), tree.get("metadata") or {}
        name = f"{str(kind).lower()}/{metadata.get('name') or metadata.get('generateName')}"
        path = () if kind == "Pod" else TEMPLATES.get(kind)
        if path is None:
            documents.append(tree)
            continue
        changed = deepcopy(tree)
        pod = _pod_in(changed, path, name)
        place = metadata.get("namespace") or namespace
        placed = {**pod, "metadata": {**(pod.get("metadata") or {}), "namespace": place}}
        found = write_claims(placed, wish, serving)
        if isinstance(found, LeftAlone):
            notes.append(f"{name} is left as it is: {found.why}")
            documents.append(tree)
            continue
        pod["spec"] = found.pod["spec"]
        pod["metadata"] = pod.get("metadata") or {}
        for part in ("annotations", "labels"):
            pod["metadata"][part] = found.pod["metadata"][part]
        key = _key(found.template)
        documents += [changed] if key in templates else [found.template, changed]
        templates.add(key)
        notes += [f"{name}: {remark}" for remark in found.remarks]
        count += 1
    return WrittenManifests(tuple(documents), tuple(notes), count)


def _key(template: dict[str, Any]) -> tuple[str, str]:
    metadata = template.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _pod_in(tree: dict[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    pod: Any = tree
    for step in path:
        pod = pod.get(step) if isinstance(pod, dict) else None
    if not isinstance(pod, dict) or not isinstance(pod.get("spec"), dict):
        raise MalformedObject(name, "is required", path=".".join((*path, "spec")))
    return pod

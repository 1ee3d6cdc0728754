"""Pods out of manifests: pods themselves, and the templates of what makes pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from numakube.allotment.checking import TEMPLATES
from numakube.api.codec import convert
from numakube.api.core import Pod
from numakube.api.yamls import load_manifests
from numakube.cli.sources import read_text
from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Iterator


def pods_in(file: str) -> tuple[Pod, ...]:
    """Return the pods in *file* (``-`` is standard input), templates included.

    Raises:
        MalformedObject: there is none, or one that cannot be read.
    """
    subject = "standard input" if file == "-" else file
    pods = tuple(_pods(load_manifests(read_text(file), subject), subject))
    if not pods:
        raise MalformedObject(subject, f"no pod, nor a template of {', '.join(TEMPLATES)}")
    return pods


def _pods(trees: Any, subject: str) -> Iterator[Pod]:  # noqa: ANN401 - documents of any kind
    for tree in trees:
        kind = tree.get("kind", "Pod")
        if kind == "Pod":
            yield _pod(tree, f"{subject}: Pod")
        elif kind in TEMPLATES:
            yield _from_template(tree, kind, subject)


def _from_template(tree: dict[str, Any], kind: str, subject: str) -> Pod:
    meta = tree.get("metadata") or {}
    template: Any = tree
    for step in TEMPLATES[kind]:
        template = template.get(step) if isinstance(template, dict) else None
    if not isinstance(template, dict):
        path = ".".join(TEMPLATES[kind])
        raise MalformedObject(f"{subject}: {kind} {meta.get('name')}", "is required", path=path)
    pod = _pod(template, f"{subject}: {kind} {meta.get('name')}")
    metadata = msgspec.structs.replace(
        pod.metadata, generate_name=f"{meta.get('name')}-", namespace=meta.get("namespace") or ""
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _pod(tree: dict[str, Any], subject: str) -> Pod:
    pod = convert(Pod, {"metadata": tree.get("metadata") or {}, "spec": tree.get("spec")}, subject)
    if not pod.spec.containers:
        raise MalformedObject(subject, "a pod needs a container", path="spec.containers")
    return pod

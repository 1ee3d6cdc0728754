"""Pods out of manifests: pods themselves, and the templates of what makes pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.annexes import Group, load, points
from numakube.api.codec import convert
from numakube.api.pod import TEMPLATES, Pod
from numakube.api.yaml_text import load_manifests
from numakube.cli.shared.machine_argument import read_text
from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COUNTS: Final = dict.fromkeys(("Job", "CronJob"), ("parallelism", "completions"))
"""Fields that tell how many pods run at once, where that is not ``replicas``."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Pods that are alike, which a manifest asks for.

    Attributes:
        kind: of the object that makes them, or ``Pod``.
        replicas: how many run at the same time; ``None`` for one on every node.
    """

    kind: str
    name: str
    pod: Pod
    replicas: int | None = 1

    @property
    def title(self) -> str:
        """The object as kubectl names it: ``deployment/web``."""
        return f"{self.kind.lower()}/{self.name}"


def batches_in(file: str) -> tuple[Batch, ...]:
    """Return the pods that *file* (``-`` is standard input) asks for, and how many of each.

    Raises:
        MalformedObject: there is none, or one that cannot be read.
    """
    subject = "standard input" if file == "-" else file
    return batches_of(load_manifests(read_text(file), subject), subject)


def batches_of(trees: Iterable[dict[str, Any]], subject: str) -> tuple[Batch, ...]:
    """Return what the objects in *trees*, read from *subject*, ask for.

    Raises:
        MalformedObject: there is none, or one that cannot be read.
    """
    found = tuple(_batches(trees, subject))
    if not found:
        known = ", ".join((*TEMPLATES, *points(Group.POD_KINDS)))
        raise MalformedObject(subject, f"no pod, nor a template of {known}")
    return found


def _batches(trees: Iterable[dict[str, Any]], subject: str) -> Iterator[Batch]:
    for tree in trees:
        kind = tree.get("kind", "Pod")
        if kind == "Pod":
            pod = _pod(tree, f"{subject}: Pod")
            yield Batch(kind, pod.metadata.name, pod)
        elif kind in TEMPLATES:
            yield _from_template(tree, kind, subject)
        elif kind in points(Group.POD_KINDS):
            made = pod_tree(tree, kind, subject)
            name = str((tree.get("metadata") or {}).get("name", ""))
            yield Batch(kind, name, _pod(made, f"{subject}: {kind}"))


def pod_tree(tree: dict[str, Any], kind: str, subject: str) -> dict[str, Any]:
    """Return the pod that a cluster makes of the object *tree*, which an annex knows.

    Raises:
        MalformedObject: it cannot be read.
    """
    made: dict[str, Any] = load(Group.POD_KINDS, kind)(tree, subject)
    return made


def _from_template(tree: dict[str, Any], kind: str, subject: str) -> Batch:
    meta = tree.get("metadata") or {}
    name, about = meta.get("name") or "", f"{subject}: {kind} {meta.get('name')}"
    template: Any = tree
    for step in TEMPLATES[kind]:
        template = template.get(step) if isinstance(template, dict) else None
    if not isinstance(template, dict):
        raise MalformedObject(about, "is required", path=".".join(TEMPLATES[kind]))
    pod = _pod(template, about)
    metadata = msgspec.structs.replace(
        pod.metadata, generate_name=f"{name}-", namespace=meta.get("namespace") or ""
    )
    pod = msgspec.structs.replace(pod, metadata=metadata)
    return Batch(kind, name, pod, _replicas(tree, kind, about))


def _replicas(tree: dict[str, Any], kind: str, subject: str) -> int | None:
    """Return how many pods an object has at the same time."""
    if kind == "DaemonSet":
        return None
    path = TEMPLATES[kind][:-1]
    spec: Any = tree
    for step in path:
        spec = spec[step]
    counts = [spec.get(field) for field in _COUNTS.get(kind, ("replicas",))]
    for field, count in zip(_COUNTS.get(kind, ("replicas",)), counts, strict=True):
        if count is not None and (type(count) is not int or count < 0):
            raise MalformedObject(
                subject, f"{count!r} is no count", path=f"{'.'.join(path)}.{field}"
            )
    return min((count for count in counts if count is not None), default=1)


def _pod(tree: dict[str, Any], subject: str) -> Pod:
    pod = convert(Pod, {"metadata": tree.get("metadata") or {}, "spec": tree.get("spec")}, subject)
    if not pod.spec.containers:
        raise MalformedObject(subject, "a pod needs a container", path="spec.containers")
    return pod

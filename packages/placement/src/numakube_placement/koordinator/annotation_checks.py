"""A validating check of objects: pods, what makes pods, and nodes.

One finding a line, with the path of the field as Kubernetes names it. Besides what keeps our
scheduler from reading a pod's wish there is what Koordinator's own webhook refuses: QoS and
priority classes that do not go together, and bound pods without CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.api.codec import convert
from numakube.api.koordinator import keys
from numakube.api.nodes import Node
from numakube.api.pod import TEMPLATES, Pod
from numakube.api.strictness import strictness_of
from numakube.api.zone_relations import zone_wish_of
from numakube.errors import MalformedObject
from numakube.values.resources import CPU
from numakube_placement.koordinator.annotation_values import label
from numakube_placement.koordinator.pod_wish import (
    BANDS,
    BE,
    LSE,
    LSR,
    PROD,
    QOS_CLASSES,
    priority_of,
    qos_of,
)
from numakube_placement.koordinator.read_cpus import kept_by_owner
from numakube_placement.koordinator.read_node import read_labels, read_ratios
from numakube_placement.koordinator.read_pod import wish_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_placement.koordinator.pod_wish import PodWish


def findings_in(tree: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return what is wrong with an object, line by line; ``None`` if its kind is not looked at."""
    kind = tree.get("kind")
    if kind == "Pod":
        return _findings_in_pod(tree, "")
    if kind == "Node":
        return _findings_in_node(tree)
    if not isinstance(kind, str) or kind not in TEMPLATES:
        return None
    template: Any = tree
    for step in TEMPLATES[kind]:
        template = template.get(step) if isinstance(template, dict) else None
    path = ".".join(TEMPLATES[kind])
    if not isinstance(template, dict):
        return (f"{path}: is required",)
    return _findings_in_pod(template, f"{path}.")


def pod_problems(pod: Pod) -> tuple[str, ...]:
    """Return what is wrong with the NUMA annotations and classes of *pod*."""
    wish = wish_of(pod)
    asked = strictness_of(pod.metadata.annotations)
    near = zone_wish_of(pod.metadata.annotations)
    return (*wish.problems, *asked.mistakes, *near.mistakes, *_class_problems(pod, wish))


def node_problems(node: Node) -> tuple[str, ...]:
    """Return what is wrong with the labels and annotations of *node* that placement reads."""
    problems: list[str] = []
    read_labels(node.metadata.labels, problems)
    read_ratios(node.metadata.annotations, problems)
    kept_by_owner(node.metadata.annotations, None, problems)
    return tuple(problems)


def _class_problems(pod: Pod, wish: PodWish) -> Iterator[str]:
    labels = pod.metadata.labels
    known: tuple[tuple[str, tuple[str, ...]], ...] = (
        (keys.QOS_CLASS, QOS_CLASSES),
        (keys.PRIORITY_CLASS, tuple(BANDS)),
    )
    for key, words in known:
        if labels.get(key, "") not in ("", *words):
            yield f"{label(key)}: unknown word {labels[key]!r}: use one of {', '.join(words)}"
    qos, priority = qos_of(labels), priority_of(labels, pod.spec.priority)
    if qos in {LSE, LSR} and priority != PROD:
        yield f"{label(keys.QOS_CLASS)}: {qos} needs priority class {PROD}, not {priority}"
    if qos in {LSE, LSR} and not wish.requests.get(CPU):
        yield f"{label(keys.QOS_CLASS)}: {qos} Pod must declare the requested CPUs"
    if qos == BE and priority == PROD:
        yield f"{label(keys.QOS_CLASS)}: {qos} does not go with priority class {PROD}"


def _findings_in_pod(tree: Mapping[str, Any], prefix: str) -> tuple[str, ...]:
    """Return the findings of a pod or a template, each path beginning with *prefix*."""
    parts = {"metadata": tree.get("metadata") or {}, "spec": tree.get("spec") or {}}
    try:
        pod = convert(Pod, parts)
    except MalformedObject as error:
        return (_malformed(error, prefix),)
    return tuple(prefix + problem for problem in pod_problems(pod))


def _findings_in_node(tree: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return node_problems(convert(Node, {"metadata": tree.get("metadata") or {}}))
    except MalformedObject as error:
        return (_malformed(error, ""),)


def _malformed(error: MalformedObject, prefix: str) -> str:
    return f"{prefix}{error.path}: {error.detail}" if error.path else error.detail

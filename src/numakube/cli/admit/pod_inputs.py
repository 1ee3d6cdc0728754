"""The pods of ``numakube plan admit``, with errors that name file, object and field.

Pods are completed and checked as far as their resources go: requests follow limits, and what
kube-apiserver would refuse there is refused here. Fields that no resource manager reads may lack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from numakube.annexes import Group, points
from numakube.api.codec import convert, to_tree
from numakube.api.pod import TEMPLATES, Pod
from numakube.api.resource_requirements import validate_requirements
from numakube.api.yaml_text import load_manifests
from numakube.cli.shared.pods_in_manifests import pod_tree
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.pod import Container, ResourceRequirements


def read_pods(text: str, subject: str) -> tuple[Pod, ...]:
    """Return the pods in *text*, YAML documents or JSON, lists and templates, for a kubelet."""
    pods = tuple(_pod(_bare(tree, subject), subject) for tree in load_manifests(text, subject))
    if not pods:
        raise MalformedObject(subject, "there is no pod in it")
    seen: set[str] = set()
    for pod in pods:
        if pod.metadata.uid in seen:
            raise MalformedObject(subject, f"two pods are called {name_of(pod)}")
        seen.add(pod.metadata.uid)
    return pods


def name_of(pod: Pod) -> str:
    """Return namespace and name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _bare(tree: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return the pod that *tree* is or, under its own name, has a template of."""
    kind = tree.get("kind", "Pod")
    if kind == "Pod":
        return tree
    if kind in points(Group.POD_KINDS):
        return pod_tree(tree, kind, subject)
    if kind not in TEMPLATES:
        raise MalformedObject(subject, f"a kubelet admits pods, not a {kind}", path="kind")
    template: Any = tree
    for step in TEMPLATES[kind]:
        template = template.get(step) if isinstance(template, dict) else None
    if not isinstance(template, dict):
        raise MalformedObject(f"{subject}: {kind}", "is required", path=".".join(TEMPLATES[kind]))
    return {**template, "metadata": tree.get("metadata")}


def _pod(tree: dict[str, Any], subject: str) -> Pod:
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        raise MalformedObject(f"{subject}: Pod", "is required", path="metadata.name")
    here = f"{subject}: Pod {name}"
    pod = _complete(convert(Pod, tree, here))
    _check(pod, here)
    return pod


def _complete(pod: Pod) -> Pod:
    """Return *pod* with a namespace, a uid and requests that follow limits."""
    namespace = pod.metadata.namespace or "default"
    metadata = msgspec.structs.replace(
        pod.metadata, namespace=namespace, uid=f"{namespace}/{pod.metadata.name}"
    )
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(_with_requests, pod.spec.containers)),
        init_containers=tuple(map(_with_requests, pod.spec.init_containers or ())),
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _with_requests(container: Container) -> Container:
    resources = container.resources
    if resources is None or not resources.limits:
        return container
    requests = {**resources.limits, **resources.requests}
    completed: ResourceRequirements = msgspec.structs.replace(resources, requests=requests)
    return msgspec.structs.replace(container, resources=completed)


def _check(pod: Pod, subject: str) -> None:
    if not pod.spec.containers:
        raise MalformedObject(subject, "a pod needs a container", path="spec.containers")
    for path, container in _containers(pod):
        tree = to_tree(container.resources) if container.resources else {}
        requirements = {side: _texts(tree.get(side)) for side in ("limits", "requests")}
        _check_amounts(requirements, f"{path}.resources", subject)
        for error in validate_requirements(requirements, f"{path}.resources"):
            raise MalformedObject(subject, str(error))


def _check_amounts(requirements: dict[str, dict[str, str]], path: str, subject: str) -> None:
    for side, amounts in requirements.items():
        for name, text in amounts.items():
            try:
                parse_quantity(text)
            except InvalidValue as error:
                where = f"{path}.{side}[{name}]"
                raise MalformedObject(subject, str(error), path=where) from None


def _containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    groups: Iterable[tuple[str, tuple[Container, ...]]] = (
        ("initContainers", pod.spec.init_containers or ()),
        ("containers", pod.spec.containers),
    )
    for field, containers in groups:
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}]", container


def _texts(amounts: dict[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}

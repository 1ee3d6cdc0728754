"""What admission does with pods, and what a pod asks for in total.

Objects are documents here; `numakube.api.pod_resources` has the rules of the totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kube_lab_server.kinds.kind_rules import AdmissionRefused
from kube_lab_server.kinds.node_checks import merge_tolerations
from numakube.api import pod_resources as rules
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.values.gotext import go_quote
from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_lab_server.kind_names import Json
    from kube_lab_server.kinds.kind_rules import ClusterView


NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_PATIENCE_SECONDS: Final = 300
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_WRONG_OVERHEAD: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)


def set_priority(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give a pod the priority of its class, or of the default class."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    found = view.get("scheduling.k8s.io", "PriorityClass", name) if name else _default_class(view)
    if name and found is None:
        return AdmissionRefused(f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority = (found or {}).get("value") or 0
    policy = found.get("preemptionPolicy") if found else "PreemptLowerPriority"
    if spec.get("priority") not in {None, priority}:
        return _computed("integer value of priority", spec["priority"], priority)
    spec["priority"] = priority
    if policy is None:
        return None
    if spec.get("preemptionPolicy") not in {None, policy}:
        return _computed("string value of PreemptionPolicy", spec["preemptionPolicy"], policy)
    spec["preemptionPolicy"] = policy
    return None


def _default_class(view: ClusterView) -> Json | None:
    defaults = [
        found
        for found in view.list("scheduling.k8s.io", "PriorityClass")
        if found.get("globalDefault")
    ]
    return min(defaults, key=lambda found: found.get("value") or 0, default=None)


def _computed(what: str, given: object, computed: object) -> AdmissionRefused:
    return AdmissionRefused(
        f"the {what} ({given}) must not be provided in pod spec; priority admission controller "
        f"computed {computed} from the given PriorityClass name"
    )


def keep_priority(new: Json, old: Json) -> None:
    """Fill in the priority that a client which does not know of it left out."""
    for field in ("priority", "preemptionPolicy"):
        if new["spec"].get(field) is None and old["spec"].get(field) is not None:
            new["spec"][field] = old["spec"][field]


def add_tolerations(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Let a pod stay for some minutes on a node that is not ready or unreachable."""
    del view
    spec = pod["spec"]
    tolerations = list(spec.get("tolerations") or [])
    missing = [key for key in (NOT_READY, UNREACHABLE) if not _tolerates(tolerations, key)]
    if missing:
        added = [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _PATIENCE_SECONDS,
            }
            for key in missing
        ]
        spec["tolerations"] = tolerations + added
    return None


def _tolerates(tolerations: Sequence[Json], key: str) -> bool:
    return any(
        (toleration.get("key") or "") in {"", key}
        and (toleration.get("effect") or "") in {"", "NoExecute"}
        for toleration in tolerations
    )


def set_runtime_class(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give a pod the overhead and the placement of its runtime class."""
    spec = pod["spec"]
    found, refused = _runtime_class(spec, view)
    if refused or found is None:
        return refused
    if (overhead := found.get("overhead")) is not None:
        fixed = overhead.get("podFixed") or {}
        given = spec.get("overhead")
        if given and _amounts(given) != _amounts(fixed):
            return AdmissionRefused(_WRONG_OVERHEAD)
        spec["overhead"] = dict(fixed)
    scheduling = found.get("scheduling")
    return None if scheduling is None else _merge_scheduling(spec, scheduling)


def _runtime_class(spec: Json, view: ClusterView) -> tuple[Json | None, AdmissionRefused | None]:
    name = spec.get("runtimeClassName")
    if name is None:
        return None, None
    found = view.get("node.k8s.io", "RuntimeClass", name)
    if found is None:
        return None, AdmissionRefused(f"pod rejected: RuntimeClass {go_quote(name)} not found")
    return found, None


def _amounts(listed: dict[str, str]) -> Amounts:
    return {name: parse_quantity(text) for name, text in listed.items()}


def _merge_scheduling(spec: Json, scheduling: Json) -> AdmissionRefused | None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            return AdmissionRefused(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    more = scheduling.get("tolerations") or []
    if merged := merge_tolerations([*(spec.get("tolerations") or []), *more]):
        spec["tolerations"] = merged
    return None


def check_overhead(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Refuse an overhead that is not the one of the pod's runtime class."""
    spec = pod["spec"]
    found, refused = _runtime_class(spec, view)
    if refused:
        return refused
    overhead = (found or {}).get("overhead")
    given = spec.get("overhead")
    if overhead is None:
        rule = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        return None if given is None else AdmissionRefused(rule)
    same = _amounts(given or {}) == _amounts(overhead.get("podFixed") or {})
    return None if same else AdmissionRefused(_WRONG_OVERHEAD)


def topology_labels(node_name: str, view: ClusterView) -> dict[str, str]:
    """Return the labels that a pod takes over from its node."""
    node = view.get("", "Node", node_name) if node_name else None
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    return {key: labels[key] for key in _TOPOLOGY_LABELS if key in labels}


def copy_topology_labels(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Label a pod that is created on a node with the node's zone and region."""
    if labels := topology_labels(pod["spec"].get("nodeName") or "", view):
        pod["metadata"]["labels"] = (pod["metadata"].get("labels") or {}) | labels
    return None


Amounts: TypeAlias = dict[str, Quantity]
_SUMS: Final = {"requests": rules.effective_requests, "limits": rules.effective_limits}


def amounts_of(owner: Json | None, side: str) -> Amounts:
    """Return the ``requests`` or ``limits`` (*side*) in the ``resources`` of *owner*."""
    listed = ((owner or {}).get("resources") or {}).get(side) or {}
    return {name: parse_quantity(text) for name, text in listed.items()}


def is_sidecar(container: Json) -> bool:
    """Tell whether an init container keeps running next to the others."""
    return rules.is_sidecar(_container(container))


def sum_containers(spec: Json, side: str) -> Amounts:
    """Return what the containers of *spec* need at any time, by ``requests`` or ``limits``."""
    return _SUMS[side](_pod(spec), overhead=False, pod_level_resources=False)


def compute_qos(spec: Json) -> str:
    """Return the quality-of-service class of a pod with *spec*."""
    return rules.compute_qos_class(_pod(spec))


def _pod(spec: Json) -> Pod:
    return Pod(
        spec=PodSpec(
            containers=tuple(map(_container, spec.get("containers") or ())),
            init_containers=tuple(map(_container, spec.get("initContainers") or ())),
            resources=_resources(spec),
        )
    )


def _container(container: Json) -> Container:
    return Container(
        name=container.get("name") or "",
        restart_policy=container.get("restartPolicy"),
        resources=_resources(container),
    )


def _resources(owner: Json) -> ResourceRequirements | None:
    resources = owner.get("resources")
    if resources is None:
        return None
    return ResourceRequirements(
        requests=resources.get("requests") or {}, limits=resources.get("limits") or {}
    )

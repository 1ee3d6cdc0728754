"""Admission: what the server adds to a write, or refuses of it, looking at other objects.

Covers the plugins of kube-apiserver 1.35 that are on by default and decide by objects alone:
LimitRanger, TaintNodesByCondition, Priority, DefaultTolerationSeconds, DefaultStorageClass,
StorageObjectInUseProtection, RuntimeClass, DefaultIngressClass and PodTopologyLabels; and the
allocation of addresses and ports of services. The life cycle of namespaces is the API server's own
business. ServiceAccount is left out: what it adds to pods depends on controllers that the caller
may not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube_lab.kinds import GVK, Json
from numakube_lab.objects.checks.cluster_view import ClusterView, Refused
from numakube_lab.objects.checks.kind_rules import copy_json, sharing
from numakube_lab.objects.cluster.limit_range_rules import (
    check_claim_limits,
    check_pod_limits,
    set_limits,
)
from numakube_lab.objects.networking.service_allocation import allocate_changed, allocate_new
from numakube_lab.objects.object_admission import (
    add_not_ready_taint,
    check_priority_class,
    protect_claim,
    protect_volume,
    set_ingress_class,
    set_storage_class,
)
from numakube_lab.objects.pod.pod_admission import (
    add_tolerations,
    check_overhead,
    copy_topology_labels,
    keep_priority,
    set_priority,
    set_runtime_class,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Step: TypeAlias = Callable[[Json, ClusterView], Refused | None]


@dataclass(frozen=True, slots=True)
class _Chain:
    """The steps for one kind, in the order of the plugins."""

    create: tuple[Step, ...] = ()
    check_create: tuple[Step, ...] = ()


_NO_STEPS: Final = _Chain()
_CHAINS: Final = {
    ("", "Pod"): _Chain(
        create=(
            set_limits,
            set_priority,
            add_tolerations,
            set_runtime_class,
            copy_topology_labels,
        ),
        check_create=(check_pod_limits, check_overhead),
    ),
    ("", "Node"): _Chain(create=(add_not_ready_taint,)),
    ("", "PersistentVolume"): _Chain(create=(protect_volume,)),
    ("", "PersistentVolumeClaim"): _Chain(
        create=(set_storage_class, protect_claim), check_create=(check_claim_limits,)
    ),
    ("", "Service"): _Chain(create=(allocate_new,)),
    ("networking.k8s.io", "Ingress"): _Chain(create=(set_ingress_class,)),
    ("scheduling.k8s.io", "PriorityClass"): _Chain(check_create=(check_priority_class,)),
}


def admit_create(gvk: GVK, obj: Json, view: ClusterView) -> Json | Refused:
    """Return a decoded new object with what admission adds, or why it is refused."""
    steps = _CHAINS.get((gvk.group, gvk.kind), _NO_STEPS).create
    return _run(steps, obj, view) if steps else obj


def check_create(gvk: GVK, obj: Json, view: ClusterView) -> Refused | None:
    """Tell why a complete and valid new object may not be stored, if so."""
    for step in _CHAINS.get((gvk.group, gvk.kind), _NO_STEPS).check_create:
        if refused := step(obj, view):
            return refused
    return None


def admit_update(
    gvk: GVK, new: Json, old: Json, view: ClusterView, *, subresource: str = ""
) -> Json | Refused:
    """Return a decoded changed object with what admission adds, or why it is refused."""
    if (gvk.group, gvk.kind, subresource) == ("", "Pod", ""):
        obj = copy_json(new)
        keep_priority(obj, old)
        return _run((add_tolerations,), sharing(obj, new), view)
    if (gvk.group, gvk.kind, subresource) == ("", "Pod", "resize"):
        return _run((set_limits,), new, view)
    if (gvk.group, gvk.kind, subresource) == ("", "Service", ""):
        return _run((partial(_allocate_for, old),), new, view)
    return new


def _allocate_for(old: Json, service: Json, view: ClusterView) -> Refused | None:
    return allocate_changed(service, old, view)


def check_update(
    gvk: GVK, new: Json, old: Json, view: ClusterView, *, subresource: str = ""
) -> Refused | None:
    """Tell why a complete and valid changed object may not be stored, if so."""
    if (old.get("metadata") or {}).get("deletionTimestamp"):
        return None
    match (gvk.group, gvk.kind, subresource):
        case ("", "Pod", "resize"):
            return check_pod_limits(new, view)
        case ("", "PersistentVolumeClaim", ""):
            return check_claim_limits(new, view)
        case ("scheduling.k8s.io", "PriorityClass", ""):
            return check_priority_class(new, view)
        case _:
            return None


def _run(steps: Iterable[Step], obj: Json, view: ClusterView) -> Json | Refused:
    changed = copy_json(obj)
    for step in steps:
        if refused := step(changed, view):
            return refused
    return sharing(changed, obj)

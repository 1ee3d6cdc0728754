"""What a pod asks for in total, and the quality of service that this gives it.

Objects are documents here; `numakube.api.pod_resources` has the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api import pod_resources as rules
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

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

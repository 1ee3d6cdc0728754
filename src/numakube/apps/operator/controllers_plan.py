"""The controllers that a NUMAResourcesScheduler may ask for: rebalancer and admission check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.admission_check import AdmissionCheckManifest
from numakube.manifests.components import pulled
from numakube.manifests.rebalancer import RebalancerManifest
from numakube.manifests.secondary_scheduler import NAME as SCHEDULER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.numaresources import RebalancerSpec, SchedulerSpec
    from numakube.manifests.controller import ControllerManifest

_REPLICAS: Final = 2
"""One works, the other stands by."""


def wanted_controllers(spec: SchedulerSpec, namespace: str) -> Iterator[ControllerManifest]:
    """Yield those that *spec* asks for; none are deployed unless it does."""
    common: dict[str, Any] = {
        "namespace": namespace,
        "image": spec.image_spec,
        "scheduler": SCHEDULER,
    }
    if spec.rebalancer is not None:
        replicas, args = spec.rebalancer.replicas, tuple(_arguments(spec.rebalancer))
        yield RebalancerManifest(**common, replicas=_or_two(replicas), args=args)
    if spec.admission_check is not None:
        yield AdmissionCheckManifest(**common, replicas=_or_two(spec.admission_check.replicas))


def controller_objects(
    spec: SchedulerSpec, namespace: str, pull_policy: str
) -> list[dict[str, Any]]:
    """Return everything that the controllers of *spec* need."""
    documents = [one for each in wanted_controllers(spec, namespace) for one in each.objects()]
    return pulled(documents, spec.image_spec, pull_policy)


def _or_two(replicas: int | None) -> int:
    return _REPLICAS if replicas is None else replicas


def _arguments(spec: RebalancerSpec) -> Iterator[str]:
    if spec.moves_per_hour is not None:
        yield f"--moves-per-hour={spec.moves_per_hour}"
    if spec.quiet_hours:
        yield f"--quiet-hours={spec.quiet_hours}"
    if spec.dry_run:
        yield "--dry-run"

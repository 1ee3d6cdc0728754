"""What a NUMAResourcesScheduler may ask for beside its scheduler.

That is an extender for kube-schedulers, a rebalancer, and an admission check. None of them is
deployed unless it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.yaml_text import dump_yaml
from numakube.manifests.admission_check import AdmissionCheckManifest
from numakube.manifests.components import pulled
from numakube.manifests.debug_access import debugging_access
from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.operator import EXTENDER
from numakube.manifests.rebalancer import RebalancerManifest
from numakube.manifests.secondary_scheduler import NAME as SCHEDULER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.numaresources import ExtenderSpec, RebalancerSpec, SchedulerSpec
    from numakube.manifests.controller_deployment import ControllerManifest

EXTENDER_KEY: Final = "kube-scheduler.yaml"
_REPLICAS: Final = 2


def companion_names(spec: SchedulerSpec) -> list[str]:
    """Return the names of the Deployments of what *spec* asks for."""
    extender = [EXTENDER] if spec.extender is not None else []
    return extender + [one.name for one in _controllers(spec, "")]


def companion_objects(
    spec: SchedulerSpec, namespace: str, pull_policy: str
) -> list[dict[str, Any]]:
    """Return everything that *spec* asks for."""
    documents = [one for each in _controllers(spec, namespace) for one in each.objects()]
    if spec.extender is not None:
        documents = [*_extender_objects(spec.extender, spec.image_spec, namespace), *documents]
    return pulled(documents, spec.image_spec, pull_policy)


def _extender_objects(spec: ExtenderSpec, image: str, namespace: str) -> list[dict[str, Any]]:
    """Return the extender and the configuration by which a kube-scheduler uses it."""
    manifest = ExtenderManifest(
        namespace=namespace,
        name=EXTENDER,
        image=image,
        replicas=_or_two(spec.replicas),
        tls=spec.tls != "Disabled",
        second=False,
    )
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": EXTENDER, "namespace": namespace},
        "data": {EXTENDER_KEY: dump_yaml(manifest.configuration())},
    }
    workload = [*manifest.guards(), manifest.service(), manifest.deployment()]
    access = [*manifest.access(), *debugging_access(EXTENDER, namespace)]
    return [*access, configuration, *workload]


def _controllers(spec: SchedulerSpec, namespace: str) -> Iterator[ControllerManifest]:
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


def _or_two(replicas: int | None) -> int:
    return _REPLICAS if replicas is None else replicas


def _arguments(spec: RebalancerSpec) -> Iterator[str]:
    if spec.moves_per_hour is not None:
        yield f"--moves-per-hour={spec.moves_per_hour}"
    if spec.quiet_hours:
        yield f"--quiet-hours={spec.quiet_hours}"
    if spec.dry_run:
        yield "--dry-run"

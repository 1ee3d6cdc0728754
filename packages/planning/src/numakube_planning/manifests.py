"""The rebalancer and the admission check as they are deployed: what they need, and may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.manifests import ControllerManifest
from numakube.manifests.rbac_rules import READ, ask_who_calls, rule
from numakube.manifests.scheduler import cluster_rules as scheduler_rules
from numakube_planning.annex import ADMISSION_CHECK, REBALANCER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numakube.api.numaresources import RebalancerSpec, SchedulerSpec
    from numakube.manifests import Choices

_KUEUE: Final = "kueue.x-k8s.io"
_REPLICAS: Final = 2


class RebalancerManifest(ControllerManifest):
    """What is deployed of the rebalancer."""

    program = REBALANCER.name
    port = REBALANCER.port
    cpu = "100m"
    memory = "256Mi"
    memory_limit = "2Gi"

    @classmethod
    def asked_by(
        cls, spec: SchedulerSpec, *, namespace: str, image: str, scheduler: str
    ) -> Self | None:
        """Return the rebalancer that *spec* asks for."""
        asked = spec.rebalancer
        if asked is None:
            return None
        return cls(
            namespace=namespace,
            image=image,
            scheduler=scheduler,
            replicas=_REPLICAS if asked.replicas is None else asked.replicas,
            args=tuple(_arguments(asked)),
        )

    def cluster_rules(self) -> list[dict[str, Any]]:
        """Return what it may do: read what schedulers read, cordon nodes and evict pods."""
        return [
            *(
                rule(entry["apiGroups"][0], entry["resources"], READ)
                for entry in scheduler_rules()
                if "list" in entry["verbs"]
            ),
            rule("scheduling.k8s.io", ["priorityclasses"], READ),
            rule("resource.k8s.io", ["resourceclaimtemplates"], READ),
            rule("", ["nodes"], ["patch"]),
            rule("", ["pods/eviction"], ["create"]),
            rule("", ["events"], ["create", "patch"]),
            *ask_who_calls(),
        ]


class AdmissionCheckManifest(ControllerManifest):
    """What is deployed of the admission check."""

    program = ADMISSION_CHECK.name
    port = ADMISSION_CHECK.port
    cpu = "50m"
    memory = "96Mi"
    memory_limit = "512Mi"

    @classmethod
    def asked_by(
        cls, spec: SchedulerSpec, *, namespace: str, image: str, scheduler: str
    ) -> Self | None:
        """Return the admission check that *spec* asks for."""
        asked = spec.admission_check
        if asked is None:
            return None
        return cls(
            namespace=namespace,
            image=image,
            scheduler=scheduler,
            replicas=_REPLICAS if asked.replicas is None else asked.replicas,
        )

    def cluster_rules(self) -> list[dict[str, Any]]:
        """Return what it may do all over the cluster: answer for workloads, and remove gates."""
        return [
            rule(_KUEUE, ["workloads", "admissionchecks", "resourceflavors"], READ),
            rule(_KUEUE, ["workloads/status", "admissionchecks/status"], ["patch"]),
            rule("", ["pods"], (*READ, "patch")),
            rule("scheduling.k8s.io", ["priorityclasses"], READ),
            rule("", ["events"], ["create", "patch"]),
            *ask_who_calls(),
        ]


def rebalancer(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the component ``rebalancer``."""
    return RebalancerManifest(
        namespace=choices.namespace, image=choices.image, replicas=choices.replicas
    ).objects()


def admission(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the component ``admission``."""
    return AdmissionCheckManifest(
        namespace=choices.namespace, image=choices.image, replicas=choices.replicas
    ).objects()


def _arguments(spec: RebalancerSpec) -> Iterator[str]:
    if spec.moves_per_hour is not None:
        yield f"--moves-per-hour={spec.moves_per_hour}"
    if spec.quiet_hours:
        yield f"--quiet-hours={spec.quiet_hours}"
    if spec.dry_run:
        yield "--dry-run"

"""What the Topology Manager asks of a resource manager.

Three managers provide hints and allocate, always in this order: devices, CPUs, memory. There is no
roll-back: what a manager gave to a pod that is rejected later stays until the pod is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.demand import ContainerDemand, PodDemand
    from numakube.kubelet.outcome import Failure
    from numakube.kubelet.topology_hints import Hint, ProviderHints


class HintProvider(Protocol):
    """A resource manager as the Topology Manager sees it."""

    name: ClassVar[str]

    def container_hints(self, pod: PodDemand, container: ContainerDemand) -> ProviderHints:
        """Return where the container's demand can be met."""

    def pod_hints(self, pod: PodDemand) -> ProviderHints:
        """Return where the demand of the whole pod can be met."""

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: Hint) -> Failure | None:
        """Take the container's resources, close to *hint*; a second call changes nothing."""

    def allocate_pod(self, pod: PodDemand, hint: Hint) -> Failure | None:
        """Take the resources of a pod that is managed as one bubble."""

    def pods(self) -> Iterable[str]:
        """Return the uids of the pods that hold resources."""

    def forget(self, uid: str) -> None:
        """Release everything that the pod holds."""

    def wanted(self, pod: PodDemand, container: ContainerDemand | None) -> Mapping[str, int]:
        """Return the amounts that the hints are about, for traces; the whole pod if ``None``."""

    def free_by_node(self, resource: str) -> Mapping[int, int]:
        """Return what is free of *resource* on each NUMA node, for traces."""

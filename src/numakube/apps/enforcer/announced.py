"""What the container runtime has told of pods and containers, often before the API does.

A new pod may be with the kubelet before our watch has it; its sandbox has the annotations that it
had then. A container's name is in the pod's status a second after it was started; the runtime tells
it beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.apps.enforcer.allowed_cpus import PodState
    from numakube.node.nri.nri_objects import Container, Sandbox


@dataclass(slots=True)
class Announced:
    """Pods and containers that a runtime has told of."""

    _pods: dict[str, Pod] = field(default_factory=dict)
    _containers: dict[str, dict[str, str]] = field(default_factory=dict)

    def add_pod(self, sandbox: Sandbox) -> None:
        """Note a pod that is being started."""
        self._pods[sandbox.uid] = Pod(
            metadata=ObjectMeta(
                name=sandbox.name,
                namespace=sandbox.namespace,
                uid=sandbox.uid,
                labels=dict(sandbox.labels),
                annotations=dict(sandbox.annotations),
            )
        )

    def add_container(self, uid: str, container: Container) -> None:
        """Note a container of a pod."""
        self._containers.setdefault(uid, {})[container.id] = container.name

    def begin(self, sandboxes: Iterable[Sandbox], containers: Iterable[Container]) -> None:
        """Start over with the containers that there are.

        Their pods are not noted: whatever has run for long is known from the API, or forced out of
        it.
        """
        uids = {one.id: one.uid for one in sandboxes}
        self._containers = {}
        for one in containers:
            if one.sandbox_id in uids:
                self.add_container(uids[one.sandbox_id], one)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone, with its containers."""
        self._pods.pop(uid, None)
        self._containers.pop(uid, None)

    def remove_container(self, uid: str, identity: str) -> None:
        """Forget a container that is gone."""
        self._containers.get(uid, {}).pop(identity, None)

    def with_pods(self, known: Mapping[str, Pod]) -> dict[str, Pod]:
        """Return the API's pods, and those that it does not have yet, by uid."""
        for uid in self._pods.keys() & known.keys():
            del self._pods[uid]
        return {**self._pods, **known}

    def with_containers(self, pod: PodState) -> PodState:
        """Return *pod* with the containers that its status does not have yet."""
        told = self._containers.get(pod.uid)
        return replace(pod, containers={**told, **pod.containers}) if told else pod

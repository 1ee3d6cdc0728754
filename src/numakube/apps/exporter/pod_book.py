"""The node's pods as the API knows them: their uids, and which of them are done.

The kubelet's answers have names only. A watch of the pods that are bound to this node tells the
rest, and is a trigger of its own: a pod that ends changes no state file at once.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from numakube.kube.catalog import PODS
from numakube.kube.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.core import Pod
    from numakube.apps.exporter.inputs import PodName
    from numakube.kube.client import Client
    from numakube.kube.store import Change

_DONE: Final = frozenset({"Succeeded", "Failed"})


class PodBook(Protocol):
    """What is known of the node's pods."""

    def uids(self) -> Mapping[PodName, str]:
        """Return the uids of the pods."""
        ...

    def terminal(self) -> frozenset[PodName]:
        """Return the pods that are done."""
        ...


class NoPods:
    """Nothing is known."""

    def uids(self) -> Mapping[PodName, str]:
        """Return nothing."""
        return MappingProxyType({})

    def terminal(self) -> frozenset[PodName]:
        """Return nothing."""
        return frozenset()


class WatchedPods:
    """The pods of one node, watched."""

    def __init__(self, client: Client, node_name: str, changed: Callable[[], None]) -> None:
        self._reflector: Reflector[Pod] = Reflector(
            client, PODS, fields=f"spec.nodeName={node_name}"
        )
        self._changed = changed
        self._reflector.store.subscribe(self._on_change)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    def uids(self) -> Mapping[PodName, str]:
        """Return the uids of the pods."""
        return uids_of(self._reflector.store.values())

    def terminal(self) -> frozenset[PodName]:
        """Return the pods that are done."""
        return terminal_of(self._reflector.store.values())

    async def known(self) -> None:
        """Return as soon as all pods are known."""
        await self._reflector.synced.wait()

    def _on_change(self, _: Change[Pod]) -> None:
        self._changed()


def uids_of(pods: Iterable[Pod]) -> Mapping[PodName, str]:
    """Return the uids of *pods* by namespace and name."""
    return {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in pods}


def terminal_of(pods: Iterable[Pod]) -> frozenset[PodName]:
    """Return those of *pods* that are done."""
    return frozenset(
        (pod.metadata.namespace, pod.metadata.name)
        for pod in pods
        if pod.status is not None and pod.status.phase in _DONE
    )

"""What the API knows of a node: its pods, which of them are done, and the Node object.

The kubelet's answers have names only. A watch of the pods that are bound to this node tells the
rest, and is a trigger of its own: a pod that ends changes no state file at once.

API and kubelet do not agree at every moment. A pod that was deleted by force is listed by the
kubelet for a while, and one of the same name may exist by then; so the uids of pods that have left
are remembered for as long as the kubelet lists their name, and where there are several the
kubelet's state files decide. A pod that the watch has not brought yet is waited for, for a moment;
if it does not come, it counts as the kubelet lists it, and there is no exact data.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.api.meta import OwnerReference
from numakube.api.pod import by_kubelet_uid, has_ended
from numakube.errors import ApiError, ClusterUnreachable, NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import ObjectKey
from numakube.kube.store import Removed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.apps.exporter.node_scan import PodName
    from numakube.kube.client import Client
    from numakube.kube.store import Change


WAIT_SECONDS: Final = 1.0
"""How long a report waits for the watch to bring a pod that the kubelet lists already."""


class PodBook(Protocol):
    """What is known of the node's pods."""

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return the uids of pods that the kubelet lists, as far as they are known.

        Args:
            listed: the pods.
            held: the uids in the kubelet's state files.
        """
        ...

    def started(self) -> frozenset[str]:
        """Return the uids of pods whose status says that the kubelet has admitted them."""
        ...

    def expected(self, admitted: Collection[str]) -> frozenset[PodName] | None:
        """Return the pods that the kubelet has to list once it has loaded them.

        Args:
            admitted: the uids of pods that the kubelet has admitted some time.

        Returns:
            Nothing if the API's pods are not known.
        """
        ...

    def terminal(self) -> frozenset[PodName]:
        """Return the pods that are done."""
        ...

    def aliases(self) -> Mapping[str, str]:
        """Return the API's uids of static pods by those that the kubelet knows them by."""
        ...


class NoPods:
    """Nothing is known."""

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return nothing."""
        return MappingProxyType({})

    def started(self) -> frozenset[str]:
        """Return nothing."""
        return frozenset()

    def expected(self, admitted: Collection[str]) -> frozenset[PodName] | None:
        """Return nothing."""
        del admitted
        return None

    def terminal(self) -> frozenset[PodName]:
        """Return nothing."""
        return frozenset()

    def aliases(self) -> Mapping[str, str]:
        """Return nothing."""
        return MappingProxyType({})


class NodePods(ABC):
    """What the objects of a node's pods tell."""

    @abstractmethod
    def objects(self) -> Iterable[Pod]:
        """Return the pods that are bound to the node."""

    def started(self) -> frozenset[str]:
        """Return the uids of pods whose status says that the kubelet has admitted them."""
        return frozenset(pod.metadata.uid for pod in self.objects() if _has_started(pod))

    def expected(self, admitted: Collection[str]) -> frozenset[PodName] | None:
        """Return the pods that the kubelet has to list once it has loaded them."""
        return frozenset(
            _name(pod)
            for pod in self.objects()
            if not has_ended(pod) and (_has_started(pod) or pod.metadata.uid in admitted)
        )

    def terminal(self) -> frozenset[PodName]:
        """Return the pods that are done."""
        return frozenset(_name(pod) for pod in self.objects() if has_ended(pod))

    def aliases(self) -> Mapping[str, str]:
        """Return the API's uids of static pods by those that the kubelet knows them by."""
        return {
            uid: pod.metadata.uid
            for uid, pod in by_kubelet_uid(self.objects()).items()
            if uid != pod.metadata.uid
        }


class WatchedPods(NodePods):
    """The pods of one node, watched."""

    def __init__(self, client: Client, node_name: str, changed: Callable[[], None]) -> None:
        self._reflector: Reflector[Pod] = Reflector(
            client, PODS, fields=f"spec.nodeName={node_name}"
        )
        self._clock = client.clock
        self._changed = changed
        self._news = asyncio.Event()
        # Pods that have left the API but may still be on the node, the latest last.
        self._departed: dict[PodName, list[Pod]] = {}
        # Pods that were waited for in vain.
        self._unknown: set[PodName] = set()
        self._reflector.store.subscribe(self._on_change)

    def subscribe(self, observer: Callable[[Change[Pod]], None]) -> None:
        """Tell *observer* of every change."""
        self._reflector.store.subscribe(observer)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()

    async def known(self) -> None:
        """Return as soon as all pods are known."""
        await self._reflector.synced.wait()

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return the uids of pods that the kubelet lists, as far as they are known."""
        names = set(listed)
        self._departed = {name: some for name, some in self._departed.items() if name in names}
        self._unknown &= names
        await self._wait_for(names - self._unknown)
        found = {name: self._uid(name, held) for name in listed}
        self._unknown = {name for name, uid in found.items() if uid is None}
        return {name: uid for name, uid in found.items() if uid is not None}

    def started(self) -> frozenset[str]:
        """Return the uids of pods, also of departed ones, that the kubelet has admitted."""
        departed = (pod for pods in self._departed.values() for pod in pods)
        return super().started() | {pod.metadata.uid for pod in departed if _has_started(pod)}

    def expected(self, admitted: Collection[str]) -> frozenset[PodName] | None:
        """Return the pods that the kubelet has to list once it has loaded them."""
        return super().expected(admitted) if self._reflector.synced.is_set() else None

    def objects(self) -> tuple[Pod, ...]:
        """Return the pods that are bound to the node."""
        return tuple(self._reflector.store.values())

    async def _wait_for(self, names: Collection[PodName]) -> None:
        """Wait a little until *names* are known, if the watch works at all."""
        if not self._reflector.synced.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(WAIT_SECONDS):
                while any(not self._candidates(name) for name in names):
                    self._news.clear()
                    await self._news.wait()

    def _uid(self, name: PodName, held: Collection[str]) -> str | None:
        candidates = self._candidates(name)
        likely = [uid for uid in candidates if uid in held] or candidates
        return likely[-1] if likely else None

    def _candidates(self, name: PodName) -> list[str]:
        pod = self._reflector.store.get(ObjectKey(*name))
        present = () if pod is None else (pod,)
        return [one.metadata.uid for one in (*self._departed.get(name, ()), *present)]

    def _on_change(self, change: Change[Pod]) -> None:
        if isinstance(change, Removed):
            self._departed.setdefault(_name(change.object), []).append(change.object)
        self._news.set()
        self._changed()


def _name(pod: Pod) -> PodName:
    return pod.metadata.namespace, pod.metadata.name


def _has_started(pod: Pod) -> bool:
    """Tell whether the kubelet says that it has admitted *pod*.

    A kubelet that rejects a pod right after its own start tells so about ten seconds later, since
    containers of the pod might still run. Until then the pod is pending, has a start time and
    lacks the conditions of one that was admitted (Kubernetes 1.35, ``mergePodStatus`` in
    ``pkg/kubelet/status/status_manager.go``).
    """
    status = pod.status
    if status is None or status.start_time is None:
        return False
    return status.phase != "Pending" or any(
        condition.type == "Initialized" for condition in status.conditions
    )


def uids_of(pods: Iterable[Pod]) -> Mapping[PodName, str]:
    """Return the uids of *pods* by namespace and name."""
    return {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in pods}


# The Node object, for the owner reference, the kubelet's version and its address.
#
# It is read again now and then: a Node that is deleted and registers again has another uid, and an
# object that points to the old one would be collected as garbage.


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NodeObject:
    """The Node of this name, as it was when last read."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._node: Node | None = None

    async def refresh(self) -> None:
        """Read it again; while the API does not answer, the last state is kept."""
        try:
            self._node = await self._client.get(NODES, self._name)
        except NotFound:
            self._node = None
        except (ApiError, ClusterUnreachable) as error:
            _log.warning("node_not_read", node=self._name, error=str(error))

    @property
    def is_known(self) -> bool:
        """Whether it has been read."""
        return self._node is not None

    @property
    def owner(self) -> OwnerReference | None:
        """The reference that lets objects vanish with the node."""
        if self._node is None:
            return None
        return OwnerReference(
            api_version="v1", kind="Node", name=self._name, uid=self._node.metadata.uid
        )

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._node.metadata.annotations if self._node is not None else {}

    @property
    def kubelet_url(self) -> str | None:
        """Where the kubelet serves, if the Node tells."""
        status = self._node.status if self._node is not None else None
        if status is None:
            return None
        hosts = {address.type: address.address for address in status.addresses}
        host = hosts.get("InternalIP") or hosts.get("ExternalIP")
        ports = status.daemon_endpoints
        endpoint = ports.kubelet_endpoint if ports is not None else None
        # An API server fills in 0 where a kubelet has told no port yet.
        port = endpoint.port if endpoint is not None else 0
        if not host or not port:
            return None
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def kubelet_version(self) -> str | None:
        """The version that the kubelet reports, such as ``v1.35.7``."""
        info = self._node.status.node_info if self._node is not None else None
        return info.kubelet_version or None if info is not None else None

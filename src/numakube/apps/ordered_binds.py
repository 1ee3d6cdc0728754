"""Binding pods to nodes, in order on each node.

A kubelet admits pods in the order in which they are bound, and the reservations of later pods
assume that the earlier ones came first. So pods of one node are bound one after the other, while
different nodes do not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kube.client import Client
    from numakube.scheduling.snapshot.pods import PodInfo

_LOOK_SECONDS: Final = 1.0
_AT_ONCE: Final = 64
"""Requests under way; enough to hide their latency, few enough not to flood a server."""


class Result(Enum):
    """What came of a binding."""

    BOUND = "bound"
    GONE = "gone"
    """The pod was deleted, or another took its name."""
    ELSEWHERE = "elsewhere"
    """Another scheduler bound it to another node."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Bound:
    """A result, and the error behind it for people."""

    result: Result
    reason: str = ""


class Turn:
    """A place in the lane of a node, which one has from the start; ``async with`` waits for it.

    Whoever does not get as far as that has to `leave`, or those behind wait for ever.

    Attributes:
        came: whether nobody is before it.
    """

    def __init__(self, lane: deque[Turn], slots: asyncio.Semaphore) -> None:
        self._lane = lane
        self._slots = slots
        self.came = asyncio.Event()
        lane.append(self)
        self._call_first()

    def leave(self) -> None:
        """Let the next one have its turn; once is enough."""
        if self in self._lane:
            self._lane.remove(self)
            self._call_first()

    def _call_first(self) -> None:
        if self._lane:
            self._lane[0].came.set()

    async def __aenter__(self) -> None:
        try:
            await self.came.wait()
            await self._slots.acquire()
        except BaseException:
            self.leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()
        self.leave()


class Lanes:
    """One lane per node: who enters first, binds first.

    Nobody should wait for others during his turn: those behind him wait as well, and so may pods of
    all nodes, as only so many have their turn at once.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        # Whoever has a turn keeps its lane.
        self._lanes: WeakValueDictionary[str, deque[Turn]] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(at_once)

    def on(self, node: str) -> Turn:
        """Return a turn on *node*, after all that were asked for before."""
        lane = self._lanes.setdefault(node, deque())
        return Turn(lane, self._slots)


async def bind(
    client: Client, pod: PodInfo, node: str, *, annotations: Mapping[str, str] | None = None
) -> Bound:
    """Bind *pod* to *node*, and find out what happened if the answer does not tell.

    The server sets *annotations* in the same step, so a pod that turns out to be bound has them.
    """
    key = ObjectKey(pod.namespace, pod.name)
    try:
        await bind_pod(client, key, node, uid=pod.uid, annotations=annotations)
    except NotFound as error:
        return Bound(Result.GONE, str(error))
    except (Conflict, ClusterUnreachable) as error:
        return await _look(client, pod, node, error)
    except ApiError as error:
        # A server that fails half-way may have bound the pod all the same.
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return await _look(client, pod, node, error)
        return Bound(Result.FAILED, str(error))
    return Bound(Result.BOUND)


async def _look(client: Client, pod: PodInfo, node: str, error: NumakubeError) -> Bound:
    """Return how things are after a binding of unknown outcome.

    While the server does not answer, the pod may be on its node: the caller goes on counting it
    there, so there is no hurry.
    """
    while True:
        try:
            found = await client.get(PODS, pod.name, namespace=pod.namespace)
            break
        except NotFound:
            return Bound(Result.GONE, str(error))
        except (ClusterUnreachable, ApiError) as second:
            if isinstance(second, ApiError) and second.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                return Bound(Result.FAILED, f"{error}; then {second}")
            await client.clock.sleep(_LOOK_SECONDS)
    if found.metadata.uid != pod.uid or found.metadata.deletion_timestamp is not None:
        return Bound(Result.GONE, str(error))
    if found.spec.node_name == node:
        return Bound(Result.BOUND)
    if found.spec.node_name:
        return Bound(Result.ELSEWHERE, f"another scheduler bound it to {found.spec.node_name}")
    return Bound(Result.FAILED, str(error))

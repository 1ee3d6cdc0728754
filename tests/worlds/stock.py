"""A stock kube-scheduler beside ours that asks our extender: a stand-in, and the real extender.

The stand-in calls in the sequence of kube-scheduler and knows nothing of NUMA itself. Both are
tasks of this process, without sockets; requests and answers are the bytes that would go over them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy
from tests.apps.extender.standin import KubeScheduler, Trouble

from numakube.api.pod import Pod
from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.extender.verb_endpoints import VerbEndpoints
from numakube.errors import ApiError, ClusterUnreachable, NumakubeError
from numakube.http import Head
from numakube.kube.client import Client
from numakube.scheduling.snapshot.pods import PodInfo

STOCK: Final = "stock-scheduler"
"""The name by which pods ask for it."""
_BODY: Final = b"\r\n\r\n"
_BACKOFF_SECONDS: Final = 1.0
_AWAY: Final = (ApiError, ClusterUnreachable)


class StockScheduler(KubeScheduler):
    """Asks whichever extender is there; what the API server refuses is tried again later."""

    def __init__(self, client: Client, extender: Callable[[], VerbEndpoints | None]) -> None:
        super().__init__(client, (), name=STOCK, error_backoff=_BACKOFF_SECONDS)
        self._extender = extender

    async def _call(self, verb: str, body: Mapping[str, Any]) -> Any:
        self.log.calls[verb] += 1
        if (endpoints := self._extender()) is None:
            raise Trouble("connection refused")
        data = json.dumps(body).encode()
        head = Head("POST", f"/{verb}", "", CIMultiDictProxy(CIMultiDict()), len(data))
        try:
            answered = endpoints.posts()[f"/{verb}"](head, data)
            told = await answered if asyncio.iscoroutine(answered) else answered
        except NumakubeError as error:
            raise Trouble(str(error)) from None
        if told is None:
            raise Trouble("not ready")
        assert isinstance(told, bytes)
        return json.loads(told.partition(_BODY)[2])

    async def _note(self, pod: PodInfo, reason: str, message: str) -> None:
        with suppress(*_AWAY):
            await super()._note(pod, reason, message)

    async def _make_room(self, pod: PodInfo, name: str, uids: list[str]) -> None:
        with suppress(*_AWAY):
            await super()._make_room(pod, name, uids)


@dataclass(slots=True)
class RunningExtender:
    """An extender at work, and how it is asked."""

    process: ExtenderProcess
    task: asyncio.Task[int]
    endpoints: VerbEndpoints

    @classmethod
    def start(cls, client: Client) -> RunningExtender:
        """Start one that was told nothing."""
        process = ExtenderProcess(ExtenderOptions.default(), client)
        task = asyncio.create_task(process.run(asyncio.Event()))
        endpoints = VerbEndpoints(
            process.verbs, process.metrics, client.clock, not_ready=process.mirror.missing
        )
        return cls(process, task, endpoints)

    async def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def knows(self) -> dict[str, str]:
        """Return the node of every pod that it knows to be on one, by uid."""
        return {uid: node.name for node in self.process.mirror.cluster.nodes() for uid in node.pods}


def asks_stock(pod: Pod) -> bool:
    """Tell whether a pod is for the stock scheduler."""
    return pod.spec.scheduler_name == STOCK

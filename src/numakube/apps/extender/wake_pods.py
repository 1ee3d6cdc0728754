"""Bringing back pods that were refused and now fit.

kube-scheduler tries a refused pod again when pods and nodes change, but a change of a
NodeResourceTopology never wakes anybody: the pod would wait for five minutes. So when room appears
on a node, each refused pod is checked against it, the most important first and each beside those
before it, and those that fit are woken by a patch of an annotation of theirs. Only they are: an
annotation of the node would wake all.

Patches are few: a pod that was woken in vain waits longer each time, and all patches together have
a budget. They name the version of the pod, so that of several replicas one gets through; a replica
that sees that another has woken a pod waits as if it had done so itself. Which pods were refused is
known from the calls, and after a restart from what kube-scheduler wrote into their conditions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.extender.filter_nodes import MARK
from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import merge_patch
from numakube.kube.clock import TokenBucket, growing
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from numakube.apps.extender.filter_nodes import Judge
    from numakube.apps.extender.metrics import ExtenderMetrics
    from numakube.apps.extender.pending_binds import PendingPods
    from numakube.kube.client import Client
    from numakube.scheduling.arrays import Mask
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

ANNOTATION: Final = "numakube.dev/woken"
GRACE_SECONDS: Final = 0.1
"""What happens to pods and nodes wakes them anyway, and at once; they need no patch."""
SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
PATCHES_PER_SECOND: Final = 20.0
_BURST: Final = 50
_MOST_UNSEEN: Final = 1000
"""Pods that we were asked about and the API server has not told of: yet, or ever."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(slots=True)
class _Waiting:
    """A refused pod.

    Attributes:
        asked: by row, nodes that kube-scheduler would have taken; ``None`` if not known.
        woken: how often it was woken since it was last any closer to a node.
        not_before: when it may be woken again.
    """

    pod: PodInfo
    asked: Mask | None
    woken: int = 0
    not_before: float = 0.0


class Waking:
    """Keeps refused pods, and wakes those that fit."""

    def __init__(
        self, client: Client, judge: Judge, holds: PendingPods, metrics: ExtenderMetrics
    ) -> None:
        self._client = client
        self._judge = judge
        self._holds = holds
        self._metrics = metrics
        self._waiting: dict[str, _Waiting] = {}
        self._unseen: OrderedDict[str, _Waiting] = OrderedDict()
        self._nodes: set[str] = set()
        self._something = asyncio.Event()
        self._budget = TokenBucket(rate=PATCHES_PER_SECOND, burst=_BURST, clock=client.clock)

    def __len__(self) -> int:
        return len(self._waiting)

    def refused(self, pod: PodInfo, asked: Mask | None, *, unseen: bool = False) -> None:
        """Note that *pod* fits none of the nodes *asked* about; ``None`` for any node.

        One that is *unseen* is woken only after the API server has told of it.
        """
        known = self._waiting.get(pod.uid)
        if unseen:
            self._unseen[pod.uid] = _Waiting(pod, asked)
            if len(self._unseen) > _MOST_UNSEEN:
                self._unseen.popitem(last=False)
        elif known is None:
            self._waiting[pod.uid] = _Waiting(pod, asked)
        else:
            known.pod, known.asked = pod, asked

    def seen(self, pod: PodInfo) -> None:
        """Take a waiting pod as the API has it; one that was refused by us is remembered."""
        known = self._unseen.pop(pod.uid, None) or self._waiting.get(pod.uid)
        if known is not None:
            if _last_woken(pod) != _last_woken(known.pod):
                # By another replica perhaps: once is enough for a while.
                pause = self._client.clock.monotonic() + SHORTEST_SECONDS
                known.not_before = max(known.not_before, pause)
            known.pod = pod
            self._waiting[pod.uid] = known
        elif was_refused(pod):
            self._waiting[pod.uid] = _Waiting(pod, None)

    def settled(self, uid: str) -> None:
        """Forget a pod: it has found a node, or is gone."""
        self._waiting.pop(uid, None)
        self._unseen.pop(uid, None)

    def room_on(self, node: str) -> None:
        """Note that *node* may have more room than before."""
        if self._waiting:
            self._nodes.add(node)
            self._something.set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            await self._client.clock.sleep(GRACE_SECONDS)
            nodes, self._nodes = self._nodes, set()
            for name in sorted(nodes):
                await self._wake_for(name)

    async def _wake_for(self, name: str) -> None:
        # In the order of kube-scheduler's queue.
        waiting = sorted(self._waiting.values(), key=lambda one: -one.pod.priority)
        for other in waiting:
            node = self._judge.cluster.node(name)
            if node is None:
                return
            if other.pod.uid in self._waiting and self._fits(other, node):
                await self._wake(other, name)

    def _fits(self, one: _Waiting, node: NodeInfo) -> bool:
        asked = one.asked
        if asked is not None and node.row < len(asked) and not asked[node.row]:
            # kube-scheduler itself refused the node, and knows when to think again.
            return False
        pod, now = one.pod, self._client.clock.monotonic()
        there = self._holds.others(pod.uid, now).get(node.name, [])
        others = {hold.pod.uid: hold.pod for hold in there}
        for other in self._judge.nominations.before(pod, node.name):
            others[other.uid] = other
        judge = self._judge
        return judge.admits(pod, node).ok and judge.fits_beside(pod, node, others.values())

    async def _wake(self, one: _Waiting, node: str) -> None:
        now = self._client.clock.monotonic()
        if now < one.not_before:
            self._again_at(one.not_before - now, node)
            return
        self._holds.put(one.pod, node, certain=False, now=now)
        one.not_before = now + growing(one.woken, base=SHORTEST_SECONDS, cap=LONGEST_SECONDS)
        one.woken += 1
        await self._budget.take()
        await self._patch(one.pod, node)

    def _again_at(self, seconds: float, node: str) -> None:
        asyncio.get_running_loop().call_later(seconds, self.room_on, node)

    async def _patch(self, pod: PodInfo, node: str) -> None:
        metadata: dict[str, object] = {
            "uid": pod.uid,
            "annotations": {ANNOTATION: format_micro_time(self._client.clock.now())},
        }
        if pod.pod.metadata.resource_version:
            metadata["resourceVersion"] = pod.pod.metadata.resource_version
        patch = merge_patch({"metadata": metadata})
        try:
            await self._client.patch(PODS, pod.name, patch, namespace=pod.namespace)
        except NotFound:
            self.settled(pod.uid)
        except Conflict:
            pass  # It has changed meanwhile, which wakes it as well.
        except NumakubeError as error:
            _log.warning("pod_not_woken", pod=pod.key, node=node, error=str(error))
        else:
            self._metrics.woken.inc()
            _log.info("pod_woken", pod=pod.key, node=node)


def _last_woken(pod: PodInfo) -> str:
    return pod.pod.metadata.annotations.get(ANNOTATION, "")


def was_refused(pod: PodInfo) -> bool:
    """Tell whether kube-scheduler noted on *pod* that we refused it on some node."""
    conditions = pod.pod.status.conditions if pod.pod.status else ()
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and MARK in condition.message
        for condition in conditions
    )

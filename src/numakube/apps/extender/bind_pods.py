"""The bind: the point at which a zone is given away.

What filter said may be outdated when kube-scheduler binds. So the chosen node is checked again on
the current belief and, in the same step, the zones are booked: of two pods that saw the same free
zone the second is refused, and kube-scheduler tries it again. Then the pod is bound, after those
that were booked on the node before it. What a pod is given where no kubelet aligns is part of the
booking, and the binding writes it to the pod.

A call may come twice, since kube-scheduler gives up after its timeout: the second gets the outcome
of the first. An error is reported only when the pod was not bound.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.extender.refusal_texts import text_of
from numakube.apps.ordered_binds import Bound, Lanes, Result, bind
from numakube.errors import NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.numa.caches.model_belief import annotations_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.extender.extender_messages import BindingArgs
    from numakube.apps.extender.filter_nodes import Judge
    from numakube.apps.extender.lease_claims import Claims
    from numakube.apps.flight_recording import Recording
    from numakube.kube.client import Client
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology

PATIENCE_SECONDS: Final = 8.0
"""Who has waited longer for his turn is not bound any more: kube-scheduler may have given up."""

_REMEMBERED: Final = 4096
"""Bookings of ours that are kept apart from the pods of others; more are never under way."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a check of a node was based on."""

    pods: frozenset[str]
    topology: NodeTopology | None


class Booking:
    """Binds pods, each at most once."""

    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        judge: Judge,
        claims: Claims | None = None,
        recording: Recording | None = None,
    ) -> None:
        self._client = client
        self._mirror = mirror
        self._judge = judge
        self._claims = claims
        self._recording = recording
        self._lanes = Lanes()
        self._running: dict[str, tuple[str, asyncio.Task[str]]] = {}
        self._booked: OrderedDict[str, None] = OrderedDict()
        self._annotations: dict[str, Mapping[str, str]] = {}

    async def bind(self, args: BindingArgs) -> str:
        """Bind as told; return why it was not done, or the empty text."""
        node, task = self._running.get(args.pod_uid, ("", None))
        if task is None:
            task = asyncio.create_task(self._bind(args), name=f"bind-{args.pod_uid}")
            self._running[args.pod_uid] = args.node, task
            task.add_done_callback(lambda _: self._running.pop(args.pod_uid, None))
        elif node != args.node:
            return f"the pod is being bound to {node}"
        # Who called may go away; the binding goes on.
        return await asyncio.shield(task)

    async def finished(self) -> None:
        """Return when no binding is under way."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])

    async def _bind(self, args: BindingArgs) -> str:
        try:
            pod = await self._pod(args)
        except NumakubeError as error:
            return f"cannot read the pod: {error}"
        if pod is None:
            return "the pod is gone, or another has its name"
        node = pod.node_name or self._bound_to(pod.uid)
        if node:
            return "" if node == args.node else f"the pod is bound to {node} already"
        refusal = self._check_and_book(pod, args.node)
        if refusal:
            return refusal
        bound = Bound(Result.FAILED, "the extender is stopping")
        try:
            bound = await self._in_turn(pod, args.node)
        finally:
            self._settle(pod, args.node, bound)
        return "" if bound.result is Result.BOUND else bound.reason or bound.result.value

    def _bound_to(self, uid: str) -> str:
        """Return the node of a pod that we have bound, and of which our watch has yet to tell."""
        ours = uid in self._booked and self._mirror.is_assumed(uid)
        return (self._mirror.cluster.node_of(uid) or "") if ours else ""

    async def _pod(self, args: BindingArgs) -> PodInfo | None:
        known = self._mirror.pods.store.get(ObjectKey(args.pod_namespace, args.pod_name))
        if known is None or known.metadata.uid != args.pod_uid:
            # kube-scheduler may have seen a pod that our watch has yet to tell.
            try:
                known = await self._client.get(PODS, args.pod_name, namespace=args.pod_namespace)
            except NotFound:
                return None
        return self._judge.info_of(known) if known.metadata.uid == args.pod_uid else None

    def _check_and_book(self, pod: PodInfo, name: str) -> str:
        """Check *pod* on the node called *name* and book it, in one step."""
        node = self._mirror.cluster.node(name)
        if node is None:
            return f"node {name} is not known"
        status = self._judge.admits(pod, node)
        if not status.ok:
            return text_of(status)
        annotations = self._judge.engine.annotations(pod, node)
        self._mirror.apply(self._mirror.cache.reserve(pod, name))
        foreseen = annotations_for(self._mirror.cache.belief(name), pod.uid)
        self._annotations[pod.uid] = {**annotations, **foreseen}
        self._mirror.assume(pod.annotated(annotations) if annotations else pod, name)
        if self._recording is not None:
            self._recording.binding(pod)
            self._recording.reserved(pod.uid, name)
        self._booked[pod.uid] = None
        if len(self._booked) > _REMEMBERED:
            self._booked.popitem(last=False)
        return ""

    def _free(self, pod: PodInfo, name: str) -> None:
        self._mirror.forget(pod)
        self._mirror.apply(self._mirror.cache.unreserve(pod.uid, name))

    async def _in_turn(self, pod: PodInfo, name: str) -> Bound:
        started, booked = self._client.clock.monotonic(), self._seen_on(name)

        def recheck() -> str:
            """Book again if something came in between that we did not book."""
            nonlocal booked
            now = self._seen_on(name)
            came = now.pods - booked.pods
            if came <= self._booked.keys() and now.topology is booked.topology:
                return ""
            self._free(pod, name)
            refusal = self._check_and_book(pod, name)
            booked = self._seen_on(name)
            return refusal

        def told() -> Mapping[str, str]:
            return self._annotations.get(pod.uid, {})

        async with self._lanes.on(name):
            if self._client.clock.monotonic() - started > PATIENCE_SECONDS:
                return Bound(Result.FAILED, "bindings to the node take too long")
            claims = self._claims
            refusal = recheck() if claims is None else await claims.claim(pod, name, recheck, told)
            if refusal:
                return Bound(Result.FAILED, refusal)
            bound = await bind(self._client, pod, name, annotations=told())
            if claims is not None and bound.result is not Result.BOUND:
                claims.withdraw(pod.uid)
            return bound

    def _seen_on(self, name: str) -> _Seen:
        node = self._mirror.cluster.node(name)
        if node is None:
            return _Seen(frozenset(), None)
        return _Seen(frozenset(node.pods), node.numa.topology if node.numa is not None else None)

    def _settle(self, pod: PodInfo, node: str, bound: Bound) -> None:
        self._annotations.pop(pod.uid, None)
        if bound.result is Result.BOUND:
            self._mirror.apply(self._mirror.cache.bound(pod.uid, node))
            return
        self._free(pod, node)
        self._booked.pop(pod.uid, None)
        _log.info("not_bound", pod=pod.key, node=node, reason=bound.reason)

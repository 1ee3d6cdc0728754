"""The bind: the point at which a zone is given away, once, also where there are several replicas.

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

import msgspec
import structlog

from numakube.api.codec import BROKEN_JSON
from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.apps.extender.filter_nodes import text_of
from numakube.apps.ordered_binds import Bound, Lanes, Result, bind
from numakube.errors import AlreadyExists, Conflict, InvalidValue, NotFound, NumakubeError
from numakube.kube.catalog import LEASES, PODS
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.numa.caches.model_belief import annotations_for
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import format_micro_time, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.extender.extender_messages import BindingArgs
    from numakube.apps.extender.filter_nodes import Judge
    from numakube.apps.flight_recording import Recording
    from numakube.kube.client import Client
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


class PodBinding:
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


# How replicas keep from giving the same zone away twice.
#
# Each replica books on what it has seen, and a pod that another bound a moment ago is not seen yet.
# So before a pod is bound, it is claimed in a Lease of its node, which can only be written by who
# has read its latest version. A replica whose write is refused reads which pods were claimed
# meanwhile, books those that it does not know, and checks its own pod again. A replica that gets
# through has taken every earlier claim into account.
#
#     Lease numakube-extender.<node>, annotation numakube.dev/claims:
#         [{"uid": ..., "pod": "namespace/name", "at": "2026-01-01T00:00:00Z"}, ...]
#
# A claim also has the annotations that the pod gets with its binding, if any: they say which CPUs
# and devices are given away.
#
# Claims stay for a minute, far longer than any watch lags behind. One write a bind is the price; a
# single replica can do without (``--no-claims``).


ANNOTATION: Final = "numakube.dev/claims"
PREFIX: Final = "numakube-extender."
KEPT_SECONDS: Final = 60.0
_MOST_KEPT: Final = 512
_ATTEMPTS: Final = 8
"""Writes of one claim that other replicas may spoil."""


class BoundPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that is bound, or about to be bound, to the node of the lease."""

    uid: str
    pod: str
    at: str
    annotations: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A lease as it was last read or written; without a version it does not exist yet."""

    version: str = ""
    claims: tuple[BoundPod, ...] = ()


class Claims:
    """Claims pods on behalf of one replica."""

    def __init__(self, client: Client, mirror: Mirror, *, namespace: str, identity: str) -> None:
        self._client = client
        self._mirror = mirror
        self._namespace = namespace
        self._identity = identity
        self._ledgers: dict[str, _Ledger] = {}
        self._withdrawn: set[str] = set()
        self._believed: dict[str, tuple[PodInfo, str, float]] = {}
        self.conflicts = 0

    async def claim(
        self,
        pod: PodInfo,
        node: str,
        recheck: Callable[[], str],
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> str:
        """Claim *pod*, booked on *node*; return why it cannot be, or the empty text.

        Callers take turns for each node. *recheck* tells whether the pod still fits, and is asked
        when everything that others have claimed is known; *annotations* then tells what the binding
        will write.
        """
        try:
            # A node that we know nothing of most likely has no lease; if it has, the first write
            # fails, and the lease is read.
            ledger = self._ledgers.get(node, _Ledger())
            for _ in range(_ATTEMPTS):
                await self._consider(ledger, pod, node)
                refusal = recheck()
                if refusal:
                    return refusal
                if await self._write(ledger, pod, node, annotations()):
                    return ""
                self.conflicts += 1
                self._ledgers.pop(node, None)
                ledger = await self._read(node)
        except NumakubeError as error:
            self._ledgers.pop(node, None)
            return f"cannot claim the zones: {error}"
        return "other replicas bind to the node all the time"

    def withdraw(self, uid: str) -> None:
        """Take a claim back with the next write: the pod was not bound."""
        self._withdrawn.add(uid)

    def disbelieve(self, uid: str) -> None:
        """Forget another replica's claim on a pod: kube-scheduler tries it again."""
        if uid in self._believed:
            pod, node, _ = self._believed.pop(uid)
            if self._mirror.is_assumed(uid):
                self._mirror.forget(pod)
                self._mirror.apply(self._mirror.cache.unreserve(uid, node))

    def expire(self) -> None:
        """Forget claims of others whose pods have not been bound in all the time since."""
        now = self._client.clock.monotonic()
        old = [uid for uid, (_, _, since) in self._believed.items() if now - since > KEPT_SECONDS]
        for uid in old:
            self.disbelieve(uid)

    async def _read(self, node: str) -> _Ledger:
        try:
            lease = await self._client.get(LEASES, PREFIX + node, namespace=self._namespace)
        except NotFound:
            return _Ledger()
        claims = _claims_in(lease.metadata.annotations.get(ANNOTATION, "[]"), node)
        return _Ledger(lease.metadata.resource_version, claims)

    async def _consider(self, ledger: _Ledger, pod: PodInfo, node: str) -> None:
        """Book the pods of others that we have not seen yet."""
        for claim in ledger.claims:
            if not self._is_news(claim, pod):
                continue
            other = await self._find(claim, node)
            if other is not None and self._is_news(claim, pod):
                self._believed[other.uid] = other, node, self._client.clock.monotonic()
                self._mirror.apply(self._mirror.cache.reserve(other, node))
                self._mirror.assume(other, node)

    def _is_news(self, claim: BoundPod, pod: PodInfo) -> bool:
        known = self._mirror.cluster.node_of(claim.uid) is not None
        return claim.uid != pod.uid and not known and self._age(claim) < KEPT_SECONDS

    async def _find(self, claim: BoundPod, node: str) -> PodInfo | None:
        """Return the claimed pod if it is on *node* or may be any moment."""
        namespace, _, name = claim.pod.partition("/")
        try:
            found = await self._client.get(PODS, name, namespace=namespace)
        except NotFound:
            return None
        info = PodInfo(found)
        elsewhere = info.node_name not in ("", node)
        if info.uid != claim.uid or elsewhere or info.has_ended:
            return None
        return info if info.node_name else info.annotated(claim.annotations)

    async def _write(
        self, ledger: _Ledger, pod: PodInfo, node: str, annotations: Mapping[str, str]
    ) -> bool:
        now = self._client.clock.now()
        kept = [claim for claim in ledger.claims if self._is_kept(claim, pod.uid)]
        mine = BoundPod(pod.uid, pod.key, format_time(now), dict(annotations))
        claims = (*kept[-_MOST_KEPT:], mine)
        lease = self._lease(node, ledger.version, claims, now)
        try:
            if ledger.version:
                written = await self._client.update(LEASES, lease, namespace=self._namespace)
            else:
                written = await self._client.create(LEASES, lease, namespace=self._namespace)
        except (Conflict, AlreadyExists, NotFound):
            return False
        self._ledgers[node] = _Ledger(written.metadata.resource_version, claims)
        self._withdrawn.discard(pod.uid)
        return True

    def _is_kept(self, claim: BoundPod, uid: str) -> bool:
        if claim.uid in self._withdrawn:
            self._withdrawn.discard(claim.uid)
            return False
        return claim.uid != uid and self._age(claim) < KEPT_SECONDS

    def _age(self, claim: BoundPod) -> float:
        try:
            return (self._client.clock.now() - parse_time(claim.at)).total_seconds()
        except InvalidValue:
            return KEPT_SECONDS

    def _lease(self, node: str, version: str, claims: tuple[BoundPod, ...], now: datetime) -> Lease:
        text = msgspec.json.encode(claims).decode()
        return Lease(
            metadata=ObjectMeta(
                name=PREFIX + node,
                namespace=self._namespace,
                resource_version=version,
                labels={"app.kubernetes.io/name": "numakube-extender"},
                annotations={ANNOTATION: text},
            ),
            spec=LeaseSpec(
                holder_identity=self._identity,
                lease_duration_seconds=int(KEPT_SECONDS),
                renew_time=format_micro_time(now),
            ),
        )


def _claims_in(text: str, node: str) -> tuple[BoundPod, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[BoundPod, ...])
    except BROKEN_JSON as error:
        _log.warning("claims_unreadable", node=node, error=str(error))
        return ()

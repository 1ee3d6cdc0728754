"""How replicas keep from giving the same zone away twice.

Each replica books on what it has seen, and a pod that another bound a moment ago is not seen yet.
So before a pod is bound, it is claimed in a Lease of its node, which can only be written by who has
read its latest version. A replica whose write is refused reads which pods were claimed meanwhile,
books those that it does not know, and checks its own pod again. A replica that gets through has
taken every earlier claim into account.

    Lease numakube-extender.<node>, annotation numakube.dev/claims:
        [{"uid": ..., "pod": "namespace/name", "at": "2026-01-01T00:00:00Z"}, ...]

A claim also has the annotations that the pod gets with its binding, if any: they say which CPUs and
devices are given away.

Claims stay for a minute, far longer than any watch lags behind. One write a bind is the price; a
single replica can do without (``--no-claims``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.api.codec import BROKEN_JSON
from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.errors import AlreadyExists, Conflict, InvalidValue, NotFound, NumakubeError
from numakube.kube.catalog import LEASES, PODS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import format_micro_time, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from numakube.apps.cluster_mirror import Mirror
    from numakube.kube.client import Client

ANNOTATION: Final = "numakube.dev/claims"
PREFIX: Final = "numakube-extender."
KEPT_SECONDS: Final = 60.0
_MOST_KEPT: Final = 512
_ATTEMPTS: Final = 8
"""Writes of one claim that other replicas may spoil."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that is bound, or about to be bound, to the node of the lease."""

    uid: str
    pod: str
    at: str
    annotations: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A lease as it was last read or written; without a version it does not exist yet."""

    version: str = ""
    claims: tuple[Claim, ...] = ()


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

    def _is_news(self, claim: Claim, pod: PodInfo) -> bool:
        known = self._mirror.cluster.node_of(claim.uid) is not None
        return claim.uid != pod.uid and not known and self._age(claim) < KEPT_SECONDS

    async def _find(self, claim: Claim, node: str) -> PodInfo | None:
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
        kept = [one for one in ledger.claims if self._is_kept(one, pod.uid)]
        mine = Claim(pod.uid, pod.key, format_time(now), dict(annotations))
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

    def _is_kept(self, claim: Claim, uid: str) -> bool:
        if claim.uid in self._withdrawn:
            self._withdrawn.discard(claim.uid)
            return False
        return claim.uid != uid and self._age(claim) < KEPT_SECONDS

    def _age(self, claim: Claim) -> float:
        try:
            return (self._client.clock.now() - parse_time(claim.at)).total_seconds()
        except InvalidValue:
            return KEPT_SECONDS

    def _lease(self, node: str, version: str, claims: tuple[Claim, ...], now: datetime) -> Lease:
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


def _claims_in(text: str, node: str) -> tuple[Claim, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Claim, ...])
    except BROKEN_JSON as error:
        _log.warning("claims_unreadable", node=node, error=str(error))
        return ()

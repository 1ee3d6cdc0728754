"""The group of schedulers that share the nodes of a cluster, kept by their leases.

Each shard holds a lease of its own, with an annotation that says which shards it takes into
account. It reads the leases of all every few seconds. When the group has changed, it first stops
binding to nodes that will be another's, waits until what it was binding there is done, announces
the new group, and reads again. The rule by which it then takes over nodes is `ShardView.holds`.

A shard that dies is left out once its lease has not been renewed for its whole duration, counted by
the clock of the one that looks; the dead one has stopped binding some seconds before that (see
`numakube.kube.leader_election`). A shard that gives nodes away announces the latest version of a
pod that it knows, its own bindings included, and the new owner waits until it has read as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.scheduler_config import SHARD_LABEL
from numakube.apps.scheduler.shard_mirror import ShardMirror
from numakube.errors import NumakubeError
from numakube.kube.catalog import LEASES
from numakube.kube.leader_election import LeaderElection
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.meta import Lease, LeaseSpec
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.kube.client import Client
    from numakube.kube.leader_election import LeaseTiming
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.object_kinds import ObjectKind
    from numakube.scheduling.plugins.node_shards import NodeShards

GROUP_LABEL: Final = "numakube.dev/shards-of"
"""On the leases of a group: the name of the lease that it would have without shards."""
MEMBERS: Final = "numakube.dev/shard-members"
"""On a shard's lease: the shards that it takes into account, separated by commas."""

PODS_VERSION: Final = "numakube.dev/pods-version"
"""On a shard's lease: the latest version of a pod that it knew when it announced the group."""

_LOOK_SECONDS: Final = 0.02

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lease, and when we first saw it like that."""

    spec: LeaseSpec
    at: float


class ShardMembership:
    """Keeps one shard's place in the group.

    Attributes:
        election: for the shard's own lease.
    """

    def __init__(
        self,
        client: Client,
        shards: NodeShards,
        *,
        name: str,
        lease: ObjectKey,
        identity: str,
        timing: LeaseTiming,
    ) -> None:
        self.election = LeaderElection(
            client,
            ObjectKey(lease.namespace, f"{lease.name}-shard-{name}"),
            identity=identity,
            timing=timing,
            labels={GROUP_LABEL: lease.name, SHARD_LABEL: name},
        )
        self._client = client
        self._shards = shards
        self._name = name
        self._lease = lease
        self._timing = timing
        self._seen: dict[str, _Seen] = {}
        shards.join(name)

    def mirror_of(
        self, engine: Engine, *, kinds: Iterable[ObjectKind], topologies: bool
    ) -> ShardMirror:
        """Make the mirror that this shard schedules by."""
        self._mirror = ShardMirror(self._client, engine, kinds=kinds, topologies=topologies)
        return self._mirror

    async def run(self, queue: PodQueue) -> None:
        """Follow the group until cancelled; called while the shard's lease is held."""
        self._shards.join(self._name)
        while True:
            try:
                await self._follow(queue)
            except NumakubeError as error:
                _log.warning("shards_not_read", error=str(error))
            await self._client.clock.sleep(self._timing.retry)

    async def _follow(self, queue: PodQueue) -> None:
        """Take in what the others have announced, and announce what follows from it."""
        while (group := self._shards.saw(await self._read())) is not None:
            await self._until(self._has_let_go)
            await self._announce(group, _latest_version(self._mirror))
        view = self._shards.view
        if self._mirror.is_settled or view is None:
            return
        await self._mirror.share()
        held = sum(self._shards.holds(node) for node in self._mirror.cluster.nodes())
        _log.info("shards", shard=self._name, members=sorted(view.members), nodes=held)
        self._mirror.cluster.objects_changed()
        queue.recheck_gates()

    async def _announce(self, group: frozenset[str], pods_version: str) -> None:
        self.election.annotations = {MEMBERS: ",".join(sorted(group)), PODS_VERSION: pods_version}
        while not await self.election.try_acquire_or_renew():
            await self._client.clock.sleep(self._timing.retry)
        self._shards.announced(group)

    async def _read(self) -> dict[str, frozenset[str]]:
        """Return what each other shard that is alive has announced, once we know of its pods."""
        listing = await self._client.list(
            LEASES, namespace=self._lease.namespace, labels=f"{GROUP_LABEL}={self._lease.name}"
        )
        now = self._client.clock.monotonic()
        alive = [one for one in listing.items if self._is_alive(one, now)]
        versions = [one.metadata.annotations.get(PODS_VERSION, "") for one in alive]
        await self._until(lambda: not any(map(self._mirror.pods.is_behind, versions)))
        return {lease.metadata.labels[SHARD_LABEL]: _members_of(lease) for lease in alive}

    def _has_let_go(self) -> bool:
        """Tell whether nothing is being bound any more to nodes that this shard does not hold."""
        nodes = map(self._mirror.cluster.node, self._mirror.assumed_nodes())
        return all(node is None or self._shards.holds(node) for node in nodes)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._client.clock.sleep(_LOOK_SECONDS)

    def _is_alive(self, lease: Lease, now: float) -> bool:
        """Tell whether *lease* is that of another shard that may act."""
        if lease.metadata.labels.get(SHARD_LABEL, self._name) == self._name:
            return False
        seen = self._seen.get(lease.metadata.name)
        if seen is None or seen.spec != lease.spec:
            seen = self._seen[lease.metadata.name] = _Seen(lease.spec, now)
        duration = lease.spec.lease_duration_seconds or self._timing.duration
        return bool(lease.spec.holder_identity) and now < seen.at + duration


def _members_of(lease: Lease) -> frozenset[str]:
    text = lease.metadata.annotations.get(MEMBERS, "")
    return frozenset(text.split(",")) if text else frozenset()


def _latest_version(mirror: Mirror) -> str:
    """Return the latest version of any pod; that of a list may be one that no pod ever gets to."""
    versions = (pod.metadata.resource_version for pod in mirror.pods.store)
    return str(max((int(one) for one in versions if one.isdecimal()), default=""))

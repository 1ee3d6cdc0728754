"""The API of a recorded case: claims with versions, validated as the API server does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from numakube.api.codec import to_tree
from numakube.errors import NumakubeError
from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimConflict
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from numakube.api.pod import Pod, PodStatus
    from numakube.api.resource_claims import ResourceClaim
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

MAX_USERS: Final = 256
_START: Final = datetime(2026, 11, 1, tzinfo=UTC)


class ChangeRefused(NumakubeError):
    """The API server does not take a change."""


class ReplayedApi:
    """`ClaimActions` on the objects of a case; nothing is ever really awaited."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._versions = count(1000)
        self._names = count()
        self._ids = count()
        self._now = _START
        self.pod_status: dict[str, Any] = {}

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        """The claims that there are now, by key."""
        return dict(self._objects.resource_claims)

    def _stored(self, claim: ResourceClaim) -> ResourceClaim:
        version = str(next(self._versions))
        stored = replace(claim, metadata=replace(claim.metadata, resource_version=version))
        self._objects.resource_claims[stored.metadata.key] = stored
        return stored

    def _current(self, claim: ResourceClaim) -> ResourceClaim:
        current = self._objects.resource_claims.get(claim.metadata.key)
        if current is None:
            name = go_quote(claim.metadata.name)
            raise ChangeRefused(f"resourceclaims.resource.k8s.io {name} not found")
        return current

    def _unchanged(self, claim: ResourceClaim) -> ResourceClaim:
        current = self._current(claim)
        if current.metadata.resource_version != claim.metadata.resource_version:
            raise ClaimConflict("the object has been modified")
        return current

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with that name."""
        return self._current(claim)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create *claim* under a generated name."""
        name = f"{claim.metadata.generate_name}{next(self._names)}"
        metadata = replace(claim.metadata, name=name, uid=f"uid-{name}")
        return self._stored(replace(claim, metadata=metadata))

    async def set_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers."""
        current = self._unchanged(claim)
        metadata = replace(current.metadata, finalizers=claim.metadata.finalizers)
        return self._stored(replace(current, metadata=metadata))

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write the status, whole as kube-scheduler does."""
        current = self._unchanged(claim)
        problems = list(_problems(current, claim))
        if problems:
            shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            name = go_quote(claim.metadata.name)
            raise ChangeRefused(f"ResourceClaim.resource.k8s.io {name} is invalid: {shown}")
        return self._stored(replace(current, status=claim.status))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete the claim."""
        self._objects.resource_claims.pop(claim.metadata.key, None)

    async def drop_reservation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take *pod* off the reservations."""
        current = self._current(claim)
        users = tuple(
            consumer for consumer in current.status.reserved_for if consumer.uid != pod.metadata.uid
        )
        self._stored(replace(current, status=replace(current.status, reserved_for=users)))

    async def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Remember what was written."""
        self.pod_status |= to_tree(status)

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask once; nothing changes while we wait."""
        found = done()
        if found is None:
            self._now += timedelta(seconds=timeout_seconds + 1)
        return found

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do *work* at once."""
        finished(work)

    def now(self) -> datetime:
        """Return the time of the case."""
        return self._now

    def cpu_seconds(self) -> float:
        """Return 0: replays take as long as they take."""
        return 0.0

    def new_id(self) -> str:
        """Return a share id."""
        return f"share-{next(self._ids)}"

    def note(self, pod: Pod, reason: str, message: str) -> None:
        """Events are not recorded."""


def _problems(current: ResourceClaim, claim: ResourceClaim) -> Iterator[str]:
    users = [consumer.uid for consumer in claim.status.reserved_for]
    if len(users) > MAX_USERS:
        yield f"status.reservedFor: Too many: {len(users)}: must have at most {MAX_USERS} items"
    for index, uid in enumerate(users):
        if uid in users[:index]:
            yield f"status.reservedFor[{index}]: Duplicate value: {go_quote(uid)}"
    before, after = current.status.allocation, claim.status.allocation
    if before is not None and after is not None and before != after:
        yield "status.allocation: Invalid value: {...}: field is immutable"


def finished(work: Coroutine[object, object, Any]) -> Any:
    """Return what *work* returns; it never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(work)

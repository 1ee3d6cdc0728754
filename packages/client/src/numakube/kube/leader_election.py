"""Leader election on a Lease (``coordination.k8s.io/v1``), with client-go's semantics.

The holder named in the lease leads, as long as it renews in time. No wall clock is
trusted: a candidate considers a lease expired when *it* has seen it unchanged for the lease's
duration, so clocks may differ at will; only their speeds must agree. Every write names the resource
version it is based on, so of two candidates who find the lease expired one gets a conflict.

A leader that cannot renew within the renew deadline, counted from its last successful renewal,
stops leading before anybody else can start: the deadline is shorter than the duration.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec
import structlog

from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.errors import (
    AlreadyExists,
    ConfigError,
    Conflict,
    LeadershipLost,
    NotFound,
    NumakubeError,
)
from numakube.kube.catalog import LEASES
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from numakube.kube.client import Client
    from numakube.kube.resource_types import ObjectKey

T = TypeVar("T")

JITTER = 1.2
"""By how much the pause between attempts to acquire may be longer; client-go's factor."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """The times of an election, in seconds; the defaults are those of Kubernetes' own components.

    Attributes:
        duration: for how long others respect a lease that they see unchanged; whole seconds.
        renew_deadline: after how long without a renewal the leader gives up.
        retry: the pause between attempts.
    """

    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry * JITTER > 0:
            raise ConfigError(
                f"leader election: duration {self.duration} must exceed renew_deadline "
                f"{self.renew_deadline}, and that {JITTER} times retry {self.retry}"
            )
        if self.duration != int(self.duration):
            raise ConfigError(f"leader election: duration {self.duration} must be whole seconds")


DEFAULT_TIMING = LeaseTiming()


class LeaderElection:
    """A candidate for a lease.

    Attributes:
        identity: the name this candidate writes into the lease; it must be unique.
        annotations: what it writes beside its name from the next renewal on.
    """

    def __init__(
        self,
        client: Client,
        lease: ObjectKey,
        *,
        identity: str,
        timing: LeaseTiming = DEFAULT_TIMING,
        on_new_leader: Callable[[str], None] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.identity = identity
        self.annotations: Mapping[str, str] = {}
        self._labels = dict(labels or {})
        self._client = client.without_rate()
        self._clock = client.clock
        self._key = lease
        self._timing = timing
        self._on_new_leader = on_new_leader
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._renewed_at: float | None = None
        self._reported_leader = ""

    @property
    def leader(self) -> str:
        """The identity of the leader, as far as is known; empty if there is none."""
        return (self._observed and self._observed.spec.holder_identity) or ""

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads, beyond doubt: it renewed within the deadline."""
        return self._time_left() > 0

    async def run(self, lead: Callable[[], Coroutine[object, object, T]]) -> T:
        """Wait for the leadership, then run *lead* while it lasts.

        The lease is renewed until *lead* has ended, also while it winds up after a cancellation,
        and then released, so that another can lead at once.

        Returns:
            What *lead* returns.

        Raises:
            LeadershipLost: the lease was not renewed in time; *lead* was cancelled and has ended.
        """
        await self.acquire()
        renewal = asyncio.create_task(self._keep_renewing(), name=f"renew-{self._key}")
        work = asyncio.create_task(lead(), name=f"lead-{self._key}")
        try:
            await asyncio.wait({renewal, work}, return_when=asyncio.FIRST_COMPLETED)
            lost = not work.done()
        finally:
            await ended(work)
            await ended(renewal)
            await self.release()
        if lost:
            raise LeadershipLost(f"lease {self._key}: not renewed in time by {self.identity}")
        return work.result()

    async def acquire(self) -> None:
        """Return as soon as this candidate leads; the caller then has to renew."""
        _log.info("lease_wanted", lease=str(self._key), identity=self.identity)
        while not await self.try_acquire_or_renew():
            jitter = self._client.rng.uniform(1.0, 1.0 + JITTER)
            await self._clock.sleep(self._timing.retry * jitter)
        _log.info("lease_acquired", lease=str(self._key), identity=self.identity)

    async def try_acquire_or_renew(self) -> bool:
        """Try once to become or stay leader; tell whether it worked. Errors are only logged."""
        started = self._clock.monotonic()
        try:
            # Half of the deadline, so that one hanging connection leaves time for another try.
            async with self._clock.timeout(self._timing.renew_deadline / 2):
                leads = await self._attempt()
        except (NumakubeError, TimeoutError) as exc:
            _log.warning("lease_attempt_failed", lease=str(self._key), error=repr(exc))
            return False
        finally:
            self._report_leader()
        if leads:
            self._renewed_at = started
        return leads

    async def release(self) -> None:
        """Give the lease back, if it is ours; failures are only logged."""
        self._renewed_at = None
        try:
            async with self._clock.timeout(self._timing.renew_deadline / 2):
                await self._give_back()
        except (NumakubeError, TimeoutError) as exc:
            _log.warning("lease_not_released", lease=str(self._key), error=repr(exc))

    async def _keep_renewing(self) -> None:
        """Renew until that fails for longer than the deadline."""
        while (left := self._time_left()) > 0:
            await self._clock.sleep(min(self._timing.retry, left))
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(self._time_left()):
                    await self.try_acquire_or_renew()
        _log.error("lease_lost", lease=str(self._key), identity=self.identity)

    def _time_left(self) -> float:
        """Return the seconds until the renew deadline; none without a lease."""
        if self._renewed_at is None:
            return 0.0
        return self._renewed_at + self._timing.renew_deadline - self._clock.monotonic()

    async def _attempt(self) -> bool:
        held = self._observed
        if held is not None and self.is_leader and held.spec.holder_identity == self.identity:
            with contextlib.suppress(Conflict, NotFound):
                # As long as we lead, no other candidate writes: no need to look first.
                return await self._write(held)
        try:
            found = await self._client.get(LEASES, self._key.name, namespace=self._key.namespace)
        except NotFound:
            return await self._create()
        self._observe(found)
        if self._is_held_by_another(found.spec):
            return False
        try:
            return await self._write(found)
        except Conflict:
            return False

    async def _create(self) -> bool:
        """Create the lease, unless another candidate has just done so."""
        try:
            self._observe(await self._client.create(LEASES, self._new_lease()))
        except AlreadyExists:
            return False
        return True

    def _is_held_by_another(self, spec: LeaseSpec) -> bool:
        if not spec.holder_identity or spec.holder_identity == self.identity:
            return False
        duration = spec.lease_duration_seconds or self._timing.duration
        return self._clock.monotonic() < self._observed_at + duration

    async def _write(self, lease: Lease) -> bool:
        """Put our name and the time into *lease*, if it is still as we know it."""
        self._observe(await self._client.update(LEASES, self._claimed(lease)))
        return True

    def _observe(self, lease: Lease) -> None:
        """Note when, by our own clock, we saw the lease change."""
        if self._observed is None or self._observed.spec != lease.spec:
            self._observed_at = self._clock.monotonic()
        self._observed = lease

    def _claimed(self, lease: Lease) -> Lease:
        now = format_micro_time(self._clock.now())
        old = lease.spec
        ours = old.holder_identity == self.identity
        transitions = old.lease_transitions or 0
        spec = msgspec.structs.replace(
            old,
            holder_identity=self.identity,
            lease_duration_seconds=self._timing.duration,
            renew_time=now,
            acquire_time=old.acquire_time if ours else now,
            lease_transitions=transitions if ours else transitions + 1,
        )
        meta = lease.metadata
        metadata = msgspec.structs.replace(
            meta,
            labels={**meta.labels, **self._labels},
            annotations={**meta.annotations, **self.annotations},
        )
        return msgspec.structs.replace(lease, metadata=metadata, spec=spec)

    def _new_lease(self) -> Lease:
        now = format_micro_time(self._clock.now())
        return Lease(
            metadata=ObjectMeta(
                name=self._key.name,
                namespace=self._key.namespace,
                labels=self._labels,
                annotations=dict(self.annotations),
            ),
            spec=LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=self._timing.duration,
                acquire_time=now,
                renew_time=now,
                lease_transitions=0,
            ),
        )

    async def _give_back(self) -> None:
        lease = await self._client.get(LEASES, self._key.name, namespace=self._key.namespace)
        if lease.spec.holder_identity != self.identity:
            return
        now = format_micro_time(self._clock.now())
        spec = msgspec.structs.replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=1,
            renew_time=now,
            acquire_time=now,
        )
        self._observe(await self._client.update(LEASES, msgspec.structs.replace(lease, spec=spec)))
        _log.info("lease_released", lease=str(self._key), identity=self.identity)

    def _report_leader(self) -> None:
        leader = self.leader
        if leader and leader != self._reported_leader:
            self._reported_leader = leader
            _log.info("lease_leader", lease=str(self._key), leader=leader)
            if self._on_new_leader is not None:
                self._on_new_leader(leader)


async def ended(task: asyncio.Task[T]) -> None:
    """Cancel *task* and wait for its end, however it ends and however often we are cancelled."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
            task.cancel()
    if cancelled is not None:
        raise cancelled

"""Leases (coordination.k8s.io/v1): leader election and node heartbeats."""

from numakube.api.meta import ObjectMeta
from numakube.api.wire import Timestamp, Wire, always


class LeaseSpec(Wire, frozen=True):
    """Who holds a lease and until when; times need six digits of fraction."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Timestamp | None = None
    renew_time: Timestamp | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Wire, frozen=True):
    """A lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    api_version: str = always("coordination.k8s.io/v1")
    kind: str = always("Lease")

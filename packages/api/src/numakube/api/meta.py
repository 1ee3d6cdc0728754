"""What objects of every kind have or are about: metadata, events and leases.

Metadata, references, selectors and the version of a server are those of ``metav1``. Events come in
two kinds: the old one (core/v1), which ``kubectl describe`` prints, and events.k8s.io/v1. Leases
(coordination.k8s.io/v1) serve leader election and the heartbeats of nodes.
"""

import re
from typing import Final

import msgspec

from numakube.api.codec import Timestamp, Wire, always

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)")


class OwnerReference(Wire, frozen=True):
    """The object that another one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """Metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone if the object has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def is_owned_by(self, uid: str) -> bool:
        """Tell whether the object with this *uid* is one of its owners."""
        return any(owner.uid == uid for owner in self.owner_references)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Named(Wire, frozen=True):
    """Any object, of which only the metadata matters."""

    metadata: ObjectMeta = ObjectMeta()


class LabelSelectorRequirement(Wire, frozen=True):
    """One expression of a label selector: ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Which labels an object must have; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Wire, frozen=True):
    """Names one object of any kind."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class ListMeta(Wire, frozen=True):
    """Metadata of a list: where to continue it, and from which version to watch."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ServerVersion(Wire, frozen=True):
    """The version of an API server."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""


def release_of(text: str) -> tuple[int, int] | None:
    """Return the release that a version such as ``v1.35.2-gke.1`` belongs to."""
    match = _RELEASE.match(text)
    return None if match is None else (int(match[1]), int(match[2]))


class EventSource(Wire, frozen=True):
    """Who reported an event."""

    component: str = ""
    host: str = ""


class EventSeries(Wire, frozen=True):
    """How often an event was repeated."""

    count: int = 0
    last_observed_time: Timestamp | None = None


class CoreEvent(Wire, frozen=True):
    """An event of core/v1."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None
    count: int = 0
    event_time: Timestamp | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    api_version: str = always("v1")
    kind: str = always("Event")


class Event(Wire, frozen=True):
    """An event of events.k8s.io/v1; the same object as the other, with other names."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: Timestamp | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    series: EventSeries | None = None
    deprecated_source: EventSource | None = None
    deprecated_first_timestamp: Timestamp | None = None
    deprecated_last_timestamp: Timestamp | None = None
    deprecated_count: int = 0
    api_version: str = always("events.k8s.io/v1")
    kind: str = always("Event")


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

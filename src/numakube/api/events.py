"""Events: the old kind (core/v1), which ``kubectl describe`` prints, and events.k8s.io/v1."""

from numakube.api.meta import ObjectMeta, ObjectReference
from numakube.api.wire import Timestamp, Wire, always


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

"""Write a report to the node's NodeResourceTopology: only what changed, on top of what is known.

The object is read once, then changed by merge patches that carry the fields that differ and the
resource version they are based on. So a write that comes late, such as the last one of an exporter
that was killed, cannot undo a later one; it is refused, and the exporter that is alive reads and
compares again. A change of the update's cause alone is not worth a write.

The lists of the API are atomic: ``zones`` and ``attributes`` go as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import structlog

from numakube.api.meta import OwnerReference
from numakube.api.nrt import KIND, V1ALPHA2, Attribute, NodeResourceTopology, with_attribute
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.apps.served_topologies import served_topologies
from numakube.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    MissingDefinition,
    NotFound,
    NumakubeError,
    TooManyRequests,
)
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.kube.client import merge_patch
from numakube.kube.clock import spread
from numakube.topology import nrt_names
from numakube.topology.exact_report import Heartbeat
from numakube.topology.report_update import update_of
from numakube.values.times import SECOND, format_duration, format_micro_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.apps.exporter.api_objects import NodeObject
    from numakube.apps.exporter.report import Report
    from numakube.kube.client import Client


# Writes what pods change to an object of its own, as long as the rest of the report stays.
#
# The NodeResourceTopology itself is written again when more has changed, and about once an hour,
# for others who read it and in case somebody has changed it; also if somebody else has written the
# small object. If the cluster does not have small objects, or does not let us write them, the whole
# report is written each time.


WHOLE_SECONDS: Final = 3600.0
"""How often the whole report is written at least."""
REFUSED_SECONDS: Final = 300.0
"""How long whole reports are written after an update was refused."""
_INTERNAL: Final = 500

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class UpdateWriter:
    """Writes the updates of one node's report."""

    def __init__(self, client: Client, *, manager: str) -> None:
        """Prepare to write.

        Args:
            client: where to.
            manager: who says so.
        """
        self._client = client
        self._manager = manager
        # The report that updates are of, and the version of the last one; nothing if the whole
        # report has to be written next.
        self._report: NodeResourceTopology | None = None
        self._version = ""
        self._whole_due = self._refused_until = 0.0

    async def start_from(self, report: NodeResourceTopology) -> None:
        """Have updates be of *report*, which was just written.

        One is written at once, though it says nothing new. Then nobody else can write another, such
        as an exporter on its way out; and if the report is deleted, the update goes with it, which
        is noticed.
        """
        now = self._client.clock.monotonic()
        if now < self._refused_until:
            return
        self._whole_due = now + spread(WHOLE_SECONDS, self._client.rng)
        update = self._update(report, report)
        if update is None:
            return
        try:
            self._version = await self._current_version(report.metadata.name)
            await (self._replace(update) if self._version else self._create(update))
        except (ApiError, ClusterUnreachable) as error:
            self.stop()
            if _is_refusal(error) and not isinstance(error, AlreadyExists | Conflict):
                self._refused_until = now + REFUSED_SECONDS
            _log.info("update_not_written", node=report.metadata.name, error=str(error))
        else:
            self._report = report

    def stop(self) -> None:
        """Have the whole report written next: what readers have is not known, or something else."""
        self._report, self._version = None, ""

    async def write(self, wanted: NodeResourceTopology) -> int | None:
        """Make readers believe what *wanted* says; ``None`` if the whole report has to be written.

        Returns:
            The size of what was sent.

        Raises:
            ApiError: the server failed.
            ClusterUnreachable: it did not answer.
        """
        report = self._report
        if report is None or self._client.clock.monotonic() >= self._whole_due:
            return None
        update = self._update(report, wanted)
        if update is None:
            return None
        try:
            return await self._replace(update)
        except TooManyRequests:
            raise  # A whole report would be more still.
        except (ApiError, ClusterUnreachable) as error:
            # Somebody else has written or deleted it, or the server does not take it any more.
            self.stop()
            if _is_refusal(error):
                return None
            raise

    def _update(
        self, report: NodeResourceTopology, wanted: NodeResourceTopology
    ) -> NodeResourceTopologyUpdate | None:
        update = update_of(report, wanted, time=format_micro_time(self._client.clock.now()))
        return None if update is None else _owned(update, report)

    async def _current_version(self, name: str) -> str:
        try:
            found = await self._client.get(NODE_RESOURCE_TOPOLOGY_UPDATES, name)
        except NotFound:
            return ""
        return found.metadata.resource_version

    async def _create(self, update: NodeResourceTopologyUpdate) -> None:
        made = await self._client.create(
            NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
        )
        self._version = made.metadata.resource_version

    async def _replace(self, update: NodeResourceTopologyUpdate) -> int:
        metadata = msgspec.structs.replace(update.metadata, resource_version=self._version)
        update = msgspec.structs.replace(update, metadata=metadata)
        made = await self._client.update(
            NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
        )
        self._version = made.metadata.resource_version
        return len(msgspec.json.encode(update))


def _is_refusal(error: NumakubeError) -> bool:
    """Tell whether the server does not want what was sent, and not merely fails."""
    return isinstance(error, ApiError) and error.code < _INTERNAL


def _owned(
    update: NodeResourceTopologyUpdate, report: NodeResourceTopology
) -> NodeResourceTopologyUpdate:
    """Return *update* as one that vanishes with *report*."""
    name, uid = report.metadata.name, report.metadata.uid
    owner = OwnerReference(api_version=V1ALPHA2, kind=KIND, name=name, uid=uid)
    metadata = msgspec.structs.replace(update.metadata, owner_references=(owner,))
    return msgspec.structs.replace(update, metadata=metadata)


MANAGER: Final = "numakube-exporter"

SLEEP_DURATION: Final = "k8stopoawareschedwg/sleep-duration"
UPDATE_INTERVAL: Final = "k8stopoawareschedwg/update-interval"
# They tell about an update, not about the node.
_ABOUT_UPDATES: Final = frozenset(
    {nrt_names.RTE_UPDATE_ANNOTATION, SLEEP_DURATION, UPDATE_INTERVAL}
)
OURS: Final = _ABOUT_UPDATES | {
    nrt_names.FINGERPRINT_ANNOTATION,
    nrt_names.EXACT_ANNOTATION,
    nrt_names.INEXACT_ANNOTATION,
    nrt_names.PCI_ANNOTATION,
    nrt_names.SURPRISES_ANNOTATION,
}
_ATTEMPTS: Final = 5


class Operation(StrEnum):
    """What a write came down to; the texts are labels of a metric."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Written:
    """What a write came down to.

    Attributes:
        operation: whether something was written, and how.
        sent_bytes: the size of what was sent.
        whole_bytes: the size of the whole object.
        uid: that of the object.
    """

    operation: Operation
    sent_bytes: int = 0
    whole_bytes: int = 0
    uid: str = ""


class Writer:
    """Writes the object of one node."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        *,
        resync: int = 0,
        before_creation: Callable[[NodeResourceTopology], Awaitable[NodeResourceTopology]]
        | None = None,
        ours: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare to write.

        Args:
            client: where to.
            node_name: the name of the node and of the object.
            resync: read the object again after so many writes; 0 or less for never.
            before_creation: has a last look at an object that is to be created.
            ours: further annotations that go if they are not wanted.
        """
        self._ours = OURS | ours
        self._before_creation = before_creation
        self._client = client
        self._name = node_name
        self._resync = resync
        self._writes = 0
        # The object as the server had it when we last saw it.
        self._known: NodeResourceTopology | None = None

    def forget(self) -> None:
        """Have the object read before the next write: others may have changed or deleted it."""
        self._known = None

    async def write(self, wanted: NodeResourceTopology) -> Written:
        """Make the object on the server say what *wanted* says.

        Raises:
            MissingDefinition: the cluster has no such kind of object.
            ApiError: the server refused.
            ClusterUnreachable: it did not answer.
        """
        for _ in range(_ATTEMPTS):
            known = await self._current()
            try:
                if known is None:
                    return await self._create(wanted)
                return await self._patch(known, difference(known, wanted, ours=self._ours))
            except (AlreadyExists, Conflict, NotFound) as error:
                last = error
                self.forget()
        raise last

    async def mark_stale(self, reason: str) -> Written:
        """Say in the object that it must not be trusted; one that does not exist stays so."""
        for _ in range(_ATTEMPTS):
            known = await self._current()
            if known is None:
                return Written(Operation.NONE)
            marked = with_attribute(known.attributes, Attribute(name=nrt_names.STALE, value=reason))
            change = {} if marked == known.attributes else {"attributes": marked}
            try:
                return await self._patch(known, change)
            except (Conflict, NotFound) as error:
                last = error
                self.forget()
        raise last

    async def _current(self) -> NodeResourceTopology | None:
        if self._known is None:
            try:
                self._known = await self._client.get(NODE_RESOURCE_TOPOLOGIES, self._name)
            except NotFound:
                return None
        return self._known

    async def _create(self, wanted: NodeResourceTopology) -> Written:
        if self._before_creation is not None:
            wanted = await self._before_creation(wanted)
        try:
            self._known = known = await self._client.create(
                NODE_RESOURCE_TOPOLOGIES, wanted, field_manager=MANAGER
            )
        except NotFound:
            raise MissingDefinition(await _why_not_written(self._client)) from None
        size = len(msgspec.json.encode(wanted))
        return Written(Operation.CREATE, size, size, known.metadata.uid)

    async def _patch(self, known: NodeResourceTopology, change: Mapping[str, Any]) -> Written:
        if not change:
            return Written(Operation.NONE, uid=known.metadata.uid)
        version = {"resourceVersion": known.metadata.resource_version}
        patch = merge_patch({**change, "metadata": {**change.get("metadata", {}), **version}})
        self._known = None
        known = await self._client.patch(
            NODE_RESOURCE_TOPOLOGIES, self._name, patch, field_manager=MANAGER
        )
        self._writes += 1
        if self._resync <= 0 or self._writes % self._resync:
            self._known = known
        size = len(msgspec.json.encode(known))
        return Written(Operation.UPDATE, len(patch.body), size, known.metadata.uid)


def difference(
    known: NodeResourceTopology, wanted: NodeResourceTopology, *, ours: frozenset[str] = OURS
) -> dict[str, Any]:
    """Return the merge patch that makes *known* say what *wanted* says; empty if it does.

    Others' annotations are kept, *ours* that are not wanted any more go. The deprecated list of
    policies of an earlier producer goes too: it would contradict the attributes one day.
    """
    change: dict[str, Any] = {}
    if known.zones != wanted.zones:
        change["zones"] = wanted.zones
    if known.attributes != wanted.attributes:
        change["attributes"] = wanted.attributes
    if known.topology_policies and not wanted.topology_policies:
        change["topologyPolicies"] = None
    metadata: dict[str, Any] = {}
    annotations = _annotation_changes(known.metadata.annotations, wanted.metadata.annotations, ours)
    owners = _owners(known.metadata.owner_references, wanted.metadata.owner_references)
    if owners != known.metadata.owner_references:
        metadata["ownerReferences"] = owners
    if annotations.keys() - _ABOUT_UPDATES or ((change or metadata) and annotations):
        metadata["annotations"] = annotations
    if metadata:
        change["metadata"] = metadata
    return change


def _annotation_changes(
    known: Mapping[str, str], wanted: Mapping[str, str], ours: frozenset[str]
) -> dict[str, str | None]:
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if known.get(name) != value
    }
    gone = (known.keys() & ours) - wanted.keys()
    return changes | dict.fromkeys(sorted(gone))


def _owners(
    known: tuple[OwnerReference, ...], wanted: tuple[OwnerReference, ...]
) -> tuple[OwnerReference, ...]:
    """Return the owners to have: the wanted Node in place of any other, and everybody else's."""
    if not wanted:
        return known
    kinds = {owner.kind for owner in wanted}
    return (*(owner for owner in known if owner.kind not in kinds), *wanted)


async def _why_not_written(client: Client) -> str:
    """Say what the cluster lacks so that objects could be written."""
    kind = "noderesourcetopologies.topology.node.k8s.io"
    try:
        served = await served_topologies(client)
    except NotFound:
        return f"the cluster does not know {kind}; install its CustomResourceDefinition"
    where = " in namespaces" if served.namespaced else ""
    return (
        f"the cluster serves {kind}{where} in {served.version} only, which has no attributes of "
        "nodes; upgrade its CustomResourceDefinition (`numakube deploy api`)"
    )


class Publisher(Protocol):
    """Where reports go."""

    async def publish(self, report: Report, *, cause: ScanCause, slept: float | None) -> Written:
        """Publish *report*; *slept* are the seconds since the last wake-up."""
        ...

    async def mark_stale(self, reason: str) -> Written:
        """Say that what was published must not be trusted."""
        ...


class Nowhere:
    """Publishes nothing."""

    async def publish(self, report: Report, *, cause: ScanCause, slept: float | None) -> Written:
        """Do nothing."""
        return Written(Operation.NONE)

    async def mark_stale(self, reason: str) -> Written:
        """Do nothing."""
        return Written(Operation.NONE)


class ObjectPublisher:
    """Publishes to the node's object."""

    def __init__(
        self,
        client: Client,
        node: NodeObject,
        *,
        name: str,
        owner: bool = True,
        resync: int = 0,
        timing_period: float | None = None,
        max_silence: float = 0.0,
        ours: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare to publish.

        Args:
            client: where to.
            node: the Node, read again with every periodic report and for every new object.
            name: the object's name.
            owner: let the object vanish with its Node.
            resync: read the object again after so many writes; 0 or less for never.
            timing_period: the period to tell in annotations; ``None`` to tell nothing.
            max_silence: how long nothing may be written, to be told in an annotation; 0 if
                every change is. What pods change is then written to an object of its own.
            ours: further annotations that go if a report does not have them.
        """
        self._writer = Writer(
            client, name, resync=resync, before_creation=self._with_fresh_owner, ours=ours
        )
        self._node = node
        self._name = name
        self._owner = owner
        self._timing_period = timing_period
        self._max_silence = max_silence
        self._clock = client.clock
        self._updates = UpdateWriter(client, manager=MANAGER) if max_silence else None
        self._whole_bytes = 0

    async def publish(self, report: Report, *, cause: ScanCause, slept: float | None) -> Written:
        """Write what has changed."""
        if self._updates is not None:
            sent = await self._updates.write(self._owned(report.topology(self._name)))
            if sent is not None:
                return Written(Operation.UPDATE, sent, self._whole_bytes)
        if cause is ScanCause.PERIODIC:
            self._writer.forget()
        if cause is ScanCause.PERIODIC or not self._node.is_known:
            await self._node.refresh()
        # If the answer is lost, it is not known of which report updates are.
        self._end_updates()
        wanted = self._promising(self._owned(report.topology(self._name)))
        written = await self._writer.write(self._timed(wanted, cause, slept))
        self._whole_bytes = written.whole_bytes
        if self._updates is not None:
            metadata = msgspec.structs.replace(wanted.metadata, uid=written.uid)
            await self._updates.start_from(msgspec.structs.replace(wanted, metadata=metadata))
        return written

    def forget(self) -> None:
        """Take note that the object may not be what it was."""
        self._writer.forget()
        self._end_updates()

    async def mark_stale(self, reason: str) -> Written:
        """Set the attribute that says so."""
        self._end_updates()
        return await self._writer.mark_stale(reason)

    def _end_updates(self) -> None:
        if self._updates is not None:
            self._updates.stop()

    async def _with_fresh_owner(self, wanted: NodeResourceTopology) -> NodeResourceTopology:
        """Return *wanted* with the Node of today as its owner.

        An object vanishes with its Node. If that has registered again, an object that is owned by
        the old one would vanish again and again.
        """
        await self._node.refresh()
        return self._owned(wanted)

    def _owned(self, wanted: NodeResourceTopology) -> NodeResourceTopology:
        owner = self._node.owner if self._owner else None
        references = () if owner is None else (owner,)
        metadata = msgspec.structs.replace(wanted.metadata, owner_references=references)
        return msgspec.structs.replace(wanted, metadata=metadata)

    def _timed(
        self, wanted: NodeResourceTopology, cause: ScanCause, slept: float | None
    ) -> NodeResourceTopology:
        if self._timing_period is None:
            return wanted
        interval = self._timing_period if cause is ScanCause.PERIODIC else 0.0
        times = {
            SLEEP_DURATION: format_duration(round(slept or 0.0) * SECOND),
            UPDATE_INTERVAL: format_duration(round(interval * SECOND)),
        }
        return _annotated(wanted, times)

    def _promising(self, wanted: NodeResourceTopology) -> NodeResourceTopology:
        """Return *wanted* with the word that what it does not say is as foreseen."""
        if not self._max_silence:
            return wanted
        promise = Heartbeat(self._max_silence, format_micro_time(self._clock.now()))
        return _annotated(wanted, {nrt_names.SURPRISES_ANNOTATION: str(promise)})


def _annotated(
    wanted: NodeResourceTopology, annotations: Mapping[str, str]
) -> NodeResourceTopology:
    annotations = {**wanted.metadata.annotations, **annotations}
    metadata = msgspec.structs.replace(wanted.metadata, annotations=annotations)
    return msgspec.structs.replace(wanted, metadata=metadata)

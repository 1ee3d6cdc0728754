"""Every version of a node's NodeResourceTopology that was ever published, and what is wrong in it.

A report that is marked stale may say anything; one that is not is held to what the kubelet turns
out to have done:

* a pod that it lists has all that it ends up with (**short**);
* a pod that runs since before and goes on running is listed, and its CPUs are not free
  (**forgotten**);
* zones have as much as they had, while nobody changes the kubelet's configuration (**lost**);
* exact data that was there stays there (**inexact**).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.vm.truth import Block, Held, Truth

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.apps.node_reports import ReportMirror
from numakube.kube.client import Client
from numakube.topology.exact_report import ExactReport, Holding, uid_hash
from numakube.topology.foreseen_holdings import current_view
from numakube.topology.nrt_names import EXACT_ANNOTATION, STALE
from numakube.topology.numa_zones import Unusable, ZoneView, numa_zones
from numakube.topology.report_codec import decode_report
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.resources import CPU, MEMORY, is_hugepages


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the object.

    Attributes:
        view: what programs read in it; ``None`` if they cannot use it.
        foreseen: whether it is completed by what a scheduler foresaw.
    """

    name: str
    time: float
    stale: str
    exact: ExactReport | None
    zones: Mapping[int, ZoneView]
    attributes: Mapping[str, str]
    view: NodeTopology | None = None
    foreseen: bool = False

    def completed(self, pods: Collection[Pod]) -> Version:
        """Return what those read who saw *pods*, if the exporter reports only surprises."""
        if self.view is None or self.view.heartbeat is None:
            return self
        view = current_view(self.view, pods)
        zones = {zone.id: zone for zone in view.zones}
        return replace(self, exact=view.report, zones=zones, foreseen=True)


@dataclass(frozen=True, slots=True)
class Settled:
    """A moment at which the report was checked and right.

    Attributes:
        position: how many versions had been seen.
        held: what each pod that lived held, by uid.
        version: the version that was right.
    """

    position: int
    held: Mapping[str, Held]
    version: Version


class Finding(NamedTuple):
    """Something wrong in a version."""

    kind: str
    text: str


def read_version(nrt: NodeResourceTopology, at: float) -> Version:
    """Return what *nrt* says."""
    text = (nrt.metadata.annotations or {}).get(EXACT_ANNOTATION)
    report = decode_report(text) if text else None
    attributes = {attribute.name: attribute.value for attribute in nrt.attributes}
    zones, view = numa_zones(nrt.zones, []), view_of(nrt)
    return Version(
        name=nrt.metadata.resource_version or "",
        time=at,
        stale=attributes.get(STALE, ""),
        exact=report if isinstance(report, ExactReport) else None,
        zones={} if isinstance(zones, Unusable) else {zone.id: zone for zone in zones},
        attributes=attributes,
        view=view if isinstance(view, NodeTopology) else None,
    )


@dataclass(slots=True)
class Watcher:
    """Watches the report of one node and keeps every version."""

    client: Client
    node: str
    versions: list[Version] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Watch until cancelled; a broken watch goes on where it broke, if the server lets it."""
        reports = ReportMirror(self.client)
        reports.store.subscribe(lambda change: self._take(change.object))
        await reports.run()

    @property
    def latest(self) -> Version | None:
        """The last version seen."""
        return self.versions[-1] if self.versions else None

    def _take(self, nrt: NodeResourceTopology) -> None:
        version = nrt.metadata.resource_version or ""
        if nrt.metadata.name == self.node and version not in self._seen:
            self._seen.add(version)
            self.versions.append(read_version(nrt, time.time()))


def judge(
    versions: Sequence[Version], before: Settled | None, after: Settled
) -> Iterator[tuple[Version, str, list[str]]]:
    """Yield what is wrong in *versions*, which were published between two settled moments.

    A version is named once for each kind of mistake, with all of that kind.
    """
    for version in versions:
        if not version.stale:
            mistakes: dict[str, list[str]] = {}
            for kind, text in _findings(version, before, after):
                mistakes.setdefault(kind, []).append(text)
            for kind, texts in mistakes.items():
                yield version, kind, texts


def _findings(version: Version, before: Settled | None, after: Settled) -> Iterator[Finding]:
    if version.exact is not None:
        yield from _short(version.exact, before, after)
    if before is None:
        return
    if version.exact is None and before.version.exact is not None:
        yield Finding("inexact", "has no exact data any more")
    stayed = {uid: held for uid, held in before.held.items() if uid in after.held}
    if version.exact is not None:
        for uid in stayed:
            if not version.exact.accounts_for(uid):
                yield Finding("forgotten", f"does not list pod {uid}, which runs")
    yield from _wrong_zones(version, before, stayed)


def _short(report: ExactReport, before: Settled | None, after: Settled) -> Iterator[Finding]:
    for uid, held in after.held.items():
        said = report.holding(uid)
        if said is None:
            continue
        known = before.held.get(uid) if before is not None else None
        mine = as_held(said)
        if mine.less_than(held) and (known is None or mine.less_than(known)):
            yield Finding("short", f"pod {uid} has {describe(mine)} of {describe(held)}")


def _wrong_zones(
    version: Version, before: Settled, stayed: Mapping[str, Held]
) -> Iterator[Finding]:
    for number, zone in before.version.zones.items():
        now = version.zones.get(number)
        if now is None:
            yield Finding("lost", f"has no zone {number}")
            continue
        for kind, amount in zone.allocatable.items():
            if not _counts(kind):
                continue
            if now.allocatable.get(kind, 0) != amount:
                said = now.allocatable.get(kind, 0)
                yield Finding("lost", f"zone {number}: {kind} {said} of {amount}")
            most = amount - _taken(kind, number, before, stayed)
            if now.available.get(kind, 0) > most:
                said = now.available[kind]
                yield Finding("forgotten", f"zone {number}: {said} {kind} free of {most}")


def _counts(kind: str) -> bool:
    """Devices may come and go with their plugins."""
    return kind in (CPU, MEMORY) or is_hugepages(kind)


def _taken(kind: str, zone: int, before: Settled, stayed: Mapping[str, Held]) -> int:
    """Return how much of *kind* pods surely hold on a NUMA node."""
    if kind == CPU:
        report = before.version.exact
        assert report is not None, "a settled report has exact data"
        mine = next(node for node in report.machine.nodes if node.id == zone)
        cpus = {cpu for core in mine.cores for cpu in core.threads}
        return 1000 * sum(len(cpus & set(held.cpus)) for held in stayed.values())
    return sum(
        size
        for held in stayed.values()
        for nodes, type_, size in held.memory
        if type_ == kind and nodes == (zone,)
    )


def as_held(holding: Holding) -> Held:
    """Return what a report says of a pod; its devices are positions there."""
    return Held(
        cpus=holding.cpus,
        memory=blocks_of(holding),
        devices={name: frozenset(map(str, places)) for name, places in holding.devices.items()},
    )


def blocks_of(holding: Holding) -> tuple[Block, ...]:
    """Return the memory of a pod by its report, in the order of `truth`."""
    return tuple(
        sorted((block.numa_nodes, block.type, block.size_bytes) for block in holding.memory)
    )


def describe(held: Held) -> str:
    """Return *held* in a few words."""
    memory = sum(size for *_, size in held.memory) >> 20
    devices = "".join(f", {len(ids)} {name}" for name, ids in sorted(held.devices.items()))
    return f"(CPUs {held.cpus}, {memory}Mi{devices})"


def report_differences(
    version: Version, truth: Truth, live: Mapping[str, str], reserved: frozenset[int]
) -> list[str]:
    """Say where a report that should be up to date differs from the kubelet's books.

    Args:
        version: the report.
        truth: the books.
        live: names of the pods that live by uid.
        reserved: CPUs that are kept from pods.
    """
    if version.stale:
        return [f"is marked stale: {version.stale}"]
    report = version.exact
    if report is None:
        return ["has no exact data"]
    wrong = []
    missing = {uid_hash(uid): name for uid, name in live.items()}
    if odd := report.pods.keys() ^ missing.keys():
        wrong.append(f"lists other pods: {sorted(missing.get(one, one) for one in odd)}")
    for uid, name in live.items():
        holding = report.holding(uid)
        if holding is not None:
            differences = _holding_differences(holding, truth, uid, which=not version.foreseen)
            wrong += [f"{name}: {text}" for text in differences]
    return wrong + list(_zone_differences(version, report, truth, live, reserved))


def _holding_differences(holding: Holding, truth: Truth, uid: str, *, which: bool) -> Iterator[str]:
    """Say what a pod holds otherwise; kubelets choose among devices, so *which* may be open."""
    held = truth.of(uid)
    if holding.cpus != held.cpus:
        yield f"CPUs {holding.cpus}, state file {held.cpus}"
    if blocks_of(holding) != held.memory:
        yield f"memory {blocks_of(holding)}, state file {held.memory}"
    for name in {*holding.devices, *held.devices}:
        ids = truth.registered.get(name, ())
        said = {ids[place] for place in holding.devices.get(name, ()) if place < len(ids)}
        true = held.devices.get(name, frozenset())
        if said != true if which else len(said) != len(true):
            yield f"{name} {sorted(said)}, checkpoint {sorted(held.devices.get(name, ()))}"


def _zone_differences(
    version: Version,
    report: ExactReport,
    truth: Truth,
    live: Mapping[str, str],
    reserved: frozenset[int],
) -> Iterator[str]:
    gone = any(uid not in live and held.memory for uid, held in truth.held.items())
    taken = {cpu for uid in live for cpu in truth.of(uid).cpus}
    for node in report.machine.nodes:
        zone = version.zones.get(node.id)
        if zone is None:
            yield f"has no zone {node.id}"
            continue
        cpus = {cpu for core in node.cores for cpu in core.threads} - reserved
        said = zone.available.get(CPU, 0)
        if truth.shared is not None and said != 1000 * len(cpus - taken):
            yield f"zone {node.id}: {said} milli CPUs free, books {1000 * len(cpus - taken)}"
        for kind, free in truth.free.get(node.id, {}).items():
            # Books keep pods that are gone until the next admission.
            alone = len(truth.cells[node.id]) == 1
            if not gone and alone and zone.available.get(kind, 0) != free and free:
                yield f"zone {node.id}: {zone.available.get(kind)} {kind} free, books {free}"

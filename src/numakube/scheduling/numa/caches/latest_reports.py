"""The latest report of each node, read once, and the nodes whose exporter is gone.

A watch delivers an object's versions in order, but a client that falls back to another API server,
or a process that tells of the same object twice, may hand over an older one: it is passed over.
Because an API server restored from a backup starts counting again, that happens a few times in a
row at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.known_pods import PodStage
from numakube.scheduling.snapshot.zone_belief import Fact, FactKind
from numakube.topology.exporter_presence import is_exporter, is_ready, trouble_with
from numakube.topology.topology_view import NodeTopology, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.known_pods import KnownPods


_MOST_PASSED_OVER: Final = 8


@dataclass(frozen=True, slots=True)
class LatestReport:
    """A report that can be used.

    Attributes:
        serial: how many reports of the node came before it.
    """

    nrt: NodeResourceTopology
    topology: NodeTopology
    serial: int

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.topology.node


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of one NRT: nothing new, or a new state of its node.

    Attributes:
        fresh: whether the NRT was taken.
        report: the report, if it was taken and can be used.
    """

    fresh: bool
    report: LatestReport | None = None
    facts: tuple[Fact, ...] = ()


@dataclass(slots=True)
class _Desk:
    """What is kept of one node's reports."""

    nrt: NodeResourceTopology
    serial: int = 0
    passed_over: int = 0
    told: tuple[Fact, ...] = ()


class LatestReports:
    """The latest report of each node."""

    def __init__(self) -> None:
        self._desks: dict[str, _Desk] = {}
        self._latest: dict[str, LatestReport] = {}

    def __iter__(self) -> Iterator[LatestReport]:
        """Yield the latest usable report of every node."""
        return iter(self._latest.values())

    def get(self, node: str) -> LatestReport | None:
        """Return the latest report of *node*, if it can be used."""
        return self._latest.get(node)

    def remove(self, node: str) -> bool:
        """Forget the reports of *node*; tell whether there was a usable one."""
        self._desks.pop(node, None)
        return self._latest.pop(node, None) is not None

    def note_orphaned(self, node: str, why: str) -> None:
        """Note that nobody keeps the report of *node* up to date, and why; empty if somebody does.

        The next report says anew who wrote it.
        """
        report = self._latest[node]
        topology = replace(report.topology, orphaned=why)
        self._latest[node] = replace(report, topology=topology)

    def take(self, nrt: NodeResourceTopology) -> Delivery:
        """Read *nrt* unless it is known already or older than what is known."""
        node = nrt.metadata.name
        desk = self._desks.get(node)
        if desk is None:
            desk = self._desks[node] = _Desk(nrt)
        elif _same(nrt, desk.nrt):
            return Delivery(fresh=False)
        elif _older(nrt, desk.nrt) and desk.passed_over < _MOST_PASSED_OVER:
            desk.passed_over += 1
            text = f"version {nrt.metadata.resource_version} came after a later one; passed over"
            return Delivery(fresh=False, facts=(Fact(FactKind.OLD_REPORT, node, text),))
        desk.nrt, desk.passed_over, desk.serial = nrt, 0, desk.serial + 1
        return self._read(desk)

    def _read(self, desk: _Desk) -> Delivery:
        node = desk.nrt.metadata.name
        facts: tuple[Fact, ...]
        match view_of(desk.nrt):
            case NodeTopology(policy_unknown=why) if why:
                # What the kubelet will do cannot be foreseen: as good as no report.
                self._latest.pop(node, None)
                text = f"the policy is not known: {why}"
                facts = (Fact(FactKind.UNUSABLE_REPORT, node, text),)
            case NodeTopology() as topology:
                self._latest[node] = LatestReport(desk.nrt, topology, desk.serial)
                facts = tuple(_odd(topology))
            case unusable:
                self._latest.pop(node, None)
                facts = (Fact(FactKind.UNUSABLE_REPORT, node, unusable.reason),)
        news, desk.told = () if facts == desk.told else facts, facts
        return Delivery(fresh=True, report=self._latest.get(node), facts=news)


def _odd(topology: NodeTopology) -> Iterator[Fact]:
    for text in topology.problems:
        yield Fact(FactKind.ODD_REPORT, topology.node, text)
    if topology.overwritten:
        yield Fact(FactKind.NO_EXACT_DATA, topology.node, topology.why_inexact)


def _same(new: NodeResourceTopology, old: NodeResourceTopology) -> bool:
    if new.metadata.resource_version:
        return (new.metadata.uid, new.metadata.resource_version) == (
            old.metadata.uid,
            old.metadata.resource_version,
        )
    return new == old


def _older(new: NodeResourceTopology, old: NodeResourceTopology) -> bool:
    """Tell whether *new* is an earlier version of the same object."""
    versions = new.metadata.resource_version, old.metadata.resource_version
    if new.metadata.uid != old.metadata.uid or not all(map(str.isdecimal, versions)):
        return False
    return int(versions[0]) < int(versions[1])


# ------------------------------------------------------------------------------------------------
# Which nodes have lost their exporter, so that nobody keeps their reports up to date.
#
# A report says which pod wrote it, and the pods of every node are known: nothing has to be asked
# or written to see that the exporter is gone. One that is being replaced is given a while.

LOOK_SECONDS: Final = 10.0
"""How often to look: there may be thousands of nodes."""
PATIENCE_SECONDS: Final = 30.0
"""How long an exporter may be away before nobody waits for it: a look later it is known."""
PATIENCE_LOOKS: Final = 3
"""How often it has to be missed: who was stopped meanwhile has yet to read what happened."""


class AbsentExporters:
    """Looks for the exporters of nodes."""

    def __init__(self, pods: KnownPods) -> None:
        self._pods = pods
        self._looked_at = float("-inf")
        # Since when, and in how many looks it was missed.
        self._away: dict[str, tuple[float, int]] = {}
        # The uid of the pod that was found at work, so that it need not be looked for again.
        self._at_work: dict[str, tuple[str, str]] = {}

    def look(self, reports: Iterable[LatestReport], now: float) -> Iterator[tuple[str, str]]:
        """Yield the nodes of which something else is to be said than their reports do, and that."""
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for report in list(reports):
            trouble = self._trouble(report, now)
            if trouble != report.topology.orphaned:
                yield report.node, trouble

    def wrote(self, node: str) -> None:
        """Note that there is a new report of *node*: who writes is there, ready or not."""
        self._away.pop(node, None)

    def forget(self, node: str) -> None:
        """Forget what is known of the exporter of *node*."""
        self._away.pop(node, None)
        self._at_work.pop(node, None)

    def _trouble(self, report: LatestReport, now: float) -> str:
        exporter, node = report.topology.exporter, report.node
        if not exporter or self._works(node, exporter):
            self._away.pop(node, None)
            return ""
        since, looks = self._away.get(node, (now, 0))
        self._away[node] = since, looks + 1
        if now - since < PATIENCE_SECONDS or looks + 1 < PATIENCE_LOOKS:
            return report.topology.orphaned
        return trouble_with(exporter, (pod.info.pod for pod in self._pods.at(node)))

    def _works(self, node: str, exporter: str) -> bool:
        whose, uid = self._at_work.get(node, ("", ""))
        known = self._pods.get(uid) if whose == exporter else None
        if known is not None and known.node == node and known.stage < PodStage.ENDED:
            return is_ready(known.info.pod)
        for pod in self._pods.at(node):
            if is_exporter(pod.info.pod, exporter) and is_ready(pod.info.pod):
                self._at_work[node] = exporter, pod.uid
                return True
        return False

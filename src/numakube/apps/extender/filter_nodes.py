"""What is said of nodes: which can take a pod, how well, and which never will; virtual ones too.

Nodes are judged by counts, all at once. The kubelet model, which costs far more, is asked about the
best of them, from the best downwards: about a few in any case, and on until one admits the pod. The
bind asks it about the chosen node again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import structlog

from numakube.api.codec import Wire, convert, decode
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.yaml_text import load_yaml
from numakube.apps.extender.extender_messages import MAX_SCORE, name_of
from numakube.apps.extender.preemption import LowestPriorities, are_hopeless, may_preempt
from numakube.errors import NumakubeError
from numakube.insight.node_groups import NodeGroupList, NodeGroups
from numakube.kube.catalog import CONFIG_MAPS
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed
from numakube.manifests.extender import NODE_GROUPS
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.runtime import checked, judged, rated, without_aside
from numakube.scheduling.framework.status import unschedulable
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, AlignmentRefusalGroup, Kind
from numakube.scheduling.numa.native.native_engine import wants_nothing
from numakube.scheduling.numa.topology_match import make_cache
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pod_equivalence import PodInfos
from numakube.scheduling.snapshot.zone_belief import is_extensible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.apps.extender.extender_engine import AllottingEngine
    from numakube.apps.extender.extender_messages import NodeList
    from numakube.apps.extender.pending_binds import PendingPod
    from numakube.kube.client import Client
    from numakube.kube.store import Change
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.plugins import Nominations
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.topology_match_args import Settings
    from numakube.scheduling.recorder.decision_notes import Refusal
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


# The message on a refused pod, in words that stay the same as long as the reason does.
#
# kube-scheduler writes the texts into the pod's condition, and every write of a new text wakes the
# pod and has it tried again at once. So no text has a number that moves: no free amounts, no
# counts, no times. They begin with `MARK`, by which pods that we refused are found again after a
# restart.


MARK: Final = "NUMA: "
UNKNOWN_NODE: Final = f"{MARK}node is not known to the extender yet"
ON_ITS_WAY: Final = "zones are promised to another pod"


def text_of(status: Status) -> str:
    """Return the text for a refusal of the NUMA engine."""
    detail = status.detail
    if isinstance(detail, AlignmentRefusalGroup):
        detail = detail.closest
    return MARK + (_words(detail) if isinstance(detail, AlignmentRefusal) else status.message)


def _words(refusal: AlignmentRefusal) -> str:
    subject = refusal.full_subject
    match refusal.kind:
        case Kind.BLOCKED:
            return "topology report of the node cannot be used for now"
        case (
            Kind.ANNOTATION | Kind.MISSING_DATA | Kind.WEAKER_POLICY | Kind.CLOSENESS | Kind.WAITING
        ):
            return refusal.message
        case Kind.UNREPORTED:
            return f"no zone reports {refusal.resource}"
        case Kind.NODE:
            return f"all zones together lack {refusal.resource} for {subject}"
        case Kind.SIZES:
            return f"cannot align {subject} ({refusal.reason})"
        case Kind.WHOLE_CORES:
            return f"cannot align {subject} ({refusal.resource}: not whole cores)"
        case Kind.KUBELET:
            return f"kubelet would refuse {subject} ({refusal.reason})"
        case Kind.ALIGN:
            return f"cannot align {subject} ({refusal.resource})"


CONFIRMED: Final = 2
"""Nodes that the model is asked about in any case."""
CONFIRMED_AT_MOST: Final = 64
"""Nodes that the model is asked about until one admits."""
_REMEMBERED: Final = 16
_REMEMBERED_LISTS: Final = 8
_REMEMBERED_PODS: Final = 256
"""Pods between their filter and their bind, of which many are under way at a time."""
_CHANGES_IN_A_CYCLE: Final = 128
"""Changes of the cluster, by binds that end and the like, between a filter and its prioritize."""
_FINEST_STEP: Final = 2.0
"""Points of a hundred that make one of ten at the least, however close the nodes are."""


@dataclass(slots=True)
class FilterJudgement:
    """What filter says of the nodes that were asked about.

    Attributes:
        kept: names of those that can take the pod, in the order of the request.
        failed: why others cannot; pods leaving would help.
        unresolvable: why others cannot, where kube-scheduler must not think of preemption.
        asked: by row, which nodes were asked about.
        all_known: whether all of them are known here.
        refusals: rows with what was said of them, and whether by the model; for the recorder.
    """

    kept: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)
    asked: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    all_known: bool = True
    refusals: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True)
class _Ratings:
    """Scores of one pod by row, good until the cluster changes; -1 where there are none."""

    generation: int
    by_row: IntArray


@dataclass(frozen=True, slots=True)
class _Asked:
    """The nodes of a request.

    Attributes:
        nodes_generation: as long as this lasts nodes keep their rows.
        every: the row of each name; -1 for those that are not known.
        rows: of those that are, in order.
        mask: by row, which were asked about; not to be changed.
    """

    names: Sequence[str]
    nodes_generation: int
    every: Rows
    rows: Rows
    mask: Mask


@dataclass(frozen=True, slots=True)
class _FilterRefusal:
    rows: Rows
    status: Status
    confirmed: bool = False


_PROMISED: Final = unschedulable(ON_ITS_WAY)


class Judge:
    """Judges nodes for pods, on the current belief."""

    # kube-scheduler sends the same pod twice, to filter and to prioritize, each time with the names
    # of thousands of nodes, and sees one state of the cluster in between. What seems to be
    # remembered without need follows from that:
    #
    # * `_asked`: names are turned into rows once. The list of the second request is that of the
    #   first answer, so it is known by identity; rows hold until a node comes or goes.
    # * `_ratings`: filter has to rate nodes anyway, because the model is asked about the best ones.
    #   Prioritize gives these ratings, even if the cluster has changed since, if it asks about
    #   just what filter answered: ratings of another moment would prefer nodes that filter did not
    #   confirm, and a kubelet would reject the pod.
    # * `_infos`: a pod of a request is decoded anew each time, and would be worked out anew.
    #
    # All are bounded, because requests come from outside.

    def __init__(self, cluster: Cluster, engine: AllottingEngine, nominations: Nominations) -> None:
        self.cluster = cluster
        self.engine = engine
        self.nominations = nominations
        self._lowest = LowestPriorities()
        self._ratings: OrderedDict[str, _Ratings] = OrderedDict()
        self._asked: OrderedDict[int, _Asked] = OrderedDict()
        self._answered: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._infos: OrderedDict[str, PodInfo] = OrderedDict()
        self._kinds = PodInfos()

    def info_of(self, pod: Pod) -> PodInfo:
        """Return what is known of *pod*, with all that was worked out when it was asked about."""
        uid = pod.metadata.uid
        known = self._infos.get(uid)
        if known is None or not (known.pod is pod or known.pod == pod):
            known = self._infos[uid] = self._kinds.of(pod)
            if len(self._infos) > _REMEMBERED_PODS:
                self._infos.popitem(last=False)
        return known

    def judge(
        self, pod: PodInfo, names: Sequence[str], holds: dict[str, list[PendingPod]]
    ) -> FilterJudgement:
        """Return which of *names* can take *pod*, given those that others are on their way to."""
        snapshot, state = self.cluster.snapshot(), CycleState()
        asked = self._nodes_called(names)
        refusals: list[_FilterRefusal] = []
        kept = self._by_counts(state, pod, snapshot, asked.rows, refusals)
        kept = self._beside_others(pod, kept, holds, refusals)
        kept = self._confirmed(state, pod, snapshot, kept, refusals)
        result = FilterJudgement(asked=asked.mask, all_known=len(asked.rows) == len(names))
        if len(kept) == len(names):
            result.kept = tuple(names)
        else:
            self._explain(pod, asked, refusals, result)
            result.refusals = [
                (refusal.rows, refusal.status, refusal.confirmed) for refusal in refusals
            ]
        self._answered[pod.uid] = result.kept
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return result

    def rate(self, pod: PodInfo, names: Sequence[str]) -> list[int]:
        """Return a score from 0 to `MAX_SCORE` for each of *names*, which passed the filter.

        What filter has just answered is rated as filter saw it, as kube-scheduler itself does: one
        cycle sees one state.
        """
        asked = self._nodes_called(names)
        known = self._ratings.get(pod.uid)
        allowed = _CHANGES_IN_A_CYCLE if self._answered.pop(pod.uid, None) == names else 0
        if known is None or self.cluster.generation - known.generation > allowed:
            known = self._rate_anew(pod, asked.rows)
        scores: list[int] = on_scale(known.by_row[asked.every]).tolist()
        return scores

    def admits(self, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what counts and the model say of one node, which may be a clone."""
        state = CycleState()
        status = self.engine.filter(state, pod, node)
        return self.engine.confirm(state, pod, node) if status.ok else status

    def fits_beside(self, pod: PodInfo, node: NodeInfo, others: Iterable[PodInfo]) -> bool:
        """Tell whether counts leave room on one node once *others*, not on it yet, have come."""
        copy = node.clone()
        for other in others:
            if self.cluster.node_of(other.uid) is not None:
                continue
            if is_extensible(copy.numa):
                copy.numa = copy.numa.followed_by(other) or copy.numa
            self.engine.expect(other, copy)
        changed = copy.numa is not node.numa or len(copy.pods) != len(node.pods)
        return not changed or self.engine.filter(CycleState(), pod, copy).ok

    def _nodes_called(self, names: Sequence[str]) -> _Asked:
        """Return the nodes of a request; the same list, as `Requests` gives it, is known."""
        known = self._asked.get(id(names))
        current = self.cluster.nodes_generation
        if known is not None and known.names is names and known.nodes_generation == current:
            return known
        return self._called(names, _rows_of(names, self.cluster.row_of))

    def _called(self, names: Sequence[str], every: Rows) -> _Asked:
        """Return nodes by their names and rows, and remember them."""
        mask = np.zeros(len(self.cluster.by_row), dtype=np.bool_)
        mask[every[every >= 0]] = True
        rows = np.flatnonzero(mask)
        found = _Asked(names, self.cluster.nodes_generation, every, rows, mask)
        if isinstance(names, tuple):
            self._asked[id(names)] = found
            if len(self._asked) > _REMEMBERED_LISTS:
                self._asked.popitem(last=False)
        return found

    def _by_counts(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: Rows,
        refusals: list[_FilterRefusal],
    ) -> Rows:
        if not len(rows):
            return rows
        verdicts = judged(
            partial(self.engine.filter_all, state, pod, snapshot, rows),
            partial(self.engine.filter, state, pod),
            snapshot,
            rows,
        )
        if verdicts is not None:
            for number, status in enumerate(verdicts.statuses):
                if not status.ok:
                    refusals.append(_FilterRefusal(rows[verdicts.choice == number], status))
            rows = rows[verdicts.ok]
        if snapshot.aside:
            rows, refused = without_aside(snapshot, rows)
            refusals += (_FilterRefusal(gone, why) for gone, why in refused)
        return rows

    def _beside_others(
        self,
        pod: PodInfo,
        rows: Rows,
        holds: dict[str, list[PendingPod]],
        refusals: list[_FilterRefusal],
    ) -> Rows:
        """Drop nodes whose room others are about to take; the last ones only if that is certain."""
        # Where a pod was sent to is not where it will be bound: kube-scheduler may choose another
        # node, or give up. To count each such hold in full would refuse the only node of a pod for
        # one that never comes; to ignore them would give one zone to two pods that are asked about
        # within a second. So a hold that is not certain counts as long as there are other nodes.
        taken: dict[int, bool] = {}
        for name in {*holds, *self.nominations.nodes()}:
            row = self.cluster.row_of.get(name, -1)
            position = int(np.searchsorted(rows, row))
            if row < 0 or position == len(rows) or rows[position] != row:
                continue
            there = holds.get(name, [])
            nominated = self.nominations.before(pod, name)
            node = self.cluster.by_row[row]
            others = {other.uid: other for other in (*nominated, *(hold.pod for hold in there))}
            if others and node and not self.fits_beside(pod, node, others.values()):
                taken[row] = bool(nominated) or any(hold.certain for hold in there)
        if len(taken) == len(rows):
            taken = {row: certain for row, certain in taken.items() if certain}
        if not taken:
            return rows
        promised = np.array(sorted(taken), dtype=np.intp)
        refusals.append(_FilterRefusal(promised, _PROMISED))
        return np.setdiff1d(rows, promised)

    def _confirmed(
        self,
        state: CycleState,
        pod: PodInfo,
        snapshot: Snapshot,
        rows: Rows,
        refusals: list[_FilterRefusal],
    ) -> Rows:
        """Rate *rows*, and drop those of the best that the model refuses."""
        if not len(rows):
            return rows
        scores = self._scores(state, pod, snapshot, rows)
        exact = snapshot.zones.exact[rows]
        wrong: list[int] = []
        for asked, position in enumerate(_best_first(scores, exact), start=1):
            row = int(rows[position])
            status = checked(partial(self.engine.confirm, state, pod), snapshot.at(row))
            if not status.ok:
                refusals.append(
                    _FilterRefusal(rows[position : position + 1], status, confirmed=True)
                )
                wrong.append(position)
            if asked >= CONFIRMED and len(wrong) < asked:
                break
        keep = np.ones(len(rows), dtype=np.bool_)
        keep[wrong] = False
        self._remember(pod, snapshot, rows[keep], scores[keep])
        return rows[keep]

    def _explain(
        self,
        pod: PodInfo,
        asked: _Asked,
        refusals: list[_FilterRefusal],
        result: FilterJudgement,
    ) -> None:
        """Sort the names by what is said of them; those we do not know are refused for good."""
        size = len(self.cluster.by_row) + 1
        text_at, hopeless = np.full(size, -1, dtype=np.intp), np.zeros(size, dtype=np.bool_)
        texts = [UNKNOWN_NODE]
        text_at[-1], hopeless[-1] = 0, True
        for refusal in refusals:
            text_at[refusal.rows] = len(texts)
            texts.append(text_of(refusal.status))
            hopeless[refusal.rows] = are_hopeless(refusal.status, self.cluster.zones, refusal.rows)
        if may_preempt(pod):
            rows = np.flatnonzero(text_at[:-1] >= 0)
            hopeless[rows] |= self._lowest.on(self.cluster, rows) < pod.priority
        every = asked.every
        text_of_name = text_at[every]
        is_kept = text_of_name < 0
        result.kept = tuple(compress(asked.names, is_kept.tolist()))
        self._called(result.kept, every[is_kept])
        for position in np.flatnonzero(~is_kept).tolist():
            failed = result.unresolvable if hopeless[every[position]] else result.failed
            failed[asked.names[position]] = texts[text_of_name[position]]

    def _rate_anew(self, pod: PodInfo, rows: Rows) -> _Ratings:
        snapshot, state = self.cluster.snapshot(), CycleState()
        rows = self._by_counts(state, pod, snapshot, rows, [])
        scores = self._scores(state, pod, snapshot, rows)
        return self._remember(pod, snapshot, rows, scores)

    def _scores(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> IntArray:
        scores = rated(
            partial(self.engine.score_all, state, pod, snapshot, rows),
            partial(self.engine.score, state, pod),
            snapshot,
            rows,
        )
        return scores.astype(np.int64, copy=False)

    def _remember(self, pod: PodInfo, snapshot: Snapshot, rows: Rows, scores: IntArray) -> _Ratings:
        by_row = np.full(len(snapshot.by_row) + 1, -1, dtype=np.int64)
        by_row[rows] = scores
        found = self._ratings[pod.uid] = _Ratings(snapshot.generation, by_row)
        self._ratings.move_to_end(pod.uid)
        if len(self._ratings) > _REMEMBERED:
            self._ratings.popitem(last=False)
        return found


def _rows_of(names: Sequence[str], row_of: Mapping[str, int]) -> Rows:
    """Return the row of each name; -1 for those that are not known."""
    try:
        return np.fromiter(map(row_of.__getitem__, names), dtype=np.intp, count=len(names))
    except KeyError:
        return np.array([row_of.get(name, -1) for name in names], dtype=np.intp)


def on_scale(scores: IntArray) -> IntArray:
    """Return *scores* of 0 to 100, -1 for none, on the scale of 0 to `MAX_SCORE`.

    The best gets the maximum, and the others as much less as they are worse. Nodes that are close
    to each other are drawn apart, so that the better one stays ahead, but not so far
    that a point of alignment outweighs all else: a step is never less than `_FINEST_STEP` points.
    """
    if not len(scores):
        return scores
    best = int(scores.max())
    rated = scores[scores >= 0]
    spread = best - int(rated.min()) if len(rated) else 0
    step = max(spread / MAX_SCORE, _FINEST_STEP)
    scaled = MAX_SCORE - np.rint((best - scores) / step).astype(np.int64)
    return np.where(scores < 0, 0, np.maximum(scaled, 0))


def _best_first(scores: IntArray, exact: Mask) -> Iterator[int]:
    """Give the positions of the nodes that the model can be asked about, best first.

    The first ones are looked for one by one: most often no more are asked for.
    """
    left = np.where(exact, scores, -1)
    count = min(CONFIRMED_AT_MOST, int(exact.sum()))
    for _ in range(min(CONFIRMED, count)):
        best = int(left.argmax())
        left[best] = -1
        yield best
    if count > CONFIRMED:
        part = np.argpartition(-left, count - CONFIRMED - 1)[: count - CONFIRMED]
        yield from part[np.lexsort((part, -left[part]))].tolist()


# Nodes that do not exist, as autoscalers ask about them.
#
# An autoscaler tries pods on the template of every node group, and sends the template as a whole
# Node object. It is judged as an idle node with the topology of its group; see
# `numakube.insight.node_groups`. A group of which nothing is known takes only pods that want
# nothing of zones.


KEY: Final = "groups.yaml"
UNKNOWN_GROUP: Final = f"{MARK}node does not exist, and the topology of its group is not known"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class TextMap(Wire, frozen=True):
    """Texts by name."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


def config_map_reflector(client: Client, namespace: str) -> Reflector[TextMap]:
    """Return what follows the ConfigMap in which groups are described; there may be none."""
    resource, name = CONFIG_MAPS.decoded_as(TextMap), f"metadata.name={NODE_GROUPS}"
    return Reflector(client, resource, namespace=namespace, fields=name, optional=True)


class VirtualNodes:
    """Judges nodes of which there is nothing but an object."""

    def __init__(self, judge: Judge, settings: Settings) -> None:
        self._judge = judge
        self._settings = settings
        self._groups = NodeGroups()

    def described(self, change: Change[TextMap]) -> None:
        """Take over what the ConfigMap says; one that cannot be read changes nothing."""
        if isinstance(change, Removed):
            self._groups = NodeGroups()
            return
        try:
            tree = load_yaml(change.object.data.get(KEY, ""), NODE_GROUPS) or {}
            groups = NodeGroups(convert(NodeGroupList, tree, NODE_GROUPS).groups)
            groups.check()
        except NumakubeError as error:
            _log.warning("node_groups_unreadable", config_map=NODE_GROUPS, error=str(error))
            return
        self._groups = groups

    def are_in(self, nodes: NodeList | None) -> bool:
        """Tell whether there are such nodes among *nodes*."""
        items = nodes.items if nodes is not None else None
        return any(name_of(item) not in self._judge.cluster.row_of for item in items or ())

    def add_to(self, found: FilterJudgement, pod: PodInfo, nodes: NodeList) -> None:
        """Say in *found* what becomes of *pod* on those of *nodes* that do not exist."""
        kept = set(found.kept)
        items = nodes.items or ()
        for item in items:
            name = name_of(item)
            if name in self._judge.cluster.row_of:
                continue
            reason = self.refusal(pod, item)
            found.unresolvable.pop(name, None)
            if reason:
                found.unresolvable[name] = reason
            else:
                kept.add(name)
        found.kept = tuple(name for name in map(name_of, items) if name in kept)

    def refusal(self, pod: PodInfo, item: msgspec.Raw) -> str:
        """Return why *pod* would not run on a node like that; empty if it would."""
        try:
            node = decode(Node, bytes(item), subject="Node")
            report = self._groups.report_for(node, self._judge.cluster.nodes())
        except NumakubeError as error:
            return f"{MARK}{error}"
        if report is None:
            return "" if wants_nothing(pod) else UNKNOWN_GROUP
        info = NodeInfo(node, row=-1)
        info.numa = self._belief(report)
        status = self._judge.admits(pod, info)
        return "" if status.ok else text_of(status)

    def _belief(self, report: NodeResourceTopology) -> NumaBelief | None:
        cache = make_cache(self._settings.cache, frozenset())
        cache.set_report(report)
        return cache.belief(report.metadata.name)

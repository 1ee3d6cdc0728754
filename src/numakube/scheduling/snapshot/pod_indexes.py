"""What is known of the pods on nodes beyond their sums: groups, terms, ports and claims."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.snapshot.nodes import PortTable
from numakube.scheduling.snapshot.pods import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.selectors import Selector
    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo, PodTerm


# ------------------------------------------------------------------------------------------------
# How many pods of a kind each node has, kept up to date pod by pod.
#
# Pods with the same namespace and labels form a group. A query (``pods of these namespaces that
# match this selector``) knows its groups and the number of their pods on every node, so a cycle
# reads an array instead of looking at pods. The queries used last are kept; each is worked out
# once.

Counts: TypeAlias = npt.NDArray[np.int32]

MAX_QUERIES: Final = 256
_FIRST_CAPACITY: Final = 64


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Pods of certain namespaces (all, if ``None``) that match a selector."""

    namespaces: frozenset[str] | None
    selector: Selector


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that are in every one of some sets.

    Attributes:
        terminating: whether pods that are being deleted count.
    """

    sets: tuple[PodSelection, ...]
    terminating: bool = True


class _LabelGroup:
    """Pods with one namespace and the same labels."""

    __slots__ = ("answers", "labels", "namespace", "rows", "terminating")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.terminating = pod.is_being_deleted
        self.rows: dict[int, int] = {}
        self.answers: list[_CountedPods] = []

    def is_in(self, query: PodQuery) -> bool:
        if self.terminating and not query.terminating:
            return False
        return all(
            (selection.namespaces is None or self.namespace in selection.namespaces)
            and selection.selector.matches(self.labels)
            for selection in query.sets
        )


class _CountedPods:
    """A query, the groups it is about and the sum of their pods by row."""

    __slots__ = ("counts", "groups", "query")

    def __init__(self, query: PodQuery, capacity: int) -> None:
        self.query = query
        self.groups: set[_LabelGroup] = set()
        self.counts: Counts = np.zeros(capacity, dtype=np.int32)

    def include(self, group: _LabelGroup) -> None:
        self.groups.add(group)
        group.answers.append(self)
        for row, count in group.rows.items():
            self.counts[row] += count


class PodCounts:
    """Groups of pods and the answers to recent queries about them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _LabelGroup]] = {}
        self._answers: OrderedDict[PodQuery, _CountedPods] = OrderedDict()
        self._capacity = _FIRST_CAPACITY

    def counts(self, query: PodQuery) -> Counts:
        """Return the number of pods by row; not to be changed."""
        answer = self._answers.get(query)
        if answer is None:
            answer = self._work_out(query)
        else:
            self._answers.move_to_end(query)
        return answer.counts

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        group = self._group(pod)
        group.rows[row] = group.rows.get(row, 0) + 1
        for answer in group.answers:
            answer.counts[row] += 1

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        group = self._groups[pod.namespace][_key(pod)]
        group.rows[row] -= 1
        for answer in group.answers:
            answer.counts[row] -= 1
        if not group.rows[row]:
            del group.rows[row]
            if not group.rows:
                self._drop(pod, group)

    def _group(self, pod: PodInfo) -> _LabelGroup:
        here = self._groups.setdefault(pod.namespace, {})
        key = _key(pod)
        group = here.get(key)
        if group is None:
            group = here[key] = _LabelGroup(pod)
            for answer in self._answers.values():
                if group.is_in(answer.query):
                    answer.include(group)
        return group

    def _drop(self, pod: PodInfo, group: _LabelGroup) -> None:
        for answer in group.answers:
            answer.groups.discard(group)
        here = self._groups[pod.namespace]
        del here[_key(pod)]
        if not here:
            del self._groups[pod.namespace]

    def _work_out(self, query: PodQuery) -> _CountedPods:
        if len(self._answers) >= MAX_QUERIES:
            _, oldest = self._answers.popitem(last=False)
            for group in oldest.groups:
                group.answers.remove(oldest)
        answer = self._answers[query] = _CountedPods(query, self._capacity)
        for namespace, groups in self._groups.items():
            if any(s.namespaces is not None and namespace not in s.namespaces for s in query.sets):
                continue
            for group in groups.values():
                if group.is_in(query):
                    answer.include(group)
        return answer

    def reserve(self, row: int) -> None:
        """Make room for a node at *row*."""
        if row < self._capacity:
            return
        while self._capacity <= row:
            self._capacity *= 2
        for answer in self._answers.values():
            counts = np.zeros(self._capacity, dtype=np.int32)
            counts[: len(answer.counts)] = answer.counts
            answer.counts = counts


def _key(pod: PodInfo) -> object:
    return frozenset(pod.labels.items()), pod.is_being_deleted


# ------------------------------------------------------------------------------------------------
# On which nodes pods run whose affinity terms are about a given pod, kept up to date.
#
# Affinity is symmetric: a pod that runs may want the new one near or far. Equal terms of running
# pods are kept once. A view (``terms that are about pods with this namespace and these labels``)
# knows its terms and, for each topology key, how much they amount to on every node. Pods of one
# owner share a view; those used last are kept.

MAX_VIEWS: Final = 256


class TermKind(Enum):
    """What a term of a running pod is."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERENCE = "preference"


@dataclass(frozen=True, slots=True)
class _TermKey:
    kind: TermKind
    term: PodTerm
    weight: int


class _TermEntry:
    """One term and how often it occurs on each row."""

    __slots__ = ("key", "rows", "views")

    def __init__(self, key: _TermKey) -> None:
        self.key = key
        self.rows: dict[int, int] = {}
        self.views: list[TermView] = []

    def is_about(self, view: TermView) -> bool:
        return self.key.term.matches(view.pod, view.namespace_labels)


@dataclass(frozen=True, slots=True)
class TermSums:
    """What the terms of one kind and topology key amount to by row.

    Attributes:
        hits: number of terms.
        weight: sum of their weights; for required terms, which have none, the number again.
    """

    hits: Counts
    weight: Counts


class TermView:
    """The terms that are about one kind of pod."""

    def __init__(self, pod: PodInfo, namespace_labels: Mapping[str, str], capacity: int) -> None:
        self.pod = pod
        self.namespace_labels = namespace_labels
        self.entries: set[_TermEntry] = set()
        self.sums: dict[tuple[TermKind, str], TermSums] = {}
        self._capacity = capacity

    def of(self, kind: TermKind) -> Iterator[tuple[str, TermSums]]:
        """Yield the sums of *kind* by topology key."""
        for (found, key), sums in self.sums.items():
            if found is kind:
                yield key, sums

    def include(self, entry: _TermEntry) -> None:
        """Take a term in."""
        self.entries.add(entry)
        entry.views.append(self)
        for row, count in entry.rows.items():
            self.change(entry.key, row, count)

    def change(self, key: _TermKey, row: int, count: int) -> None:
        """Take into account *count* more of a term at *row*."""
        place = (key.kind, key.term.topology_key)
        sums = self.sums.get(place)
        if sums is None:
            hits = self._zeros()
            weighs = key.kind is TermKind.PREFERENCE
            sums = self.sums[place] = TermSums(hits, self._zeros() if weighs else hits)
        sums.hits[row] += count
        if sums.weight is not sums.hits:
            sums.weight[row] += count * key.weight

    def grow(self, capacity: int) -> None:
        """Make room for rows below *capacity*."""
        self._capacity = capacity
        for place, sums in self.sums.items():
            hits = self._grown(sums.hits)
            weighs = sums.weight is not sums.hits
            self.sums[place] = TermSums(hits, self._grown(sums.weight) if weighs else hits)

    def _grown(self, counts: Counts) -> Counts:
        new = self._zeros()
        new[: len(counts)] = counts
        return new

    def _zeros(self) -> Counts:
        return np.zeros(self._capacity, dtype=np.int32)


class TermCounts:
    """The terms of all running pods."""

    def __init__(self) -> None:
        self._entries: dict[_TermKey, _TermEntry] = {}
        self._views: OrderedDict[object, TermView] = OrderedDict()
        self._capacity = _FIRST_CAPACITY

    @property
    def is_empty(self) -> bool:
        """Tell whether no running pod has any term."""
        return not self._entries

    def about(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> TermView:
        """Return the terms of running pods that are about *pod*."""
        labels = frozenset(pod.labels.items())
        key = (pod.namespace, labels, frozenset(namespace_labels.items()))
        view = self._views.get(key)
        if view is not None:
            self._views.move_to_end(key)
            return view
        if len(self._views) >= MAX_VIEWS:
            _, oldest = self._views.popitem(last=False)
            for entry in oldest.entries:
                entry.views.remove(oldest)
        view = self._views[key] = TermView(pod, namespace_labels, self._capacity)
        for entry in self._entries.values():
            if entry.is_about(view):
                view.include(entry)
        return view

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        for key in _keys(pod):
            entry = self._entry(key)
            entry.rows[row] = entry.rows.get(row, 0) + 1
            for view in entry.views:
                view.change(key, row, 1)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        for key in _keys(pod):
            entry = self._entries[key]
            entry.rows[row] -= 1
            for view in entry.views:
                view.change(key, row, -1)
            if not entry.rows[row]:
                del entry.rows[row]
                if not entry.rows:
                    self._drop(entry)

    def _entry(self, key: _TermKey) -> _TermEntry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _TermEntry(key)
            for view in self._views.values():
                if entry.is_about(view):
                    view.include(entry)
        return entry

    def _drop(self, entry: _TermEntry) -> None:
        for view in entry.views:
            view.entries.discard(entry)
        del self._entries[entry.key]

    def reserve(self, row: int) -> None:
        """Make room for a node at *row*."""
        if row < self._capacity:
            return
        while self._capacity <= row:
            self._capacity *= 2
        for view in self._views.values():
            view.grow(self._capacity)


def _keys(pod: PodInfo) -> Iterator[_TermKey]:
    terms = terms_of(pod)
    for term in terms.affinity:
        yield _TermKey(TermKind.AFFINITY, term, 1)
    for term in terms.anti_affinity:
        yield _TermKey(TermKind.ANTI_AFFINITY, term, 1)
    for term, weight in terms.preferences:
        yield _TermKey(TermKind.PREFERENCE, term, weight)


# ------------------------------------------------------------------------------------------------
# What is known of the pods on nodes beyond their sums: groups, terms, ports and claims.


def attachable_volumes(pod: PodInfo) -> int:
    """Return how many volumes of *pod* may have to be attached to its node."""
    return sum(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        for volume in pod.pod.spec.volumes
    )


class VolumeSlots:
    """How many volumes the pods of each node have that may have to be attached, by row.

    Several pods may share one, and some are not attached at all: the number is never too small, and
    where even it is below the limit an exact count is not needed.
    """

    def __init__(self) -> None:
        self._counts: IntArray = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    def at(self, row: int) -> int:
        """Return how many volumes at most the pods of the node at *row* have attached."""
        return int(self._counts[row]) if row < len(self._counts) else 0

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        if row >= len(self._counts):
            grown = np.zeros(max(2 * len(self._counts), row + 1), dtype=np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown
        self._counts[row] += attachable_volumes(pod)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        self._counts[row] -= attachable_volumes(pod)


class ClaimUsers:
    """Counts of pods by claim (``namespace/name``).

    A claim for one pod only must not get a second one.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def is_used(self, claim: str) -> bool:
        """Tell whether a pod on any node uses *claim*."""
        return self._counts[claim] > 0

    def add(self, pod: PodInfo) -> None:
        """Take into account that *pod* runs."""
        self._counts.update(_claims(pod))

    def remove(self, pod: PodInfo) -> None:
        """Take back an `add`."""
        for claim in _claims(pod):
            self._counts[claim] -= 1
            if not self._counts[claim]:
                del self._counts[claim]


def _claims(pod: PodInfo) -> Iterator[str]:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"


class PodIndexes:
    """Everything that is looked up by what pods are like rather than by node."""

    def __init__(self) -> None:
        self.counts = PodCounts()
        self.terms = TermCounts()
        self.ports = PortTable()
        self.claims = ClaimUsers()
        self.slots = VolumeSlots()
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of any pod; ``None`` if there are no pods."""
        return min(self._priorities, default=None)

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        self.counts.add(pod, row)
        self.terms.add(pod, row)
        self.ports.add(pod, row)
        self._priorities[pod.priority] += 1
        if pod.pod.spec.volumes:
            self.claims.add(pod)
            self.slots.add(pod, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        self.counts.remove(pod, row)
        self.terms.remove(pod, row)
        self.ports.remove(pod, row)
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        if pod.pod.spec.volumes:
            self.claims.remove(pod)
            self.slots.remove(pod, row)

    def add_all(self, node: NodeInfo) -> None:
        """Take a new *node* and all its pods in."""
        self.counts.reserve(node.row)
        self.terms.reserve(node.row)
        for pod in node.pods.values():
            self.add(pod, node.row)

    def remove_all(self, node: NodeInfo) -> None:
        """Forget all pods of *node*."""
        for pod in node.pods.values():
            self.remove(pod, node.row)

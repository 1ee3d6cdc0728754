"""On which nodes pods run whose affinity terms are about a given pod, kept up to date.

Affinity is symmetric: a pod that runs may want the new one near or far. Equal terms of running pods
are kept once. A view (``terms that are about pods with this namespace and these labels``) knows its
terms and, for each topology key, how much they amount to on every node. Pods of one owner share a
view; those used last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.snapshot.pod_terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.scheduling.snapshot.pod_counts import Counts
    from numakube.scheduling.snapshot.pod_terms import PodTerm
    from numakube.scheduling.snapshot.pods import PodInfo

MAX_VIEWS: Final = 256
_FIRST_CAPACITY: Final = 64


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


class _Entry:
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
        self.entries: set[_Entry] = set()
        self.sums: dict[tuple[TermKind, str], TermSums] = {}
        self._capacity = capacity

    def of(self, kind: TermKind) -> Iterator[tuple[str, TermSums]]:
        """Yield the sums of *kind* by topology key."""
        for (found, key), sums in self.sums.items():
            if found is kind:
                yield key, sums

    def include(self, entry: _Entry) -> None:
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
        self._entries: dict[_TermKey, _Entry] = {}
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

    def _entry(self, key: _TermKey) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key)
            for view in self._views.values():
                if entry.is_about(view):
                    view.include(entry)
        return entry

    def _drop(self, entry: _Entry) -> None:
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

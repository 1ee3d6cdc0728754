"""How many pods of a kind each node has, kept up to date pod by pod.

Pods with the same namespace and labels form a group. A query (``pods of these namespaces that
match this selector``) knows its groups and the number of their pods on every node, so a cycle reads
an array instead of looking at pods. The queries used last are kept; each is worked out once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from numakube.api.selectors import Selector
    from numakube.scheduling.snapshot.pods import PodInfo

Counts: TypeAlias = npt.NDArray[np.int32]

MAX_QUERIES: Final = 256
_FIRST_CAPACITY: Final = 64


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of certain namespaces (all, if ``None``) that match a selector."""

    namespaces: frozenset[str] | None
    selector: Selector


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that are in every one of some sets.

    Attributes:
        terminating: whether pods that are being deleted count.
    """

    sets: tuple[PodSet, ...]
    terminating: bool = True


class _Group:
    """Pods with one namespace and the same labels."""

    __slots__ = ("answers", "labels", "namespace", "rows", "terminating")

    def __init__(self, pod: PodInfo) -> None:
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.terminating = pod.is_being_deleted
        self.rows: dict[int, int] = {}
        self.answers: list[_Answer] = []

    def is_in(self, query: PodQuery) -> bool:
        if self.terminating and not query.terminating:
            return False
        return all(
            (one.namespaces is None or self.namespace in one.namespaces)
            and one.selector.matches(self.labels)
            for one in query.sets
        )


class _Answer:
    """A query, the groups it is about and the sum of their pods by row."""

    __slots__ = ("counts", "groups", "query")

    def __init__(self, query: PodQuery, capacity: int) -> None:
        self.query = query
        self.groups: set[_Group] = set()
        self.counts: Counts = np.zeros(capacity, dtype=np.int32)

    def include(self, group: _Group) -> None:
        self.groups.add(group)
        group.answers.append(self)
        for row, count in group.rows.items():
            self.counts[row] += count


class PodCounts:
    """Groups of pods and the answers to recent queries about them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Group]] = {}
        self._answers: OrderedDict[PodQuery, _Answer] = OrderedDict()
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

    def _group(self, pod: PodInfo) -> _Group:
        here = self._groups.setdefault(pod.namespace, {})
        key = _key(pod)
        group = here.get(key)
        if group is None:
            group = here[key] = _Group(pod)
            for answer in self._answers.values():
                if group.is_in(answer.query):
                    answer.include(group)
        return group

    def _drop(self, pod: PodInfo, group: _Group) -> None:
        for answer in group.answers:
            answer.groups.discard(group)
        here = self._groups[pod.namespace]
        del here[_key(pod)]
        if not here:
            del self._groups[pod.namespace]

    def _work_out(self, query: PodQuery) -> _Answer:
        if len(self._answers) >= MAX_QUERIES:
            _, oldest = self._answers.popitem(last=False)
            for group in oldest.groups:
                group.answers.remove(oldest)
        answer = self._answers[query] = _Answer(query, self._capacity)
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

"""Pods that are to fit at the same time, and how many of them do on a cluster as it is.

    wanted = WantedPods(what_if, copies(pod, 4))
    wanted.nodes                     # where those go that fit, by the scheduler's own cycle
    wanted.more_fit(["node-1"])      # after these nodes have changed: are there more?

None of them stays on the cluster: nobody comes for a place before the plan is at its end, so that
kubelets give pods that move whatever zone they like best, also one in which a wanted pod would fit.

Equal pods that do not look at each other are counted node by node, and only nodes that change are
counted again. Others are placed again, one after the other.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numakube.insight.how_many_fit import looks_around
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight.defrag.what_if_cluster import WhatIfCluster


class WantedPods:
    """The pods of a plan.

    Attributes:
        nodes: where those go that fit, in order.
        why: why the next one does not.
    """

    def __init__(self, what_if: WhatIfCluster, pods: Iterable[Pod]) -> None:
        self.pods = list(pods)
        self.nodes: list[str] = []
        self.why = ""
        self._what_if = what_if
        infos = list(map(PodInfo, self.pods))
        self._by_node = not any(map(looks_around, infos)) and len(set(map(replica_key, infos))) < 2
        self._before: Counter[str] = Counter()
        self._known: dict[object, int] = {}
        self.look_again()

    @property
    def next(self) -> Pod | None:
        """The first that does not fit."""
        return self.pods[len(self.nodes)] if len(self.nodes) < len(self.pods) else None

    def look_again(self) -> None:
        """See how many fit now."""
        self.nodes = self._placed()
        self._before = Counter(self.nodes)
        self.why = self._what_if.why if self.next is not None else ""

    def more_fit(self, changed: Iterable[str]) -> bool:
        """Tell whether more fit than when it was looked last; only nodes *changed* did change."""
        if not self._by_node:
            return len(self._placed()) > len(self.nodes)
        return sum(self._count(name) - self._before[name] for name in set(changed)) > 0

    def more_fit_without(self, node: str, leaving: Iterable[PodInfo]) -> bool:
        """Tell whether more of them fit on *node* when the pods *leaving* are gone."""
        mark = self._what_if.mark()
        for pod in leaving:
            self._what_if.leave(pod)
        found = self.more_fit([node])
        self._what_if.rewind(mark)
        return found

    def has_place_on(self, node: str) -> bool:
        """Tell whether one of them fitted on *node* when it was looked last."""
        return self._before[node] > 0

    def fewer_fit_on(self, node: str) -> bool:
        """Tell whether a place on *node* is gone; unknown where pods look at each other."""
        return self._by_node and self._count(node) < self._before[node]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Have those that fit on the cluster for a while: what is left has no room for the next."""
        mark = self._what_if.mark()
        for pod, node in zip(self.pods, self.nodes, strict=False):
            self._what_if.put(pod, node)
        try:
            yield
        finally:
            self._what_if.rewind(mark)

    def _placed(self) -> list[str]:
        mark, nodes = self._what_if.mark(), list[str]()
        for pod in self.pods:
            node = self._what_if.arrive(pod)
            if not node:
                break
            nodes.append(node)
        self._what_if.rewind(mark)
        return nodes

    def _count(self, node: str) -> int:
        """Return how many fit on *node*, beside each other."""
        key = node, self._what_if.state
        if key not in self._known:
            mark, count = self._what_if.mark(), 0
            for pod in self.pods:
                if not self._what_if.put(pod, node):
                    break
                count += 1
            self._what_if.rewind(mark)
            self._known[key] = count
        return self._known[key]

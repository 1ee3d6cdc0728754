"""Pods for which room is being made on a node.

A nominated pod is not placed yet, but pods of lower priority must not take the room that was made
for it: they are tried on that node as if it were there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.pods import PodInfo

_REMEMBERED: Final = 100_000


class Nominations:
    """Who is nominated where."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes with every nomination."""
        self._verdicts: dict[tuple[bytes, str], tuple[object, Status]] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep room for *pod* on *node*, and nowhere else."""
        self.drop(pod.uid)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._node_of[pod.uid] = node
        self.generation += 1

    def drop(self, uid: str) -> str | None:
        """Keep no room for a pod any more; return the node where it was kept."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            self.generation += 1
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]
        return node

    def node_of(self, uid: str) -> str | None:
        """Return the node on which room is being made for a pod."""
        return self._node_of.get(uid)

    def nodes(self) -> frozenset[str]:
        """Return the nodes with nominated pods."""
        return frozenset(self._by_node)

    def before(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated to *node* that *pod* must leave room for."""
        there = self._by_node.get(node, {})
        return [
            one for one in there.values() if one.priority >= pod.priority and one.uid != pod.uid
        ]

    def verdict(self, kind: bytes, node: str, state: object) -> Status | None:
        """Return what was said of a *kind* of pods on *node* with the pods nominated there.

        That is good for one *state* of the node, and of those pods.
        """
        known = self._verdicts.get((kind, node))
        return known[1] if known is not None and known[0] == state else None

    def remember(self, kind: bytes, node: str, state: object, verdict: Status) -> None:
        """Keep a *verdict* for pods of the same kind."""
        if len(self._verdicts) >= _REMEMBERED:
            self._verdicts.clear()
        self._verdicts[kind, node] = state, verdict

    def below(self, priority: int, node: str) -> list[PodInfo]:
        """Return the pods nominated to *node* with a lower priority: they lose their claim."""
        return [one for one in self._by_node.get(node, {}).values() if one.priority < priority]

"""Volcano's HyperNodes as values of nodes: in which domain of each tier a node is.

A tier is a level; the largest is the coarsest. A domain that is in several of one tier counts for
the first by name. Patterns are matched in a time that grows with the text alone, as in Go; one that
is longer than `_MOST_PATTERN`, or cannot be read, matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.api.selectors import selector_of
from numakube.cel.string_functions import Pattern
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.topology_objects import HyperNode, MemberSelector
    from numakube.scheduling.snapshot.cluster_objects import Followed
    from numakube.scheduling.snapshot.nodes import NodeInfo

_MOST_PATTERN: Final = 256
_MOST: Final = 20_000
"""HyperNodes that are read, the first by name."""
_NODE: Final = "Node"


class NodeValues:
    """Says in which domain of one tier a node is; another one after every change of HyperNodes."""

    def __init__(self, tree: _Tree, tier: int) -> None:
        self._tree = tree
        self._tier = tier

    def of(self, node: NodeInfo) -> str | None:
        """Return the domain of *node*, if it is in one of the tier."""
        return self._tree.domains_of(node).get(self._tier)


@dataclass(frozen=True, slots=True)
class HyperTier:
    """One tier.

    Attributes:
        name: ``tier-1``.
        alias: as its HyperNodes call it; the same if they do not.
    """

    name: str
    alias: str
    values: NodeValues


def hyper_tiers(hyper_nodes: Followed[HyperNode]) -> Sequence[HyperTier]:
    """Return the tiers of *hyper_nodes*, coarse to fine."""
    if not hyper_nodes:
        return ()
    known = _KNOWN.get(id(hyper_nodes))
    if known is None or known[0] is not hyper_nodes or known[1] != hyper_nodes.version:
        _KNOWN.clear()
        known = hyper_nodes, hyper_nodes.version, _tiers(dict(hyper_nodes))
        _KNOWN[id(hyper_nodes)] = known
    return known[2]


_KNOWN: Final[dict[int, tuple[Followed[HyperNode], int, Sequence[HyperTier]]]] = {}
"""Worked out once after a change, for the cluster that was asked about last."""


def _tiers(by_name: Mapping[str, HyperNode]) -> Sequence[HyperTier]:
    tree = _Tree(by_name)
    numbers = sorted({one.spec.tier for one in tree.by_name.values()}, reverse=True)
    names = {one.spec.tier: one.spec.tier_name for one in tree.by_name.values()}
    return tuple(
        HyperTier(f"tier-{number}", names[number] or f"tier-{number}", NodeValues(tree, number))
        for number in numbers
    )


class _Tree:
    """HyperNodes, and what each is in."""

    def __init__(self, by_name: Mapping[str, HyperNode]) -> None:
        self.by_name = dict(sorted(by_name.items())[:_MOST])
        self._exact: dict[str, list[str]] = {}
        self._others: list[tuple[str, MemberSelector]] = []
        self._parents: dict[str, list[str]] = {}
        for name, one in self.by_name.items():
            for member in one.spec.members:
                selector, is_node = member.selector, member.type == _NODE
                if selector.exact_match is not None:
                    into = self._exact if is_node else self._parents
                    into.setdefault(selector.exact_match.name, []).append(name)
                elif is_node:
                    self._others.append((name, selector))
                else:
                    for other in self.by_name:
                        if other != name and _matches(selector, other, {}):
                            self._parents.setdefault(other, []).append(name)

    def domains_of(self, node: NodeInfo) -> dict[int, str]:
        """Return the domain of *node* by tier."""
        labels = node.labels
        near = [*self._exact.get(node.name, ())]
        near += [name for name, one in self._others if _matches(one, node.name, labels)]
        found: dict[int, str] = {}
        for name in self._with_parents(near):
            found.setdefault(self.by_name[name].spec.tier, name)
        return found

    def _with_parents(self, names: Sequence[str]) -> Iterator[str]:
        seen: set[str] = set()
        queue = sorted(names)
        while queue:
            name = queue.pop(0)
            if name in seen or name not in self.by_name:
                continue
            seen.add(name)
            yield name
            queue += sorted(self._parents.get(name, ()))


def _matches(selector: MemberSelector, name: str, labels: Mapping[str, str]) -> bool:
    if selector.regex_match is not None:
        pattern = _pattern(selector.regex_match.pattern)
        return pattern is not None and pattern.is_in(name)
    if selector.label_match is not None:
        try:
            return selector_of(selector.label_match).matches(labels)
        except InvalidValue:
            return False
    return False


@lru_cache(maxsize=1024)
def _pattern(text: str) -> Pattern | None:
    """Return a pattern that can be used."""
    if not text or len(text) > _MOST_PATTERN:
        return None
    try:
        return Pattern(text)
    except InvalidValue:
        return None

"""Nodes in one line: ``200x 2 sockets, 32 cores, smt 2, 512Gi, gpu 8; policy=restricted``.

A count, the shape of a machine or the name of a known one (`numakube.kubelet.machines`), and after
a semicolon the words that configure its kubelet (`numakube.kubelet.config_from_words`). Kinds get
letters, so that the nodes of the second one are ``b-000``, ``b-001`` and so on. Where there is a
cluster, ``10x like node-0``, or ``10x node-0``, are nodes with the machine, the devices, the labels
and the kubelet of that one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from string import ascii_lowercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError, InvalidValue
from numakube.kubelet.config_from_words import (
    lab_configuration,
    overridden,
    parse_kubelet_options,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.simulation.cluster_model import SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_KIND: Final = re.compile(r"\s*(?:(\d+)\s*x\s+)?([^;]+)(?:;(.*))?", re.DOTALL)
_LIKE: Final = "like "
_MOST: Final = 100_000
_HOSTNAME: Final = "kubernetes.io/hostname"
_OF_A_STATE: Final = "node.kubernetes.io/"
"""How taints begin that say how a node is, not what it is for."""


@dataclass(frozen=True, slots=True)
class NodesLike:
    """So many nodes like another.

    Attributes:
        words: what their kubelets have different; empty for nothing.
    """

    count: int
    like: str
    words: str = ""


def nodes_like(kind: str, known: Collection[str]) -> NodesLike | None:
    """Return what *kind* says if it is about one of the nodes *known*; ``None`` for a machine.

    Raises:
        ConfigError: there is no such node.
    """
    count, text, words = kind_parts(kind)
    name = text.removeprefix(_LIKE).strip()
    if name in known:
        return NodesLike(count, name, words)
    if not text.startswith(_LIKE):
        return None
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{kind!r}: there is no node {name!r}{hint}")


def nodes_of_kinds(
    kinds: Sequence[str],
    words: Mapping[str, str] | None = None,
    *,
    prefix: str = "",
    known: Mapping[str, SimulatedNode] = MappingProxyType({}),
) -> tuple[SimulatedNode, ...]:
    """Return the nodes that *kinds* describe; *words* are for kubelets whose kind says nothing.

    Raises:
        ConfigError: a kind cannot be read; it says which, and why.
    """
    if len(kinds) > len(ascii_lowercase):
        raise ConfigError(f"{len(kinds)} kinds of nodes; {len(ascii_lowercase)} is the limit")
    return tuple(
        node
        for letter, kind in zip(ascii_lowercase, kinds, strict=False)
        for node in _nodes(kind, f"{prefix}{letter}", words or {}, known)
    )


def kind_parts(kind: str) -> tuple[int, str, str]:
    """Return how many nodes, of which machine, with which words."""
    match = _KIND.fullmatch(kind)
    if match is None:
        raise ConfigError(f"{kind!r}: not like '10x 2 sockets, 16 cores, 64Gi; policy=restricted'")
    count = int(match[1] or 1)
    if not 0 < count <= _MOST:
        raise ConfigError(f"{kind!r}: {count} nodes; there may be 1 to {_MOST}")
    return count, match[2].strip(), match[3] or ""


def _nodes(
    kind: str, letter: str, words: Mapping[str, str], known: Mapping[str, SimulatedNode]
) -> Iterator[SimulatedNode]:
    count, text, told = kind_parts(kind)
    like = nodes_like(kind, known) if known or not text.startswith(_LIKE) else None
    if like is None and text.startswith(_LIKE):
        raise ConfigError(f"{kind!r}: there is no cluster with such a node; describe a machine")
    try:
        own = parse_kubelet_options(told)
        first = _like(known[like.like], own) if like else _described(text, {**words, **own})
    except (InvalidValue, ConfigError) as error:
        raise ConfigError(f"{kind!r}: {error}") from None
    width = max(3, len(str(count - 1)))
    for number in range(count):
        name = f"{letter}-{number:0{width}d}"
        labels = {**first.labels, _HOSTNAME: name} if first.labels else first.labels
        yield replace(first, name=name, labels=labels)


def _described(text: str, words: Mapping[str, str]) -> SimulatedNode:
    machine = from_shape(text)
    return SimulatedNode(name="", machine=machine, config=lab_configuration(machine, words))


def _like(node: SimulatedNode, words: Mapping[str, str]) -> SimulatedNode:
    """Return a node like another that has just joined; *words* change its kubelet."""
    config = overridden(node.config, node.machine, words) if words else node.config
    taints = tuple(one for one in node.taints if not one.key.startswith(_OF_A_STATE))
    return replace(node, config=config, taints=taints, unschedulable=False, held=None)

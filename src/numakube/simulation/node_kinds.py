"""Nodes in one line: ``200x 2 sockets, 32 cores, smt 2, 512Gi, gpu 8; policy=restricted``.

A count, the shape of a machine or the name of a known one (`numakube.kubelet.machines`), and after
a semicolon the words that configure its kubelet (`numakube.kubelet.config_from_words`). Kinds get
letters, so that the nodes of the second one are ``b-000``, ``b-001`` and so on.
"""

from __future__ import annotations

import re
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError, InvalidValue
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.machines.shape_text import from_shape
from numakube.simulation.cluster_model import SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KIND: Final = re.compile(r"\s*(?:(\d+)\s*x\s+)?([^;]+)(?:;(.*))?", re.DOTALL)
_MOST: Final = 100_000


def nodes_of_kinds(
    kinds: Sequence[str], words: Mapping[str, str] | None = None, *, prefix: str = ""
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
        for node in _nodes(kind, f"{prefix}{letter}", words or {})
    )


def _nodes(kind: str, letter: str, words: Mapping[str, str]) -> Iterator[SimulatedNode]:
    match = _KIND.fullmatch(kind)
    if match is None:
        raise ConfigError(f"{kind!r}: not like '10x 2 sockets, 16 cores, 64Gi; policy=restricted'")
    count = int(match[1] or 1)
    if not 0 < count <= _MOST:
        raise ConfigError(f"{kind!r}: {count} nodes; there may be 1 to {_MOST}")
    try:
        machine = from_shape(match[2].strip())
        told = {**words, **parse_kubelet_options(match[3] or "")}
        config = lab_configuration(machine, told)
    except (InvalidValue, ConfigError) as error:
        raise ConfigError(f"{kind!r}: {error}") from None
    width = max(3, len(str(count - 1)))
    for number in range(count):
        yield SimulatedNode(name=f"{letter}-{number:0{width}d}", machine=machine, config=config)

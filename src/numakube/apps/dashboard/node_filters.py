"""Nodes by name, label and trouble: what a reader may filter and group them by.

A filter is words, all of which must hold: ``gpu`` (part of the name), ``pool=a100``,
``pool!=a100``, ``is:cordoned``, ``is:trouble``. The map does the same in the browser, for labels
with few values, of which it gets a byte a node.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.dashboard.node_rows import KINDS
from numakube.insight.usage.zone_usage import NO_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.apps.dashboard.node_rows import NodeRow

MOST_VALUES: Final = 64
"""Labels with more values than these tell nodes apart rather than together."""
_NAMES: Final = frozenset({"kubernetes.io/hostname"})
_BETWEEN: Final = re.compile(r"[\s,]+")
_IS: Final = "is:"
_FLAGS: Final = {kind.word: kind.flag for kind in KINDS} | {
    "trouble": sum(kind.flag for kind in KINDS)
}


def wanted(text: str) -> Callable[[NodeRow], bool]:
    """Return a test of nodes for the words of *text*."""
    tests = [_test(word) for word in _BETWEEN.split(text) if word]
    return lambda row: all(test(row) for test in tests)


def _test(word: str) -> Callable[[NodeRow], bool]:
    if word.startswith(_IS):
        flags = _FLAGS.get(word.removeprefix(_IS), 0)
        return lambda row: bool(row.flags & flags)
    key, equals, value = word.partition("=")
    if not equals:
        return lambda row: word in row.name
    if key.endswith("!"):
        return lambda row: row.labels.get(key[:-1], "") != value
    return lambda row: row.labels.get(key, "") == value.removeprefix("=")


def grouping_labels(rows: Iterable[NodeRow]) -> dict[str, list[str]]:
    """Return the labels that put nodes together, with their values."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for key, value in row.labels.items():
            values = found.setdefault(key, set())
            if value and len(values) <= MOST_VALUES:
                values.add(value)
    return {
        key: sorted(found[key])
        for key in sorted(found)
        if key not in _NAMES and 0 < len(found[key]) <= MOST_VALUES
    }


def label_table(rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Return the values of each such label, and a byte a node: which of them it has, from 1."""
    table = {}
    for key, values in grouping_labels(rows).items():
        numbers = {value: number for number, value in enumerate(values, 1)}
        own = bytes(numbers.get(row.labels.get(key, ""), 0) for row in rows)
        table[key] = {"values": values, "of": b64encode(own).decode()}
    return table


def grouped(rows: Iterable[NodeRow], label: str) -> dict[str, list[NodeRow]]:
    """Return nodes by the value of a label; those without it come last."""
    groups: dict[str, list[NodeRow]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, "") or NO_LABEL, []).append(row)
    return {
        value: groups[value] for value in sorted(groups, key=lambda one: (one == NO_LABEL, one))
    }

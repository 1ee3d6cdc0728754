"""A covering array: few rows in which all pairs of values meet, and all triples where it matters.

Rows are made one after the other. Each begins with a combination that is still missing, and every
other feature takes the value that adds most. Triples are wanted where two of the three rows of the
table change the state of a running cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import TypeAlias

from tests.worlds.features import Feature

Row: TypeAlias = dict[str, str]
Combination: TypeAlias = frozenset[tuple[str, str]]


def wanted(features: Sequence[Feature]) -> set[Combination]:
    """Return all combinations that have to meet somewhere."""
    found = set(_products(combinations(features, 2)))
    triples = (one for one in combinations(features, 3) if sum(each.changes for each in one) > 1)
    return found | set(_products(triples))


def _products(groups: Iterable[tuple[Feature, ...]]) -> Iterator[Combination]:
    for group in groups:
        for values in product(*(one.values for one in group)):
            yield frozenset(zip((one.name for one in group), values, strict=True))


def covered(row: Mapping[str, str]) -> Iterator[Combination]:
    """Yield all pairs and triples of a row."""
    items = list(row.items())
    for size in (2, 3):
        yield from map(frozenset, combinations(items, size))


def covering_array(features: Sequence[Feature], rng: Random) -> Iterator[Row]:
    """Yield rows until nothing is missing."""
    missing = wanted(features)
    by_value: dict[tuple[str, str], set[Combination]] = {}
    for one in missing:
        for item in one:
            by_value.setdefault(item, set()).add(one)
    order = sorted(missing, key=sorted)
    rng.shuffle(order)
    for start in order:
        if start not in missing:
            continue
        row = dict(start)
        others = [one for one in features if one.name not in row]
        rng.shuffle(others)
        for feature in others:
            row[feature.name] = _best(feature, row, by_value, rng)
        done = missing.intersection(covered(row))
        missing -= done
        for one in done:
            for item in one:
                by_value[item].discard(one)
        yield {feature.name: row[feature.name] for feature in features}


def _best(
    feature: Feature,
    row: Row,
    by_value: Mapping[tuple[str, str], set[Combination]],
    rng: Random,
) -> str:
    """Return the value that meets most of what is missing."""
    chosen = set(row.items())

    def gain(value: str) -> int:
        item = (feature.name, value)
        return sum(one - {item} <= chosen for one in by_value.get(item, ()))

    values = list(feature.values)
    rng.shuffle(values)
    return max(values, key=gain)

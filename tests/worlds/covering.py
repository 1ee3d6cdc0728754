"""A covering array: few rows in which all pairs of values meet, and all triples where it matters.

Rows are made one after the other. Each begins with a combination that is still missing, and every
other feature takes the value that adds most. Triples are wanted where two of the three rows of the
table change the state of a running cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import TypeAlias

from tests.worlds.features import Feature

Row: TypeAlias = dict[str, str]
Combination: TypeAlias = frozenset[tuple[str, str]]


def wanted(features: Sequence[Feature]) -> set[Combination]:
    """Return all combinations that have to meet somewhere."""
    found = set(_products(combinations(features, 2)))
    triples = (
        feature
        for feature in combinations(features, 3)
        if sum(each.changes for each in feature) > 1
    )
    return found | set(_products(triples))


def _products(groups: Iterable[tuple[Feature, ...]]) -> Iterator[Combination]:
    for group in groups:
        for values in product(*(feature.values for feature in group)):
            yield frozenset(zip((feature.name for feature in group), values, strict=True))


def covered(row: Mapping[str, str]) -> Iterator[Combination]:
    """Yield all pairs and triples of a row."""
    items = list(row.items())
    for size in (2, 3):
        yield from map(frozenset, combinations(items, size))


def covering_array(features: Sequence[Feature], rng: Random) -> Iterator[Row]:
    """Yield rows until nothing is missing."""
    order = sorted(wanted(features), key=sorted)
    rng.shuffle(order)
    missing = _Missing(features, order)
    for start in order:
        if not missing.has(start):
            continue
        row = dict(start)
        others = [feature for feature in features if feature.name not in row]
        rng.shuffle(others)
        for feature in others:
            values = list(feature.values)
            rng.shuffle(values)
            row[feature.name] = max(values, key=missing.gains(feature, row))
        missing.met(row)
        yield {feature.name: row[feature.name] for feature in features}


class _Missing:
    """The combinations that no row has yet: each the sum of the bits of its values."""

    def __init__(self, features: Sequence[Feature], combinations: Iterable[Combination]) -> None:
        items = [(feature.name, value) for feature in features for value in feature.values]
        self._bits = {item: 1 << number for number, item in enumerate(items)}
        self._changing = {feature.name for feature in features if feature.changes}
        self._missing = set(map(self._sum, combinations))

    def _sum(self, combination: Iterable[tuple[str, str]]) -> int:
        return sum(map(self._bits.__getitem__, combination))

    def has(self, combination: Combination) -> bool:
        """Tell whether a combination is missing."""
        return self._sum(combination) in self._missing

    def met(self, row: Row) -> None:
        """Miss the combinations of *row* no longer."""
        all_bits, changing = self._bits_of(row)
        self._missing.difference_update(one | other for one, other in combinations(all_bits, 2))
        self._missing.difference_update(
            first | second | third
            for first, second in combinations(changing, 2)
            for third in all_bits
        )

    def _bits_of(self, row: Row) -> tuple[list[int], list[int]]:
        """Return the bits of all values of a row, and of those that change state."""
        changing = [self._bits[item] for item in row.items() if item[0] in self._changing]
        return [self._bits[item] for item in row.items()], changing

    def gains(self, feature: Feature, row: Row) -> Callable[[str], int]:
        """Return what says how many combinations a value adds to an unfinished *row*."""
        all_bits, changing = self._bits_of(row)
        # Of three that are wanted, two change state: this one may be one of them.
        second = combinations(changing, 2)
        partners = {*all_bits, *(one | other for one, other in second)}
        if feature.changes:
            partners |= {one | other for one in changing for other in all_bits if one != other}

        def gain(value: str) -> int:
            bit = self._bits[feature.name, value]
            return sum(bit | partner in self._missing for partner in partners)

        return gain

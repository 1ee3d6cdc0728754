"""Which pods of its namespace a pod wants near or far within a node, as its annotations say.

    numakube.dev/zone-spread: app=prefill          # as many of them in each zone, give or take one
    numakube.dev/zone-affinity: app=cache          # a zone with one of them, if the node has any
    numakube.dev/zone-anti-affinity: app=worker    # no zone with any of them
    numakube.dev/zone-level: numa                  # what a zone is; or pci-root, island
    numakube.dev/zone-mode: Preferred              # or Required

Each of the first three is a label selector in its text form. They hold among pods of one namespace
on one node; where a node is chosen, pod affinity and topology spread constraints have their say.

    numakube.dev/linked: Required                  # or Preferred: devices of one resource, pairwise
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from numakube.api.selector_text import parse_label_selector
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.selectors import Selector

E = TypeVar("E", bound=StrEnum)

SPREAD: Final = "numakube.dev/zone-spread"
AFFINITY: Final = "numakube.dev/zone-affinity"
ANTI_AFFINITY: Final = "numakube.dev/zone-anti-affinity"
LEVEL: Final = "numakube.dev/zone-level"
MODE: Final = "numakube.dev/zone-mode"
LINKED: Final = "numakube.dev/linked"
KEYS: Final = (SPREAD, AFFINITY, ANTI_AFFINITY, LEVEL, MODE, LINKED)
_SELECTING: Final = (SPREAD, AFFINITY, ANTI_AFFINITY)
_LONGEST: Final = 1024
"""Characters of a selector: every pod of a node is compared with it."""


class ZoneLevel(StrEnum):
    """What counts as one zone of a node."""

    NUMA = "numa"
    """A NUMA node."""
    PCI_ROOT = "pci-root"
    """A PCIe host bridge, and the devices behind it."""
    ISLAND = "island"
    """Devices of one resource that are pairwise linked."""


class Insistence(StrEnum):
    """What is done about a node where a wish is not met for certain."""

    PREFERRED = "Preferred"
    """It is taken if no other is better."""
    REQUIRED = "Required"
    """It is not taken."""


@dataclass(frozen=True, slots=True)
class ZoneRelation:
    """One of a pod's relations to others.

    Attributes:
        key: the annotation.
        text: the selector as it was written.
    """

    key: str
    text: str
    selector: Selector

    def __str__(self) -> str:
        return f"{self.key.rpartition('/')[2]} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneWish:
    """What a pod says about others within its node, and about links between its devices.

    Attributes:
        linked: whether its devices have to be pairwise linked; ``None`` if it does not say.
        mistakes: what cannot be understood; the pod is placed nowhere then.
    """

    relations: tuple[ZoneRelation, ...] = ()
    level: ZoneLevel = ZoneLevel.NUMA
    mode: Insistence = Insistence.PREFERRED
    linked: Insistence | None = None
    mistakes: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether its relations have to hold."""
        return self.mode is Insistence.REQUIRED

    def relation(self, key: str) -> ZoneRelation | None:
        """Return the relation that the annotation *key* says, if it is there."""
        return next((one for one in self.relations if one.key == key), None)


NO_WISH: Final = ZoneWish()


def zone_wish_of(annotations: Mapping[str, str]) -> ZoneWish:
    """Return what a pod with *annotations* wishes."""
    if not annotations or annotations.keys().isdisjoint(KEYS):
        return NO_WISH
    mistakes: list[str] = []

    def word(key: str, kind: type[E], otherwise: E) -> E:
        text = annotations.get(key)
        if text is None or text in tuple(kind):
            return otherwise if text is None else kind(text)
        mistakes.append(f"{_path(key)}: unknown word {_cut(text)}: use one of {', '.join(kind)}")
        return otherwise

    relations = tuple(_relations(annotations, mistakes))
    level = word(LEVEL, ZoneLevel, ZoneLevel.NUMA)
    mode = word(MODE, Insistence, Insistence.PREFERRED)
    linked = word(LINKED, Insistence, Insistence.REQUIRED) if LINKED in annotations else None
    if not any(key in annotations for key in _SELECTING):
        mistakes += (
            f"{_path(key)}: says nothing without one of {', '.join(_SELECTING)}"
            for key in (LEVEL, MODE)
            if key in annotations
        )
    return ZoneWish(
        relations=relations, level=level, mode=mode, linked=linked, mistakes=tuple(mistakes)
    )


def _relations(annotations: Mapping[str, str], mistakes: list[str]) -> Iterator[ZoneRelation]:
    for key in _SELECTING:
        text = annotations.get(key)
        if text is None:
            continue
        if len(text) > _LONGEST:
            mistakes.append(f"{_path(key)}: {len(text)} characters; there may be {_LONGEST}")
            continue
        try:
            selector = parse_label_selector(text)
        except InvalidValue as error:
            mistakes.append(f"{_path(key)}: {error}")
            continue
        if selector.is_empty:
            mistakes.append(f"{_path(key)}: is empty and would mean every pod of the namespace")
            continue
        yield ZoneRelation(key, text.strip(), selector)


def _path(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")

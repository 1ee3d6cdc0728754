"""What a gang asks of levels, in whichever words: ours, Kubernetes', Kueue's, KAI's or Volcano's.

The group's own API comes first. Our annotations, of the group or of its pods, may add levels,
slices and balance, and never loosen: of two required levels the finer one counts. Kueue's
annotations are read only where Kueue does not manage the pod: there it has chosen already.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.api.pod_groups import NetworkTopology, PodGroup
from numakube.errors import InvalidValue
from numakube.scheduling.plugins.pod_gangs import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    Gang,
    group_of,
)
from numakube_levels.hyper_nodes import hyper_tiers
from numakube_levels.placement_wish import Balance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.level_sources import LevelTree

SLICES: Final = "numakube.dev/gang-slices"
SLICES_REST: Final = "numakube.dev/gang-slices-rest"
BALANCE: Final = "numakube.dev/gang-balance"
MAX_COUNT: Final = "numakube.dev/gang-max-count"
SPARE: Final = "numakube.dev/gang-spare"
REPLACEMENT: Final = "numakube.dev/gang-replacement"
SUB_GROUPS: Final = "numakube.dev/gang-sub-groups"
SUB_GROUP: Final = "numakube.dev/gang-sub-group"
KEYS: Final = (
    REQUIRED_TOPOLOGY,
    PREFERRED_TOPOLOGY,
    SLICES,
    SLICES_REST,
    BALANCE,
    MAX_COUNT,
    SPARE,
    REPLACEMENT,
    SUB_GROUPS,
)
"""Annotations of the group, or of its pods if there is no object."""

INSIDE: Final = "Inside"
ELSEWHERE: Final = "Elsewhere"
_KUEUE: Final = "kueue.x-k8s.io/"
_KUEUE_MANAGES: Final = "kueue.x-k8s.io/workload"
_KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
_KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
_KUEUE_SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_KUEUE_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_KUEUE_SLICES: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
_KAI_REQUIRED: Final = "kai.scheduler/topology-required-placement"
_KAI_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
_KAI_SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
_KAI_SEGMENT_LEVEL: Final = "kai.scheduler/segment-topology-required-placement"
_KAI_SUB_GROUP: Final = "kai.scheduler/subgroup-name"
_MOST_SLICES: Final = 8
_MOST_LEVELS: Final = 16
_MOST_COUNT: Final = 1_000_000
_MOST_SUB_GROUPS: Final = 64
_MOST_TEXT: Final = 16_384

T = TypeVar("T")


class SubGroupText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `SUB_GROUPS`, as it is written."""

    name: str
    min: int = 0
    topology: str = ""
    preferred: str = ""
    slices: str = ""
    balance: str = ""


@dataclass(frozen=True, slots=True)
class SliceWish:
    """So many pods at a time are together in one domain of a level."""

    level: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelWish:
    """What a gang, or a part of it, asks of levels; levels are names or labels.

    Attributes:
        required: each of them; the finest counts.
        spare: nodes of each domain that stay free; ``None`` for what the level says.
        replacement: ``Inside`` if lost members are replaced in their domain and nowhere else.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    slices: tuple[SliceWish, ...] = ()
    allows_rest: bool = False
    balance: Balance = Balance.NONE
    spare: int | None = None
    max_count: int | None = None
    replacement: str = ""

    @property
    def levels(self) -> tuple[str, ...]:
        """All levels that are named, required ones first."""
        return (*self.required, *self.preferred, *(one.level for one in self.slices))

    def __bool__(self) -> bool:
        """Tell whether anything is asked."""
        return self != _NOTHING

    def spares(self, tree: LevelTree, finest: int | None) -> list[int]:
        """Return for each level of *tree* how many nodes of a domain stay free."""
        own = [level.spare for level in tree.levels]
        if self.spare is None:
            return own
        if any(own):
            return [self.spare if spare else 0 for spare in own]
        return [self.spare if at == finest else 0 for at in range(len(own))]

    def for_replacements(self) -> LevelWish:
        """Return what counts once members run: where those go that were lost."""
        if self.replacement == ELSEWHERE and self.required:
            preferred = (*self.preferred, *self.required)
            return replace(self, required=(), preferred=preferred, slices=())
        if self.replacement == INSIDE and not self.required and self.preferred:
            return replace(self, required=self.preferred[-1:], preferred=())
        return self


_NOTHING: Final = LevelWish()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroupWish:
    """What some members of a gang ask for.

    Attributes:
        min_count: how many of them have to run.
    """

    name: str
    min_count: int
    wish: LevelWish


@dataclass(frozen=True, slots=True, kw_only=True)
class GangWish:
    """What a gang asks for.

    Attributes:
        whole: of all its members.
        sub_groups: of some of them, by name.
        said_by: where what counts was found.
    """

    whole: LevelWish
    sub_groups: Mapping[str, SubGroupWish] = field(default_factory=dict)
    said_by: str = ""

    def sub_group(self, name: str) -> SubGroupWish:
        """Return what a sub-group asks for; one without a name asks for nothing."""
        return self.sub_groups.get(name) or SubGroupWish(name=name, min_count=0, wish=_NOTHING)

    @property
    def levels(self) -> tuple[str, ...]:
        """All levels that are named."""
        inner = (level for one in self.sub_groups.values() for level in one.wish.levels)
        return tuple(dict.fromkeys((*self.whole.levels, *inner)))

    def __bool__(self) -> bool:
        """Tell whether anything is asked."""
        return bool(self.whole or self.sub_groups)


def wish_of(gang: Gang, pod: PodInfo, objects: ClusterObjects) -> GangWish:
    """Return what the *gang* of *pod* asks for.

    Raises:
        InvalidValue: an annotation cannot be read; it is named.
    """
    group = group_of(pod, objects)
    source = pod.pod.metadata.annotations if group is None else group.metadata.annotations
    own = _ours(source)
    required = list(own.required)
    said_by = "annotations of the pods" if group is None else "annotations of the PodGroup"
    volcano = getattr(group.spec, "network_topology", None) if group is not None else None
    if isinstance(volcano, NetworkTopology):
        own, required = _with_tiers(own, volcano, objects), [*required, *_hard_tier(volcano)]
    if isinstance(group, PodGroup) and group.spec.scheduling_constraints is not None:
        required += [one.key for one in group.spec.scheduling_constraints.topology if one.key]
    elif gang.required_topology:
        required.append(gang.required_topology)
    sub_groups = _sub_groups(source)
    together = sum(one.min_count for one in sub_groups.values())
    if together > gang.min_count:
        raise InvalidValue(
            f"annotation {SUB_GROUPS}: sub-groups need {together} pods,"
            f" and the gang no more than {gang.min_count}"
        )
    whole = replace(own, required=tuple(dict.fromkeys(required)))
    foreign = _foreign(pod.pod.metadata.annotations)
    if foreign and not whole.levels:
        whole, said_by = foreign[0], foreign[1]
    return GangWish(whole=whole, sub_groups=sub_groups, said_by=said_by)


def _hard_tier(asked: NetworkTopology) -> tuple[str, ...]:
    """Return the highest tier in which all pods have to be."""
    name = asked.highest_tier_name
    if asked.mode != "hard" or (not name and asked.highest_tier_allowed is None):
        return ()
    return (name or f"tier-{asked.highest_tier_allowed}",)


def _with_tiers(own: LevelWish, asked: NetworkTopology, objects: ClusterObjects) -> LevelWish:
    """Return *own*; close tiers are better than far ones, as in Volcano."""
    if asked.mode not in {"hard", "soft"}:
        raise InvalidValue(f"networkTopology.mode: {asked.mode[:64]!r} is none of hard, soft")
    tiers = hyper_tiers(objects.hyper_nodes)
    if own.preferred or not tiers:
        return own
    return replace(own, preferred=(tiers[-1].name,))


def sub_group_of(pod: PodInfo) -> str:
    """Return the sub-group that *pod* names; empty for none."""
    meta = pod.pod.metadata
    return meta.annotations.get(SUB_GROUP, "") or meta.labels.get(_KAI_SUB_GROUP, "")


def _ours(annotations: Mapping[str, str]) -> LevelWish:
    required = annotations.get(REQUIRED_TOPOLOGY, "").strip()
    max_count = _number(annotations, MAX_COUNT, 1)
    return LevelWish(
        required=(required,) if required else (),
        preferred=_read(annotations, PREFERRED_TOPOLOGY, _names, ()),
        slices=_read(annotations, SLICES, _slices, ()),
        allows_rest=_word(annotations, SLICES_REST, ("Refuse", "Allow")) == "Allow",
        balance=Balance(_word(annotations, BALANCE, ("", Balance.FEWEST, Balance.EVEN))),
        spare=_number(annotations, SPARE, 0),
        max_count=max_count,
        replacement=_word(annotations, REPLACEMENT, ("", INSIDE, ELSEWHERE)),
    )


def _read(annotations: Mapping[str, str], key: str, parse: Callable[[str], T], default: T) -> T:
    text = annotations.get(key, "")
    if not text.strip():
        return default
    if len(text) > _MOST_TEXT:
        raise InvalidValue(f"annotation {key}: longer than {_MOST_TEXT} characters")
    try:
        return parse(text)
    except InvalidValue as error:
        raise InvalidValue(f"annotation {key}: {error}") from None


def _word(annotations: Mapping[str, str], key: str, words: tuple[str, ...]) -> str:
    text = annotations.get(key, words[0])
    if text not in words:
        known = ", ".join(filter(None, words))
        raise InvalidValue(f"annotation {key}: {text[:64]!r} is none of {known}")
    return text


def _number(annotations: Mapping[str, str], key: str, least: int) -> int | None:
    text = annotations.get(key, "").strip()
    if not text:
        return None
    return _whole(text, f"annotation {key}", least)


def _whole(text: str, where: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 7):
        raise InvalidValue(f"{where}: {text[:64]!r} is no whole number")
    number = int(text)
    if not least <= number <= _MOST_COUNT:
        raise InvalidValue(f"{where}: {number} is not between {least} and {_MOST_COUNT}")
    return number


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in names or len(names) > _MOST_LEVELS:
        raise InvalidValue(f"{text[:64]!r} is no list of up to {_MOST_LEVELS} levels")
    return names


def _slices(text: str) -> tuple[SliceWish, ...]:
    """Return ``block=48,nvlink=16``, coarse first; each size divides the one before."""
    found: list[SliceWish] = []
    for part in text.split(","):
        level, equals, size = part.strip().rpartition("=")
        if not equals or not level:
            raise InvalidValue(f"{part.strip()[:64]!r} is not LEVEL=SIZE")
        found.append(SliceWish(level.strip(), _whole(size.strip(), "size", 1)))
    return _checked_slices(found)


def _checked_slices(found: list[SliceWish]) -> tuple[SliceWish, ...]:
    if len(found) > _MOST_SLICES:
        raise InvalidValue(f"{len(found)} kinds of slices; there may be {_MOST_SLICES}")
    for outer, inner in pairwise(found):
        if outer.size % inner.size:
            raise InvalidValue(f"{inner.size} does not divide {outer.size}: slices are in slices")
    return tuple(found)


def _sub_groups(annotations: Mapping[str, str]) -> dict[str, SubGroupWish]:
    return _read(annotations, SUB_GROUPS, lambda text: dict(_each_sub_group(text)), {})


def _each_sub_group(text: str) -> Iterator[tuple[str, SubGroupWish]]:
    try:
        rows = msgspec.json.decode(text, type=list[SubGroupText])
    except BROKEN_JSON as error:
        raise InvalidValue(f"no JSON list of sub-groups: {error}") from None
    if len(rows) > _MOST_SUB_GROUPS:
        raise InvalidValue(f"{len(rows)} sub-groups; there may be {_MOST_SUB_GROUPS}")
    seen: set[str] = set()
    for row in rows:
        if not row.name or row.name in seen or not 0 <= row.min <= _MOST_COUNT:
            raise InvalidValue(
                f"sub-group {row.name[:64]!r}: a name of its own, and min of 0 or more"
            )
        seen.add(row.name)
        wish = _ours(
            {
                REQUIRED_TOPOLOGY: row.topology,
                PREFERRED_TOPOLOGY: row.preferred,
                SLICES: row.slices,
                BALANCE: row.balance,
            }
        )
        yield row.name, SubGroupWish(name=row.name, min_count=row.min, wish=wish)


def _foreign(annotations: Mapping[str, str]) -> tuple[LevelWish, str] | None:
    """Return what Kueue's or KAI's annotations of a pod ask for."""
    if annotations.get(_KAI_REQUIRED) or annotations.get(_KAI_PREFERRED):
        return _of_kai(annotations), "KAI's annotations of the pods"
    named = {key for key in annotations if key.startswith(_KUEUE)}
    if not named or _KUEUE_MANAGES in named:
        return None
    wish = _of_kueue(annotations)
    return (wish, "Kueue's annotations of the pods") if wish else None


def _of_kueue(annotations: Mapping[str, str]) -> LevelWish:
    required = annotations.get(_KUEUE_REQUIRED, "")
    preferred = annotations.get(_KUEUE_PREFERRED, "")
    if required and preferred:
        raise InvalidValue(f"annotations {_KUEUE_REQUIRED} and {_KUEUE_PREFERRED}: give one")
    none: tuple[SliceWish, ...] = ()
    slices = _read(annotations, _KUEUE_SLICES, _kueue_slices, none)
    level, size = (
        annotations.get(_KUEUE_SLICE_LEVEL, ""),
        _number(annotations, _KUEUE_SLICE_SIZE, 1),
    )
    if level and size is None:
        raise InvalidValue(f"annotation {_KUEUE_SLICE_SIZE}: needed with {_KUEUE_SLICE_LEVEL}")
    if level and size is not None:
        slices = (SliceWish(level, size),)
    return LevelWish(
        required=(required,) if required else (),
        preferred=(preferred,) if preferred else (),
        slices=slices,
    )


class _KueueSlice(msgspec.Struct, frozen=True):
    topology: str
    size: int


def _kueue_slices(text: str) -> tuple[SliceWish, ...]:
    try:
        rows = msgspec.json.decode(text, type=list[_KueueSlice])
    except BROKEN_JSON as error:
        raise InvalidValue(f"no JSON list of constraints: {error}") from None
    for row in rows:
        if not row.topology or not 1 <= row.size <= _MOST_COUNT:
            raise InvalidValue(f"topology {row.topology[:64]!r}, size {row.size}")
    return _checked_slices([SliceWish(row.topology, row.size) for row in rows])


def _of_kai(annotations: Mapping[str, str]) -> LevelWish:
    required, preferred = annotations.get(_KAI_REQUIRED, ""), annotations.get(_KAI_PREFERRED, "")
    size, level = (
        _number(annotations, _KAI_SEGMENT_SIZE, 1),
        annotations.get(_KAI_SEGMENT_LEVEL, ""),
    )
    return LevelWish(
        required=(required,) if required else (),
        preferred=(preferred,) if preferred else (),
        slices=(SliceWish(level, size),) if level and size else (),
        allows_rest=bool(level and size),
    )

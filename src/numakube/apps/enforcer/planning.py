"""From decisions to settings of control groups, and what to put back later.

A pod's own group gets what its containers together need, so that a container is confined from its
first moment, before anybody has heard of it. What was there before is kept for every file that is
written: for as long as the group exists, or until the file is nobody's business any more and gets
its old content back. If somebody else writes a file in between, that becomes the old content.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.node.cgroups.files import Version
from numakube.node.cgroups.names import uid_of
from numakube.node.cgroups.ordering import Setting, same_quota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.apps.enforcer.deciding import Confinement, PodConfinement, PodState
    from numakube.node.cgroups.scanning import PodGroups

Value: TypeAlias = Any
"""A part of a setting: a set as bits, a quota as text, or nothing."""

_NOTHING: Final = Setting()
_PARTS: Final = tuple(one.name for one in fields(Setting))
POD: Final = "(pod)"
"""What the pod's own group is called in reports, where others have a container's name."""
REST: Final = "(other)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose group it is."""

    uid: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a group is to be.

    Attributes:
        setting: only what we have to say.
        inherits: the group above says the same, so that a group without a setting of its own needs
            none. Pods with an allotment have it written out.
        limited: somebody may have set less, and that still counts.
    """

    owner: Owner
    setting: Setting
    inherits: bool = False
    limited: bool = False


@dataclass(slots=True, kw_only=True)
class Plan:
    """What to write.

    Attributes:
        wanted: settings by group.
        originals: what to put back later, by group.
        released: groups that get back what they had, in all or in part.
    """

    wanted: dict[str, Setting] = field(default_factory=dict)
    originals: dict[str, Setting] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)


def targets_of(
    pods: Iterable[PodState],
    confined: Mapping[str, PodConfinement],
    found: Mapping[str, PodGroups],
    version: Version,
    *,
    quota: bool = True,
) -> dict[str, Target]:
    """Return what the groups that exist are to be; without *quota* CPU time stays limited."""
    targets: dict[str, Target] = {}
    unlimited = version.unlimited if quota else None
    for pod in pods:
        if pod.uid in confined and pod.uid in found:
            targets |= dict(_pod_targets(pod, confined[pod.uid], found[pod.uid], unlimited))
    return targets


def _pod_targets(
    pod: PodState, confined: PodConfinement, found: PodGroups, unlimited: str | None
) -> Iterator[tuple[str, Target]]:
    whole = _setting(confined.whole, unlimited)
    shared = pod.allotment is None
    yield found.group, Target(owner=_owner(pod, POD), setting=whole, limited=shared)
    named = {group: pod.containers.get(id_, REST) for id_, group in found.containers.items()}
    for group in found.members:
        name = named.get(group, REST)
        one = confined.containers.get(name, confined.rest)
        setting = _setting(one, unlimited)
        target = Target(owner=_owner(pod, name), setting=setting, inherits=shared, limited=shared)
        yield group, target
        within = replace(target, setting=replace(setting, quota=None), inherits=True, limited=True)
        yield from ((inner, within) for inner in found.nested.get(group, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of earlier passes.

    Attributes:
        originals: what was there before we came.
        written: what this process wrote last.
    """

    originals: Mapping[str, Setting] = field(default_factory=dict)
    written: Mapping[str, Setting] = field(default_factory=dict)


def make_plan(
    targets: Mapping[str, Target], now: Mapping[str, Setting], past: Past, version: Version
) -> Plan:
    """Return what to write so that groups are as their targets say.

    Args:
        targets: what groups are to be.
        now: what they are, and what groups with an original are; groups that are gone are missing.
        past: what is known of earlier passes.
        version: how groups inherit.
    """
    plan = Plan()
    for group in sorted(now, key=lambda name: name.count("/")):
        asked = _asked(targets.get(group), now[group], past.originals.get(group))
        asked = _each(_fitted, asked, plan.wanted.get(group.rpartition("/")[0], _NOTHING))
        old = _old(group, now, past, plan, version)
        kept = _each(lambda ask, had: None if ask is None else had, asked, old)
        ours = _each(_only_if, past.originals.get(group, _NOTHING), old)
        back = _each(lambda ask, had: had if ask is None else None, asked, ours)
        wanted = _each(_first_of, asked, back)
        _note(plan.originals, group, kept)
        _note(plan.wanted, group, wanted)
        if back != _NOTHING:
            plan.released.add(group)
    return plan


def _asked(target: Target | None, now: Setting, original: Setting | None) -> Setting:
    """Return what is asked of a group, leaving out what it has without being told."""
    if target is None:
        return _NOTHING
    asked = _each(lambda ask, have: None if have is None else ask, target.setting, now)
    had = _each(_first_of, original or _NOTHING, now)
    if target.inherits:
        asked = _each(lambda ask, own: None if own == 0 else ask, asked, had)
    return _each(_within, asked, had) if target.limited else asked


def _within(asked: Value, limit: Value) -> Value:
    """Return what is asked less what a limit does not have, unless that is everything."""
    if not isinstance(asked, int) or not isinstance(limit, int):
        return asked
    return asked & limit or asked


def _fitted(asked: Value, above: Value) -> Value:
    """Return what is asked as far as the group above will have it, or else all of that."""
    if not isinstance(asked, int) or not isinstance(above, int) or not above:
        return asked
    return asked & above or above


def _old(
    group: str, now: Mapping[str, Setting], past: Past, plan: Plan, version: Version
) -> Setting:
    """Return what a group had, or would have, without us."""
    known = past.originals.get(group, _NOTHING)
    last = past.written.get(group, _NOTHING)
    foreign = _each(
        lambda have, wrote: have if _is_foreign(have, wrote) else None, now[group], last
    )
    known = _each(_first_of, _each(_only_if, known, foreign), known)
    return _each(_first_of, known, _first_seen(group, now, past, plan, version))


def _first_seen(
    group: str, now: Mapping[str, Setting], past: Past, plan: Plan, version: Version
) -> Setting:
    """Return what a new group had; in version 1 that may be our doing.

    There it begins with a copy of what the group above has, and that may be ours already.
    """
    above = group.rpartition("/")[0]
    if version is Version.V2 or above not in past.originals or above not in now:
        return now[group]
    copied = _each(lambda have, there: have if have == there else None, now[group], now[above])
    sets = replace(plan.originals.get(above, _NOTHING), quota=None)
    return _each(_first_of, _each(_only_if, copied, sets), now[group])


def _first_of(one: Value, other: Value) -> Value:
    return other if one is None else one


def _only_if(one: Value, other: Value) -> Value:
    return None if one is None else other


def _is_foreign(have: Value, wrote: Value) -> bool:
    """Tell whether somebody else has written; a kernel takes away CPUs that go offline."""
    if have is None or wrote is None:
        return False
    if isinstance(have, int) and isinstance(wrote, int):
        return have & ~wrote != 0
    return not same_quota(str(have), str(wrote))


def _setting(one: Confinement, unlimited: str | None) -> Setting:
    return Setting(cpus=one.cpus, mems=one.mems, quota=unlimited if one.bound else None)


def _each(combine: Callable[[Value, Value], Value], one: Setting, other: Setting) -> Setting:
    """Return the setting with what *combine* makes of each part of two others."""
    return Setting(**{name: combine(getattr(one, name), getattr(other, name)) for name in _PARTS})


def _note(settings: dict[str, Setting], group: str, setting: Setting) -> None:
    if setting != _NOTHING:
        settings[group] = setting


def _owner(pod: PodState, container: str) -> Owner:
    return Owner(uid=pod.uid, pod=pod.name, container=container)


def uids_with_originals(originals: Iterable[str]) -> set[str]:
    """Return the pods whose groups we have changed."""
    uids = (uid_of(part) for group in originals for part in group.split("/"))
    return {uid for uid in uids if uid is not None}

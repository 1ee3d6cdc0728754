"""From decisions to settings of control groups, and what to put back later.

A pod's own group gets what its containers together need, so that a container is confined from its
first moment, before its id is known. What was there before is kept for every file that is
written: for as long as the group exists, or until the file is left alone again and gets its
old content back. If another program writes a file in between, that becomes the old content.

A group that had no set of its own and cannot be without one any more has a stand-in for it, and is
remembered for as long as it exists: it may have to follow the group above.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.node.cgroups import GroupSetting, Version, same_quota, uid_of
from numakube.values.cpuset import CpuSet
from numakube_placement.enforcer.allowed_cpus import PodProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.node.cgroups import PodGroups
    from numakube_placement.enforcer.allowed_cpus import Confinement, PodConfinement, PodState

Value: TypeAlias = Any
"""A part of a setting: a set as bits, a quota as text, or nothing."""

NOTHING: Final = GroupSetting()
_PARTS: Final = tuple(one.name for one in fields(GroupSetting))
POD: Final = "(pod)"
"""What the pod's own group is called in reports, where others have a container's name."""
REST: Final = "(other)"
UNPINNED: Final = "StartedUnpinned"
"""Reason of events."""
ANY: Final = -1
"""All bits: a set that no group limits."""
_SETS: Final = {"cpus": "CPUs", "mems": "memory nodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOwner:
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
        limited: another program may have set less, and that still counts.
    """

    owner: GroupOwner
    setting: GroupSetting
    inherits: bool = False
    limited: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is a container's own group, with what was allotted to that container."""
        return not self.limited and self.owner.container not in (POD, REST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned:
    """A container that could run elsewhere than it should, by what it had; `ANY` is no limit."""

    owner: GroupOwner
    had: GroupSetting
    wanted: GroupSetting

    @property
    def problem(self) -> PodProblem:
        """What the owner of the pod should know."""
        places = " and ".join(
            f"{_on(had, words)} instead of {CpuSet(getattr(self.wanted, part))}"
            for part, words in _SETS.items()
            if (had := getattr(self.had, part)) is not None
        )
        owner = self.owner
        message = f"container {owner.container} started with {places}; it has been set right"
        return PodProblem(uid=owner.uid, pod=owner.pod, reason=UNPINNED, message=message)


@dataclass(slots=True, kw_only=True)
class GroupPlan:
    """What to write.

    Attributes:
        wanted: settings by group.
        originals: what to put back later, by group.
        stand_ins: what goes on to stand in for none, by group.
        released: groups that get back what they had, in all or in part.
    """

    wanted: dict[str, GroupSetting] = field(default_factory=dict)
    originals: dict[str, GroupSetting] = field(default_factory=dict)
    stand_ins: dict[str, GroupSetting] = field(default_factory=dict)
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
        written: what was written last.
        standing: sets that stand in for none, and still do so.
    """

    originals: Mapping[str, GroupSetting] = field(default_factory=dict)
    written: Mapping[str, GroupSetting] = field(default_factory=dict)
    standing: Mapping[str, GroupSetting] = field(default_factory=dict)


def elsewhere(target: Target, group: str, now: Mapping[str, GroupSetting]) -> GroupSetting | None:
    """Return what a container's group has that it should not have; nothing if all is right."""
    above = now.get(group.rpartition("/")[0], NOTHING)
    had: dict[str, Any] = {}
    for part in _SETS:
        wanted = getattr(target.setting, part)
        has = (getattr(now[group], part) or ANY) & (getattr(above, part) or ANY)
        if wanted and has & ~wanted:
            had[part] = has
    return GroupSetting(**had) if had else None


def make_plan(
    targets: Mapping[str, Target], now: Mapping[str, GroupSetting], past: Past, version: Version
) -> GroupPlan:
    """Return what to write so that groups are as their targets say.

    Args:
        targets: what groups are to be.
        now: what they are, and what groups with an original are; groups that are gone are missing.
        past: what is known of earlier passes.
        version: how groups inherit.
    """
    plan = GroupPlan()
    for group in sorted(now, key=lambda name: name.count("/")):
        known = past.originals.get(group, NOTHING)
        asked = _asked(targets.get(group), now[group], known)
        asked = each(_fitted, asked, plan.wanted.get(group.rpartition("/")[0], NOTHING))
        old = _old(group, now, past, plan, version, exactly=group not in targets)
        kept = each(lambda ask, had: None if ask is None else had, asked, old)
        ours = each(only_if, known, old)
        # What has no file yet waits: version 1 makes a group once for each controller.
        back = each(only_if, now[group], each(only_unless, asked, ours))
        waiting = each(only_unless, now[group], known)
        standing = each(_instead_of_none, back, past.standing.get(group, NOTHING))
        wanted = each(first_of, asked, each(first_of, standing, back))
        kept = each(first_of, kept, waiting)
        _note(plan.originals, group, each(first_of, kept, each(only_if, standing, back)))
        _note(plan.stand_ins, group, standing)
        _note(plan.wanted, group, wanted)
        if back != NOTHING:
            plan.released.add(group)
    return plan


def _asked(target: Target | None, now: GroupSetting, original: GroupSetting) -> GroupSetting:
    """Return what is asked of a group, leaving out what it has without being told."""
    if target is None:
        return NOTHING
    asked = each(lambda ask, have: None if have is None else ask, target.setting, now)
    had = each(first_of, original, now)
    if target.inherits:
        asked = each(lambda ask, own: None if own == 0 else ask, asked, had)
    return each(_within, asked, had) if target.limited else asked


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


def _instead_of_none(back: Value, standing: Value) -> Value:
    return standing if back == 0 else None


def _old(
    group: str,
    now: Mapping[str, GroupSetting],
    past: Past,
    plan: GroupPlan,
    version: Version,
    *,
    exactly: bool,
) -> GroupSetting:
    """Return what a group had, or would have, without us.

    What was put back counts as foreign as soon as it is not *exactly* that any more.
    """
    known = past.originals.get(group, NOTHING)
    # A quota is only ever lifted, so another one is foreign even after a crash.
    lifted = replace(NOTHING, quota=only_if(known.quota, version.unlimited))
    last = each(first_of, past.written.get(group, NOTHING), lifted)
    exactly = exactly and version is Version.V2
    foreign = each(
        lambda have, wrote: have if _is_foreign(have, wrote, exactly=exactly) else None,
        now[group],
        last,
    )
    known = each(first_of, each(only_if, known, foreign), known)
    return each(first_of, known, _first_seen(group, now, past, plan, version))


def _first_seen(
    group: str, now: Mapping[str, GroupSetting], past: Past, plan: GroupPlan, version: Version
) -> GroupSetting:
    """Return what a new group had; in version 1 that may be our doing.

    There it begins with a copy of what the group above has, and that may be ours already.
    """
    above = group.rpartition("/")[0]
    if version is Version.V2 or above not in past.originals or above not in now:
        return now[group]
    copied = each(lambda have, there: have if have == there else None, now[group], now[above])
    sets = replace(plan.originals.get(above, NOTHING), quota=None)
    return each(first_of, each(only_if, copied, sets), now[group])


def first_of(one: Value, other: Value) -> Value:
    """Return *one*, or *other* if that is nothing."""
    return other if one is None else one


def only_if(one: Value, other: Value) -> Value:
    """Return *other*, but nothing if *one* is nothing."""
    return None if one is None else other


def only_unless(one: Value, other: Value) -> Value:
    """Return *other*, but nothing unless *one* is nothing."""
    return other if one is None else None


def _is_foreign(have: Value, wrote: Value, *, exactly: bool) -> bool:
    """Tell whether another program has written; a kernel takes away CPUs that go offline."""
    if have is None or wrote is None:
        return False
    if isinstance(have, int) and isinstance(wrote, int):
        return have != wrote if exactly else have & ~wrote != 0
    return not same_quota(str(have), str(wrote))


def setting_of(
    pod: PodState, confined: PodConfinement, container: str, version: Version, *, quota: bool
) -> GroupSetting | None:
    """Return what a container is to have of its own from its start; nothing if it shares."""
    if pod.allotment is None:
        return None
    one = confined.containers.get(container, confined.rest)
    return _setting(one, version.unlimited if quota else None)


def _setting(one: Confinement, unlimited: str | None) -> GroupSetting:
    return GroupSetting(cpus=one.cpus, mems=one.mems, quota=unlimited if one.bound else None)


def each(
    combine: Callable[[Value, Value], Value], one: GroupSetting, other: GroupSetting
) -> GroupSetting:
    """Return the setting with what *combine* makes of each part of two others."""
    return GroupSetting(
        **{name: combine(getattr(one, name), getattr(other, name)) for name in _PARTS}
    )


def _note(settings: dict[str, GroupSetting], group: str, setting: GroupSetting) -> None:
    if setting != NOTHING:
        settings[group] = setting


def _on(had: int, words: str) -> str:
    return f"any {words}" if had == ANY else f"{words} {CpuSet(had)}"


def _owner(pod: PodState, container: str) -> GroupOwner:
    return GroupOwner(uid=pod.uid, pod=pod.name, container=container)


def uids_with_originals(originals: Iterable[str]) -> set[str]:
    """Return the pods whose groups we have changed."""
    uids = (uid_of(part) for group in originals for part in group.split("/"))
    return {uid for uid in uids if uid is not None}

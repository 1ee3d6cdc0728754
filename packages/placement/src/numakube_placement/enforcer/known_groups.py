"""What is known of groups from earlier passes, in this process and on disk.

Everything is about a group, not about a name: a group that is created again, as systemd does with
the slice of a pod that has ended, is one that nothing is known of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.node.cgroups import CPUS, MEMS, GroupSetting, Version, read_setting, stands_in
from numakube_placement.enforcer.enforcer_state_file import Remembered
from numakube_placement.enforcer.group_settings import NOTHING, Past, each, first_of, only_if

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.node.cgroups import Groups
    from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
    from numakube_placement.enforcer.group_settings import GroupPlan

_SETS: Final = {"cpus": CPUS, "mems": MEMS}


class GroupMemory:
    """Remembers what groups were, what was written, and what was put back.

    Attributes:
        originals: what groups were before we came.
        written: what this process wrote last.
    """

    def __init__(self, groups: Groups, file: OriginalsFile) -> None:
        self._groups = groups
        self._file = file
        remembered = file.load()
        self.originals = dict(remembered.originals)
        self.written: dict[str, GroupSetting] = {}
        self._stand_ins = dict(remembered.stand_ins)
        self._declared = dict(remembered.declared)
        self._identities: dict[str, int] = {}

    def declare(self, identity: str, setting: GroupSetting) -> None:
        """Keep what a container would have without us, before it is made otherwise."""
        known = self._declared.get(identity, NOTHING)
        self._declared[identity] = each(first_of, setting, known)
        self._save(self.originals, self._stand_ins)

    def forget(self, identities: Iterable[str]) -> None:
        """Forget what was declared of containers that are gone."""
        for identity in self._declared.keys() & set(identities):
            del self._declared[identity]

    def adopt(self, containers: Mapping[str, str]) -> set[str]:
        """Take what was declared of containers for what their groups were; groups by id.

        Returns:
            The groups of these containers.
        """
        declared_here = self._declared.keys() & containers.keys()
        for identity in declared_here:
            group = containers[identity]
            declared = self._declared.pop(identity)
            if self._groups.version is Version.V1:
                # There nothing of its own is a copy of what the group above has.
                above = group.rpartition("/")[0]
                had = self.originals.get(above, NOTHING)
                copied = each(first_of, had, read_setting(self._groups, above))
                declared = each(lambda own, there: own or there, declared, copied)
            self.originals[group] = each(first_of, declared, self.originals.get(group, NOTHING))
        return {containers[identity] for identity in declared_here}

    def look(self, names: Iterable[str]) -> dict[str, GroupSetting]:
        """Return what groups are, those of *names* and those with an original; forget the rest."""
        wanted = {*names, *self.originals}
        found = {name: number for name in wanted if (number := self._groups.identity(name))}
        for known in (self.originals, self._stand_ins, self.written):
            for name in list(known):
                if found.get(name) != self._identities.get(name, found.get(name, 0)):
                    del known[name]
        self._identities = found
        return {name: read_setting(self._groups, name) for name in found}

    def past(self, now: Mapping[str, GroupSetting]) -> Past:
        """Return what is known of groups that are as in *now*."""
        return Past(
            originals=self.originals,
            written=self._stand_ins | self.written,
            standing={
                group: self._standing(group, one, now[group])
                for group, one in self._stand_ins.items()
            },
        )

    def prepare(self, plan: GroupPlan) -> None:
        """Keep what is needed to undo *plan*; before that nothing may be written."""
        self._save(self.originals | plan.originals, self._stand_ins)

    def settle(
        self,
        plan: GroupPlan,
        *,
        targets: Collection[str],
        refused: Collection[str],
        stand_ins: Mapping[str, GroupSetting],
    ) -> None:
        """Keep what is so now: all of *plan* but what was *refused*."""
        unsettled = {
            group: original
            for group, original in self.originals.items()
            if group in plan.released and group in refused
        }
        stood_in = {
            group: each(only_if, one, self.originals[group]) for group, one in stand_ins.items()
        }
        self._save(
            _merged(_merged(plan.originals, stood_in), unsettled),
            _merged(plan.stand_ins, stand_ins),
        )
        self.written = {
            group: one
            for group, one in plan.wanted.items()
            if group in targets and group not in refused
        }

    def _standing(self, group: str, stand_in: GroupSetting, now: GroupSetting) -> GroupSetting:
        """Return what still stands in for sets of its own that a group does not have."""
        parts: dict[str, Any] = {}
        for part, file in _SETS.items():
            held = getattr(stand_in, part)
            if held and held == getattr(now, part) and stands_in(self._groups, group, file, held):
                parts[part] = held
        return GroupSetting(**parts)

    def _save(
        self, originals: Mapping[str, GroupSetting], stand_ins: Mapping[str, GroupSetting]
    ) -> None:
        self.originals = dict(originals)
        self._stand_ins = dict(stand_ins)
        # Copies: what is on disk must not change with what is known.
        self._file.save(
            Remembered(
                originals=dict(originals),
                stand_ins=dict(stand_ins),
                declared=dict(self._declared),
            )
        )


def _merged(
    one: Mapping[str, GroupSetting], other: Mapping[str, GroupSetting]
) -> dict[str, GroupSetting]:
    """Return both, part by part; what *other* says counts."""
    return {
        group: each(first_of, other.get(group, NOTHING), one.get(group, NOTHING))
        for group in one.keys() | other.keys()
    }

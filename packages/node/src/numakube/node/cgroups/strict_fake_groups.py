"""Groups in memory that refuse what a kernel refuses.

Version 1: CPUs and memory nodes must be among those of the group above (EACCES) and must not leave
a group below without its own (EBUSY); a quota must not exceed that of the group above (EINVAL).
Version 2: sets may be anything that the machine has and no partition beside the group has for
itself (EINVAL); files exist only where the controller is handed down, and a group with processes of
its own hands nothing down (EBUSY). In both a group that has processes in it or below it cannot be
left without any CPUs or memory nodes of its own once it has some (ENOSPC).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from numakube.errors import InvalidValue
from numakube.node.cgroups.group_files import CPUS, EVENTS, MEMS, SUBTREE_CONTROL, Version
from numakube.values.cpuset import CpuSet, union

_SETS: Final = (CPUS, MEMS)
_PERIOD: Final = "100000"
_EFFECTIVE: Final = ".effective"


@dataclass(slots=True)
class StrictGroups:
    """Groups of one machine.

    Attributes:
        busy: groups with processes of their own.
        partitions: groups that are partition roots.
        history: every write that was accepted.
    """

    version: Version
    cpus: int
    mems: int
    busy: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    history: list[tuple[str, str, str]] = field(default_factory=list)
    _files: dict[str, dict[str, str]] = field(default_factory=dict)
    _identities: dict[str, int] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        """Make the root group."""
        root = {CPUS: str(CpuSet(self.cpus)), MEMS: str(CpuSet(self.mems))}
        if self.version is Version.V2:
            root[SUBTREE_CONTROL] = "cpuset cpu"
        self._files[""] = root

    def add(self, group: str, *, quota: str = "", handed_down: bool = True) -> None:
        """Make a group, and those above it."""
        above = _above(group)
        if above not in self._files:
            self.add(above)
        if self.version is Version.V1:
            files = {name: self._files[above][name] for name in _SETS}
        else:
            files = dict.fromkeys(_SETS, "") if self._hands_down(above) else {}
            files[SUBTREE_CONTROL] = "cpuset cpu" if handed_down and files else "cpu"
        files[self.version.quota] = quota or ("-1" if self.version is Version.V1 else "max 100000")
        self._files[group] = files
        self._made += 1
        self._identities[group] = self._made

    def remove(self, group: str) -> None:
        """Remove a group and those in it."""
        for name in [file for file in self._files if file == group or file.startswith(f"{group}/")]:
            del self._files[name], self._identities[name]
            self.busy.discard(name)

    def identity(self, group: str) -> int:
        """Return a number that another group of that name has not; 0 if there is no such group."""
        return self._identities.get(group, 0)

    def children(self, group: str) -> list[str]:
        """Return the groups right below *group*, in the order of their names."""
        return sorted(name for name in self._files if name and _above(name) == group)

    def read(self, group: str, file: str) -> str | None:
        """Return what a file says; ``None`` if it is not there."""
        files = self._files.get(group, {})
        if self.version is Version.V2 and group in self._files:
            if file == EVENTS:
                return f"populated {int(self._populated(group))}"
            if file.removesuffix(_EFFECTIVE) in files and file.endswith(_EFFECTIVE):
                return str(CpuSet(self.effective(group, file.removesuffix(_EFFECTIVE))))
        return files.get(file)

    def effective(self, group: str, file: str) -> int:
        """Return the CPUs or memory nodes that processes of a group can use."""
        own = self._set(group, file)
        above = self.effective(_above(group), file) if group else own
        below = [
            partition
            for partition in self.partitions
            if _is_below(partition, group) and file == CPUS
        ]
        return (own & above or above) & ~union(self._set(one, file) for one in below)

    def write(self, group: str, file: str, text: str) -> str:
        """Write a file; return why that was refused, or the empty text."""
        if self.read(group, file) is None:
            return ""
        refused = self._refusal(group, file, text)
        if not refused:
            self._files[group][file] = self._stored(group, file, text)
            self.history.append((group, file, text))
        return refused

    def _refusal(self, group: str, file: str, text: str) -> str:
        if file == SUBTREE_CONTROL:
            return "EBUSY" if group in self.busy else ""
        if file == self.version.quota:
            return self._quota_refusal(group, text)
        try:
            wanted = CpuSet.parse(text).bits
        except InvalidValue:
            return "EINVAL"
        if wanted & ~(self.cpus if file == CPUS else self.mems):
            return "EINVAL"
        if not wanted and self._set(group, file) and self._populated(group):
            return "ENOSPC"
        check = self._v1_refusal if self.version is Version.V1 else self._conflict
        return check(group, file, wanted)

    def _conflict(self, group: str, file: str, wanted: int) -> str:
        beside = (self.partitions & {*self.children(_above(group))}) - {group}
        taken = any(self._set(one, file) & wanted for one in beside)
        return "EINVAL" if taken and file == CPUS else ""

    def _v1_refusal(self, group: str, file: str, wanted: int) -> str:
        if not wanted:
            return "ENOSPC"
        if wanted & ~self._set(_above(group), file):
            return "EACCES"
        below = any(self._set(child, file) & ~wanted for child in self.children(group))
        return "EBUSY" if below else ""

    def _quota_refusal(self, group: str, text: str) -> str:
        if self.version is Version.V2:
            return ""
        # A group without a limit of its own has that of the group above.
        allowed = self._limit(text)
        if allowed is None:
            return ""
        above = self._limit_of(_above(group))
        below = [self._limit_of(child) for child in self.children(group)]
        exceeds = above is not None and allowed > above
        return "EINVAL" if exceeds or any(one and one > allowed for one in below) else ""

    def _stored(self, group: str, file: str, text: str) -> str:
        if file == SUBTREE_CONTROL:
            handed = {*(self.read(group, file) or "").split(), text.removeprefix("+")}
            for child in self.children(group):
                self._files[child] = dict.fromkeys(_SETS, "") | self._files[child]
            return " ".join(sorted(handed))
        if file == Version.V2.quota and " " not in text:
            return f"{text} {_PERIOD}"
        return text

    def _populated(self, group: str) -> bool:
        return any(one == group or _is_below(one, group) for one in self.busy)

    def _set(self, group: str, file: str) -> int:
        return CpuSet.parse(self._files[group].get(file, "")).bits

    def _hands_down(self, group: str) -> bool:
        return "cpuset" in self._files[group].get(SUBTREE_CONTROL, "").split()

    def _limit_of(self, group: str) -> int | None:
        return self._limit(self._files[group].get(self.version.quota, "-1"))

    @staticmethod
    def _limit(text: str) -> int | None:
        return None if text == "-1" else int(text)


def _is_below(group: str, above: str) -> bool:
    return group != above and f"{group}/".startswith(f"{above}/" if above else "")


def _above(group: str) -> str:
    return group.rpartition("/")[0]

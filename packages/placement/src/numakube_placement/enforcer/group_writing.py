"""Writing what was decided, remembering what was there before, and putting that back.

Everything here blocks and runs in a thread, one pass at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from numakube.node.cgroups import (
    CPUS,
    MEMS,
    GroupSetting,
    Version,
    container_groups,
    find_parent,
    folders,
    hand_down_cpuset,
    has_processes,
    inherit,
    read_setting,
    scan,
    writes_for,
)
from numakube.values.cpuset import CpuSet
from numakube_placement.enforcer.allowed_cpus import PodProblem
from numakube_placement.enforcer.group_settings import (
    NOTHING,
    REST,
    GroupOwner,
    GroupPlan,
    Unpinned,
    elsewhere,
    make_plan,
    setting_of,
    targets_of,
    uids_with_originals,
)
from numakube_placement.enforcer.known_groups import GroupMemory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.node.cgroups import Groups, PodGroups, Write
    from numakube_placement.enforcer.allowed_cpus import Decisions, PodConfinement, PodState
    from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
    from numakube_placement.enforcer.group_settings import Target

NOT_CONFINED: Final = "CannotSetCPUs"
"""Reason of events."""
_PARTS: Final = {CPUS: "cpus", MEMS: "mems"}


class WriteReason(StrEnum):
    """Why a file was written; the texts are labels of a metric."""

    APPLIED = "applied"
    DRIFT = "drift"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that was written, or would have been."""

    owner: GroupOwner
    group: str
    file: str
    before: str
    after: str
    kind: WriteReason


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenFile:
    """A file that could not be written."""

    owner: GroupOwner
    group: str
    why: str

    @property
    def reason(self) -> str:
        """What the kernel says, without file and value."""
        return self.why.rpartition(": ")[2]

    @property
    def problem(self) -> PodProblem:
        """What the owner of the pod should know."""
        owner = self.owner
        where = f"container {owner.container}" if owner.container else f"group {self.group}"
        message = f"{where}: {self.why}"
        return PodProblem(uid=owner.uid, pod=owner.pod, reason=NOT_CONFINED, message=message)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a pass did.

    Attributes:
        unpinned: containers that were set right after they had started.
        watched: groups in which something may change.
        trouble: why nothing could be done at all.
        failed: not even a decision could be made.
    """

    changes: list[WrittenFile] = field(default_factory=list)
    refused: list[UnwrittenFile] = field(default_factory=list)
    unpinned: list[Unpinned] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)
    trouble: str = ""
    failed: bool = False


class GroupWriter:
    """Changes groups.

    Attributes:
        found: the groups of pods, as of the last `look`.
    """

    def __init__(
        self,
        groups: Groups,
        state: OriginalsFile,
        *,
        parent: str = "",
        quota: bool = True,
        dry_run: bool = False,
    ) -> None:
        """Prepare.

        Args:
            groups: what is changed.
            state: where originals are kept.
            parent: the group of all pods; found by itself if empty.
            quota: lift the limit of CPU time of containers with CPUs of their own.
            dry_run: only say what would be written.
        """
        self._groups = groups
        self._wanted_parent = parent
        self._quota = quota
        self._dry_run = dry_run
        self._memory = GroupMemory(groups, state)
        self._names: dict[str, str] = {}
        self._met: set[str] = set()
        self._parent: str | None = None
        self.found: Mapping[str, PodGroups] = {}

    def look(self) -> str:
        """Find the groups of pods; return why that is not possible, or the empty text."""
        self._parent = find_parent(self._groups, self._wanted_parent)
        if self._parent is None:
            self.found = {}
            return f"there is no group {self._wanted_parent or 'kubepods'} of pods yet"
        nested = self._groups.version is Version.V1
        self.found = scan(self._groups, self._parent, nested=nested)
        return ""

    def remembered(self) -> set[str]:
        """Return the uids of pods whose groups are there and not as they were."""
        return uids_with_originals(self._memory.originals) & self.found.keys()

    @property
    def version(self) -> Version:
        """Which kind of hierarchy the groups are in."""
        return self._groups.version

    def setting_of(
        self, pod: PodState, confined: PodConfinement, container: str
    ) -> GroupSetting | None:
        """Return what a container is to have of its own from its start; nothing if it shares."""
        return setting_of(pod, confined, container, self.version, quota=self._quota)

    def declare(self, identity: str, setting: GroupSetting) -> None:
        """Keep what a container would have without us, before it is made otherwise."""
        self._memory.declare(identity, setting)

    def forget(self, identities: Iterable[str]) -> None:
        """Forget what was declared of containers that are gone."""
        self._memory.forget(identities)

    def apply(self, pods: Iterable[PodState], decisions: Decisions) -> Outcome:
        """Let groups be as decided; those that nothing was decided about get back what they had."""
        pods = list(pods)
        self._names = {pod.uid: pod.name for pod in pods}
        targets = targets_of(
            pods, decisions.pods, self.found, self._groups.version, quota=self._quota
        )
        outcome = self._settle(targets)
        if self._parent is not None:
            outcome.watched = folders(self._parent, self.found)
        return outcome

    def restore(self) -> Outcome:
        """Let all groups be as they were."""
        # Containers may have come since the last pass.
        self.look()
        return self._settle({})

    def _settle(self, targets: Mapping[str, Target]) -> Outcome:
        outcome = Outcome()
        if not self._dry_run:
            # The runtime gives these what was answered, if it has not done so already.
            self._met |= self._memory.adopt(container_groups(self.found))
        now = self._memory.look(targets)
        if not self._dry_run:
            self._hand_down(targets, now, outcome)
        version = self._groups.version
        plan = make_plan(targets, now, self._memory.past(now), version)
        writes = writes_for(now, plan.wanted, version)
        owners = {group: target.owner for group, target in targets.items()}
        if self._dry_run:
            outcome.changes = [self._change(write, now, owners, plan) for write in writes]
            return outcome
        # First what is needed to undo it, then the change.
        self._memory.prepare(plan)
        stand_ins = self._perform(writes, now, owners, plan, outcome)
        refused = {refused.group for refused in outcome.refused}
        outcome.unpinned = self._first_met(targets, now, refused)
        self._memory.settle(plan, targets=targets.keys(), refused=refused, stand_ins=stand_ins)
        return outcome

    def _first_met(
        self,
        targets: Mapping[str, Target],
        now: Mapping[str, GroupSetting],
        refused: Collection[str],
    ) -> list[Unpinned]:
        """Return the containers met for the first time that ran elsewhere, and do not any more."""
        owned = {
            group: target
            for group, target in targets.items()
            if target.is_own and group in now and has_processes(self._groups, group)
        }
        new = owned.keys() - self._met - set(refused)
        self._met = (self._met & targets.keys()) | new
        return [
            Unpinned(owner=owned[group].owner, had=had, wanted=owned[group].setting)
            for group in sorted(new)
            if (had := elsewhere(owned[group], group, now)) is not None
        ]

    def _perform(
        self,
        writes: Iterable[Write],
        now: Mapping[str, GroupSetting],
        owners: Mapping[str, GroupOwner],
        plan: GroupPlan,
        outcome: Outcome,
    ) -> dict[str, GroupSetting]:
        """Write; return what stands in for sets that groups cannot be without."""
        # A group may be written twice, wider first: only the last time is worth a word.
        changes: dict[tuple[str, str], WrittenFile] = {}
        stand_ins: dict[str, GroupSetting] = {}
        for asked in writes:
            write, why = self._write(asked)
            if why:
                owner = self._owner(write.group, owners)
                outcome.refused.append(UnwrittenFile(owner=owner, group=write.group, why=why))
                continue
            changes[write.group, write.file] = self._change(write, now, owners, plan)
            if write.text != asked.text:
                held: dict[str, Any] = {_PARTS[write.file]: CpuSet.parse(write.text).bits}
                known = stand_ins.get(write.group, NOTHING)
                stand_ins[write.group] = replace(known, **held)
        outcome.changes += changes.values()
        return stand_ins

    def _write(self, write: Write) -> tuple[Write, str]:
        """Write a file; return what was written, and why it was refused."""
        if write.text:
            return write, self._groups.write(write.group, write.file, write.text)
        text, why = inherit(self._groups, write.group, write.file)
        return replace(write, text=text), why

    def _change(
        self,
        write: Write,
        now: Mapping[str, GroupSetting],
        owners: Mapping[str, GroupOwner],
        plan: GroupPlan,
    ) -> WrittenFile:
        group, file = write.group, write.file
        wrote = _text(self._memory.written.get(group), file, self._groups.version)
        kind = WriteReason.APPLIED
        if group not in owners:
            kind = WriteReason.RESTORED
        elif (
            wrote is not None
            and wrote == _text(plan.wanted[group], file, self._groups.version)
            # When a pod has ended, systemd resets what is left of it: that does not matter.
            and has_processes(self._groups, group)
            # Runtimes make the group of a new container first, and write its limit then.
            and not (file == self.version.quota and owners[group].container == REST)
        ):
            kind = WriteReason.DRIFT
        before = _text(now[group], file, self._groups.version) or ""
        owner = self._owner(group, owners)
        return WrittenFile(
            owner=owner, group=group, file=file, before=before, after=write.text, kind=kind
        )

    def _owner(self, group: str, owners: Mapping[str, GroupOwner]) -> GroupOwner:
        """Return whose group it is; of one that nothing is asked of only the pod is known."""
        uid = next(iter(uids_with_originals([group])), "")
        known = GroupOwner(uid=uid, pod=self._names.get(uid, ""), container="")
        return owners.get(group, known)

    def _hand_down(
        self, targets: Mapping[str, Target], now: dict[str, GroupSetting], outcome: Outcome
    ) -> None:
        """Let groups have cpuset files that have none yet."""
        for group in [name for name, one in now.items() if one.cpus is None and name in targets]:
            if why := hand_down_cpuset(self._groups, group):
                refused = UnwrittenFile(owner=targets[group].owner, group=group, why=why)
                outcome.refused.append(refused)
            else:
                now[group] = read_setting(self._groups, group)


def _text(setting: GroupSetting | None, file: str, version: Version) -> str | None:
    if setting is None:
        return None
    if file == version.quota:
        return setting.quota
    bits = {CPUS: setting.cpus, MEMS: setting.mems}[file]
    return None if bits is None else str(CpuSet(bits))

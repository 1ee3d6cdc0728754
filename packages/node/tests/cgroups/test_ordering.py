"""Whatever groups are and shall be, no single write is refused, and all is as wanted afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from numakube.node.cgroups.group_files import CPUS, MEMS, Groups, Version
from numakube.node.cgroups.strict_fake_groups import StrictGroups
from numakube.node.cgroups.write_order import GroupSetting, Write, read_setting, writes_for
from numakube.values.cpuset import CpuSet

ALL_CPUS, ALL_MEMS = 0xFF, 0b11
PARENT = "kubepods"
POD = f"{PARENT}/pod1"
CONTAINERS = (f"{POD}/a", f"{POD}/b")
NESTED = f"{POD}/a/inner"

SOME_CPUS = st.integers(min_value=1, max_value=ALL_CPUS)
SOME_MEMS = st.integers(min_value=1, max_value=ALL_MEMS)
QUOTAS = {Version.V1: ("-1", "20000"), Version.V2: ("max", "20000 100000")}


@st.composite
def targets(draw: st.DrawFn, version: Version) -> dict[str, GroupSetting]:
    """Groups in which nobody wants more than the group above; nested ones may want less."""
    quota = draw(st.sampled_from(QUOTAS[version]))
    leaves = [
        GroupSetting(cpus=draw(SOME_CPUS), mems=draw(SOME_MEMS), quota=quota) for _ in CONTAINERS
    ]
    above = GroupSetting(
        cpus=(leaves[0].cpus or 0) | (leaves[1].cpus or 0),
        mems=(leaves[0].mems or 0) | (leaves[1].mems or 0),
        quota=quota,
    )
    wanted = dict(zip(CONTAINERS, leaves, strict=True)) | {POD: above}
    inner = draw(SOME_CPUS) & (leaves[0].cpus or 0) or leaves[0].cpus
    return wanted | {NESTED: GroupSetting(cpus=inner, mems=leaves[0].mems)}


def machine(version: Version) -> StrictGroups:
    """Return a machine with one pod."""
    groups = StrictGroups(version, ALL_CPUS, ALL_MEMS)
    for group in (*CONTAINERS, NESTED):
        groups.add(group)
    return groups


def settle(groups: Groups, wanted: dict[str, GroupSetting]) -> None:
    """Write what is wanted; nothing may be refused."""
    now = {group: read_setting(groups, group) for group in wanted}
    for write in writes_for(now, wanted, groups.version):
        assert groups.write(write.group, write.file, write.text) == "", write


@given(data=st.data(), version=st.sampled_from(Version))
def test_any_sequence_of_targets_is_accepted(data: st.DataObject, version: Version) -> None:
    """From any state to any other."""
    groups = machine(version)
    for wanted in data.draw(st.lists(targets(version), min_size=1, max_size=4)):
        settle(groups, wanted)
        for group, setting in wanted.items():
            assert groups.read(group, CPUS) == str(CpuSet(setting.cpus or 0))
            assert groups.read(group, MEMS) == str(CpuSet(setting.mems or 0))


@given(data=st.data(), version=st.sampled_from(Version))
def test_nothing_is_written_twice(data: st.DataObject, version: Version) -> None:
    """What is as wanted is left alone."""
    groups = machine(version)
    wanted = data.draw(targets(version))
    settle(groups, wanted)
    groups.history.clear()
    settle(groups, wanted)
    assert groups.history == []


def test_a_group_gains_from_the_top_and_loses_from_the_bottom() -> None:
    """In between a group has both."""
    now = {POD: GroupSetting(cpus=0b0011), CONTAINERS[0]: GroupSetting(cpus=0b0011)}
    wanted = {POD: GroupSetting(cpus=0b0110), CONTAINERS[0]: GroupSetting(cpus=0b0110)}
    assert writes_for(now, wanted, Version.V1) == [
        Write(POD, CPUS, "0-2"),
        Write(CONTAINERS[0], CPUS, "0-2"),
        Write(CONTAINERS[0], CPUS, "1-2"),
        Write(POD, CPUS, "1-2"),
    ]


def test_a_group_that_inherits_is_written_once() -> None:
    """There is nothing to widen."""
    now = {POD: GroupSetting(cpus=0), CONTAINERS[0]: GroupSetting(cpus=0)}
    wanted = {POD: GroupSetting(cpus=0b11), CONTAINERS[0]: GroupSetting(cpus=0b01)}
    assert writes_for(now, wanted, Version.V2) == [
        Write(CONTAINERS[0], CPUS, "0"),
        Write(POD, CPUS, "0-1"),
    ]


def test_inheriting_again_is_an_empty_text() -> None:
    """So a group is given back to version 2."""
    writes = writes_for({POD: GroupSetting(cpus=1)}, {POD: GroupSetting(cpus=0)}, Version.V2)
    assert writes == [Write(POD, CPUS, "")]


def test_files_that_are_not_there_are_not_written() -> None:
    """Not every controller is enabled everywhere."""
    assert (
        writes_for({POD: GroupSetting()}, {POD: GroupSetting(cpus=1, quota="max")}, Version.V2)
        == []
    )


def test_an_unlimited_quota_is_recognised_with_its_period() -> None:
    """Version 2 prints both."""
    now, wanted = {POD: GroupSetting(quota="max 100000")}, {POD: GroupSetting(quota="max")}
    assert writes_for(now, wanted, Version.V2) == []

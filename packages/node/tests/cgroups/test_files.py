"""Reading and writing groups on disk, and finding those of pods."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from numakube.errors import ConfigError
from numakube.node.cgroups.cpuset_controller import hand_down_cpuset
from numakube.node.cgroups.fake_groups import FakeCgroups
from numakube.node.cgroups.group_files import (
    CPUS,
    MEMS,
    SUBTREE_CONTROL,
    CgroupFiles,
    Hierarchy,
    Version,
    detect,
)
from numakube.node.cgroups.group_names import container_group, pod_group
from numakube.node.cgroups.group_scan import find_parent, folders, scan
from numakube.node.cgroups.strict_fake_groups import StrictGroups
from numakube.node.cgroups.write_order import GroupSetting, read_setting, writes_for

UID = "1c6a1d3b-6a4f-4c0e-9f43-0a8e1c6a1d3b"
ID = "5f" * 32
VERSIONS = pytest.mark.parametrize("version", list(Version))


def make(root: Path, version: Version) -> FakeCgroups:
    """Return a machine with eight CPUs and two memory nodes."""
    return FakeCgroups.make(root, version=version, cpus=0xFF, mems=0b11)


@VERSIONS
def test_the_version_is_detected(tmp_path: Path, version: Version) -> None:
    """Both kinds of hierarchies are told apart."""
    make(tmp_path, version)
    assert detect(tmp_path).version is version


def test_a_folder_without_a_cpuset_controller_is_refused(tmp_path: Path) -> None:
    """The message says what is missing."""
    with pytest.raises(ConfigError, match="no cgroup hierarchy with a cpuset controller"):
        detect(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(ConfigError, match="offers no cpuset controller"):
        detect(tmp_path)


@VERSIONS
def test_what_is_written_is_read_again(tmp_path: Path, version: Version) -> None:
    """Sets and quotas go to the files that the version has."""
    tree = make(tmp_path, version)
    tree.add("kubepods/pod1")
    files = tree.files
    assert files.write("kubepods/pod1", CPUS, "0-3") == ""
    assert files.write("kubepods/pod1", MEMS, "1") == ""
    assert files.write("kubepods/pod1", version.quota, version.unlimited) == ""
    setting = read_setting(files, "kubepods/pod1")
    assert setting == GroupSetting(cpus=0b1111, mems=0b10, quota=version.unlimited)
    assert files.write("kubepods/pod1", CPUS, "") == ""
    assert files.read("kubepods/pod1", CPUS) == ""


@VERSIONS
def test_groups_that_are_gone_are_nothing_special(tmp_path: Path, version: Version) -> None:
    """Containers end at any time; nothing is created."""
    files = make(tmp_path, version).files
    assert files.read("kubepods/pod1", CPUS) is None
    assert files.write("kubepods/pod1", CPUS, "0") == ""
    assert files.children("kubepods/pod1") == []
    assert not (tmp_path / "kubepods").exists()


@VERSIONS
def test_new_groups_are_as_a_kubelet_makes_them(tmp_path: Path, version: Version) -> None:
    """Version 1 copies sets, version 2 inherits them."""
    tree = make(tmp_path, version)
    tree.add("kubepods/pod1/c")
    assert tree.cpus("kubepods/pod1/c") == ("0-7" if version is Version.V1 else "")
    assert tree.effective_cpus("kubepods/pod1/c") == "0-7"
    tree.files.write("kubepods/pod1", CPUS, "2-3")
    assert tree.effective_cpus("kubepods/pod1/c") == "2-3"


@VERSIONS
@pytest.mark.parametrize("parent", ["kubepods.slice", "kubepods", "kubelet/kubepods"])
def test_pods_and_containers_are_found(tmp_path: Path, version: Version, parent: str) -> None:
    """Every level, driver and kind of member is recognised."""
    tree = make(tmp_path, version)
    pods = {
        "a" + UID[1:]: pod_group(parent, "Guaranteed", "a" + UID[1:]),
        "b" + UID[1:]: pod_group(parent, "Burstable", "b" + UID[1:]),
        "c" + UID[1:]: pod_group(parent, "BestEffort", "c" + UID[1:]),
    }
    for group in pods.values():
        tree.add(container_group(group, f"containerd://{ID}"))
        tree.add(f"{group}/crio-conmon-{ID}.scope/inner")
    files = tree.files
    assert find_parent(files) == parent
    found = scan(files, parent, nested=True)
    assert {uid: one.group for uid, one in found.items()} == pods
    for one in found.values():
        assert list(one.containers) == [ID]
        assert [path.rpartition("/")[2] for path in one.others] == [f"crio-conmon-{ID}.scope"]
        assert one.nested == {one.others[0]: (f"{one.others[0]}/inner",)}
    watched = folders(parent, found)
    assert {parent, *pods.values()} <= set(watched)


def test_another_parent_can_be_named(tmp_path: Path) -> None:
    """Kubelets with a root of their own are found if it is given."""
    tree = make(tmp_path, Version.V2)
    assert find_parent(tree.files) is None
    tree.add("mine/kubepods")
    assert find_parent(tree.files) is None
    assert find_parent(tree.files, "/mine/kubepods") == "mine/kubepods"


def test_what_another_driver_left_behind_is_passed_over(tmp_path: Path) -> None:
    """Pods are where the kubelet makes them now; before the first one nobody can tell."""
    tree = make(tmp_path, Version.V2)
    tree.add("kubepods.slice/kubepods-burstable.slice")
    tree.add("kubepods/burstable")
    assert find_parent(tree.files) == "kubepods.slice"
    tree.add(pod_group("kubepods", "Burstable", UID))
    assert find_parent(tree.files) == "kubepods"


def test_the_cpuset_controller_is_handed_down_where_it_is_not() -> None:
    """Every level above gets it."""
    groups = StrictGroups(Version.V2, 0xFF, 0b1)
    groups.add("kubepods", handed_down=False)
    groups.add("kubepods/pod1", handed_down=False)
    groups.add("kubepods/pod1/c")
    assert groups.read("kubepods/pod1/c", CPUS) is None
    assert hand_down_cpuset(groups, "kubepods/pod1/c") == ""
    assert groups.read("kubepods/pod1/c", CPUS) == ""
    assert "cpuset" in (groups.read("kubepods", SUBTREE_CONTROL) or "")


def test_a_group_that_hands_nothing_down_is_named() -> None:
    """A group with processes of its own cannot."""
    groups = StrictGroups(Version.V2, 0xFF, 0b1, busy={"kubepods"})
    groups.add("kubepods", handed_down=False)
    groups.add("kubepods/pod1")
    assert hand_down_cpuset(groups, "kubepods/pod1").startswith(
        "the cpuset controller cannot be enabled in kubepods: "
    )


@pytest.fixture
def kernel_groups() -> Iterator[tuple[CgroupFiles, str]]:
    """A group of this machine's own version 1 hierarchy, without any process in it."""
    mount = Path("/sys/fs/cgroup/cpuset")
    if not (mount / CPUS).is_file() or not os.access(mount, os.W_OK):
        pytest.skip("this machine has no writable cgroup v1 cpuset hierarchy")
    name = f"numakube-test-{uuid.uuid4().hex}"
    groups = [name, f"{name}/pod", f"{name}/pod/container"]
    try:
        for group in groups:
            (mount / group).mkdir()
        (mount / name / CPUS).write_text((mount / CPUS).read_text())
    except OSError as error:
        for group in reversed(groups):
            with contextlib.suppress(OSError):
                (mount / group).rmdir()
        pytest.skip(f"groups cannot be made here: {error.strerror}")
    try:
        yield CgroupFiles(Hierarchy(Version.V1, mount, None)), name
    finally:
        for group in reversed(groups):
            (mount / group).rmdir()


def test_a_real_kernel_accepts_the_order_of_writes(kernel_groups: tuple[CgroupFiles, str]) -> None:
    """Widening and narrowing work on this machine."""
    files, name = kernel_groups
    groups = [name, f"{name}/pod", f"{name}/pod/container"]
    everything = read_setting(files, "")
    assert everything.cpus
    for group in groups:
        assert files.write(group, CPUS, files.read("", CPUS) or "") == ""
    lowest = everything.cpus & -everything.cpus
    for cpus in (lowest, everything.cpus, everything.cpus & ~lowest or lowest):
        wanted = {group: GroupSetting(cpus=cpus) for group in groups[1:]}
        now = {group: read_setting(files, group) for group in wanted}
        for write in writes_for(now, wanted, Version.V1):
            assert files.write(write.group, write.file, write.text) == ""
        assert {read_setting(files, group).cpus for group in wanted} == {cpus}


def test_a_real_kernels_refusal_is_told(kernel_groups: tuple[CgroupFiles, str]) -> None:
    """The reason is one that people can act on."""
    files, name = kernel_groups
    refused = files.write(f"{name}/pod/container", CPUS, files.read(name, CPUS) or "")
    assert "the group above does not have them" in refused

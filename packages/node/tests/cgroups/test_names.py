"""Names of groups, as kubelets and runtimes give them."""

import pytest

from numakube.node.cgroups.group_names import (
    PARENTS,
    Driver,
    bare_id,
    container_group,
    container_id_of,
    driver_of,
    pod_group,
    uid_of,
)

UID = "1c6a1d3b-6a4f-4c0e-9f43-0a8e1c6a1d3b"
ESCAPED = UID.replace("-", "_")
ID = "5f" * 32
QOS_CLASSES = ("Guaranteed", "Burstable", "BestEffort")


@pytest.mark.parametrize(
    ("qos", "group"),
    [
        ("Guaranteed", f"kubepods.slice/kubepods-pod{ESCAPED}.slice"),
        (
            "Burstable",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ESCAPED}.slice",
        ),
        (
            "BestEffort",
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{ESCAPED}.slice",
        ),
    ],
)
def test_systemd_repeats_the_levels_above_and_escapes_dashes(qos: str, group: str) -> None:
    """As the kubelet's systemd names do."""
    assert pod_group("kubepods.slice", qos, UID) == group


def test_a_cgroup_root_is_repeated_too() -> None:
    """As in clusters of kind."""
    parent = "kubelet.slice/kubelet-kubepods.slice"
    assert pod_group(parent, "Burstable", UID) == (
        f"{parent}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{ESCAPED}.slice"
    )


def test_cgroupfs_names_are_plain() -> None:
    """Levels are folders, uids are as they are."""
    assert pod_group("kubepods", "Guaranteed", UID) == f"kubepods/pod{UID}"
    assert pod_group("kubepods", "BestEffort", UID) == f"kubepods/besteffort/pod{UID}"


@pytest.mark.parametrize(
    ("identity", "scope", "plain"),
    [
        (f"containerd://{ID}", f"cri-containerd-{ID}.scope", ID),
        (f"cri-o://{ID}", f"crio-{ID}.scope", f"crio-{ID}"),
        (f"docker://{ID}", f"docker-{ID}.scope", ID),
    ],
)
def test_runtimes_name_containers_in_their_own_ways(identity: str, scope: str, plain: str) -> None:
    """Each runtime and driver is understood."""
    assert container_group("a.slice", identity) == f"a.slice/{scope}"
    assert container_group("a", identity) == f"a/{plain}"
    assert container_id_of(scope) == container_id_of(plain) == bare_id(identity) == ID


@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("qos", QOS_CLASSES)
def test_a_pods_uid_is_found_in_its_groups_name(parent: str, qos: str) -> None:
    """Whatever the driver, the root and the QoS class."""
    assert uid_of(pod_group(parent, qos, UID).rpartition("/")[2]) == UID


@pytest.mark.parametrize(
    "folder", ["kubepods-burstable.slice", "besteffort", "init.scope", "kubepods.slice"]
)
def test_other_groups_are_no_pods(folder: str) -> None:
    """Levels and units of systemd are passed over."""
    assert uid_of(folder) is None


@pytest.mark.parametrize("folder", [f"crio-conmon-{ID}.scope", "init.scope", "container", "cafe"])
def test_other_groups_are_no_containers(folder: str) -> None:
    """Monitors and inner groups are passed over."""
    assert container_id_of(folder) is None


def test_a_static_pods_uid_is_a_hash() -> None:
    """It has no dashes."""
    assert uid_of("kubepods-burstable-pod0123456789abcdef.slice") == "0123456789abcdef"


def test_the_driver_follows_from_the_parent() -> None:
    """Slices are systemd's."""
    assert driver_of("kubepods.slice") is Driver.SYSTEMD
    assert driver_of("kubelet/kubepods") is Driver.CGROUPFS

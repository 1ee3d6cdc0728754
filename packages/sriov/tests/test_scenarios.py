"""What is offered of a host, and what is said of the rest: one test a kind of host."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import pytest
from packages.sriov.tests.build import PREFIX, Bed, configured, pool

from numakube.node.host_files import DeviceFile
from numakube.node.pci.device_files import Description, describe
from numakube_sriov.pool_plugin import answer

NIC = configured(pool())


def numa_nodes(bed: Bed, name: str = "nic") -> dict[str, tuple[int, ...]]:
    """Return where the devices of a pool are."""
    assert bed.survey is not None
    standings = bed.survey.standings[f"{PREFIX}/{name}"]
    return {id_: one.member.numa_nodes for id_, one in standings.items()}


def described(bed: Bed, id_: str, name: str = "nic") -> Description:
    """Return what a container would get."""
    assert bed.survey is not None
    (found,) = (one for one in bed.survey.config.pools if one.name == name)
    member = bed.survey.standings[found.resource][id_].member
    return describe(found, member, bed.survey.inventory.facts)


def test_virtual_functions_of_two_sockets_have_their_numa_nodes(bed: Bed) -> None:
    """And the physical functions that they belong to are not offered."""
    near, far = bed.two_sockets(3)

    assert bed.offered(NIC) == [*near, *far]

    assert numa_nodes(bed) == {**dict.fromkeys(near, (0,)), **dict.fromkeys(far, (1,))}
    assert bed.reasons() == {
        "0000:3b:00.0": "is a physical function with 3 virtual functions",
        "0000:af:00.0": "is a physical function with 3 virtual functions",
    }


@pytest.mark.parametrize("content", ["-1\n", "junk\n", "", None])
def test_a_numa_node_that_is_not_known_is_not_told(bed: Bed, content: str | None) -> None:
    """Never as -1, which the kubelet would take for a node."""
    bed.two_sockets(1)
    file = bed.pci.folder("0000:3b:01.0") / "numa_node"
    file.unlink()
    if content is not None:
        file.write_text(content)

    bed.offered(NIC)

    assert numa_nodes(bed) == {"0000:3b:01.0": (), "0000:af:01.0": (1,)}


def test_topology_can_be_left_out(bed: Bed) -> None:
    """For a pool that is to be used from every NUMA node."""
    near, far = bed.two_sockets(1)

    bed.offered(configured(pool(excludeTopology=True)))

    assert numa_nodes(bed) == {near[0]: (), far[0]: ()}


def test_a_physical_function_without_virtual_ones_is_a_device(bed: Bed) -> None:
    """As a whole."""
    bed.pci.pf("0000:3b:00.0", interface="ens1f0", numa_node=0)

    assert bed.offered(NIC) == ["0000:3b:00.0"]


@pytest.mark.parametrize(
    ("class_code", "device_type"), [("010802", "pciDevice"), ("120000", "accelerator")]
)
def test_a_physical_function_of_any_class_is_not_offered_beside_its_virtual_ones(
    bed: Bed, class_code: str, device_type: str
) -> None:
    """An NVMe disk would be in a pod as a whole while another pod has a part of it."""
    bed.pci.pf("0000:33:00.0", driver="nvme")
    vfs = bed.pci.vfs("0000:33:00.0", 2, interfaces=False)
    for address in ("0000:33:00.0", *vfs):
        bed.pci.function(address, class_code=class_code, driver="nvme", numa_node=1)

    config = configured(pool(selectors={"vendors": ["8086"]}, deviceType=device_type))
    assert bed.offered(config) == vfs

    why = "is a physical function with 2 virtual functions"
    assert bed.reasons() == {"0000:33:00.0": why}


def test_a_virtual_function_in_a_virtual_machine_has_no_physical_one(bed: Bed) -> None:
    """It can be selected, but not by its physical function."""
    bed.pci.function("0000:00:06.0", device="1889", driver="iavf", numa_node=0)
    bed.pci.interface("0000:00:06.0", "eth1")
    config = configured(pool("by-pf", {"pfNames": ["eth1"]}), pool())

    assert bed.offered(config) == ["0000:00:06.0"]

    why = "the name of its physical function is not known (pfNames)"
    assert bed.reasons("by-pf") == {"0000:00:06.0": why}


def test_a_function_without_a_driver_is_left_out(bed: Bed) -> None:
    """Nobody could use it."""
    near, far = bed.two_sockets(1)
    bed.pci.bind(near[0], "")

    assert bed.offered(NIC) == far

    assert bed.reasons()[near[0]] == "has no driver"


def test_a_function_whose_interface_is_in_a_pod_stays_what_it_was(bed: Bed) -> None:
    """Its link type is that of the physical function; it is as healthy as before."""
    near, _ = bed.two_sockets(1)
    config = configured(pool(selectors={"linkTypes": ["ether"], "pfNames": ["ens1f0"]}))
    assert bed.offered(config) == near

    bed.pci.move_interfaces_away(near[0])

    assert bed.offered(config) == near
    assert bed.troubles() == {}
    shutil.rmtree(bed.pci.folder(near[0]) / "net")
    assert bed.offered(config) == near


@pytest.mark.parametrize(
    ("name", "host_path"), [("", "/dev/vfio/41"), ("vfio-noiommu", "/dev/vfio/noiommu-41")]
)
def test_vfio_devices_come_with_their_group(bed: Bed, name: str, host_path: str) -> None:
    """Without an IOMMU the host calls the file otherwise than the container."""
    near, _ = bed.two_sockets(1)
    bed.pci.bind(near[0], "vfio-pci")
    bed.pci.move_interfaces_away(near[0])
    bed.pci.iommu_group(near[0], 41, name=name)
    bed.look(configured(pool(selectors={"drivers": ["vfio-pci"]})))

    description = described(bed, near[0])

    assert description.nodes == [
        DeviceFile("/dev/vfio/vfio", "/dev/vfio/vfio", "rw"),
        DeviceFile("/dev/vfio/41", host_path, "rw"),
    ]
    assert description.info["vfio"] == {"mount": "/dev/vfio/vfio", "dev-mount": "/dev/vfio/41"}


def test_a_vfio_device_without_a_group_is_told(bed: Bed) -> None:
    """The container gets what there is."""
    near, _ = bed.two_sockets(1)
    bed.pci.bind(near[0], "vfio-pci")
    bed.look(NIC)

    description = described(bed, near[0])

    assert [node.host_path for node in description.nodes] == ["/dev/vfio/vfio"]
    assert description.warnings == [f"{near[0]} has no IOMMU group"]


def test_rdma_devices_come_with_their_files(bed: Bed) -> None:
    """A function without an RDMA device is not one."""
    near, far = bed.two_sockets(1)
    bed.pci.rdma(bed.pci.folder(near[0]), "mlx5_2", number=2)
    bed.device_file("infiniband/rdma_cm")

    assert bed.offered(configured(pool(selectors={"isRdma": True}))) == near

    description = described(bed, near[0])
    assert [node.host_path for node in description.nodes] == [
        "/dev/infiniband/issm2",
        "/dev/infiniband/umad2",
        "/dev/infiniband/uverbs2",
        "/dev/infiniband/rdma_cm",
    ]
    assert description.info["rdma"] == {
        "issm": "/dev/infiniband/issm2",
        "umad": "/dev/infiniband/umad2",
        "uverbs": "/dev/infiniband/uverbs2",
        "rdma_cm": "/dev/infiniband/rdma_cm",
        "rdma_dev": "mlx5_2",
    }
    why = "it has no RDMA device (isRdma): are the RDMA modules loaded?"
    assert bed.reasons()[far[0]] == why


def test_an_rdma_device_that_moved_into_a_pod_is_still_one(bed: Bed) -> None:
    """Where RDMA devices follow their interface, the host does not see them meanwhile."""
    near, _ = bed.two_sockets(1)
    folder = bed.pci.folder(near[0])
    bed.pci.rdma(folder, "mlx5_2", number=2)
    config = configured(pool(selectors={"isRdma": True}))
    assert bed.offered(config) == near

    bed.pci.move_interfaces_away(near[0])
    shutil.rmtree(folder / "infiniband")

    for _ in range(3):
        assert bed.offered(config) == near
        assert bed.troubles() == {}


def test_an_rdma_device_in_a_pod_is_known_by_the_kernel_when_the_plugin_starts(bed: Bed) -> None:
    """It was never seen before: devlink tells."""
    near, _ = bed.two_sockets(1)
    bed.pci.move_interfaces_away(near[0])
    bed.host = replace(bed.host, rdma_enabled=lambda id_: id_ == near[0])

    assert bed.offered(configured(pool(selectors={"isRdma": True}))) == near

    (warning,) = described(bed, near[0]).warnings
    assert warning == f"{near[0]} has no RDMA device on the host now"


def test_ddp_profiles_are_those_of_the_function_or_its_physical_one(bed: Bed) -> None:
    """A function without any never matches."""
    near, far = bed.two_sockets(1)
    third = bed.pci.function("0000:01:00.0", driver="e1000e")
    packages = {near[0]: "GTP", "0000:af:00.0": "GTP"}
    bed.host = replace(bed.host, firmware=lambda address: packages.get(address, ""))

    assert bed.offered(configured(pool(selectors={"ddpProfiles": ["GTP"]}))) == [*near, *far]

    assert bed.reasons()[third.name] == "it has no DDP profile (ddpProfiles)"


def test_without_rdma_asked_for_no_rdma_files_are_given(bed: Bed) -> None:
    """Even if the function has them."""
    near, _ = bed.two_sockets(1)
    bed.pci.rdma(bed.pci.folder(near[0]), "mlx5_2", number=2)
    bed.look(NIC)

    assert described(bed, near[0]).nodes == []


def test_subfunctions_are_devices_of_their_parent(bed: Bed) -> None:
    """Selected by the number of the subfunction and by its parent's name and ids."""
    pf = "0000:03:00.0"
    bed.pci.pf(pf, interface="enp3s0f0", driver="mlx5_core", vendor="15b3", numa_node=1)
    bed.pci.subfunction(pf, "mlx5_core.sf.4", number=88, interface="enp3s0f0s88")
    bed.pci.subfunction(pf, "mlx5_core.sf.5", number=89, interface="enp3s0f0s89")
    folder = bed.pci.subfunction(pf, "mlx5_core.eth.1", number=1, interface="x")
    bed.default_route("enp3s0f0")
    selectors = {"vendors": ["15b3"], "pfNames": ["enp3s0f0#0-88"], "auxTypes": ["sf"]}

    assert bed.offered(configured(pool(selectors=selectors, deviceType="auxNetDevice"))) == [
        "mlx5_core.sf.4"
    ]

    assert numa_nodes(bed) == {"mlx5_core.sf.4": (1,)}
    assert bed.reasons() == {
        "mlx5_core.eth.1": "auxiliary type eth is not among auxTypes sf",
        "mlx5_core.sf.5": "number 89 of enp3s0f0 is not in enp3s0f0#0-88 (pfNames)",
    }
    assert folder.exists()


def test_what_carries_the_default_route_is_not_offered(bed: Bed) -> None:
    """The host would lose its network."""
    bed.pci.function("0000:01:00.0", numa_node=0)
    bed.pci.interface("0000:01:00.0", "eno1")
    near, far = bed.two_sockets(1)
    bed.default_route("eno1")

    assert bed.offered(NIC) == [*near, *far]

    assert bed.reasons()["0000:01:00.0"] == "carries the host's default route (eno1)"


@pytest.mark.parametrize("alias", ["junk", "", "pci:v0000", None])
def test_a_function_that_cannot_be_read_is_told_and_left_out(bed: Bed, alias: str | None) -> None:
    """The others are offered."""
    near, far = bed.two_sockets(1)
    file = bed.pci.folder(near[0]) / "modalias"
    file.unlink()
    if alias is not None:
        file.write_text(alias)

    assert bed.offered(NIC) == far

    assert bed.survey is not None
    assert [unreadable.address for unreadable in bed.survey.inventory.unreadable] == near


def test_a_broken_link_to_the_physical_function_is_told(bed: Bed) -> None:
    """A plain file in its place does not happen on a live host, but in copies of one."""
    near, far = bed.two_sockets(1)
    link = bed.pci.folder(near[0]) / "physfn"
    link.unlink()
    link.write_text("0000:3b:00.0")

    assert bed.offered(NIC) == far

    assert bed.survey is not None
    assert [str(unreadable.why) for unreadable in bed.survey.inventory.unreadable] == [
        "physfn: is not a link"
    ]


def test_the_first_of_two_pools_has_the_device(bed: Bed) -> None:
    """And the second gets an error."""
    near, far = bed.two_sockets(1)
    config = configured(pool("first", {"pfNames": ["ens1f0"]}), pool())

    assert bed.offered(config) == far

    assert bed.reasons()[near[0]] == "pool intel.com/first has it already"


def test_functions_that_come_and_go_are_followed(bed: Bed) -> None:
    """A lost one is unhealthy for a while, and comes back as itself."""
    near, far = bed.two_sockets(2)
    assert bed.offered(NIC) == [*near, *far]

    bed.pci.remove(near[1])
    assert bed.offered(NIC) == [*near, *far]
    assert bed.troubles() == {near[1]: "is gone"}

    near = bed.pci.vfs("0000:3b:00.0", 3)
    assert bed.offered(NIC) == [*near, *far]
    assert bed.troubles() == {}

    bed.pci.remove(near[2])
    bed.look(NIC, now=100.0)
    bed.look(NIC, now=100.0 + bed.options.forget_after)
    assert bed.survey is not None
    assert list(bed.survey.standings["intel.com/nic"]) == [*near[:2], *far]


def test_functions_that_vanish_while_they_are_read_harm_nobody(bed: Bed) -> None:
    """Folders come and go under the reader's feet; what stays is always offered."""
    _, far = bed.two_sockets(4)
    ended = threading.Event()

    def turmoil() -> None:
        count = 0
        while not ended.is_set():
            count = (count + 1) % 6
            bed.pci.vfs("0000:3b:00.0", count)

    thread = threading.Thread(target=turmoil)
    thread.start()
    try:
        for _ in range(40):
            assert set(far) <= set(bed.offered(NIC))
    finally:
        ended.set()
        thread.join()
    near = bed.pci.vfs("0000:3b:00.0", 2)
    bed.survey = None
    assert bed.offered(NIC) == [*near, *far]


def test_virtual_functions_with_holes_in_their_numbers_keep_them(bed: Bed) -> None:
    """Their numbers are those of the links, not of the list."""
    near, _ = bed.two_sockets(6)
    folder = bed.pci.folder("0000:3b:00.0")
    for number in (0, 2):
        (folder / f"virtfn{number}").unlink()
        bed.pci.remove(near[number])

    assert bed.offered(configured(pool(selectors={"pfNames": ["ens1f0#3-4"]}))) == near[3:5]


def test_a_vdpa_device_is_told_by_its_driver(bed: Bed) -> None:
    """Containers get the character device of one that is bound to vhost."""
    near, far = bed.two_sockets(1)
    bed.pci.vdpa(near[0], "vdpa0", driver="vhost_vdpa", number=3)
    bed.pci.vdpa(far[0], "vdpa1", driver="virtio_vdpa", number=4)
    config = configured(
        pool("vhost", {"vdpaType": "vhost"}), pool("virtio", {"vdpaType": "virtio"}), pool()
    )

    assert bed.offered(config, "vhost") == near
    assert bed.offered(config, "virtio") == far

    description = described(bed, near[0], "vhost")
    assert [node.host_path for node in description.nodes] == ["/dev/vhost-vdpa-3"]
    assert description.info["vdpa"] == {"mount": "/dev/vhost-vdpa-3"}
    assert described(bed, far[0], "virtio").nodes == []
    assert bed.reasons("vhost")[far[0]] == "its vDPA device vdpa1 is not of type vhost (vdpaType)"


def test_vhost_net_comes_with_the_tun_device(bed: Bed) -> None:
    """If the host has them; otherwise that is said."""
    near, _ = bed.two_sockets(1)
    bed.look(configured(pool(selectors={"needVhostNet": True})))
    (warning,) = described(bed, near[0]).warnings
    assert "/dev/vhost-net does not exist" in warning

    bed.device_file("vhost-net")
    assert described(bed, near[0]).nodes == []
    bed.device_file("net/tun")

    description = described(bed, near[0])
    assert [node.host_path for node in description.nodes] == ["/dev/vhost-net", "/dev/net/tun"]
    assert description.info["vhost"] == {
        "net-mount": "/dev/vhost-net",
        "tun-mount": "/dev/net/tun",
    }


def test_in_switchdev_mode_the_uplink_is_the_physical_functions_name(bed: Bed) -> None:
    """Representors of virtual functions stand beside it, and before it in order."""
    bed.pci.pf("0000:3b:00.0", interface="zuplink", numa_node=0)
    bed.pci.interface("0000:3b:00.0", "eth0_rep")
    (vf,) = bed.pci.vfs("0000:3b:00.0", 1)
    for name, port in (("zuplink", "p0"), ("eth0_rep", "pf0vf0")):
        net = bed.pci.folder("0000:3b:00.0") / "net" / name
        bed.pci.write(net / "phys_switch_id", "ab12")
        bed.pci.write(net / "phys_port_name", port)

    assert bed.offered(configured(pool(selectors={"pfNames": ["zuplink"]}))) == [vf]


def test_infiniband_functions_are_selected_by_partition_key(bed: Bed) -> None:
    """The one at index 0, as the kernel writes it."""
    near, far = bed.two_sockets(1)
    for address, key in ((near[0], "0x8001"), (far[0], "0xffff")):
        bed.pci.rdma(bed.pci.folder(address), f"ib{address[5:7]}", number=1, pkey=key)
        for interface in (bed.pci.folder(address) / "net").iterdir():
            bed.pci.write(interface / "type", "32")

    selectors = {"linkTypes": ["infiniband"], "pKeys": ["0x8001"]}
    assert bed.offered(configured(pool(selectors=selectors))) == near


def test_accelerators_and_other_classes_have_their_own_pools(bed: Bed) -> None:
    """A GPU comes with the files that its driver has made."""
    bed.two_sockets(1)
    bed.pci.function("0000:b0:00.0", class_code="120000", driver="vfio-pci", numa_node=1)
    gpu = bed.pci.function(
        "0000:b1:00.0", class_code="030200", vendor="10de", driver="nouveau", numa_node=0
    )
    bed.pci.write(gpu / "drm/renderD128/dev", "226:128")
    bed.pci.write(gpu / "drm/renderD128/uevent", "MAJOR=226\nDEVNAME=dri/renderD128")
    bed.pci.function("0000:00:1c.0", class_code="060400", driver="pcieport")
    config = configured(
        pool("fpga", deviceType="accelerator"),
        pool("gpu", {"classes": ["03"]}, deviceType="pciDevice"),
        pool("any", {"vendors": ["8086", "10de"]}, deviceType="pciDevice"),
    )

    assert bed.offered(config, "fpga") == ["0000:b0:00.0"]
    assert bed.offered(config, "gpu") == ["0000:b1:00.0"]
    assert bed.offered(config, "any") == ["0000:3b:01.0", "0000:af:01.0"]

    description = described(bed, "0000:b1:00.0", "gpu")
    assert [node.host_path for node in description.nodes] == ["/dev/dri/renderD128"]
    assert "0000:00:1c.0" not in bed.reasons("any")


def test_static_devices_are_what_the_configuration_says(bed: Bed) -> None:
    """With files that have to exist, mounts and variables."""
    bed.device_file("fpga0")
    devices = [
        {
            "id": "a",
            "count": 2,
            "numaNode": 1,
            "env": {"MODEL": "x"},
            "deviceNodes": ["/dev/fpga0"],
        },
        {"id": "b", "numaNodes": [0, 1], "mounts": [{"hostPath": "/opt/b", "readOnly": True}]},
        {"id": "c", "healthy": False},
        {"id": "d", "numaNode": -1, "deviceNodes": [{"hostPath": "/dev/nowhere"}]},
    ]
    config = configured({"resourceName": "s", "deviceType": "staticDevice", "devices": devices})

    assert bed.offered(config, "s") == ["a0", "a1", "b", "c", "d"]

    assert numa_nodes(bed, "s") == {"a0": (1,), "a1": (1,), "b": (0, 1), "c": (), "d": ()}
    assert bed.troubles("s") == {
        "c": "is configured as unhealthy",
        "d": "/dev/nowhere does not exist",
    }
    answered = answer(
        config.pools[0],
        {id_: described(bed, id_, "s") for id_ in ("a1", "a0", "b")},
        use_cdi=False,
    )
    assert answered.envs["MODEL"] == "x"
    assert answered.envs["PCIDEVICE_INTEL_COM_S"] == "a1,a0,b"
    assert answered.devices == (DeviceFile("/dev/fpga0", "/dev/fpga0"),)
    assert [mount.read_only for mount in answered.mounts] == [True]

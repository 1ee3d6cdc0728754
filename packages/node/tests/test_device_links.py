"""Which PCI functions devices are, from sysfs and what drivers tell; the rest stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from numakube.node.pci.device_links import KFD_NODES, DevicePaths

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"
UUID = "GPU-8a56a4bc-0000-1111-2222-333344445555"


class Tree:
    """A sysfs and a procfs in the making."""

    def __init__(self, root: Path) -> None:
        self.sys, self.proc = root / "sys", root / "proc"
        (self.sys / "bus/pci/devices").mkdir(parents=True)

    def write(self, path: Path, text: str) -> None:
        """Write a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="ascii")

    def function(
        self, path: str, *, numa_node: int = 0, physical: str = "", kind: str = "0x020000"
    ) -> None:
        """Add a function at its real place, with the link that leads there."""
        folder = self.sys / "devices" / path
        self.write(folder / "class", kind)
        self.write(folder / "numa_node", str(numa_node))
        (self.sys / "bus/pci/devices" / folder.name).symlink_to(folder)
        if physical:
            (folder / "physfn").symlink_to(f"../{physical}")

    def nvidia(self, address: str, uuid: str) -> None:
        """Let NVIDIA's driver tell of a GPU."""
        text = f"Model: \t\t NVIDIA H100\nIRQ:   \t\t 44\nGPU UUID: \t {uuid}\nBus Type: \t PCIe"
        self.write(self.proc / "driver/nvidia/gpus" / address / "information", text)

    def kfd(self, node: int, location: int, links: dict[int, int], *, render: int = 0) -> None:
        """Let AMD's driver tell of a GPU, or of a CPU, and of its links: type by neighbour."""
        folder = self.sys / KFD_NODES / str(node)
        text = f"simd_count 304\nlocation_id {location}\ndomain 0\ndrm_render_minor {render}"
        self.write(folder / "properties", text)
        for number, (to, kind) in enumerate(links.items()):
            text = f"type {kind}\nnode_from {node}\nnode_to {to}\nweight 15"
            self.write(folder / f"io_links/{number}/properties", text)

    def read(self, *ids: str) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
        """Return the functions of devices, and how each two of them are connected."""
        connected = DevicePaths(self.sys, self.proc).read(ids)
        tree = connected.tree
        words = {
            (path, other): found.text
            for path in tree.paths
            for other in tree.paths
            if path < other and (found := tree.between(path, other)) is not None
        }
        return dict(connected.functions), words


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a tree in the making."""
    return Tree(tmp_path)


def test_a_gpu_and_the_virtual_functions_beside_it_are_behind_one_switch(tree: Tree) -> None:
    """NVIDIA's GPUs by uuid, shares and older parts of them included; functions by address."""
    tree.function(f"{SWITCH}/0000:17:00.0/0000:18:00.0")
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.0")
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.2", physical="0000:19:00.0")
    tree.nvidia("0000:18:00.0", UUID)
    ids = (UUID, f"{UUID}::2", f"MIG-{UUID}/1/0", "0000:19:00.2")
    functions, words = tree.read(*ids)
    assert functions == {
        UUID: "0000:18:00.0",
        f"{UUID}::2": "0000:18:00.0",
        f"MIG-{UUID}/1/0": "0000:18:00.0",
        "0000:19:00.2": "0000:19:00.0",
    }
    assert words == {("0000:18:00.0", "0000:19:00.0"): "PIX"}


def test_names_of_the_kernel_lead_to_the_function(tree: Tree) -> None:
    """RDMA devices, network interfaces and subfunctions; of a virtual function, to its card."""
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.0")
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.2", physical="0000:19:00.0")
    devices = tree.sys / "bus/pci/devices"
    for name, address in (
        ("class/infiniband/mlx5_2", "0000:19:00.2"),
        ("class/net/ens1f0np0", "0000:19:00.0"),
    ):
        (tree.sys / name).mkdir(parents=True)
        (tree.sys / name / "device").symlink_to(devices / address)
    subfunction = devices.resolve() / "0000:19:00.0/mlx5_core.sf.4"
    subfunction.mkdir()
    (tree.sys / "bus/auxiliary/devices").mkdir(parents=True)
    (tree.sys / "bus/auxiliary/devices/mlx5_core.sf.4").symlink_to(subfunction)
    names = ("mlx5_2", "ens1f0np0", "mlx5_core.sf.4")
    functions, _ = tree.read(*names, "mlx5_3", "0", "../net/ens1f0np0")
    assert functions == dict.fromkeys(names, "0000:19:00.0")


def test_partitions_of_amds_gpus_are_where_the_gpu_is(tree: Tree) -> None:
    """The kernel makes platform devices of them; kfd knows their render nodes."""
    tree.function("pci0000:00/0000:00:01.1/0000:0c:00.0", kind="0x038000")
    tree.kfd(1, 0x0C00, {}, render=128)
    tree.kfd(2, 0x1000_0C00, {}, render=129)
    (tree.sys / "devices/platform/amdgpu_xcp_0/drm/renderD129").mkdir(parents=True)
    (tree.sys / "devices/platform/amdgpu_xcp_1/drm/renderD130").mkdir(parents=True)
    functions, _ = tree.read("amdgpu_xcp_0", "amdgpu_xcp_1", "amdgpu_xcp_2")
    assert functions == {"amdgpu_xcp_0": "0000:0c:00.0"}


def test_ids_that_tell_no_function_stay_unknown(tree: Tree) -> None:
    """Whether the plugin made them up or the function is gone."""
    tree.nvidia("0000:18:00.0", UUID)
    ids = (
        "kvm-3",
        "7",
        "MIG-8a56a4bc-0000-1111-2222-333344445555",
        "0000:ff:00.0",
        UUID,
        "card0-1",
    )
    assert tree.read(*ids) == ({}, {})


def test_intels_cards_are_found_through_the_direct_rendering_manager(tree: Tree) -> None:
    """The plugin's ids are a card and the number of a share."""
    tree.function("pci0000:15/0000:15:01.0/0000:1a:00.0")
    card = tree.sys / "class/drm/card1"
    card.mkdir(parents=True)
    (card / "device").symlink_to(tree.sys / "bus/pci/devices/0000:1a:00.0")
    functions, _ = tree.read("card1-0", "card1-1")
    assert functions == {"card1-0": "0000:1a:00.0", "card1-1": "0000:1a:00.0"}


def test_cards_that_no_plugin_offers_are_in_the_tree_too(tree: Tree) -> None:
    """Drivers of resource claims may give them out; bridges and virtual functions are not."""
    tree.function(f"{SWITCH}/0000:17:00.0/0000:18:00.0", kind="0x030200")
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.0")
    tree.function(f"{SWITCH}/0000:17:01.0/0000:19:00.2", physical="0000:19:00.0")
    tree.function(f"{SWITCH}/0000:17:01.0", kind="0x060400")
    assert tree.read() == ({}, {("0000:18:00.0", "0000:19:00.0"): "PIX"})


def test_amds_driver_tells_of_xgmi_links(tree: Tree) -> None:
    """Links of other types, and nodes that are CPUs, do not count."""
    tree.function("pci0000:00/0000:00:01.1/0000:0c:00.0", numa_node=0)
    tree.function("pci0000:40/0000:40:01.1/0000:46:00.0", numa_node=0)
    tree.function("pci0000:80/0000:80:01.1/0000:8c:00.0", numa_node=1)
    tree.kfd(0, 0, {1: 2})
    tree.kfd(1, 0x0C00, {0: 2, 2: 11})
    tree.kfd(2, 0x4600, {1: 11, 3: 2})
    tree.kfd(3, 0x8C00, {})
    _, words = tree.read("0000:0c:00.0", "0000:46:00.0", "0000:8c:00.0")
    assert words == {
        ("0000:0c:00.0", "0000:46:00.0"): "NV1",
        ("0000:0c:00.0", "0000:8c:00.0"): "SYS",
        ("0000:46:00.0", "0000:8c:00.0"): "SYS",
    }


def test_dies_are_told_where_packages_have_several(tree: Tree) -> None:
    """A package that is one die says nothing new."""
    for cpu in range(4):
        topology = tree.sys / f"devices/system/cpu/cpu{cpu}/topology"
        tree.write(topology / "die_cpus_list", "0-1" if cpu < 2 else "2-3")
        tree.write(topology / "package_cpus_list", "0-3")
    paths = DevicePaths(tree.sys, tree.proc)
    assert [str(die) for die in paths.read(()).tree.dies] == ["0-1", "2-3"]
    for cpu in range(4):
        topology = tree.sys / f"devices/system/cpu/cpu{cpu}/topology"
        tree.write(topology / "package_cpus_list", "0-1" if cpu < 2 else "2-3")
    assert DevicePaths(tree.sys, tree.proc).read(()).tree.dies == ()


def test_a_device_that_appears_later_is_found_later(tree: Tree) -> None:
    """Virtual functions come when they are enabled, drivers when they are loaded."""
    paths = DevicePaths(tree.sys, tree.proc)
    assert not paths.read([UUID]).functions
    tree.function(f"{SWITCH}/0000:17:00.0/0000:18:00.0")
    tree.nvidia("0000:18:00.0", UUID)
    assert paths.read([UUID]).functions == {UUID: "0000:18:00.0"}
    assert paths.read([UUID]) is paths.read([UUID])
    assert not paths.read([]).functions

"""Reading PCI functions while they come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from numakube.node.pci.fake_pci import FakePci, vf_address, write_cards
from numakube.node.pci.network_devices import default_route_interfaces, is_down, link_type_of
from numakube.node.pci.pci_functions import (
    PciBus,
    driver_devices,
    is_address,
    nearest_address,
    uio_device,
    vfio_group,
)


@pytest.fixture
def fake(tmp_path: Path) -> FakePci:
    """A bus with a physical function and two virtual ones."""
    fake = FakePci(tmp_path / "sys")
    fake.pf("0000:3b:00.0", interface="ens1f0", numa_node=1)
    fake.vfs("0000:3b:00.0", 2)
    return fake


def test_everything_about_a_function_is_read(fake: FakePci) -> None:
    """Of a virtual one also where it belongs."""
    (fake.folder("0000:3b:01.1") / "acpi_index").write_text("101\n")

    physical, first, second = PciBus(fake.sysfs).read().functions

    assert (physical.vendor, physical.device, physical.class_code) == ("8086", "1592", "020000")
    assert (physical.is_physical, physical.vf_count, physical.pf) == (True, 2, "")
    assert physical.interfaces == ("ens1f0",)
    assert (first.pf, first.vf_index, first.driver) == ("0000:3b:00.0", 0, "iavf")
    assert (second.vf_index, second.numa_node, second.acpi_index) == (1, 1, "101")
    assert not second.is_physical


def test_only_the_wanted_classes_are_read_on(fake: FakePci) -> None:
    """Others are not even complained about."""
    disk = fake.function("0000:01:00.0", class_code="010802", driver="nvme")
    (disk / "physfn").write_text("not a link")

    reading = PciBus(fake.sysfs).read(is_wanted=lambda code: code.startswith("02"))

    assert [function.address for function in reading.functions] == [
        "0000:3b:00.0", "0000:3b:01.0", "0000:3b:01.1",
    ]  # fmt: skip
    assert reading.unreadable == ()


def test_folders_that_vanish_while_somebody_reads_are_left_out(fake: FakePci) -> None:
    """A name whose folder is gone is a dangling link in sysfs."""
    (fake.folder("0000:3c:00.0")).symlink_to("../../../devices/gone")

    reading = PciBus(fake.sysfs).read()

    assert len(reading.functions) == 3
    assert [(unreadable.address, unreadable.why) for unreadable in reading.unreadable] == [
        ("0000:3c:00.0", "has no modalias")
    ]


def test_a_bus_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """It is not an exception: it may come back."""
    reading = PciBus(tmp_path).read()

    assert reading.functions == ()
    assert reading.trouble.endswith("bus/pci/devices: No such file or directory")


def test_this_hosts_own_bus_can_be_read() -> None:
    """Whatever it has."""
    reading = PciBus(Path("/sys")).read()

    assert all(is_address(function.address) for function in reading.functions)


def test_addresses_are_told_from_other_names(fake: FakePci) -> None:
    """With the domain, which may have more than four digits."""
    assert is_address("0000:3b:00.0")
    assert is_address("10000:E1:00.7")
    assert not is_address("3b:00.0")
    assert not is_address("0000:3b:00.8")
    folder = fake.folder("0000:3b:01.0") / "vdpa0"
    folder.mkdir()
    assert nearest_address(folder) == "0000:3b:01.0"
    assert nearest_address(fake.sysfs / "nowhere") == ""


def test_links_and_their_states(fake: FakePci) -> None:
    """A number without a name is its own; one that does not say is up."""
    folder = fake.folder("0000:3b:00.0")
    assert link_type_of(folder, ("ens1f0",)) == "ether"
    fake.interface("0000:3b:00.0", "odd", link=999, operstate="lowerlayerdown")
    assert link_type_of(folder, ("odd",)) == "999"
    assert link_type_of(folder, ("missing", "ens1f0")) == "ether"
    assert is_down(folder, "odd")
    assert not is_down(folder, "missing")


def test_default_routes_are_those_of_the_host(tmp_path: Path) -> None:
    """Of process 1 if it can be read; routes to a net, and routes that are down, are none."""
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    rows = (
        "eth0\t00000000\t01\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth1\t00000000\t01\t0002\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth2\t0000000A\t00\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
        "junk\nbad\t00000000\t01\tzz\t0\t0\t0\t00000000\t0\t0\t0\n"
    )
    assert default_route_interfaces(tmp_path) == frozenset()
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(head + rows.replace("eth0", "inside"))
    assert default_route_interfaces(tmp_path) == {"inside"}
    (tmp_path / "1/net").mkdir(parents=True)
    (tmp_path / "1/net/route").write_text(head + rows)
    assert default_route_interfaces(tmp_path) == {"eth0"}


def test_device_files_of_a_function(fake: FakePci) -> None:
    """Of UIO the first; of a group only if the link leads somewhere."""
    folder = fake.folder("0000:3b:01.0")
    assert vfio_group(folder) is None
    (folder / "iommu_group").symlink_to("../nowhere")
    assert vfio_group(folder) is None
    assert uio_device(folder) == ""
    (folder / "uio/uio3").mkdir(parents=True)
    (folder / "uio/uio4").mkdir()
    assert uio_device(folder) == "/dev/uio3"
    assert driver_devices(folder) == ()


def test_virtual_functions_follow_the_device_of_their_physical_one() -> None:
    """Eight functions a device."""
    assert vf_address("0000:3b:00.0", 0) == "0000:3b:01.0"
    assert vf_address("0000:3b:00.1", 9) == "0000:3b:02.1"


def test_cards_of_a_lab_are_on_every_numa_node(tmp_path: Path) -> None:
    """As many functions as fit on a bus."""
    write_cards(tmp_path, (0, 4), virtual_functions=248)

    functions = PciBus(tmp_path).read().functions

    assert len(functions) == 2 * 249
    assert {function.numa_node for function in functions} == {0, 4}
    assert all(is_address(function.address) for function in functions)

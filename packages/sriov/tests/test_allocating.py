"""What the plugin tells the kubelet of devices that it gives out."""

from __future__ import annotations

import pytest
from packages.sriov.tests.kubelets import NIC, Plugin, offers
from tests.lab.nodes.build import Lab

from numakube.node.device_plugin.plugin_protocol import DevicePluginError, PluginClient
from numakube.testing import until


async def test_unknown_and_lost_devices_are_refused_with_a_reason(lab: Lab, plugin: Plugin) -> None:
    """Even if the kubelet has not heard of the loss yet."""
    plugin.rescan = 3600.0
    agent = await plugin.start()
    await offers(lab, 4, 4)
    client = PluginClient(agent.endpoints[NIC].socket)
    await client.dial()
    try:
        with pytest.raises(
            DevicePluginError, match=r"NotFound desc = intel\.com/nic has no device"
        ):
            await client.allocate(["0000:00:00.0"])
        plugin.bed.pci.bind("0000:3b:01.0", "vfio-pci")
        with pytest.raises(DevicePluginError, match="has driver vfio-pci instead of iavf"):
            await client.allocate(["0000:3b:01.0"])
        plugin.bed.pci.remove("0000:3b:01.1")
        with pytest.raises(DevicePluginError, match=r"0000:3b:01\.1 of intel.com/nic is gone"):
            await client.allocate(["0000:3b:01.1"])
        # The refusal has made it look again.
        await offers(lab, 4, 3)
    finally:
        await client.aclose()


async def test_a_device_info_file_that_cannot_be_written_is_an_error(
    lab: Lab, plugin: Plugin
) -> None:
    """CNI plugins would go without."""
    (plugin.bed.root / "devinfo").write_text("a file in its place")
    agent = await plugin.start()
    await offers(lab, 4, 4)
    client = PluginClient(agent.endpoints[NIC].socket)
    await client.dial()
    try:
        with pytest.raises(DevicePluginError, match="cannot write the device-info file"):
            await client.allocate(["0000:3b:01.0"])
    finally:
        await client.aclose()


async def test_with_cdi_devices_are_told_by_name(lab: Lab, plugin: Plugin) -> None:
    """The file has the device files, and outlives the plugin; those of former pools go."""
    stale = plugin.bed.root / "cdi/sriov-dp-intel.com-net-pci-old.yaml"
    stale.parent.mkdir()
    stale.touch()
    plugin.bed.pci.bind("0000:3b:01.0", "vfio-pci")
    plugin.bed.pci.iommu_group("0000:3b:01.0", 7)
    plugin.use_cdi = True
    agent = await plugin.start()
    await offers(lab, 4, 4)
    client = PluginClient(agent.endpoints[NIC].socket)
    await client.dial()
    answer = await client.allocate(["0000:3b:01.0"])
    await client.aclose()

    assert answer.cdi_devices == ("intel.com/net-pci=0000:3b:01.0",)
    assert answer.devices == ()
    assert answer.annotations == {}
    assert answer.envs["PCIDEVICE_INTEL_COM_NIC"] == "0000:3b:01.0"
    await until(lambda: not stale.exists())
    await plugin.end()
    text = (plugin.bed.root / "cdi/sriov-dp-intel.com-net-pci-nic.yaml").read_text()
    assert "kind: intel.com/net-pci" in text
    assert "hostPath: /dev/vfio/7" in text


async def test_a_cdi_file_that_cannot_be_written_makes_devices_unhealthy(
    lab: Lab, plugin: Plugin
) -> None:
    """The stream goes on, and they recover."""
    blocker = plugin.bed.root / "cdi"
    blocker.write_text("a file in its place")
    plugin.use_cdi = True
    await plugin.start()
    await offers(lab, 4, 0)

    blocker.unlink()

    await offers(lab, 4, 4)

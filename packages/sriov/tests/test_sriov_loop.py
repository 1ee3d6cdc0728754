"""The plugin beside a kubelet, over real sockets, through everything that goes wrong."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from packages.sriov.tests.build import Bed, pool
from packages.sriov.tests.kubelets import NIC, Plugin, folders_of, held, offers, runs, short_folder
from tests.lab.nodes.build import Lab

from numakube.node.device_plugin.plugin_protocol import PluginClient
from numakube.node.device_plugin.plugin_registration import RegistryClient
from numakube.node.pci.host_scan import SurveyOptions
from numakube.testing import until
from numakube_sriov.pool_registration import KubeletFolders, Way

WAYS = pytest.mark.parametrize("way", [Way.REGISTER, Way.REGISTRY])


@WAYS
async def test_devices_become_allocatable_and_pods_are_aligned_with_them(
    lab: Lab, plugin: Plugin, way: Way
) -> None:
    """Whichever way it registers."""
    plugin.folders = folders_of(lab.pool, way)
    await plugin.start()
    await offers(lab, 4, 4)
    await until(plugin.is_followed)
    assert plugin.metric("numakube_sriov_registered", resource=NIC) == 1
    assert (
        plugin.metric("numakube_sriov_devices", resource=NIC, numa_node="0", health="healthy") == 2
    )

    await lab.create("a", cpu="2", limits={NIC: "2"})
    await runs(lab, "a")

    devices = held(lab, "a")
    assert len(devices) == 2
    assert len({nodes for _, nodes in devices}) == 1
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    assert sockets.plugins is not None
    uid = (await lab.get("a")).metadata.uid
    (answer,) = sockets.plugins.allocations(uid, "main")
    ids = answer.envs["PCIDEVICE_INTEL_COM_NIC"].split(",")
    assert sorted(ids) == sorted(id_ for id_, _ in devices)
    assert json.loads(answer.envs["PCIDEVICE_INTEL_COM_NIC_INFO"]) == {
        id_: {"generic": {"deviceID": id_}} for id_ in ids
    }
    for id_ in ids:
        path = plugin.bed.root / "devinfo" / f"intel.com-nic-{id_}-device.json"
        content = {"type": "pci", "version": "1.1.0", "pci": {"pci-address": id_}}
        assert json.loads(path.read_text()) == content
        assert path.stat().st_mode & 0o777 == 0o444


@WAYS
async def test_a_restarted_kubelet_gets_the_plugin_back(lab: Lab, plugin: Plugin, way: Way) -> None:
    """Pods keep their devices."""
    plugin.folders = folders_of(lab.pool, way)
    await plugin.start()
    await offers(lab, 4, 4)
    await lab.create("a", cpu="2", limits={NIC: "1"})
    await runs(lab, "a")
    before = held(lab, "a")

    await lab.pool.restart("n1")
    await offers(lab, 4, 4)

    await until(lambda: held(lab, "a") == before, despite=(ValueError,))
    await lab.create("b", cpu="1", limits={NIC: "3"}, node="n1")


@WAYS
async def test_a_restarted_plugin_keeps_allocations(lab: Lab, plugin: Plugin, way: Way) -> None:
    """While it is away nothing can be allocated, but what pods hold stays theirs."""
    plugin.folders = folders_of(lab.pool, way)
    await plugin.start()
    await offers(lab, 4, 4)
    await lab.create("a", cpu="2", limits={NIC: "1"})
    await runs(lab, "a")
    before = held(lab, "a")

    await plugin.end()
    await offers(lab, 4, 0)
    await plugin.start()
    await offers(lab, 4, 4)

    assert held(lab, "a") == before
    await lab.create("b", cpu="2", limits={NIC: "1"})
    await runs(lab, "b")
    assert not {id_ for id_, _ in before} & {id_ for id_, _ in held(lab, "b")}


async def test_a_function_that_vanishes_leaves_and_comes_back(lab: Lab, plugin: Plugin) -> None:
    """And one that is new is offered, without a restart."""
    await plugin.start()
    await offers(lab, 4, 4)

    plugin.bed.pci.remove("0000:3b:01.1")
    await offers(lab, 4, 3)
    plugin.bed.pci.vfs("0000:3b:00.0", 4)
    await offers(lab, 6, 6)


async def test_a_function_without_a_driver_leaves(lab: Lab, plugin: Plugin) -> None:
    """It has been there, so that its pods are told; after a while it is dropped."""
    plugin.survey = SurveyOptions(forget_after=0.5)
    await plugin.start()
    await offers(lab, 4, 4)

    plugin.bed.pci.bind("0000:3b:01.1", "")

    await offers(lab, 3, 3)


async def test_a_lost_link_makes_the_functions_unhealthy(lab: Lab, plugin: Plugin) -> None:
    """Those of that physical function; a pool may not mind."""
    plugin.configure(pool(), pool("calm", {"pfNames": ["ens3f0"]}, checkLink=False))
    plugin.bed.pci.pf("0000:d8:00.0", interface="ens3f0", numa_node=1)
    plugin.bed.pci.vfs("0000:d8:00.0", 1)
    plugin.configure(pool("calm", {"pfNames": ["ens3f0"]}, checkLink=False), pool())
    await plugin.start()
    await offers(lab, 4, 4)

    for address, name in (("0000:3b:00.0", "ens1f0"), ("0000:d8:00.0", "ens3f0")):
        plugin.bed.pci.interface(address, name, operstate="down")
    await offers(lab, 4, 2)
    await offers(lab, 1, 1, "intel.com/calm")
    plugin.bed.pci.interface("0000:3b:00.0", "ens1f0", operstate="unknown")
    await offers(lab, 4, 4)


async def test_a_driver_that_changes_moves_the_function_to_another_pool(
    lab: Lab, plugin: Plugin
) -> None:
    """Which had none until then, and so did not exist for the kubelet."""
    plugin.configure(pool("dpdk", {"drivers": ["vfio-pci"]}), pool(selectors={"drivers": ["iavf"]}))
    await plugin.start()
    await offers(lab, 4, 4)
    assert "intel.com/dpdk" not in (await lab.node_document())["status"]["capacity"]

    plugin.bed.pci.bind("0000:3b:01.1", "vfio-pci")

    await offers(lab, 1, 1, "intel.com/dpdk")
    await offers(lab, 4, 3)


async def test_the_bus_that_vanishes_takes_all_devices_along_until_it_is_back(
    lab: Lab, plugin: Plugin
) -> None:
    """As when a mount is lost; the plugin goes on."""
    agent = await plugin.start()
    await offers(lab, 4, 4)
    bus, hidden = plugin.bed.root / "sys/bus", plugin.bed.root / "sys/gone"

    bus.rename(hidden)
    await offers(lab, 4, 0)
    assert "No such file or directory" in agent.scan_trouble()
    hidden.rename(bus)
    await offers(lab, 4, 4)
    assert agent.scan_trouble() == ""


async def test_without_a_kubelet_it_waits_for_one(bed: Bed) -> None:
    """However long that takes; a kubelet that comes finds it."""
    bed.two_sockets(1)
    async with short_folder() as root:
        folders = KubeletFolders(device_plugins=root / "dp", registry=root / "r", way=Way.AUTO)
        plugin = Plugin(bed, folders, bed.root / "config.json")
        plugin.configure(pool())
        agent = await plugin.start()
        await until(lambda: "intel.com/nic: rpc error" in agent.registration_trouble())
        assert plugin.metric("numakube_sriov_registered", resource=NIC) == 0
        await plugin.end()
        assert not list((root / "dp").iterdir())


@WAYS
async def test_a_stream_that_is_missing_leads_to_another_registration(
    lab: Lab, plugin: Plugin, way: Way
) -> None:
    """The kubelet lives and the socket is there, but nobody follows: it never asks by itself."""
    plugin.folders = replace(folders_of(lab.pool, way), patience=0.2)
    agent = await plugin.start()
    await offers(lab, 4, 4)
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    assert sockets.plugins is not None

    sockets.plugins.disconnect(agent.endpoints[NIC].socket)

    def is_registered_again() -> bool:
        done = plugin.metric("numakube_sriov_registrations_total", resource=NIC, result="done")
        return (done or 0) >= 2

    await until(is_registered_again)
    await until(plugin.is_followed)
    await offers(lab, 4, 4)


@WAYS
async def test_newer_kubelets_refuse_a_second_connection_and_get_a_new_one(
    lab: Lab, plugin: Plugin, way: Way
) -> None:
    """From 1.37 on a socket that is connected is not connected again: it has to be another."""
    await lab.node("n2", kubernetes="1.37")
    plugin.folders = replace(folders_of(lab.pool, way, "n2"), patience=0.2)
    agent = await plugin.start()
    await offers(lab, 4, 4, node="n2")

    agent.endpoints[NIC].socket.unlink()
    await until(agent.endpoints[NIC].socket.exists)
    await until(plugin.is_followed)
    await offers(lab, 4, 4, node="n2")
    await lab.pool.restart("n2")
    await offers(lab, 4, 4, node="n2")
    await until(plugin.is_followed)


async def test_a_stolen_socket_is_made_again(lab: Lab, plugin: Plugin) -> None:
    """As when another instance of the plugin ends and takes the socket along."""
    agent = await plugin.start()
    await offers(lab, 4, 4)
    socket = agent.endpoints[NIC].socket

    socket.unlink()

    await until(socket.exists)
    await until(plugin.is_followed)
    await offers(lab, 4, 4)


async def test_a_refusal_in_the_registry_is_told_and_tried_again(bed: Bed) -> None:
    """With another socket in the place of the first, which a kubelet takes for a new plugin."""
    bed.two_sockets(1)
    async with short_folder() as root:
        folders = KubeletFolders(device_plugins=root / "dp", registry=root, way=Way.AUTO)
        plugin = Plugin(bed, folders, bed.root / "config.json")
        plugin.configure(pool())
        agent = await plugin.start()
        await until(lambda: bool(agent.endpoints))
        socket = agent.endpoints[NIC].socket
        await until(socket.exists)
        inode = socket.stat().st_ino, socket.stat().st_ctime_ns
        client = RegistryClient(socket)
        await client.dial()
        info = await client.info()
        assert (info.type, info.name, info.endpoint) == ("DevicePlugin", NIC, "")
        await client.notify("no room")
        assert agent.registration_trouble() == "intel.com/nic: no room"
        await client.aclose()

        def is_another() -> bool:
            with contextlib.suppress(OSError):
                status = socket.stat()
                return (status.st_ino, status.st_ctime_ns) != inode
            return False

        await until(is_another)
        await plugin.end()
        assert not socket.exists()


async def test_several_streams_are_told_of_every_change(lab: Lab, plugin: Plugin) -> None:
    """One that nobody reads takes nothing away from another."""
    agent = await plugin.start()
    await offers(lab, 4, 4)
    clients = [PluginClient(agent.endpoints[NIC].socket) for _ in range(2)]
    streams = [client.watch() for client in clients]
    for stream in streams:
        assert [device.healthy for device in await anext(stream)] == [True] * 4
    await streams[0].aclose()

    plugin.bed.pci.remove("0000:3b:01.1")

    assert [device.healthy for device in await anext(streams[1])] == [True, False, True, True]
    await streams[1].aclose()
    for client in clients:
        await client.aclose()


async def test_the_folder_of_sockets_must_not_be_too_long(bed: Bed, tmp_path: Path) -> None:
    """A unix socket cannot be bound there; the message says where, and other pools go on."""
    bed.two_sockets(1)
    deep = tmp_path / ("x" * 100)
    folders = KubeletFolders(device_plugins=deep, registry=deep / "r", way=Way.REGISTER)
    plugin = Plugin(bed, folders, bed.root / "config.json")
    plugin.configure(pool())
    agent = await plugin.start()

    await until(lambda: "too long for a unix socket" in agent.registration_trouble())
    await plugin.end()

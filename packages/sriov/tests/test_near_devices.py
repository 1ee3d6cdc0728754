"""The plugin gives a pod cards that are near to its other devices, and readers foresee which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from packages.sriov.tests.build import Bed, pool
from packages.sriov.tests.kubelets import Plugin, folders_of, offers, runs, short_folder
from packages.sriov.tests.test_choices import KnownPods
from tests.lab.nodes.build import Lab, plan

from kube_lab_server import ApiServer
from numakube.apps.exporter.exact_data import exact_report
from numakube.apps.exporter.kubelet_checkpoints import StateFolder
from numakube.apps.exporter.kubelet_config_sources import ConfigFile
from numakube.apps.exporter.node_scan import NodeReader
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.node.pci.device_links import Connected, DevicePaths
from numakube.node.podresources_client import PodResourcesClient
from numakube.topology.exact_report import ExactReport
from numakube.topology.model_report import node_of
from numakube.topology.report_codec import decode_report, encode_report
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool
from numakube_sriov.pool_plugin import KubeletDevices
from numakube_sriov.pool_registration import Way

GPU = "amd.com/gpu"
NIC = "intel.com/nic"
CARDS = {"0000:14:00.0": 2, "0000:24:00.0": 3, "0000:34:00.0": 5, "0000:44:00.0": 4}
"""A card behind each of four switches, with virtual functions; the third has most of them."""


def switch_of(address: str) -> str:
    """Return which switch a function is behind: the first digit of its bus."""
    return address.removeprefix("0000:")[0]


def built(bed: Bed) -> tuple[Device, ...]:
    """Add a GPU and a card behind each switch, all on NUMA node 0; return the GPUs."""
    gpus = []
    for number, (card, count) in enumerate(CARDS.items()):
        bus = switch_of(card)
        above = (f"pci0000:{bus}0", f"0000:{bus}0:01.0", f"0000:{bus}1:00.0")
        gpu = f"0000:{bus}3:00.0"
        bed.pci.place(gpu, *above, f"0000:{bus}2:00.0")
        bed.pci.function(gpu, class_code="038000", driver="amdgpu", numa_node=0)
        bed.pci.place(card, *above, f"0000:{bus}2:01.0")
        bed.pci.pf(card, interface=f"ens{number}", numa_node=0)
        bed.pci.vfs(card, count)
        gpus.append(Device(gpu, (0,)))
    return tuple(gpus)


@pytest.fixture
async def lab(bed: Bed) -> AsyncIterator[Lab]:
    """A lab of one node with sockets and four GPUs."""
    clock = ManualClock()
    async with short_folder() as root, ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        async with NodePool(client, root=root) as nodes:
            lab = Lab(server, client, clock, nodes)
            empty = plan("n1", topology_manager_policy="best-effort")
            machine = replace(empty.machine, devices={GPU: built(bed)})
            await nodes.add(replace(empty, machine=machine))
            yield lab


@pytest.fixture
async def plugin(lab: Lab, bed: Bed) -> AsyncIterator[Plugin]:
    """A plugin that asks the kubelet which other devices pods have."""
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    folder = await lab.pool.folder("n1")
    found = Plugin(bed, folders_of(lab.pool, Way.REGISTRY), bed.root / "config.json")
    found.pods = KubeletDevices(
        PodResourcesClient(sockets.pod_resources),
        folder / "device-plugins",
        DevicePaths(bed.host.sysfs, bed.host.proc),
    )
    found.configure(pool())
    await found.start()
    await offers(lab, sum(CARDS.values()), sum(CARDS.values()))
    yield found
    await found.end()


def held(lab: Lab, name: str) -> dict[str, list[str]]:
    """Return the devices that a pod has, by resource."""
    (found,) = (
        resource for resource in lab.pool.kubelet("n1").pod_resources() if resource.name == name
    )
    devices = [entry for container in found.containers for entry in container.devices]
    return {
        one: sorted(d for e in devices if e.resource == one for d in e.ids) for one in (GPU, NIC)
    }


async def created(lab: Lab, name: str, **limits: str) -> dict[str, list[str]]:
    """Let the node run a pod; return the devices that it has got."""
    await lab.create(name, cpu="1", limits={GPU: "0", NIC: "0", **_named(limits)})
    await runs(lab, name)
    return held(lab, name)


def _named(limits: dict[str, str]) -> dict[str, str]:
    return {{"gpu": GPU, "nic": NIC}[key]: value for key, value in limits.items()}


async def reported(lab: Lab, bed: Bed) -> ExactReport:
    """Return what a reader of the exporter's annotation knows of the node."""
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    folder = await lab.pool.folder("n1")
    paths = DevicePaths(bed.host.sysfs, bed.host.proc)

    async def connections(ids: frozenset[str]) -> Connected:
        return paths.read(ids)

    reader = NodeReader(
        hardware=partial(asyncio.to_thread, HardwareReader(folder / "sys").read),
        kubelet=PodResourcesClient(sockets.pod_resources),
        config=ConfigFile(folder / "config.yaml"),
        checkpoints=StateFolder(folder),
        pods=KnownPods(lab),
        version=lambda: "v1.35.7",
        connections=connections,
    )
    report = exact_report(await reader.read())
    assert isinstance(report, ExactReport), report
    read = decode_report(encode_report(report))
    assert isinstance(read, ExactReport), read
    return read


async def test_pods_get_cards_behind_the_switches_of_their_gpus(
    lab: Lab, plugin: Plugin, bed: Bed
) -> None:
    """Pod after pod, though another card has more to give; a reader of the report foresees it."""
    assert plugin.agent is not None
    for number, gpus in enumerate(("1", "2", "1")):
        report = await reported(lab, bed)
        found = await created(lab, f"p{number}", gpu=gpus, nic=gpus)
        assert sorted(map(switch_of, found[NIC])) == sorted(map(switch_of, found[GPU]))

        model = node_of(report)
        assert isinstance(model, KubeletNode)
        outcome = model.admit(await lab.get(f"p{number}"))
        assert isinstance(outcome, Admitted)
        known = sorted(lab.model().devices.healthy(NIC))
        foreseen = [known[int(device)] for device in outcome.containers["main"].devices[NIC]]
        assert sorted(foreseen) == found[NIC]


async def test_a_pod_of_which_nothing_is_known_gets_a_card_beside_a_free_gpu(
    lab: Lab, plugin: Plugin
) -> None:
    """The GPU may be the next that the kubelet gives it."""
    assert plugin.agent is not None
    taken = await created(lab, "gpus", gpu="3")
    found = await created(lab, "card", nic="1")

    assert switch_of(found[NIC][0]) not in set(map(switch_of, taken[GPU]))


async def test_a_plugin_that_cannot_ask_chooses_as_if_there_were_no_other_devices(
    lab: Lab, plugin: Plugin, bed: Bed
) -> None:
    """The card with most free functions, and no pod waits for an answer."""
    await plugin.end()
    assert plugin.pods is not None
    plugin.pods = KubeletDevices(
        PodResourcesClient(bed.root / "no.sock", timeout=0.2),
        bed.root,
        DevicePaths(bed.host.sysfs, bed.host.proc),
    )
    await plugin.start()
    await offers(lab, sum(CARDS.values()), sum(CARDS.values()))

    found = await created(lab, "p", gpu="1", nic="1")

    assert switch_of(found[NIC][0]) == "3"

"""What the plugin prefers is foreseen: by who reads the exact data of an exporter beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from random import Random

import pytest
from packages.sriov.tests.build import Bed, pool
from packages.sriov.tests.kubelets import Plugin, folders_of, short_folder
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.apps.exporter.api_objects import NoPods
from numakube.apps.exporter.exact_data import exact_report
from numakube.apps.exporter.kubelet_checkpoints import StateFolder
from numakube.apps.exporter.kubelet_config_sources import ConfigFile
from numakube.apps.exporter.node_scan import NodeReader, PodName
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.node.podresources_client import PodResourcesClient
from numakube.testing import until
from numakube.topology.exact_report import ExactReport
from numakube.topology.model_report import node_of
from numakube.topology.report_codec import decode_report, encode_report
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool
from numakube_sriov.pool_registration import Way

NIC = "intel.com/nic"
CARDS = {"0000:3b:00.0": 3, "0000:3c:00.0": 5, "0000:3d:00.0": 4, "0000:af:00.0": 4}


class KnownPods(NoPods):
    """The pods of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return their uids."""
        return {one: (await self._lab.get(one[1])).metadata.uid for one in listed}


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node with sockets."""
    clock = ManualClock()
    async with short_folder() as root, ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        async with NodePool(client, root=root) as nodes:
            lab = Lab(server, client, clock, nodes)
            await lab.node(topology_manager_policy="best-effort")
            yield lab


@pytest.fixture
async def plugin(lab: Lab, bed: Bed) -> AsyncIterator[Plugin]:
    """A plugin with three cards on NUMA node 0 and one on 1, each with virtual functions."""
    for number, (address, count) in enumerate(CARDS.items()):
        bed.pci.pf(address, interface=f"ens{number}", numa_node=int(address.startswith("0000:a")))
        bed.pci.vfs(address, count)
    found = Plugin(bed, folders_of(lab.pool, Way.REGISTRY), bed.root / "config.json")
    yield found
    await found.end()


async def reported(lab: Lab) -> ExactReport:
    """Return what a reader of the exporter's annotation knows of the node."""
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    folder = await lab.pool.folder("n1")
    reader = NodeReader(
        hardware=partial(asyncio.to_thread, HardwareReader(folder / "sys").read),
        kubelet=PodResourcesClient(sockets.pod_resources),
        config=ConfigFile(folder / "config.yaml"),
        checkpoints=StateFolder(folder),
        pods=KnownPods(lab),
        version=lambda: "v1.35.7",
    )
    report = exact_report(await reader.read())
    assert isinstance(report, ExactReport), report
    read = decode_report(encode_report(report))
    assert isinstance(read, ExactReport), read
    return read


async def offered(lab: Lab) -> bool:
    """Tell whether the kubelet has all devices."""
    status = (await lab.node_document())["status"]
    return bool(status["allocatable"].get(NIC) == str(sum(CARDS.values())))


async def runs(lab: Lab, name: str) -> None:
    """Wait until a pod runs."""
    await until(lambda: lab.phase(name), lambda phase: phase == "Running")


def devices_of(lab: Lab, name: str) -> list[str]:
    """Return the devices that a pod has."""
    (found,) = (
        resource for resource in lab.pool.kubelet("n1").pod_resources() if resource.name == name
    )
    return sorted({id_ for device in found.containers[0].devices for id_ in device.ids})


@pytest.mark.parametrize("policy", ["most-free", "packed", "spread"])
async def test_a_reader_of_the_report_foresees_which_devices_are_taken(
    lab: Lab, plugin: Plugin, policy: str
) -> None:
    """Pod after pod, with the real plugin beside the kubelet."""
    plugin.configure(pool(preferredAllocation=policy))
    await plugin.start()
    await until(lambda: offered(lab))
    known = sorted(id_ for id_ in lab.model().devices.healthy(NIC))
    rng = random.Random(policy)
    foreseen, taken = [], []
    for number in range(5):
        report = await reported(lab)
        await lab.create(f"p{number}", cpu="1", limits={NIC: str(rng.randint(1, 4))})
        await runs(lab, f"p{number}")

        model = node_of(report)
        assert isinstance(model, KubeletNode)
        outcome = model.admit(await lab.get(f"p{number}"))
        assert isinstance(outcome, Admitted)
        positions = outcome.containers["main"].devices[NIC]
        foreseen.append(sorted(known[int(position)] for position in positions))
        taken.append(devices_of(lab, f"p{number}"))

    assert foreseen == taken


async def test_a_plugin_that_has_gone_says_nothing(lab: Lab, plugin: Plugin) -> None:
    """Another plugin may serve the resource then."""
    plugin.configure(pool())
    await plugin.start()
    await until(lambda: offered(lab))
    assert (await reported(lab)).devices[NIC].choice is not None

    await plugin.end()

    assert (await reported(lab)).devices[NIC].choice is None


async def test_a_pool_without_a_preference_says_nothing(lab: Lab, plugin: Plugin) -> None:
    """The kubelet takes any of them."""
    plugin.configure(pool(preferredAllocation="none"))
    await plugin.start()
    await until(lambda: offered(lab))

    assert (await reported(lab)).devices[NIC].choice is None

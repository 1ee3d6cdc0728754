"""The exporter and the collector on one API server, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.sites.bare import BareOpener, BareServer

from numakube.api.nrt import attribute_value
from numakube.apps.exporter.process import PROGRAM
from numakube.apps.gc.process import GcProcess
from numakube.apps.gc.settings import GcSettings
from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import NODES
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.sysfs_machine import write_tree
from numakube.topology import nrt_names

pytestmark = pytest.mark.timeout(120)
NODE = "worker-0"
ALLOCATABLE = '{"cpu_ids": [1, 2, 3, 5, 6, 7]}'
ONE_POD = """{"pod_resources": [{"name": "p", "namespace": "n",
 "containers": [{"name": "c", "cpu_ids": [1, 5]}]}]}"""


@pytest.fixture
async def server(bare_servers: BareOpener) -> AsyncIterator[BareServer]:
    """A server that knows the objects and one node."""
    async with bare_servers() as server:
        await server.client.create(NODES, {"metadata": {"name": NODE}})
        yield server


@pytest.fixture
def kubeconfig(server: BareServer, tmp_path: Path) -> Path:
    """How its administrator reaches it."""
    server.write_kubeconfig(tmp_path / "kubeconfig")
    return tmp_path / "kubeconfig"


async def export(kubeconfig: Path, folder: Path, pods: str) -> None:
    """Publish once what files say of a machine with two zones of four CPUs."""
    write_tree(from_shape("2 sockets, 2 cores, smt 2, 8Gi"), folder / "sys")
    (folder / "list.json").write_text(pods)
    (folder / "get_allocatable_resources.json").write_text(ALLOCATABLE)
    words = (
        *("--kubeconfig", str(kubeconfig), "--hostname", NODE, "--oneshot"),
        *("--sysfs", str(folder / "sys"), "--podresources-socket", f"fake://{folder}"),
        *("--kubelet-state-dir", "", "--topology-manager-policy", "restricted"),
        *("--metrics-mode", "disabled", "--log-level", "error"),
    )
    around = Surroundings(env={})
    code = await PROGRAM.perform(words, around, asyncio.Event())
    assert code == 0


async def test_reports_are_created_changed_and_collected(
    server: BareServer, kubeconfig: Path, tmp_path: Path
) -> None:
    """With the schema, the patches and the preconditions of the real thing."""
    client = server.client
    await export(kubeconfig, tmp_path, "{}")
    first = await client.get(NRTS, NODE)
    assert [zone.resources[0].available for zone in first.zones] == ["2", "4"]
    assert attribute_value(first.attributes, nrt_names.TOPOLOGY_POLICY) == "restricted"
    node = await client.get(NODES, NODE)
    assert first.metadata.owner_references[0].uid == node.metadata.uid

    await export(kubeconfig, tmp_path, "{}")
    assert (await client.get(NRTS, NODE)).metadata.resource_version == (
        first.metadata.resource_version
    )

    await export(kubeconfig, tmp_path, ONE_POD)
    second = await client.get(NRTS, NODE)
    assert second.metadata.uid == first.metadata.uid
    assert sum(int(str(zone.resources[0].available)) for zone in second.zones) == 4

    await client.delete(NODES, NODE)
    said: list[str] = []
    settings = GcSettings(oneshot=True, grace=0.0)
    assert (
        await GcProcess(settings, Surroundings(env={}, echo=said.append), client).run(
            asyncio.Event()
        )
        == 0
    )
    assert said == [f"noderesourcetopology/{NODE} removed"]
    assert (await client.list(NRTS)).items == ()

"""The exporter as a process on a node of the lab: sockets, files, HTTP."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.lab.exporters.truth import told_zones, true_zones

from numakube.api.nrt import NodeResourceTopology, attribute_value
from numakube.apps.exporter.command import options_of, parse, perform
from numakube.apps.surroundings import Surroundings
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import PODS
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.synthetic import from_shape
from numakube.lab.cluster import Lab, LabOptions, uniform_plans
from numakube.lab.exporters.definition import install_definition
from numakube.lab.rundir import RunDir
from numakube.node.deviceplugin import Allocation, PluginOptions, PluginServer
from numakube.topology import names

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"
NODE = "node-0"


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node, which knows the objects and exports nothing."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        plans = uniform_plans(1, from_shape(SHAPE), "", "1.35")
        async with Lab(LabOptions(name="t", plans=plans), folder) as lab:
            await install_definition(lab.client)
            yield lab


class Host:
    """The exporter on the lab's node, as on a host."""

    def __init__(self, lab: Lab, *more: str) -> None:
        self.lab = lab
        sockets = lab.pool.sockets(NODE)
        assert sockets is not None
        self.folder = sockets.pod_resources.parent.parent
        self.args = (
            *("--kubeconfig", lab.info().kubeconfig),
            *("--hostname", NODE),
            *("--sysfs", str(self.folder / "sys")),
            *("--kubelet-state-dir", str(self.folder)),
            *("--podresources-socket", f"unix://{sockets.pod_resources}"),
            *("--kubelet-config-file", str(self.folder / "config.yaml")),
            *("--metrics-port", "0"),
            *("--log-level", "error"),
            *more,
        )
        self.stop = asyncio.Event()
        self.said: list[str] = []

    async def run(self) -> int:
        """Run until told to stop."""
        around = Surroundings(env={})
        line = parse(self.args)
        return await perform(line, options_of(line, around), around, self.stop, self.said.append)

    async def __aenter__(self) -> Host:
        self.task = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        assert await self.task == 0


async def until(holds: Callable[[], Awaitable[Any]], seconds: float = 15) -> Any:
    """Return what *holds* gives, as soon as it is something."""
    async with asyncio.timeout(seconds):
        while True:
            if found := await holds():
                return found
            await asyncio.sleep(0.01)


async def nrt(lab: Lab) -> NodeResourceTopology | None:
    """Return the object, if there is one."""
    try:
        return await lab.client.get(NRTS, NODE)
    except NotFound:
        return None


async def is_true(lab: Lab) -> bool:
    """Tell whether the object says what the model's books say."""
    admission, found = lab.pool.kubelet(NODE).admission, await nrt(lab)
    if admission is None or found is None:
        return False
    return told_zones(found) == true_zones(admission.model)


async def create(lab: Lab, name: str, *, cpu: str = "2", **limits: str) -> None:
    """Create a pod on the node."""
    resources = {"limits": {"cpu": cpu, "memory": "1Gi", **limits}}
    container = {"name": "main", "image": "registry.example/web:1", "resources": resources}
    document = {"metadata": {"name": name}, "spec": {"nodeName": NODE, "containers": [container]}}
    await lab.client.create(PODS.raw, document, namespace="default")


async def attribute(lab: Lab, name: str) -> str | None:
    """Return an attribute of the object."""
    found = await nrt(lab)
    return None if found is None else attribute_value(found.attributes, name)


async def test_pods_that_come_and_go_are_reported(lab: Lab) -> None:
    """Over the kubelet's socket, from its state files and from sysfs; noticed by inotify."""
    async with Host(lab):
        await until(lambda: is_true(lab))
        for name in ("a", "b"):
            await create(lab, name, **{"vendor.example/gpu": "1"})
        await until(lambda: is_held(lab, 4))
        await until(lambda: is_true(lab))
        await lab.client.delete(PODS, "a", namespace="default", grace_seconds=0)
        await until(lambda: is_held(lab, 2))
        await until(lambda: is_true(lab))


async def is_held(lab: Lab, cpus: int) -> bool:
    """Tell whether pods hold so many CPUs exclusively."""
    pods = lab.pool.kubelet(NODE).pod_resources()
    return sum(len(one.cpu_ids) for pod in pods for one in pod.containers) == cpus


class Nic:
    """A device plugin that comes late."""

    options = PluginOptions()

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Offer two devices."""
        yield (Device("n0", (0,)), Device("n1", (1,)))
        await asyncio.Event().wait()

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Agree."""
        return Allocation()

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Prefer any."""
        return [*must_include, *available][:size]

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Agree."""


async def test_a_device_that_registers_late_appears(lab: Lab) -> None:
    """Without a restart, and without waiting for the period."""
    async with Host(lab):
        await until(lambda: is_true(lab))
        sockets = lab.pool.sockets(NODE)
        assert sockets is not None
        plugin = PluginServer(
            Nic(), resource="example.com/nic", socket=sockets.registration.parent / "nic.sock"
        )
        await plugin.start()
        await plugin.announce(sockets.registration)

        async def has_nics() -> bool:
            found = await nrt(lab)
            zones = found.zones if found else ()
            return all(any(r.name == "example.com/nic" for r in z.resources) for z in zones)

        await until(has_nics)
        await until(lambda: is_true(lab))
        await plugin.stop()


async def test_a_kubelet_that_goes_away_makes_the_object_stale_until_it_is_back(lab: Lab) -> None:
    """And the restarted one is picked up, its policy too."""
    async with Host(lab, "--stale-after", "200ms") as host:
        await until(lambda: is_true(lab))
        await lab.pool.kill(NODE)
        reason = await until(lambda: attribute(lab, names.STALE))
        assert "kubelet" in reason
        config = host.folder / "config.yaml"
        text = config.read_text().replace("single-numa-node", "restricted")
        config.write_text(text)
        await lab.pool.start(NODE)

        async def is_fresh() -> bool:
            policy = await attribute(lab, names.TOPOLOGY_POLICY)
            return policy == "restricted" and await attribute(lab, names.STALE) is None

        await until(is_fresh)


async def test_a_changed_policy_is_followed(lab: Lab) -> None:
    """The file tells by itself."""
    async with Host(lab) as host:
        await until(lambda: is_true(lab))
        config = host.folder / "config.yaml"
        replacement = config.with_name("new")
        replacement.write_text(config.read_text().replace("single-numa-node", "best-effort"))
        replacement.replace(config)

        async def follows() -> bool:
            return await attribute(lab, names.TOPOLOGY_POLICY) == "best-effort"

        await until(follows)


async def test_touching_the_notification_file_leads_to_a_scan(lab: Lab) -> None:
    """What was deleted behind our back is not seen by that, but by a period."""
    notify = Path(tempfile.mkdtemp()) / "rte" / "notify"
    async with Host(
        lab,
        "--notify-file",
        str(notify),
        "--kubelet-state-dir=",
        "--no-watch-pods",
        "--sleep-interval=0",
    ):
        await until(lambda: is_true(lab))
        await create(lab, "a")
        await until(lambda: is_held(lab, 2))
        assert not await is_true(lab)
        os.utime(notify)
        await until(lambda: is_true(lab))


async def test_one_shot_publishes_and_exits(lab: Lab) -> None:
    """With 0."""
    assert await Host(lab, "--oneshot").run() == 0
    assert await is_true(lab)
    assert await attribute(lab, names.TOPOLOGY_POLICY) == "single-numa-node"


async def test_one_shot_without_a_kubelet_fails(lab: Lab) -> None:
    """And says so by its exit code."""
    await lab.pool.kill(NODE)
    assert await Host(lab, "--oneshot").run() == 1
    assert await nrt(lab) is None


async def test_a_dry_run_prints_and_writes_nothing(lab: Lab) -> None:
    """It needs no cluster."""
    host = Host(lab, "--dry-run", "-o", "json")
    assert await host.run() == 0
    assert '"kind": "NodeResourceTopology"' in host.said[0]
    assert await nrt(lab) is None


async def test_no_publish_scans_and_writes_nothing(lab: Lab) -> None:
    """As the agents people know do."""
    status = Path(tempfile.mkdtemp()) / "pfp.json"
    async with Host(lab, "--no-publish", "--pods-fingerprint-status-file", str(status)):

        async def has_scanned() -> bool:
            return status.exists()

        await until(has_scanned)
    assert '"nodeName":"node-0"' in status.read_text()
    assert await nrt(lab) is None


async def test_settings_can_be_printed(lab: Lab) -> None:
    """All of them, whoever set them."""
    host = Host(lab, "--dump-config", ".andexit")
    assert await host.run() == 0
    assert "node_name: node-0" in host.said[0]


async def test_the_exporter_waits_for_a_missing_definition(lab: Lab) -> None:
    """It says why it is not ready, and goes on when it is there."""
    crd = "noderesourcetopologies.topology.node.k8s.io"
    from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS

    await lab.client.delete(CUSTOM_RESOURCE_DEFINITIONS, crd)

    async def is_gone() -> bool:
        try:
            await lab.client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
        except NotFound:
            return True
        return False

    await until(is_gone)
    async with Host(lab):
        await asyncio.sleep(0)
        await install_definition(lab.client)
        await until(lambda: is_true(lab))

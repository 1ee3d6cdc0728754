"""The exporter as a process on a node of the lab: sockets, files, HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
import yaml
from tests.lab.exporters.truth import told_zones, true_zones

from numakube.api.nrt import NodeResourceTopology, attribute_value
from numakube.apps.exporter.process import PROGRAM
from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import PODS
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.device_plugin.plugin_messages import Allocation, PluginOptions
from numakube.node.device_plugin.plugin_protocol import PluginServer
from numakube.testing import until
from numakube.topology import nrt_names
from numakube_lab.exporters import install_definition
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"
NODE = "node-0"


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node, which knows the objects and exports nothing."""
    plans = uniform_plans(1, from_shape(SHAPE), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        await site.crew.pool.folder(NODE)
        yield site


class Host:
    """The exporter on the lab's node, as on a host."""

    def __init__(self, site: Site, *more: str) -> None:
        self.site = site
        sockets = site.crew.pool.sockets(NODE)
        assert sockets is not None
        self.folder = sockets.pod_resources.parent.parent
        self.args = (
            *("--kubeconfig", str(site.kubeconfig)),
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
        self.url = ""

    async def run(self) -> int:
        """Run until told to stop."""
        elsewhere = Elsewhere(move=False, announce=self._serves)
        around = Surroundings(env={}, elsewhere=elsewhere, echo=self.said.append)
        return await PROGRAM.perform(self.args, around, self.stop)

    def _serves(self, _: int, url: str) -> None:
        self.url = url

    async def readiness(self) -> str:
        """Return what it says about whether it is ready."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/readyz", params={"verbose": ""}) as response,
        ):
            return await response.text()

    async def __aenter__(self) -> Host:
        self.task = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        assert await self.task == 0


async def nrt(site: Site) -> NodeResourceTopology | None:
    """Return the object, if there is one."""
    try:
        return await site.client.get(NRTS, NODE)
    except NotFound:
        return None


async def is_true(site: Site) -> bool:
    """Tell whether the object says what the model's books say."""
    admission, found = site.crew.pool.kubelet(NODE).admission, await nrt(site)
    if admission is None or found is None:
        return False
    return told_zones(found) == true_zones(admission.model)


async def create(site: Site, name: str, *, cpu: str = "2", **limits: str) -> None:
    """Create a pod on the node."""
    resources = {"limits": {"cpu": cpu, "memory": "1Gi", **limits}}
    container = {"name": "main", "image": "registry.example/web:1", "resources": resources}
    document = {"metadata": {"name": name}, "spec": {"nodeName": NODE, "containers": [container]}}
    await site.client.create(PODS.raw, document, namespace="default")


async def attribute(site: Site, name: str) -> str | None:
    """Return an attribute of the object."""
    found = await nrt(site)
    return None if found is None else attribute_value(found.attributes, name)


async def test_pods_that_come_and_go_are_reported(site: Site) -> None:
    """Over the kubelet's socket, from its state files and from sysfs; noticed by inotify."""
    async with Host(site):
        await until(lambda: is_true(site))
        for name in ("a", "b"):
            await create(site, name, **{"vendor.example/gpu": "1"})
        await until(lambda: is_held(site, 4))
        await until(lambda: is_true(site))
        await site.client.delete(PODS, "a", namespace="default", grace_seconds=0)
        await until(lambda: is_held(site, 2))
        await until(lambda: is_true(site))


async def is_held(site: Site, cpus: int) -> bool:
    """Tell whether pods hold so many CPUs exclusively."""
    pods = site.crew.pool.kubelet(NODE).pod_resources()
    return sum(len(container.cpu_ids) for pod in pods for container in pod.containers) == cpus


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


async def test_a_device_that_registers_late_appears(site: Site) -> None:
    """Without a restart, and without waiting for the period."""
    async with Host(site):
        await until(lambda: is_true(site))
        sockets = site.crew.pool.sockets(NODE)
        assert sockets is not None
        plugin = PluginServer(
            Nic(), resource="example.com/nic", socket=sockets.registration.parent / "nic.sock"
        )
        await plugin.start()
        await plugin.announce(sockets.registration)

        async def has_nics() -> bool:
            found = await nrt(site)
            zones = found.zones if found else ()
            return all(any(r.name == "example.com/nic" for r in z.resources) for z in zones)

        await until(has_nics)
        await until(lambda: is_true(site))
        await plugin.stop()


async def test_a_kubelet_that_goes_away_makes_the_object_stale_until_it_is_back(site: Site) -> None:
    """And the restarted one is picked up, its policy too."""
    async with Host(site, "--stale-after", "200ms") as host:
        await until(lambda: is_true(site))
        await site.crew.pool.kill(NODE)
        reason = await until(lambda: attribute(site, nrt_names.STALE))
        assert "kubelet" in reason
        config = host.folder / "config.yaml"
        text = config.read_text().replace("single-numa-node", "restricted")
        config.write_text(text)
        await site.crew.pool.start(NODE)

        async def is_fresh() -> bool:
            policy = await attribute(site, nrt_names.TOPOLOGY_POLICY)
            return policy == "restricted" and await attribute(site, nrt_names.STALE) is None

        await until(is_fresh)


async def test_a_changed_policy_is_followed(site: Site) -> None:
    """The file tells by itself."""
    async with Host(site) as host:
        await until(lambda: is_true(site))
        config = host.folder / "config.yaml"
        replacement = config.with_name("new")
        replacement.write_text(config.read_text().replace("single-numa-node", "best-effort"))
        replacement.replace(config)

        async def follows() -> bool:
            return await attribute(site, nrt_names.TOPOLOGY_POLICY) == "best-effort"

        await until(follows)


async def test_touching_the_notification_file_leads_to_a_scan(site: Site, tmp_path: Path) -> None:
    """What was deleted behind our back is not seen by that, but by a period."""
    notify = tmp_path / "rte" / "notify"
    async with Host(
        site,
        "--notify-file",
        str(notify),
        "--kubelet-state-dir=",
        "--no-watch-pods",
        "--sleep-interval=0",
    ):
        await until(lambda: is_true(site))
        await create(site, "a")
        await until(lambda: is_held(site, 2))
        assert not await is_true(site)
        os.utime(notify)
        await until(lambda: is_true(site))


async def test_one_shot_publishes_and_exits(site: Site) -> None:
    """With 0."""
    assert await Host(site, "--oneshot").run() == 0
    assert await is_true(site)
    assert await attribute(site, nrt_names.TOPOLOGY_POLICY) == "single-numa-node"


async def test_the_report_names_the_pod_that_wrote_it(site: Site) -> None:
    """So that readers see when it is gone; an exporter outside of pods names none."""
    assert await Host(site, "--oneshot").run() == 0
    assert await attribute(site, nrt_names.EXPORTER) is None
    names = ("--pod-namespace", "numakube", "--pod-name", "numakube-exporter-x7k2p")
    assert await Host(site, "--oneshot", *names).run() == 0
    assert await attribute(site, nrt_names.EXPORTER) == "numakube/numakube-exporter-x7k2p"


async def test_one_shot_without_a_kubelet_fails(site: Site) -> None:
    """And says so by its exit code."""
    await site.crew.pool.kill(NODE)
    assert await Host(site, "--oneshot").run() == 1
    assert await nrt(site) is None


async def test_a_dry_run_prints_and_writes_nothing(site: Site) -> None:
    """With a kubeconfig it has what the API knows, so that all is as it would be published."""
    await create(site, "a")
    await until(lambda: is_held(site, 2))
    host = Host(site, "--dry-run", "-o", "json")
    assert await host.run() == 0
    assert '"kind": "NodeResourceTopology"' in host.said[0]
    assert nrt_names.EXACT_ANNOTATION in host.said[0]
    assert await nrt(site) is None


async def test_a_dry_run_without_a_kubeconfig_asks_no_cluster(site: Site) -> None:
    """It then does not know the kubelet's version."""
    host = Host(site, "--dry-run", "-o", "json")
    host.args = host.args[2:]
    assert await host.run() == 0
    why = "the kubelet's version is not known"
    assert f'"{nrt_names.INEXACT_ANNOTATION}": "{why}"' in host.said[0]


async def test_a_policy_that_cannot_be_found_is_said_to_be_unknown(site: Site) -> None:
    """A missing policy would be read as none."""
    host = Host(site, "--dry-run", "-o", "json", "--kubelet-config-file=/nowhere/config.yaml")
    host.args = host.args[2:]
    assert await host.run() == 0
    attributes = {entry["name"]: entry["value"] for entry in json.loads(host.said[0])["attributes"]}
    assert nrt_names.TOPOLOGY_POLICY not in attributes
    assert attributes[nrt_names.POLICY_UNKNOWN] == "there is no file /nowhere/config.yaml"


async def test_a_policy_is_found_by_the_command_line_of_the_kubelet(
    site: Site, tmp_path: Path
) -> None:
    """Where the host's processes are seen."""
    host = Host(site, "--oneshot", "--kubelet-config-file=/nowhere", f"--procfs={tmp_path}")
    process = tmp_path / "42"
    process.mkdir()
    (process / "comm").write_text("kubelet\n")
    line = f"kubelet\0--config={host.folder}/config.yaml\0--topology-manager-scope=pod\0"
    (process / "cmdline").write_text(line)
    assert await host.run() == 0
    assert await attribute(site, nrt_names.TOPOLOGY_POLICY) == "single-numa-node"
    assert await attribute(site, nrt_names.TOPOLOGY_SCOPE) == "pod"
    assert await attribute(site, nrt_names.POLICY_UNKNOWN) is None


async def test_no_publish_scans_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    """As the agents people know do."""
    status = tmp_path / "pfp.json"
    async with Host(site, "--no-publish", "--pods-fingerprint-status-file", str(status)):
        await until(status.exists)
    assert '"nodeName":"node-0"' in status.read_text()
    assert await nrt(site) is None


async def test_settings_can_be_printed(site: Site) -> None:
    """All of them, wherever they were set."""
    host = Host(site, "--dump-config", ".andexit")
    assert await host.run() == 0
    assert "node_name: node-0" in host.said[0]


async def test_settings_can_be_written_to_a_file_with_what_is_excluded(
    site: Site, tmp_path: Path
) -> None:
    """As RTE does; the exporter goes on then."""
    config, dump = tmp_path / "config.yaml", tmp_path / "dump.yaml"
    config.write_text(
        "resourceExclude: {'*': [memory]}\npodExclude: [{namespacePattern: a, namePattern: b}]\n"
    )
    async with Host(site, "--config", str(config), f"--dump-config={dump}"):
        await until(dump.exists)
    written = yaml.safe_load(dump.read_text())
    assert written["resource_exclude"] == {"*": ["memory"]}
    assert [entry["namePattern"] for entry in written["pod_exclude"]] == ["b"]


async def test_the_exporter_waits_for_a_missing_definition(site: Site) -> None:
    """It says why it is not ready, and goes on when it is there."""
    crd = "noderesourcetopologies.topology.node.k8s.io"
    from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS

    await site.client.delete(CUSTOM_RESOURCE_DEFINITIONS, crd)

    async def is_gone() -> bool:
        try:
            await site.client.get(CUSTOM_RESOURCE_DEFINITIONS, crd)
        except NotFound:
            return True
        return False

    await until(is_gone)
    async with Host(site) as host:
        await until(lambda: host.url)
        await until(host.readiness, lambda text: "install its CustomResourceDefinition" in text)
        await install_definition(site.client)
        await until(lambda: is_true(site))

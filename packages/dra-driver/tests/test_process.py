"""The driver as a process, called over its sockets as a kubelet calls it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import click
import pytest
import yaml
from dra_bed import NODE, POOL, Bed, result

from kube_lab_server import ApiServer
from kube_lab_server.kinds.all_kinds import GATES
from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError, MalformedObject
from numakube.kube.catalog import NODES, RESOURCE_SLICES
from numakube.kube.clock import SystemClock
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.device_plugin.plugin_registration import RegistryClient
from numakube.node.dra_plugin import HEALTH_VERSIONS, VERSIONS, DraPluginClient
from numakube.node.sysfs_machine import write_tree
from numakube.testing import until
from numakube_dra_driver.ledger import StateError
from numakube_dra_driver.process import PROGRAM
from numakube_lab.nodes.node_cgroups import make_tree

KUBECONFIG = """
clusters: [{name: lab, cluster: {server: "%s"}}]
contexts: [{name: lab, context: {cluster: lab, user: me}}]
users: [{name: me, user: {}}]
current-context: lab
"""


@dataclass
class Host:
    """A host with a kubelet's folders, and an API server that is reached over HTTP."""

    root: Path
    bed: Bed
    url: str
    printed: list[str] = field(default_factory=list)
    served: dict[int, str] = field(default_factory=dict)

    def locate(self, path: str) -> Path:
        """Return where a path of the host is."""
        return self.root / path.lstrip("/")

    @property
    def around(self) -> Surroundings:
        """What surrounds a process here."""
        return Surroundings(
            env={"NODE_NAME": NODE},
            root=self.root,
            locate=self.locate,
            clock=SystemClock(),
            echo=self.printed.append,
            elsewhere=Elsewhere(move=True, announce=self.served.__setitem__),
        )

    async def perform(self, *args: str, stop: asyncio.Event | None = None) -> int:
        """Run the program with *args*."""
        return await PROGRAM.perform(args, self.around, stop or asyncio.Event())

    @contextlib.asynccontextmanager
    async def running(self, *args: str) -> AsyncIterator[None]:
        """Have a driver that serves."""
        stop = asyncio.Event()
        task = asyncio.create_task(self.perform(*self.flags, *args, stop=stop))
        try:
            await until(lambda: any(self.registry.glob("*")) or task.done())
            if task.done():
                task.result()
            yield
        finally:
            stop.set()
            assert await task == 0

    @property
    def flags(self) -> tuple[str, ...]:
        """Tell a driver where its cluster is."""
        return ("--kubeconfig", str(self.locate("/kubeconfig")))

    @property
    def registry(self) -> Path:
        """Where the kubelet finds sockets."""
        return self.locate("/var/lib/kubelet/plugins_registry")

    async def slices(self) -> list[dict[str, Any]]:
        """Return the slices of the node."""
        return list((await self.bed.client.list(RESOURCE_SLICES)).items)


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    """A host of two NUMA nodes, whose kubelet reserves a core."""
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        root = Path(folder)
        async with ApiServer(rng=Random(7), gates=GATES) as server:
            host = Host(root, Bed.on(server, SystemClock(), root), server.url)  # type: ignore[arg-type]
            host.locate("/var/lib/kubelet").mkdir(parents=True)
            host.locate("/kubeconfig").write_text(KUBECONFIG % server.url)
            config = host.locate("/var/lib/kubelet/config.yaml")
            config.write_text("reservedSystemCPUs: 0,8\n")
            machine = from_shape("2 sockets, 4 cores, smt 2, 16Gi")
            write_tree(machine, host.locate("/sys"))
            make_tree(machine, host.locate("/sys"))
            await host.bed.client.create(NODES.raw, {"metadata": {"name": NODE}})
            yield host


async def test_a_dry_run_prints_what_would_be_offered(host: Host) -> None:
    assert await host.perform("--dry-run") == 0
    assert host.printed == [
        "DEVICE        CPUS       AMOUNT   STEP  NUMA  SHARED\n"
        "cpu-numa0     1-3,9-11   6        2     0     yes\n"
        "cpu-numa1     4-7,12-15  8        2     1     yes\n"
        "memory-numa0  -          16334Mi  1Mi   0     yes\n"
        "memory-numa1  -          16334Mi  1Mi   1     yes"
    ]


async def test_a_dry_run_prints_the_devices_of_the_slice(host: Host) -> None:
    await host.perform("--dry-run", "-o", "json", "--cpu-devices", "core")
    await host.perform("--dry-run", "-o", "yaml", "--cpu-devices", "core")
    as_json, as_yaml = json.loads(host.printed[0]), yaml.safe_load(host.printed[1])
    assert as_json == as_yaml
    assert [device["name"] for device in as_json["devices"]][:2] == ["core-0001", "core-0002"]


async def test_a_dry_run_says_why_a_static_kubelet_keeps_its_cpus(host: Host) -> None:
    host.locate("/var/lib/kubelet/config.yaml").write_text("cpuManagerPolicy: static\n")
    await host.perform("--dry-run")
    assert "set cpuManagerPolicy to none" in host.printed[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--reserved-cpus", "0-99"), "this machine has no CPUs 16-99"),
        (("--cpu-policy-options", "full-pcpus-only"), "has no value; write NAME=VALUE"),
        (("--cpu-policy-options", "fastest=true"), "fastest"),
        (("--kubelet-config-file", "/none"), "give --kubelet-config-file, or --reserved-cpus"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    args: tuple[str, ...], words: str, host: Host
) -> None:
    with pytest.raises(ConfigError, match=words):
        await host.perform("--dry-run", *args)


async def test_an_unknown_option_is_refused(host: Host) -> None:
    with pytest.raises(click.ClickException, match="No such option"):
        await host.perform("--cpu-device-modes", "x")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_kubelet_registers_the_driver_and_has_a_claim_prepared(
    version: str, host: Host
) -> None:
    ref = await host.bed.claim("a", result("cpu-numa1", "4"))
    async with host.running():
        (socket,) = host.registry.iterdir()
        client = RegistryClient(socket)
        await client.dial()
        info = await client.info()
        assert (info.type, info.name) == ("DRAPlugin", "numakube.dev")
        assert info.versions == (*VERSIONS, *HEALTH_VERSIONS)
        await client.notify()
        await client.aclose()
        plugin = DraPluginClient(Path(info.endpoint), version)
        (device,) = (await plugin.prepare([ref]))[ref.uid].devices
        assert (device.pool, device.device, device.requests) == (POOL, "cpu-numa1", ("cpus",))
        assert await plugin.unprepare([ref]) == {ref.uid: ""}
        await plugin.aclose()
        (found,) = await until(host.slices)
        assert [device["name"] for device in found["spec"]["devices"]] == [
            "cpu-numa0",
            "cpu-numa1",
            "memory-numa0",
            "memory-numa1",
        ]
    # Nobody else removes the sockets; the slices stay, as the driver may be back soon.
    assert [*host.registry.iterdir()] == []
    assert [*host.locate("/var/lib/kubelet/plugins/numakube.dev").glob("*.sock")] == []
    assert await host.slices()


async def test_slices_that_a_kubelet_deletes_are_published_again(host: Host) -> None:
    async with host.running():
        (found,) = await until(host.slices)
        await host.bed.client.delete(RESOURCE_SLICES, found["metadata"]["name"])
        (again,) = await until(host.slices)
        assert again["metadata"]["uid"] != found["metadata"]["uid"]


async def test_two_processes_serve_a_node_while_one_replaces_the_other(host: Host) -> None:
    async with host.running("--pod-uid", "1"), host.running("--pod-uid", "2"):
        await until(lambda: len([*host.registry.iterdir()]) == 2)
        for number in range(4):
            ref = await host.bed.claim(f"c{number}", result(f"cpu-numa{number // 2}", "2"))
            folder = host.locate("/var/lib/kubelet/plugins/numakube.dev")
            plugin = DraPluginClient(folder / f"dra-{number % 2 + 1}.sock")
            assert not (await plugin.prepare([ref]))[ref.uid].error
            await plugin.aclose()
    state = json.loads(host.locate("/var/lib/numakube-dra/state.json").read_text())
    cpus = [claim["results"][0]["cpus"] for claim in state["claims"]]
    assert sorted(cpus) == ["1,9", "2,10", "4,12", "5,13"]


async def test_a_state_that_makes_no_sense_ends_the_start(host: Host) -> None:
    folder = host.locate("/var/lib/numakube-dra")
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{")
    with pytest.raises(StateError, match="--forget-state"):
        await host.perform(*host.flags)
    async with host.running("--forget-state"):
        assert (folder / "state.forgotten").read_text() == "{"


async def test_the_kubelet_hears_how_devices_are(host: Host) -> None:
    """At once, and when a CPU of a claim goes offline; nobody waits for the end of a stream."""
    ref = await host.bed.claim("a", result("cpu-numa1", "2"))
    folder = host.locate("/var/lib/kubelet/plugins/numakube.dev")
    async with host.running():
        plugin = DraPluginClient(folder / "dra.sock")
        assert not (await plugin.prepare([ref]))[ref.uid].error
        streams = [plugin.watch_health(version) for version in HEALTH_VERSIONS]
        for stream in streams:
            first = await anext(stream)
            assert {one.device: one.trouble for one in first} == dict.fromkeys(
                ("cpu-numa0", "cpu-numa1", "memory-numa0", "memory-numa1"), ""
            )
        for place in ("node/node1", *(f"cpu/cpu{cpu}" for cpu in (4, 5, 6, 7, 12, 13, 14, 15))):
            shutil.rmtree(host.locate(f"/sys/devices/system/{place}"))
        host.locate("/sys/devices/system/cpu/online").write_text("0-3,8-11\n")
        (found,) = await until(host.slices)
        await host.bed.client.delete(RESOURCE_SLICES, found["metadata"]["name"])
        troubles: dict[str, str] = {}
        async for devices in streams[0]:
            troubles = {one.device: one.trouble for one in devices}
            if troubles.get("cpu-numa1"):
                break
        assert troubles["cpu-numa1"] == "CPUs 4,12 of claims are offline"
        await plugin.aclose()


async def test_a_driver_in_the_place_of_dra_driver_cpu(host: Host) -> None:
    """Two names, one for CPUs and one for the rest; flags and files of that driver."""
    host.locate("/dracpu.yaml").write_text(
        "apiVersion: v1alpha1\ngroupBy: socket\nreservedCPUs: 0-1\n"
    )
    flags = ("--compatible", "--config", "/dracpu.yaml", "--reserved-cpus", "0")
    async with host.running(*flags):
        slices = await until(host.slices, lambda found: len(found) == 2)
        found = {one["spec"]["driver"]: one["spec"] for one in slices}
        assert found["dra.cpu"]["pool"]["name"] == NODE
        devices = [device["name"] for device in found["dra.cpu"]["devices"]]
        assert devices == ["cpudevsocket000", "cpudevsocket001"]
        # What flags say comes before what files say.
        assert found["dra.cpu"]["devices"][0]["capacity"]["dra.cpu/cpu"]["value"] == "7"
        others = [device["name"] for device in found["numakube.dev"]["devices"]]
        assert others == ["memory-numa0", "memory-numa1"]
        sockets = sorted(path.name for path in host.registry.iterdir())
        assert sockets == ["dra.cpu-reg.sock", "numakube.dev-reg.sock"]
        cpus = result("cpudevsocket001", "4", driver="dra.cpu", pool=NODE)
        ref = await host.bed.claim(
            "a",
            {**cpus, "consumedCapacity": {"dra.cpu/cpu": "4"}},
            result("memory-numa1", "1Gi", request="mem"),
        )
        for name, kind in (("dra.cpu", "dra.k8s.io/cpu"), ("numakube.dev", "numakube.dev/claim")):
            plugin = DraPluginClient(host.locate(f"/var/lib/kubelet/plugins/{name}/dra.sock"))
            (device,) = (await plugin.prepare([ref]))[ref.uid].devices
            assert device.cdi_devices[0].startswith(f"{kind}=")
            await plugin.aclose()
        (url,) = host.served.values()
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            async with session.get(f"{url}/healthz") as answer:
                assert answer.status == 200
        assert {
            "dra_cpu_allocated_cpus 4.0",
            "dra_cpu_available_cpus 11.0",
            "dra_cpu_reserved_cpus 1.0",
            "dra_cpu_resource_claims_active 1.0",
            'dra_cpu_prepare_claims_total{result="success"} 1.0',
            "dra_cpu_claim_allocated_cpus_sum 4.0",
        } <= set(lines)
    state = json.loads(host.locate("/var/lib/numakube-dra/state.json").read_text())
    assert sorted(claim["driver"] for claim in state["claims"]) == ["dra.cpu", "numakube.dev"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--group-by", "socket"), "--group-by goes with --compatible only"),
        (("--compatible", "--cpu-step", "cpus"), "--cpu-step does not go with --compatible"),
        (("--compatible", "--group-by", "core"), "'core' is not one of"),
        (("--kubelet-root-dir", "var"), "is an absolute path"),
    ],
)
async def test_flags_that_do_not_go_together_are_refused(
    flags: tuple[str, ...], words: str, host: Host
) -> None:
    with pytest.raises(click.UsageError, match=words):
        await host.perform(*host.flags, *flags)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("groupBy: socket", "apiVersion is not v1alpha1"),
        ("apiVersion: v1alpha1\ngroupby: socket", "unknown key 'groupby' .is 'groupBy' meant"),
        ("apiVersion: v1alpha1\ngroupBy: core", "groupBy"),
        ("apiVersion: v1alpha1\nsysfsOverlay: a", "sysfsOverlay: a node is offered as it is"),
        ("[", "config.yaml"),
    ],
)
async def test_a_file_of_dra_driver_cpu_that_makes_no_sense_ends_the_start(
    text: str, words: str, host: Host
) -> None:
    host.locate("/config.yaml").write_text(text)
    with pytest.raises((ConfigError, MalformedObject), match=words):
        await host.perform(*host.flags, "--compatible", "--config", "/config.yaml")


async def test_readiness_says_what_is_missing(host: Host) -> None:
    async with host.running():
        await until(host.slices)
        (url,) = host.served.values()
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
            assert answer.status == 503
            assert "the kubelet has not registered the driver yet" in await answer.text()
        (socket,) = host.registry.iterdir()
        client = RegistryClient(socket)
        await client.dial()
        await client.notify()
        await client.aclose()

        async def ready() -> int:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
                return answer.status

        await until(ready, lambda status: status == 200)

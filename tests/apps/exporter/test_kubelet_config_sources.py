"""Where the kubelet's configuration is read, and how a running kubelet is found."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from tests.lab.nodes.build import plan

from kube_lab_server import ApiServer, Authority
from numakube.apps.exporter.api_objects import NodeObject
from numakube.apps.exporter.kubelet_config_sources import (
    ApiConfigz,
    CommandLine,
    ConfigFile,
    FirstOf,
    KubeletConfigz,
    NodeConfigz,
    file_of_uri,
)
from numakube.apps.host.http_serving import Health, Listen, Serving, TlsFiles
from numakube.apps.host.process_life import new_registry
from numakube.errors import ConfigError, MalformedObject
from numakube.kube.catalog import NODES
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock, SystemClock
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool


async def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    """With the kubelet's defaults filled in."""
    file = ConfigFile(tmp_path / "config.yaml")
    assert await file.read() is None
    file.path.write_text("topologyManagerPolicy: restricted")
    first = await file.read()
    assert first is not None
    assert (first.topology_manager_policy, first.topology_manager_scope) == (
        "restricted",
        "container",
    )
    assert await file.read() is first
    file.path.write_text("topologyManagerPolicy: best-effort")
    os.utime(file.path, (1, 1))
    second = await file.read()
    assert second is not None
    assert second.topology_manager_policy == "best-effort"
    file.path.unlink()
    assert await file.read() is None


async def test_a_file_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    """And the next place is asked."""
    path = tmp_path / "config.yaml"
    path.write_text("topologyManagerPolicy: [1]")
    with pytest.raises(MalformedObject, match=r"config\.yaml"):
        await ConfigFile(path).read()
    good = tmp_path / "good.yaml"
    good.write_text("topologyManagerScope: pod")
    found = await FirstOf([ConfigFile(path), ConfigFile(good)]).read()
    assert found is not None
    assert found.topology_manager_scope == "pod"
    assert await FirstOf([ConfigFile(path)]).read() is None


async def test_the_api_server_passes_the_question_on_to_the_kubelet() -> None:
    """Its answer is kept until the kubelet may have restarted."""
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        async with NodePool(client) as pool:
            server.state.kubelet_configs.append(pool.config)
            await pool.add(plan("n1", topology_manager_scope="pod"))
            source = ApiConfigz(client, "n1")
            found = await source.read()
            assert found is not None
            assert (found.topology_manager_scope, found.max_pods) == ("pod", 110)
            assert await source.read() is found
            source.refresh()
            await pool.kill("n1")
            assert await FirstOf([source]).read() is None
        assert await FirstOf([ApiConfigz(client, "nobody")]).read() is None


async def test_who_does_not_answer_is_not_asked_all_the_time() -> None:
    """A scan may come several times a second."""
    clock = ManualClock()
    async with ApiServer(now=clock.now) as server:
        client = Client(InProcess(server), clock=clock, rate=0)
        async with NodePool(client) as pool:
            await pool.add(plan("n1"))
            source = ApiConfigz(client, "n1")
            assert await FirstOf([source]).read() is None
            server.state.kubelet_configs.append(pool.config)
            assert await FirstOf([source]).read() is None
            await clock.advance(30)
            assert await FirstOf([source]).read() is not None


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[str]:
    """A kubelet's own server, which only answers those who know its token."""

    async def configz(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer secret":
            return web.Response(status=401, text="Unauthorized")
        return web.json_response({"kubeletconfig": {"topologyManagerPolicy": "restricted"}})

    now = datetime.now(UTC)
    certificate, key = Authority.create(now).issue(["127.0.0.1"], now)
    files = TlsFiles(certificate=tmp_path / "k.crt", key=tmp_path / "k.key")
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(key)
    async with Serving(
        Listen(tls=files),
        health=Health(),
        registry=new_registry("kubelet"),
        routes=[web.get("/configz", configz)],
    ) as serving:
        yield f"{serving.url}/configz"


async def test_the_kubelet_is_asked_itself_with_the_pods_token(
    kubelet: str, tmp_path: Path
) -> None:
    """Its certificate is its own; without the token there is no answer, nor at another path."""
    token = tmp_path / "token"
    assert await FirstOf([KubeletConfigz(kubelet, token, clock=SystemClock())]).read() is None
    token.write_text("secret")
    source = KubeletConfigz(kubelet, token, clock=SystemClock())
    found = await source.read()
    assert found is not None
    assert found.topology_manager_policy == "restricted"
    assert await source.read() is found
    other_path = KubeletConfigz(f"{kubelet}/other", token, clock=SystemClock())
    assert await FirstOf([other_path]).read() is None
    no_path = KubeletConfigz(kubelet.removesuffix("/configz"), token, clock=SystemClock())
    assert await no_path.read() == found


async def test_the_kubelet_is_found_by_its_node(kubelet: str, tmp_path: Path) -> None:
    """At the address and port that the Node tells; without them, or a token, nobody is asked."""
    port = urlsplit(kubelet).port
    token = tmp_path / "token"
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        node = NodeObject(client, "n1")
        source = NodeConfigz(node, token, clock=SystemClock())
        assert await FirstOf([source]).read() is None
        assert source.missing() == "the Node does not tell the kubelet's address"
        addresses = ({"type": "InternalIP", "address": "127.0.0.1"},)
        endpoint = {"kubeletEndpoint": {"Port": port}}
        document = {
            "metadata": {"name": "n1"},
            "status": {"addresses": addresses, "daemonEndpoints": endpoint},
        }
        await client.create(NODES.raw, document)
        await node.refresh()
        assert await source.read() is None
        assert source.missing() == f"no {token}"

        token.write_text("stolen")
        assert await FirstOf([source]).read() is None
        assert "401" in source.missing() or "Unauthorized" in source.missing()

        token.write_text("secret")
        source.refresh()
        source = NodeConfigz(node, token, clock=SystemClock())
        found = await source.read()
        assert found is not None
        assert found.topology_manager_policy == "restricted"
        assert await source.read() is found, "kept until the kubelet may have restarted"

        await client.delete(NODES, "n1")
        document["status"] = {
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }
        await client.create(NODES.raw, document)
        await node.refresh()
        assert await FirstOf([source]).read() is None, "it is somewhere else now"


def test_addresses_of_files_and_kubelets() -> None:
    """Nothing else."""
    assert file_of_uri("file:///etc/kubelet.yaml") == "/etc/kubelet.yaml"
    assert file_of_uri("https://10.0.0.1:10250/configz") is None
    with pytest.raises(ConfigError, match="unsupported URI scheme: 'ftp'"):
        file_of_uri("ftp://host/x")


# The configuration of a running kubelet, found by its command line.


class Host:
    """A host that is a folder, with a kubelet among its processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process("1", "systemd", "/sbin/init")

    def process(self, number: str, name: str, *line: str) -> Path:
        """Add a process; return its folder."""
        folder = self.root / "proc" / number
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cmdline").write_bytes("\0".join(line).encode() + b"\0")
        return folder

    def file(self, path: str, text: str) -> None:
        """Write a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def source(self) -> CommandLine:
        """Return what an exporter has that sees the kubelet's folder as ``/host-kubelet``."""
        return CommandLine(
            self.root / "proc",
            state_dir="/host-kubelet",
            locate=lambda path: self.root / "here" / path.removeprefix("/"),
            clock=ManualClock(),
        )

    async def policy(self) -> tuple[str, str]:
        """Return the policies that are found."""
        found = await self.source().read()
        assert found is not None
        return found.topology_manager_policy, found.cpu_manager_policy


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host without a kubelet."""
    return Host(tmp_path)


async def test_a_file_elsewhere_is_found_in_the_root_of_the_process(host: Host) -> None:
    """With its drop-ins, in the order of their names, and the flags."""
    kubelet = host.process(
        "77", "kubelet", "/usr/bin/kubelet", "--config=/etc/k/c.yaml", "--config-dir=/etc/k/d",
        "--cpu-manager-policy=static",
    )  # fmt: skip
    root = f"proc/{kubelet.name}/root/etc/k"
    host.file(f"{root}/c.yaml", "topologyManagerPolicy: best-effort")
    host.file(f"{root}/d/20.conf", "topologyManagerPolicy: restricted")
    host.file(f"{root}/d/10.conf", "topologyManagerPolicy: none")
    host.file(f"{root}/d/30.yaml", "topologyManagerPolicy: single-numa-node")

    assert await host.policy() == ("restricted", "static")


async def test_a_file_in_the_kubelets_folder_is_found_where_that_is_mounted(host: Host) -> None:
    """Another container's root is closed to who has no privileges."""
    host.process("77", "kubelet", "kubelet", "--config", "/var/lib/kubelet/conf/kubelet.yaml")
    host.file("here/host-kubelet/conf/kubelet.yaml", "topologyManagerPolicy: restricted")

    assert await host.policy() == ("restricted", "none")


async def test_a_kubelet_without_a_file_has_its_flags(host: Host) -> None:
    """And the defaults for the rest."""
    host.process("77", "kubelet", "kubelet", "--topology-manager-policy", "single-numa-node")

    assert await host.policy() == ("single-numa-node", "none")


async def test_what_cannot_be_seen_is_named(host: Host) -> None:
    """First the process, then its file."""
    source = FirstOf([host.source()])
    assert await source.read() is None
    assert source.missing() == f"no process kubelet is seen in {host.root / 'proc'}"

    host.process("77", "kubelet", "kubelet", "--config=/etc/k/c.yaml")
    source.refresh()
    assert await source.read() is None
    assert source.missing() == "the kubelet reads /etc/k/c.yaml, which is not visible here"

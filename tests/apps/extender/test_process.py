"""The program: its command line, mutual TLS, and no more rights than it needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner
from tests.apps.extender.place import node_document, pod_document, report
from tests.sites.bare import BareOpener, BareServer

from kube_lab_server import Authority
from numakube.apps.extender.process import PROGRAM
from numakube.apps.host.http_serving import Elsewhere, Health, Listen, Serving, TlsFiles
from numakube.apps.host.process_life import Surroundings, new_registry
from numakube.cli.main import cli
from numakube.errors import ConfigError
from numakube.kube.catalog import (
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from numakube.kube.client import Client
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.extender import ExtenderManifest
from numakube.testing import until

PORT, HEALTH_PORT = 1, 2
"""Which are meant; where they really are is announced."""


@pytest.fixture
async def server(bare_servers: BareOpener, tmp_path: Path) -> AsyncIterator[BareServer]:
    """A server that demands rights, with a node and what we deploy for the extender's account."""
    async with bare_servers() as server:
        await server.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        for document in ExtenderManifest().access():
            await _apply(server.client, document)
        await server.client.create(NODES.raw, node_document("n"))
        await server.client.create(NODE_RESOURCE_TOPOLOGIES, report("n", 8, 8))
        given = await request_token(server.client, ObjectKey("numakube", "numakube-extender"))
        server.write_kubeconfig(tmp_path / "kubeconfig", given.token)
        yield server


async def _apply(client: Client, document: dict[str, Any]) -> None:
    from numakube.kube import catalog

    kinds = {
        "ServiceAccount": catalog.SERVICE_ACCOUNTS,
        "ClusterRole": catalog.CLUSTER_ROLES,
        "ClusterRoleBinding": catalog.CLUSTER_ROLE_BINDINGS,
        "Role": catalog.ROLES,
        "RoleBinding": catalog.ROLE_BINDINGS,
    }
    await client.create(kinds[document["kind"]], document)


@contextlib.asynccontextmanager
async def running(*args: str) -> AsyncIterator[dict[int, str]]:
    """Run the program until the end of the context; return where it serves which port."""
    stop, places = asyncio.Event(), dict[int, str]()
    around = Surroundings(env={}, elsewhere=Elsewhere(move=True, announce=places.__setitem__))
    task = asyncio.create_task(PROGRAM.perform(args, around, stop))
    try:
        yield places
    finally:
        stop.set()
        assert await task == 0


async def is_ready(url: str) -> bool:
    """Tell whether the health endpoint says so."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
        return response.status == 200


async def test_a_pod_is_bound_over_mutual_tls_with_the_rights_that_we_deploy(
    server: BareServer, tmp_path: Path
) -> None:
    """Health is served beside, to probes without certificates."""
    now = datetime.now(UTC)
    authority = Authority.create(now)
    certificate, key = authority.issue(["127.0.0.1"], now)
    for name, data in {
        "tls.crt": certificate,
        "tls.key": key,
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
    }.items():
        (tmp_path / name).write_bytes(data)
    pod = await server.client.create(PODS.raw, pod_document("p"))
    args = (
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        f"--bind-address=127.0.0.1:{PORT}",
        f"--health-address=127.0.0.1:{HEALTH_PORT}",
        f"--tls-cert-file={tmp_path / 'tls.crt'}",
        f"--tls-key-file={tmp_path / 'tls.key'}",
        f"--tls-client-ca-file={tmp_path / 'ca.crt'}",
    )
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    stranger = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    # The certificate of the server is for servers only; that of the authority serves any purpose.
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "ca.key")
    async with running(*args) as places:
        await until(lambda: len(places) == 2)
        await until(lambda: is_ready(places[HEALTH_PORT]))
        url = places[PORT]
        async with aiohttp.ClientSession(url) as session:
            body = {"Pod": pod, "NodeNames": ["n"]}
            async with session.post("/filter", json=body, ssl=context) as response:
                assert (await response.json())["NodeNames"] == ["n"]
            binding = {
                "PodName": "p",
                "PodNamespace": "default",
                "PodUID": pod["metadata"]["uid"],
                "Node": "n",
            }
            async with session.post("/bind", json=binding, ssl=context) as response:
                assert await response.json() == {"Error": ""}
        async with aiohttp.ClientSession(url) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.post("/filter", json=body, ssl=stranger)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--args-file=/nowhere",), "--args-file /nowhere: No such file"),
        (("--token-file=/nowhere",), "--token-file /nowhere: No such file"),
        (("--bind-address=0.0.0.0:0",), "give a certificate and a key"),
        (
            ("--bind-address=0.0.0.0:0", "--tls-cert-file=/c", "--tls-key-file=/k"),
            "could bind pods and have room kept: give --tls-client-ca-file",
        ),
        (("--health-address=nowhere",), "is not an address"),
    ],
)
async def test_what_makes_no_sense_is_told_at_the_start(
    server: BareServer, tmp_path: Path, args: tuple[str, ...], complaint: str
) -> None:
    """Before anything is served."""
    words = (f"--kubeconfig={tmp_path / 'kubeconfig'}", *args)
    with pytest.raises(ConfigError, match=complaint):
        await PROGRAM.perform(words, Surroundings(env={}), asyncio.Event())


def test_both_configurations_are_printed() -> None:
    """What kube-scheduler demands is in them: weights, verbs and all nodes."""
    for deployment in ("main", "second"):
        words = ["extender", "config", "--deployment", deployment]
        printed = CliRunner().invoke(cli, words)
        assert printed.exit_code == 0, printed.output
        config = yaml.safe_load(printed.output)
        (entry,) = config["extenders"]
        assert config["percentageOfNodesToScore"] == 100
        assert entry["nodeCacheCapable"] is True
        assert entry["weight"] > 0
        assert {entry[f"{verb}Verb"] for verb in ("filter", "prioritize", "preempt", "bind")}
        assert ("profiles" in config) == (deployment == "second")
        objects = CliRunner().invoke(cli, [*words, "--manifests"])
        kinds = [item["kind"] for item in yaml.safe_load_all(objects.output)]
        assert kinds.count("Deployment") == (2 if deployment == "second" else 1)
    assert json.dumps(kinds)


def test_only_who_shows_a_certificate_is_answered_unless_told_otherwise() -> None:
    """In the configuration, the Deployment, and the Secrets that each side sees."""
    manifest = ExtenderManifest()
    (entry,) = manifest.configuration()["extenders"]
    assert entry["tlsConfig"]["certFile"] == "/etc/numakube/extender/tls.crt"
    assert entry["tlsConfig"]["keyFile"] == "/etc/numakube/extender/tls.key"
    seen = _secrets_of(manifest)
    assert seen == {
        "numakube-extender": {"secretName": "numakube-extender-tls"},
        "numakube-kube-scheduler": {"secretName": "numakube-extender-client-tls"},
    }
    assert "--tls-client-ca-file=/etc/numakube/extender/ca.crt" in _args_of(manifest)
    assert "--insecure-serving" not in _args_of(manifest)


def test_without_certificates_of_clients_that_is_said_and_no_key_is_shared() -> None:
    """kube-scheduler needs the authority only."""
    manifest = ExtenderManifest(mutual_tls=False)
    assert "--insecure-serving" in _args_of(manifest)
    assert _secrets_of(manifest)["numakube-kube-scheduler"] == {
        "secretName": "numakube-extender-tls",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }


def _args_of(manifest: ExtenderManifest) -> list[str]:
    args: list[str] = manifest.deployment()["spec"]["template"]["spec"]["containers"][0]["args"]
    return args


def _secrets_of(manifest: ExtenderManifest) -> dict[str, Any]:
    return {
        item["metadata"]["name"]: volume["secret"]
        for item in manifest.objects()
        if item["kind"] == "Deployment"
        for volume in item["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_the_printed_commands_make_certificates_that_each_serve_one_side(
    tmp_path: Path,
) -> None:
    """The client's lets in, no certificate and the server's own do not."""
    printed = CliRunner().invoke(cli, ["extender", "config", "--certificates"])
    assert printed.exit_code == 0
    commands = "kubectl() { :; }\n" + printed.output
    made = await asyncio.create_subprocess_exec(
        "sh", "-ec", commands, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    _, error = await made.communicate()
    assert made.returncode == 0, error
    files = TlsFiles(
        certificate=tmp_path / "server.crt",
        key=tmp_path / "server.key",
        client_authority=tmp_path / "ca.crt",
    )
    async with Serving(Listen(tls=files), health=Health(), registry=new_registry("test")) as server:
        assert await _status(server.url, tmp_path, "client") == 200
        for stranger in ("", "server"):
            with pytest.raises(aiohttp.ClientError):
                await _status(server.url, tmp_path, stranger)


async def _status(url: str, folder: Path, side: str) -> int:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if side:
        context.load_cert_chain(folder / f"{side}.crt", folder / f"{side}.key")
    name = "numakube-extender.numakube.svc"
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/livez", ssl=context, server_hostname=name) as response,
    ):
        return response.status


def test_mutual_tls_needs_tls() -> None:
    """It is a mistake to ask for one without the other."""
    words = ["extender", "config", "--mutual-tls", "--no-tls"]
    printed = CliRunner().invoke(cli, words)
    assert printed.exit_code == 2

"""The claim writer on a lab: an annotation makes a plain pod run on the CPUs of one NUMA node."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from test_claim_writing import BURSTABLE, container, pod
from test_lab import World, dra_lab
from tests.manifests.test_files import is_up_to_date, namespace

from kube_lab_server import Authority
from kube_lab_server.patching.json_patch import json_patch
from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
    resource_of,
)
from numakube.testing import until
from numakube_dra_driver.claims.claim_writing import POLICY, WRITER
from numakube_dra_driver.claims.manifest import SECRET, ClaimWriterManifest
from numakube_dra_driver.claims.process import PROGRAM

pytestmark = pytest.mark.timeout(230)


@dataclass(frozen=True)
class Certificate:
    """What the writer serves with, and what its clients trust."""

    files: dict[str, bytes]

    @classmethod
    def make(cls) -> Certificate:
        """Return one for a host and for the Service."""
        now = datetime.now(UTC)
        authority = Authority.create(now)
        names = ["localhost", "127.0.0.1", f"{WRITER}.numakube.svc"]
        certificate, key = authority.issue(names, now)
        return cls({"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate})

    def write(self, folder: Path) -> list[str]:
        """Write the files; return what a program is told of them."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return [f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-key-file={folder / 'tls.key'}"]

    @property
    def bundle(self) -> str:
        """The authority as a configuration has it."""
        return base64.b64encode(self.files["ca.crt"]).decode()


@dataclass
class Admission:
    """Creates pods as an API server does that asks the writer."""

    world: World
    url: str
    session: aiohttp.ClientSession

    async def review(self, tree: Any, path: str = "/claims", **more: Any) -> Any:
        """Return what the writer answers about a new pod."""
        request = {"uid": "u", "operation": "CREATE", "namespace": "default", "object": tree}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = {**review, "request": {**request, **more}}
        async with self.session.post(f"{self.url}{path}", json=body) as found:
            assert found.status == 200, await found.text()
            return (await found.json())["response"]

    async def create(self, tree: Any, path: str = "/claims") -> None:
        """Create a pod, with what the writer makes of it."""
        response = await self.review(tree, path)
        assert response["allowed"]
        if "patch" in response:
            tree = json_patch(tree, json.loads(base64.b64decode(response["patch"])))
        await self.world.cluster.client.create(PODS.raw, tree)


@asynccontextmanager
async def writing(world: World, folder: Path) -> AsyncIterator[Admission]:
    """Run a writer beside a lab."""
    certificate = Certificate.make()
    stop, serving = asyncio.Event(), asyncio.Event()
    places: list[str] = []

    def announce(_: int, url: str) -> None:
        places.append(url)
        serving.set()

    around = Surroundings(env={}, elsewhere=Elsewhere(move=False, announce=announce))
    arguments = (
        "--bind-address=127.0.0.1:0",
        f"--kubeconfig={world.cluster.site.kubeconfig}",
        *certificate.write(folder),
    )
    trust = ssl.create_default_context(cafile=folder / "ca.crt")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(PROGRAM.perform(arguments, around, stop))
        await serving.wait()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            admission = Admission(world, places[0], session)

            async def ready() -> int:
                async with session.get(f"{places[0]}/readyz") as answer:
                    return answer.status

            await until(ready, lambda status: status == 200)
            yield admission
        stop.set()
    assert task.result() == 0


def plain(name: str, *containers: dict[str, Any], **more: Any) -> Any:
    """Return a plain pod in the default namespace."""
    tree = pod(*containers, **more)
    tree["metadata"] = {"name": name, "namespace": "default"}
    return tree


def asking(name: str, *containers: dict[str, Any], **more: Any) -> Any:
    """Return one that asks for a claim."""
    tree = plain(name, *containers, **more)
    tree["metadata"]["annotations"] = {POLICY: "single-numa-node"}
    return tree


async def test_an_annotation_gives_a_plain_pod_the_cpus_of_one_numa_node(tmp_path: Path) -> None:
    """Of each pod they are its own; what is left over serves pods that ask for nothing."""
    async with dra_lab() as world, writing(world, tmp_path) as admission:
        await admission.create(asking("a", container(cpu="4", memory="64Mi")))
        await world.runs_on("a", "1-2,9-10")
        await admission.create(asking("b", container(cpu="4", memory="64Mi")))
        await world.runs_on("b", "4-5,12-13")
        await admission.create(plain("c", BURSTABLE), "/claims/single-numa-node")
        assert not (
            await world.cluster.client.get(PODS, "c", namespace="default")
        ).spec.resource_claims


async def test_the_label_of_a_namespace_does_so_too_and_pods_that_are_alike_share_a_template(
    tmp_path: Path,
) -> None:
    async with dra_lab() as world, writing(world, tmp_path) as admission:
        for name in ("a", "b"):
            await admission.create(
                plain(name, container(cpu="2", memory="64Mi")), "/claims/single-numa-node"
            )
        await world.runs_on("a", "1,9")
        await until(lambda: world.cpus_of("b"), lambda cpus: cpus["app"] not in ("", "1,9"))
        assert len((await world.cluster.client.list(RESOURCE_CLAIM_TEMPLATES)).items) == 1


async def test_each_container_has_its_own_cpus_and_init_containers_those_of_one_after_them(
    tmp_path: Path,
) -> None:
    async with dra_lab() as world, writing(world, tmp_path) as admission:
        tree = asking(
            "a",
            container("app", cpu="4", memory="64Mi"),
            container("db", cpu="2", memory="64Mi"),
            init=(container("load", cpu="2", memory="64Mi"),),
        )
        await admission.create(tree)
        own = {"app": "1-2,9-10", "db": "3,11"}
        await until(lambda: world.cpus_of("a"), lambda cpus: cpus == own)


async def test_a_dry_run_is_answered_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with dra_lab() as world, writing(world, tmp_path) as admission:
        response = await admission.review(asking("a", container(cpu="4")), dryRun=True)
        assert response["patch"]
        assert not (await world.cluster.client.list(RESOURCE_CLAIM_TEMPLATES)).items


async def test_what_is_deployed_registers_its_authority_and_makes_templates() -> None:
    """With no other rights than those of the manifest."""
    certificate = Certificate.make()
    async with dra_lab() as world:
        client = world.cluster.client
        data = {
            name: base64.b64encode(content).decode() for name, content in certificate.files.items()
        }
        secret = {"metadata": {"name": SECRET}, "data": data}
        await client.create(SECRETS, secret, namespace="numakube")
        for document in ClaimWriterManifest(replicas=1).objects():
            await client.create(resource_of(document), document)

        async def registered() -> bool:
            found = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, WRITER)
            bundles = {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]}
            return bundles == {certificate.bundle}

        await until(registered)
        written = _written(asking("a", container(cpu="4", memory="64Mi")))
        await client.create(PODS.raw, written)
        await world.runs_on("a", "1-2,9-10")


def _written(tree: Any) -> Any:
    from numakube_dra_driver.claims.claim_writing import Wish, Written, write_claims
    from numakube_dra_driver.claims.served_resources import ServedBy

    found = write_claims(tree, Wish(), {"cpu": ServedBy("numa-cpus")})
    assert isinstance(found, Written)
    return found.pod


def test_the_file_is_up_to_date() -> None:
    manifest = ClaimWriterManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("claims.yaml", documents)


def test_api_servers_ask_about_nothing_but_pods_that_ask_or_whose_namespace_does() -> None:
    hooks = {hook["name"]: hook for hook in ClaimWriterManifest().configuration()["webhooks"]}
    assert hooks.keys() == {
        "pods.claims.numakube.dev",
        *(f"{policy}.claims.numakube.dev" for policy in ("single-numa-node", "socket", "none")),
    }
    for name, hook in hooks.items():
        ((rule,), (condition,)) = hook["rules"], hook["matchConditions"]
        assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
        assert hook["sideEffects"] == "None"
        assert hook["reinvocationPolicy"] == "IfNeeded"
        expressions = hook["namespaceSelector"]["matchExpressions"]
        assert expressions[0]["values"] == ["kube-system", "numakube"]
        assert (len(expressions) == 2) == (name != "pods.claims.numakube.dev")
        assert POLICY in condition["expression"]

"""A lab under faults: afterwards every mirror equals a fresh list."""

import contextlib
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from kube_lab_server import FaultKind, FaultRule
from numakube.api.codec import Wire
from numakube.api.meta import ObjectMeta
from numakube.errors import NumakubeError
from numakube.kube.catalog import CONFIG_MAPS, NODES, PODS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, ReflectorTiming, reflecting
from numakube.kube.resource_types import Resource, key_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import elapse, until
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir

SEED = 7
ROUNDS = 60
# Impatient, so that many failures fit into a few seconds.
TIMING = ReflectorTiming(watch=2.0, idle=2.0, settled=0.2, backoff=0.02, longest_backoff=0.1)


class Bare(Wire, frozen=True):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


def faults() -> list[FaultRule]:
    """Everything that can befall a request, now and then."""
    return [
        FaultRule(kind=FaultKind.FAIL, code=500, share=0.1),
        FaultRule(kind=FaultKind.FAIL, code=429, share=0.05),
        FaultRule(kind=FaultKind.DROP, share=0.1),
        FaultRule(kind=FaultKind.DELAY, seconds=0.02, share=0.1),
    ]


async def churn(lab: Lab, rng: Random) -> None:
    """Change the cluster from inside, where no faults strike, and break what clients hold."""
    for number in range(ROUNDS):
        name = f"x{rng.randrange(20)}"
        with contextlib.suppress(NumakubeError):
            await change(lab.client, rng, name)
        if number % 10 == 3:
            await lab.drop_watches()
        if number % 15 == 7:
            await lab.expire_history()
        if number % 25 == 11:
            await lab.pool.restart(f"node-{rng.randrange(2)}")
        await elapse(0.02)


async def change(client: Client, rng: Random, name: str) -> None:
    """Create, alter or delete something."""
    match rng.randrange(4):
        case 0:
            document = {"metadata": {"name": name}, "data": {"a": str(rng.random())}}
            await client.create(CONFIG_MAPS, document, namespace="default")
        case 1:
            await client.delete(CONFIG_MAPS, name, namespace="default")
        case 2:
            limits = {"cpu": str(rng.randrange(1, 9)), "memory": "1Gi"}
            container = {"name": "c", "image": "x.example/c:1", "resources": {"limits": limits}}
            spec = {"containers": [container], "nodeName": f"node-{rng.randrange(2)}"}
            await client.create(
                PODS.raw, {"metadata": {"name": name}, "spec": spec}, namespace="default"
            )
        case _:
            await client.delete(PODS, name, namespace="default", grace_seconds=0)


async def fresh(client: Client, resource: Resource[Any]) -> dict[Any, str]:
    """Return what the server says now: the version of every object."""
    return versions((await client.list(resource)).items)


def versions(objects: Any) -> dict[Any, str]:
    """Return the version of each object by its key."""
    return {key_of(one): one.metadata.resource_version for one in objects}


async def test_mirrors_equal_a_fresh_list_after_a_storm() -> None:
    """Failed, dropped and late requests, broken watches, lost history, restarted kubelets."""
    resources: tuple[Resource[Any], ...] = (PODS, NODES, CONFIG_MAPS.decoded_as(Bare))
    with tempfile.TemporaryDirectory(prefix="soak-") as path:
        folder = RunDir(Path(path) / "lab")
        folder.create()
        plans = uniform_plans(2, from_shape("2 sockets, 4 cores, 16Gi"), "", "1.35")
        async with Lab(LabOptions(plans=plans), folder) as lab:
            config = load_config(kubeconfig=folder.kubeconfig, env={})
            async with connect(config, rng=Random(SEED), rate=0) as client:
                mirrors = [Reflector(client, resource, timing=TIMING) for resource in resources]
                async with reflecting(*mirrors):
                    for rule in faults():
                        lab.faults.add(rule)
                    await churn(lab, Random(SEED))
                    lab.faults.clear()
                    for resource, mirror in zip(resources, mirrors, strict=True):
                        await settles(lab.client, resource, mirror)


async def settles(client: Client, resource: Resource[Any], mirror: Reflector[Any]) -> None:
    """Wait until the mirror equals the server; kubelets may still write meanwhile."""

    async def differences() -> set[tuple[Any, str]]:
        theirs = await fresh(client, resource)
        return set(theirs.items()) ^ set(versions(mirror.store).items())

    await until(differences, lambda found: not found)

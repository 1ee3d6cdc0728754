"""What people are told who may not read everything: 403 is said to be 403; tenants are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Ended
from tests.cli.test_inside_everywhere import IMAGE, NAME

from numakube.api.yaml_text import dump_yaml, load_yaml
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    resource_of,
)
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.components import Choices, objects_of
from numakube.manifests.rbac_rules import READ, TENANTS, rule, view_role
from numakube.testing import pod_document, refusal_of, until
from numakube_lab.testing import LabCluster, lab_cluster

pytestmark = pytest.mark.timeout(240)

AsUser = Callable[..., Awaitable[Ended]]
RBAC = "rbac.authorization.k8s.io"
TEAM = "default"


@pytest.fixture
async def world() -> AsyncIterator[LabCluster]:
    """A cluster where rights count, with a pod that fits nowhere, and one of somebody else."""
    async with lab_cluster(2, shape="2 sockets, 6 cores, smt 2, 16Gi", rbac=True) as world:
        await world.create(pod_document("late", "20", schedulerName=NAME))
        yield world


@pytest.fixture
def as_user(numakube: Callable[..., Ended], world: LabCluster, tmp_path: Path) -> AsUser:
    """Run a command in the name of a ServiceAccount of the team."""

    async def call(account: str, *words: str) -> Ended:
        token = (await request_token(world.client, ObjectKey(TEAM, account))).token
        config: Any = load_yaml(world.site.kubeconfig.read_text(), "kubeconfig")
        config["users"][0]["user"] = {"token": token}
        file = tmp_path / f"{account}.yaml"
        file.write_text(dump_yaml(config))
        return await asyncio.to_thread(numakube, *words, "--kubeconfig", str(file))

    return call


async def account(world: LabCluster, name: str) -> dict[str, Any]:
    """Create somebody without rights."""
    document = {"metadata": {"name": name, "namespace": TEAM}}
    await world.client.create(SERVICE_ACCOUNTS, document)
    return {"kind": "ServiceAccount", "name": name, "namespace": TEAM}


async def allow(world: LabCluster, who: dict[str, Any], *rules: dict[str, Any]) -> None:
    """Give rights all over the cluster."""
    metadata = {"name": f"test-{who['name']}"}
    await world.client.create(CLUSTER_ROLES, {"metadata": metadata, "rules": list(rules)})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": metadata["name"]}
    binding = {"metadata": metadata, "roleRef": reference, "subjects": [who]}
    await world.client.create(CLUSTER_ROLE_BINDINGS, binding)


async def bind(
    world: LabCluster, who: dict[str, Any], kind: str, role: str, namespace: str
) -> None:
    """Give a role in one namespace."""
    metadata = {"name": f"{role}-{who['name']}", "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    binding = {"metadata": metadata, "roleRef": reference, "subjects": [who]}
    await world.client.create(ROLE_BINDINGS, binding)


async def test_what_is_forbidden_is_not_called_missing(world: LabCluster, as_user: AsUser) -> None:
    """By top, map, explain and doctor: once, with the right that is missing."""
    who = await account(world, "reader")
    await allow(world, who, rule("", ["nodes", "pods"], READ))
    right = "you may not list noderesourcetopologies.topology.node.k8s.io"
    top = await as_user("reader", "top", "nodes")
    assert "no NodeResourceTopology" not in top.out
    assert top.out.count("not allowed (403)") == 2
    assert top.err.count(f"403 Forbidden: {right}") == 1
    drawn = await as_user("reader", "map", "node-0")
    assert "does its exporter run" not in drawn.out
    assert f"403 Forbidden: {right}; the ClusterRole numakube-view" in drawn.err
    ended = await as_user("reader", "explain", "pod", "late")
    explained = ended.out
    first = explained.splitlines()[1]
    assert first.startswith("Whether it fits is not known: nothing is known of any NUMA zone (403")
    assert explained.count(f"403 Forbidden: {right}; the ClusterRole numakube-view") == 1
    assert (ended.code, " fits" in explained.replace("Whether it fits", "")) == (1, False)
    assert "is an exporter running" not in explained
    assert explained.count("since you may not (403): list ") == 1
    found = (await as_user("reader", "doctor", "--exit-zero", "--only", "NUMA-ACCESS")).out
    assert found.count("NUMA-ACCESS-FORBIDDEN") == 1
    assert "noderesourcetopologies.topology.node.k8s.io" in found
    assert "NUMA-NRT-MISSING" not in found
    assert "NUMA-ACCESS-MALFORMED" not in found
    absent = {"devices.scheduling.koordinator.sh", "numatopologies.nodeinfo.volcano.sh"}
    advised = found.partition("--resource=")[2].split()[0].split(",")
    assert advised
    assert not absent & set(advised), "kubectl refuses kinds that the server does not have"


async def test_whoever_may_view_the_cluster_may_view_its_zones(
    world: LabCluster, as_user: AsUser
) -> None:
    """Kubernetes adds our role to its own."""
    await world.client.create(CLUSTER_ROLES, view_role())
    who = await account(world, "viewer")
    await allow(world, who, rule("", ["nodes"], READ))
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "viewers"}, "roleRef": reference, "subjects": [who]}
    await world.client.create(CLUSTER_ROLE_BINDINGS, binding)
    top = await as_user("viewer", "top", "nodes")
    assert (top.code, top.err) == (0, "")
    assert "403" not in top.out


async def test_a_tenant_has_its_pod_explained_without_names_of_others(
    world: LabCluster, as_user: AsUser
) -> None:
    """By the scheduler, which asks whether the tenant may get the pod."""
    for document in objects_of(["scheduler"], Choices(image=IMAGE, scheduler_name=NAME)):
        resource = NAMESPACES if document["kind"] == "Namespace" else resource_of(document)
        await world.client.create(resource, document)

    async def is_ready() -> bool:
        found = await world.client.get(DEPLOYMENTS, "numakube-scheduler", namespace="numakube")
        return (found.get("status") or {}).get("readyReplicas") == 2

    await world.until(is_ready)
    await world.until(lambda: bool(refusal_of(world.pod("late"))))
    who = await account(world, "tenant")
    await bind(world, who, "ClusterRole", "edit", TEAM)
    alone = await as_user("tenant", "explain", "pod", "late")
    assert alone.code == 1
    assert "(403 Forbidden); nor can the scheduler be asked:" in alone.err
    assert "docs/reference/debug-endpoints.md#tenants" in alone.err
    await bind(world, who, "Role", TENANTS, "numakube")
    without = await as_user("tenant", "explain", "pod", "late")
    assert "create the ServiceAccount numakube-tenant in default" in without.err
    voice = await account(world, "numakube-tenant")
    deaf = await as_user("tenant", "explain", "pod", "late")
    assert "GET /explain/default/late is not allowed to you" in deaf.err
    await bind(world, voice, "ClusterRole", "view", TEAM)
    # What was refused is remembered for a while.
    told = await until(lambda: as_user("tenant", "explain", "pod", "late"), lambda told: told.out)
    assert told.code == 1, told.err
    assert "It fits nowhere: 0 of 2 nodes would take it." in told.out
    assert "2 x " in told.out
    assert "node-" not in told.out
    shown = await as_user("tenant", "explain", "pod", "late", "-o", "json")
    document = msgspec.json.decode(shown.out)
    assert (document["verdict"], document["nodes"]) == ("refused", 2)
    assert "node-" not in shown.out
    assert {change["resource"] for change in document["changes"]} == {"cpu"}
    other = await as_user("tenant", "explain", "pod", "kube-system/any")
    assert other.code == 1
    assert "you need the right to create serviceaccounts/token" in other.err

"""Users cannot give their pods CPUs or devices: the API server lets schedulers alone write that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from numakube.api.koordinator import keys
from numakube.errors import Forbidden
from numakube.kube.catalog import PODS, resource_of
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod, request_token
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices, objects_of
from numakube.manifests.rbac_rules import role, rule, service_account
from numakube.testing import pod_document, until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)
WORKLOADS = ("DaemonSet", "Deployment")
WHY = "only schedulers may write scheduling.koordinator.sh/resource-status"


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster with the rights and policies of enforcer and scheduler, and with others."""
    plans = uniform_plans(1, from_shape("1 socket, 4 cores, 8Gi"), "", "1.35")
    rights = [rule("", ["pods", "pods/status"], ["get", "create", "update", "patch"])]
    binds = [*rights, rule("", ["pods/binding"], ["create"])]
    documents = objects_of(("enforcer", "scheduler"), Choices())
    for name, rules in (("user", rights), ("other-scheduler", binds)):
        account = service_account(name, "default")
        documents += [account, *role(name, "default", rules, account)]
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        for document in documents:
            if document["kind"] not in WORKLOADS:
                await site.client.apply(
                    resource_of(document),
                    document,
                    namespace=document["metadata"].get("namespace", ""),
                    field_manager="test",
                    force=True,
                )
        yield site


async def connected(stack: AsyncExitStack, site: Site, namespace: str, account: str) -> Client:
    """Return a client with the token of an account."""
    token = await request_token(site.client, ObjectKey(namespace, account))
    return await stack.enter_async_context(site.connect(token=token.token))


def claiming(name: str, **annotations: str) -> dict[str, Any]:
    """Return a pod that has annotations, named as in `keys`."""
    named = {getattr(keys, key): text for key, text in annotations.items()}
    return pod_document(name, metadata={"annotations": named}, schedulerName="nobody")


def patch(**annotations: str | None) -> Any:
    """Return a change of annotations."""
    named = {getattr(keys, key): text for key, text in annotations.items()}
    return merge_patch({"metadata": {"annotations": named}})


async def refused(client: Client, document: dict[str, Any]) -> bool:
    """Tell whether the policy forbids to create a pod."""
    try:
        await client.create(PODS.raw, document, namespace="default", dry_run=True)
    except Forbidden as error:
        return WHY in str(error)
    return False


async def test_only_those_who_bind_pods_write_what_pods_were_given(site: Site) -> None:
    """On creation and update, of the status too; anything else of a pod can be changed by users."""
    async with AsyncExitStack() as stack:
        user = await connected(stack, site, "default", "user")
        # A policy takes effect a moment after it was stored.
        await until(lambda: refused(user, claiming("x", RESOURCE_STATUS='{"cpuset": "1"}')))
        with pytest.raises(Forbidden, match=r"may write scheduling\.koordinator\.sh/device-alloc"):
            await user.create(
                PODS.raw, claiming("x", DEVICE_ALLOCATED='{"gpu": []}'), namespace="default"
            )

        await user.create(PODS.raw, claiming("p", RESOURCE_STATUS="{}"), namespace="default")
        for part in ("", "status"):
            with pytest.raises(Forbidden, match=WHY):
                await change(user, patch(RESOURCE_STATUS='{"cpuset": "1"}'), part)

        # Koordinator's scheduler writes it to the pod, and ours with the binding.
        other = await connected(stack, site, "default", "other-scheduler")
        await change(other, patch(RESOURCE_STATUS='{"cpuset": "2"}'))
        ours = await connected(stack, site, "numakube", "numakube-scheduler")
        given = {keys.RESOURCE_STATUS: '{"cpuset": "3"}'}
        await bind_pod(ours, ObjectKey("default", "p"), "node-0", annotations=given)
        await site.client.create(
            PODS.raw, claiming("admins", RESOURCE_STATUS='{"cpuset": "1"}'), namespace="default"
        )

        # Whoever copies nothing into it may still change and finish the pod.
        await change(user, merge_patch({"metadata": {"labels": {"a": "b"}}}))
        await change(user, merge_patch({"status": {"reason": "Seen"}}), "status")
        with pytest.raises(Forbidden, match=WHY):
            await change(user, patch(RESOURCE_STATUS='{"cpuset": "1"}'))
        await change(user, patch(RESOURCE_STATUS=None))


async def change(client: Client, what: Any, part: str = "") -> None:
    """Change the pod."""
    await client.patch(PODS.raw, "p", what, namespace="default", subresource=part)

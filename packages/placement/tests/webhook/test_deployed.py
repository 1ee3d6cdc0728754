"""The webhook as it is deployed: its Secret, its Deployment and its rights, on a cluster."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from kube_lab_server import Authority
from numakube.kube.catalog import NAMESPACES, PODS, SECRETS, resource_of
from numakube.kube.catalog import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import SiteOptions, lab_site
from numakube_placement.manifests.webhook import NAME, SECRET, WebhookManifest


async def test_what_is_deployed_registers_its_authority_and_is_ready() -> None:
    """With no other rights than those of the manifest."""
    plan = NodePlan(name="node-0", machine=from_shape("1 socket, 4 cores, 8Gi"))
    authority = Authority.create(datetime.now(UTC))
    certificate, key = authority.issue([f"{NAME}.numakube.svc"], datetime.now(UTC))
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    manifest = WebhookManifest(replicas=1)
    async with lab_site(SiteOptions(plans=(plan,), exporters=False, rbac=True)) as site:
        client = site.client
        await client.create(NAMESPACES, {"metadata": {"name": manifest.namespace}})
        secret = {"metadata": {"name": SECRET}, "data": data}
        await client.create(SECRETS, secret, namespace=manifest.namespace)
        for document in manifest.objects():
            await client.create(resource_of(document), document)

        async def registered() -> bool:
            found = await client.get(CONFIGURATIONS, NAME)
            bundles = {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]}
            return bundles == {data["ca.crt"]}

        await until(registered)

        async def ready() -> bool:
            pods = (await client.list(PODS, namespace=manifest.namespace)).items
            conditions = pods[0].status.conditions if pods and pods[0].status else ()
            return any(
                condition.type == "Ready" and condition.status == "True" for condition in conditions
            )

        await until(ready)

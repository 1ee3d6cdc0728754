"""A client that may do exactly what a controller may with the rights that we ship."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from numakube.errors import AlreadyExists
from numakube.kube.catalog import resource_of
from numakube.kube.client import Client
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.controller_deployment import ControllerManifest
from numakube_lab.testing import LabCluster


@asynccontextmanager
async def with_shipped_rights(
    world: LabCluster, kind: type[ControllerManifest]
) -> AsyncIterator[Client]:
    """Give a client of the account of a controller, which is not deployed itself."""
    manifest = kind(namespace="default")
    for document in manifest.objects():
        if document["kind"] != "Deployment":
            with suppress(AlreadyExists):
                await world.client.create(resource_of(document), document)
    token = await request_token(world.client, ObjectKey("default", manifest.name))
    async with world.site.connect(token=token.token) as client:
        yield client

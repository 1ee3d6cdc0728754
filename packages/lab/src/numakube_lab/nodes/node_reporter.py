"""Tell the API about a node: its Node object, its status and its lease."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import structlog

from numakube.errors import AlreadyExists, NotFound
from numakube.kube import merge_patch, strategic_patch
from numakube.kube.catalog import LEASES, NODES
from numakube.values.times import format_time
from numakube_lab.nodes.dra_driver import publish
from numakube_lab.nodes.node_documents import (
    LEASE_NAMESPACE,
    LEASE_SECONDS,
    conditions,
    lease_of,
    node_document,
    node_labels,
    renewal,
    status_document,
)

if TYPE_CHECKING:
    from numakube.api.nodes import Node
    from numakube.kube import Client
    from numakube_lab.nodes.node_documents import NodeAddresses, NodeOffer, NodePlan

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NodeReporter:
    """Writes one node's objects.

    Attributes:
        lease_seconds: how long others are to take the node for alive without a renewal.
    """

    def __init__(self, client: Client, plan: NodePlan, addresses: NodeAddresses) -> None:
        self._client = client
        self.plan = plan
        self._addresses = addresses
        self.lease_seconds = LEASE_SECONDS
        self._uid = ""
        self._reported: NodeOffer | None = None

    async def register(self, offer: NodeOffer) -> None:
        """Create the Node and its lease, or bring those up to date that are there already."""
        now = self._client.clock.now()
        document = node_document(
            self.plan, offer, address=self._addresses.host, cidr=self._addresses.cidr, now=now
        )
        try:
            node = await self._client.create(NODES, document)
        except AlreadyExists:
            labels = {"metadata": {"labels": node_labels(self.plan)}}
            node = await self._client.patch(NODES, self.plan.name, merge_patch(labels))
            await self._patch_status(document["status"])
        self._uid = node.metadata.uid
        self._reported = offer
        await publish(self._client, self.plan, node_uid=self._uid)
        try:
            await self._create_lease()
        except AlreadyExists:
            await self.renew()

    async def report(self, offer: NodeOffer) -> None:
        """Write what the node offers, unless it was written already."""
        if offer == self._reported:
            return
        now = self._client.clock.now()
        old = self._reported
        document = status_document(offer, conditions=conditions(now=now))
        for part, amounts in (("capacity", offer.capacity), ("allocatable", offer.allocatable)):
            gone = getattr(old, part).keys() - amounts.keys() if old is not None else ()
            document[part].update(dict.fromkeys(gone))
        await self._patch_status(document)
        self._reported = offer

    async def heal(self, node: Node) -> None:
        """Say that the node is well, after others have taken it for dead."""
        now = self._client.clock.now()
        known = {condition.type: condition.status for condition in node.status.conditions}
        since = {"lastTransitionTime": format_time(now)}
        changed = [
            new if known.get(new["type"]) == new["status"] else {**new, **since}
            for new in conditions(now=now)
        ]
        await self._patch_status({"conditions": changed})

    async def beat(self) -> None:
        """Write the status although nothing has changed, so that its age shows no gap."""
        await self._patch_status({"conditions": conditions(now=self._client.clock.now())})

    async def renew(self) -> None:
        """Renew the lease, or create it again if it is gone."""
        now = self._client.clock.now()
        try:
            await self._client.patch(
                LEASES,
                self.plan.name,
                merge_patch(renewal(now=now, seconds=self.lease_seconds)),
                namespace=LEASE_NAMESPACE,
            )
        except NotFound:
            await self._create_lease()

    async def _create_lease(self) -> None:
        now = self._client.clock.now()
        lease = lease_of(self.plan, node_uid=self._uid, now=now, seconds=self.lease_seconds)
        await self._client.create(LEASES, lease)

    async def unregister(self) -> None:
        """Delete the Node and its lease."""
        name = self.plan.name
        with contextlib.suppress(NotFound):
            await self._client.delete(NODES, name)
        with contextlib.suppress(NotFound):
            await self._client.delete(LEASES, name, namespace=LEASE_NAMESPACE)

    async def _patch_status(self, status: object) -> None:
        patch = strategic_patch({"status": status})
        try:
            await self._client.patch(NODES, self.plan.name, patch, subresource="status")
        except NotFound:
            # The Node was deleted. As with a real kubelet, only a restart registers it again.
            _log.warning("node_object_missing", node=self.plan.name)

"""Other producers of reports than ours: like RTE and like NFD's topology updater.

They tell the truth in amounts, a moment late. They write zones and attributes and leave annotations
of others alone, as both do; RTE adds a fingerprint of the pods, NFD does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    KubeletUnavailable,
    NotFound,
)
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.kube.client import Client, merge_patch
from numakube.topology import nrt_names
from numakube_lab.exporters import Freezer, HardwareShelf, LabSource
from numakube_lab.nodes.node_pool import NodePool

LATE_SECONDS: Final = 0.5
PERIOD_SECONDS: Final = 10.0
"""How often both look by themselves."""


class ForeignProducer:
    """Writes the reports of those nodes that *serves* says."""

    def __init__(
        self, client: Client, nodes: NodePool, serves: Callable[[str], bool], *, fingerprint: bool
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._serves = serves
        self._fingerprint = fingerprint
        self._shelf = HardwareShelf()
        self._due: set[str] = set()
        self._news = asyncio.Event()
        nodes.observe(self._on_node)

    def review(self) -> None:
        """Look at all nodes."""
        self._due |= set(self._nodes.kubelets)
        self._news.set()

    def _on_node(self, name: str) -> None:
        self._due.add(name)
        self._news.set()

    async def run(self) -> None:
        """Write until cancelled."""
        clock = self._client.clock
        while True:
            try:
                async with clock.timeout(PERIOD_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                self._due |= set(self._nodes.kubelets)
            self._news.clear()
            await clock.sleep(LATE_SECONDS)
            due, self._due = self._due, set()
            for name in sorted(due):
                # A node may have left while another one's report was written.
                if name in self._nodes.kubelets and self._serves(name):
                    await self._write_or_try_later(name)

    async def _write_or_try_later(self, name: str) -> None:
        try:
            await self._write(name)
        except (ApiError, ClusterUnreachable):
            # A server that starts refuses for a while what it will allow.
            self._due.add(name)

    async def _write(self, name: str) -> None:
        kubelet = self._nodes.kubelet(name)
        source = LabSource(
            kubelet, self._shelf.of(kubelet.plan.machine), self._nodes.pods, Freezer()
        )
        try:
            inputs = await source.read()
        except KubeletUnavailable:
            return
        options = ReportOptions(
            node_name=name,
            exact=False,
            numa_placement=False,
            fingerprint=self._fingerprint,
        )
        report = topology_of(inputs, options, cause=ScanCause.PERIODIC).topology(name)
        told = msgspec.to_builtins(report)
        content: dict[str, Any] = {
            "zones": told["zones"],
            "attributes": [
                attribute
                for attribute in told["attributes"]
                if not attribute["name"].startswith(nrt_names.OUR_PREFIX)
            ],
            "topologyPolicies": told.get("topologyPolicies"),
        }
        if self._fingerprint:
            content["metadata"] = {"annotations": {nrt_names.RTE_UPDATE_ANNOTATION: "reactive"}}
        try:
            await self._client.patch(NODE_RESOURCE_TOPOLOGIES.raw, name, merge_patch(content))
        except NotFound:
            metadata = {**content.pop("metadata", {}), "name": name}
            try:
                await self._client.create(
                    NODE_RESOURCE_TOPOLOGIES.raw, {**content, "metadata": metadata}
                )
            except AlreadyExists:
                self._due.add(name)

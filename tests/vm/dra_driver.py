"""A DRA driver without devices: slices with NUMA places, registered with a real kubelet.

The kubelet (1.35) finds its socket in ``plugins_registry``, asks who it is, and calls it to prepare
the claims of pods. What it prepares is what the claims were allocated.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from numakube.errors import AlreadyExists
from numakube.kube.catalog import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from numakube.kube.client import Client
from numakube.node.device_plugin.plugin_protocol import REGISTRATION_SERVICE
from numakube.node.device_plugin.plugin_registration import PluginInfo, RegistryRegistrant
from numakube.node.dra_plugin import MESSAGES
from numakube.node.grpc_serving import serve_socket, unary_handler
from numakube.testing import until

NAME: Final = "gpu.example"
SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCI_ADDRESS: Final = "resource.kubernetes.io/pciBusID"
_KUBELET: Final = Path("/var/lib/kubelet")
_REGISTERED_SECONDS: Final = 60.0


@dataclass(slots=True)
class FakeDraDriver:
    """Offers devices of one node.

    Attributes:
        client: has all rights.
        state: what is ``/var/lib/kubelet`` to the kubelet.
        node: its name.
        places: the NUMA node of each device.
        prepared: names of the claims that the kubelet had prepared.
    """

    client: Client
    state: Path
    node: str
    places: tuple[int, ...]
    prepared: list[str] = field(default_factory=list)
    _told: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the kubelets that come up."""
        folder, registry = self.state / "plugins" / NAME, self.state / "plugins_registry"
        for path in (folder, registry):
            path.mkdir(parents=True, exist_ok=True)
        endpoint = str(_KUBELET / "plugins" / NAME / "dra.sock")
        info = PluginInfo(
            type="DRAPlugin", name=NAME, endpoint=endpoint, versions=("v1.DRAPlugin",)
        )
        registrant = RegistryRegistrant(info, self._told.append)
        driver = await serve_socket(folder / "dra.sock", {SERVICE: self._handlers()})
        known = await serve_socket(
            registry / f"{NAME}-reg.sock", {REGISTRATION_SERVICE: registrant.handlers()}
        )
        try:
            yield
        finally:
            await known.stop(grace=None)
            await driver.stop(grace=None)

    def _handlers(self) -> dict[str, Any]:
        return {
            "NodePrepareResources": unary_handler(
                self._prepare, MESSAGES.NodePrepareResourcesRequest
            ),
            "NodeUnprepareResources": unary_handler(
                self._unprepare, MESSAGES.NodeUnprepareResourcesRequest
            ),
        }

    async def _prepare(self, request: Any, _: object) -> Any:
        answer = MESSAGES.NodePrepareResourcesResponse()
        for other in request.claims:
            claim = await self.client.get(RESOURCE_CLAIMS, other.name, namespace=other.namespace)
            for result in claim["status"]["allocation"]["devices"]["results"]:
                answer.claims[other.uid].devices.add(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=result["device"],
                )
            self.prepared.append(other.name)
        return answer

    async def _unprepare(self, request: Any, _: object) -> Any:
        answer = MESSAGES.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].error = ""
        return answer

    async def publish(self) -> None:
        """Publish the devices once the kubelet knows the driver: it removes slices as it starts."""
        await until(lambda: bool(self._told), within=_REGISTERED_SECONDS)
        assert not self._told.pop(), "the kubelet does not want the driver"
        self._told.clear()
        devices = [
            {"name": f"gpu-{number}", "attributes": self._attributes(number)}
            for number in range(len(self.places))
        ]
        pool = {"name": self.node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": NAME, "nodeName": self.node, "pool": pool, "devices": devices}
        await self._create(RESOURCE_SLICES, {"metadata": {"name": self.node}, "spec": spec})
        rule = {"cel": {"expression": f"device.driver == '{NAME}'"}}
        kind = {"metadata": {"name": NAME}, "spec": {"selectors": [rule]}}
        await self._create(DEVICE_CLASSES, kind)

    def _attributes(self, number: int) -> dict[str, Any]:
        """Say where a device is: of every other one only the PCI address."""
        if number % 2:
            return {PCI_ADDRESS: {"string": self.address(number)}}
        return {NUMA_NODE: {"int": self.places[number]}}

    def address(self, number: int) -> str:
        """Return the PCI address of a device; each NUMA node has buses of its own."""
        return f"0000:{0x20 * self.places[number] + number:02x}:00.0"

    async def _create(self, kind: Any, document: dict[str, Any]) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.client.create(kind, document)

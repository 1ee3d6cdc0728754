"""A node with a driver, an API server and claims, for tests of the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from kube_lab_server import ApiServer
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import KubeletUnavailable
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.dra_plugin import ClaimRef, Prepared
from numakube.node.pci.fake_pci import FakePci
from numakube.node.pci.host_scan import SurveyOptions
from numakube.node.pci.pci_discovery import Host
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    DynamicResource,
    PodResources,
)
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.cdi import CdiFiles
from numakube_dra_driver.device_metadata import MetadataFiles, NetworkInfoFiles
from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER, OfferedFunction
from numakube_dra_driver.identity import COMPATIBLE, OWN, Identity
from numakube_dra_driver.ledger import Disk, Ledger
from numakube_dra_driver.memory_pools import HUGEPAGES_CAPACITY, MEMORY_CAPACITY
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.offer import Offer, OfferOptions, make_offer
from numakube_dra_driver.pci_functions import FunctionReader, NodeFunctions
from numakube_dra_driver.preparing import Confining, Preparer
from numakube_lab.inprocess_transport import InProcess

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
NODE = "n1"
POOL = "n1/compute"
PCI_POOL = "n1/pci"
CAPACITIES = {"memory": MEMORY_CAPACITY, "hugepages": HUGEPAGES_CAPACITY}


def offer_of(
    machine: Machine | str = SHAPE, config: KubeletConfiguration | None = None, **options: Any
) -> Offer:
    """Return what a node offers."""
    built = from_shape(machine) if isinstance(machine, str) else machine
    nowhere = Path("/none")
    wanted = OfferOptions(sysfs=nowhere, kubelet_config=nowhere, **options)
    return make_offer(built, config or KubeletConfiguration(), wanted)


def result(
    device: str, amount: str | None = None, *, request: str = "cpus", **more: Any
) -> dict[str, Any]:
    """Return a result of an allocation."""
    found: dict[str, Any] = {"request": request, "driver": DRIVER, "pool": POOL, "device": device}
    if amount is not None:
        capacity = next(
            (name for word, name in CAPACITIES.items() if device.startswith(word)), CPU_CAPACITY
        )
        found |= {"consumedCapacity": {capacity: amount}}
        found |= {"shareID": f"{abs(hash((device, amount, request))):032x}"[:32]}
    return found | more


def function_result(device: str, *, request: str = "vf") -> dict[str, Any]:
    """Return a result that is a PCI function."""
    return {"request": request, "driver": DRIVER, "pool": PCI_POOL, "device": device}


def parameters(*requests: str, source: str = "FromClaim", **fields: Any) -> dict[str, Any]:
    """Return parameters as an allocation has them."""
    text = {"apiVersion": "numakube.dev/v1alpha1", "kind": "ClaimParameters", **fields}
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": DRIVER, "parameters": text},
    }


class Unconfined:
    """Leaves everybody where they are."""

    async def settle(self) -> str:
        """Do nothing."""
        return ""

    def runs(self, uid: str) -> bool:
        """Tell of no pod."""
        del uid
        return False


class Kubelet:
    """Lists the claims that a kubelet knows."""

    def __init__(self) -> None:
        self.knows: list[str] = []
        self.plugins: dict[str, str] = {}
        self.has: dict[str, str] = {}
        self.answers = True

    async def allocatable(self) -> AllocatableResources:
        """Return what device plugins offer: resources by the names of devices."""
        if not self.answers:
            raise KubeletUnavailable("the kubelet is away")
        devices = (Devices(resource, (id_,)) for id_, resource in self.plugins.items())
        return AllocatableResources(devices=tuple(devices))

    async def list_pods(self) -> Sequence[PodResources]:
        """Return a pod for each."""
        holders = [
            PodResources(
                name=pod,
                namespace="default",
                containers=(ContainerResources(name="main", devices=(Devices("x/y", (id_,)),)),),
            )
            for id_, pod in self.has.items()
        ]
        return holders + [
            PodResources(
                name=one,
                namespace="default",
                containers=(
                    ContainerResources(
                        name="main", dynamic_resources=(DynamicResource(one, "default"),)
                    ),
                ),
            )
            for one in self.knows
        ]


@dataclass
class Bed:
    """A node with what a driver needs; drivers come and go."""

    folder: Path
    server: ApiServer
    client: Client
    clock: ManualClock
    offer: Offer = field(default_factory=offer_of)
    kubelet: Kubelet = field(default_factory=Kubelet)
    functions: NodeFunctions | None = None

    @classmethod
    def on(cls, server: ApiServer, clock: ManualClock, folder: Path) -> Bed:
        """Return a node beside *server*."""
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        return cls(folder, server, client, clock)

    @property
    def state(self) -> Path:
        """The folder of the ledger."""
        return self.folder / "state"

    @property
    def cdi(self) -> Path:
        """The folder that runtimes read."""
        return self.folder / "cdi"

    def driver(
        self,
        disk: Disk | None = None,
        confining: Confining | None = None,
        identity: Identity = OWN,
    ) -> Preparer:
        """Return a process of the driver that has just been started."""
        disk = disk or Disk()
        return Preparer(
            self.client,
            self.ledger(disk),
            CdiFiles(self.cdi, disk, identity.cdi),
            pools=(POOL, NODE) if identity is COMPATIBLE else (POOL, PCI_POOL),
            offer=lambda: self.offer,
            metrics=DraMetrics(CollectorRegistry()),
            confining=confining or Unconfined(),
            network_info=NetworkInfoFiles(self.folder / "devinfo", disk),
            functions=self.functions,
            metadata=MetadataFiles(
                identity.driver,
                disk,
                folder=self.folder / "plugins" / identity.driver,
                cdi_folder=self.cdi,
                devices=lambda: {
                    device.name: device
                    for device in (*self.offer.devices, *(one.device for one in self._found()))
                },
            ),
            identity=identity,
        )

    def _found(self) -> Sequence[OfferedFunction]:
        functions = self.offer.functions
        return tuple(functions.by_name.values()) if functions is not None else ()

    def use_functions(self, *pools: dict[str, Any]) -> FakePci:
        """Have two cards, one on each NUMA node, and offer what *pools* take of them."""
        pci = FakePci(self.folder / "sys")
        for place in (0, 1):
            address = f"0000:1{place}:00.0"
            pci.pf(address, interface=f"ens{place}f0", numa_node=place)
            pci.vfs(address, 2)
        self.pools(*pools or ({"resourceName": "nic", "selectors": {}},))
        at = self.folder
        host = Host(sysfs=at / "sys", dev=at / "dev", proc=at / "proc")
        reader = FunctionReader(
            self.folder / "pools.json", host, prefix="intel.com", options=SurveyOptions()
        )
        self.functions = NodeFunctions(reader, self.kubelet, self.clock)
        self.functions.assume_none()
        self.look()
        return pci

    def pools(self, *pools: dict[str, Any]) -> None:
        """Write the configuration of pools."""
        (self.folder / "pools.json").write_text(json.dumps({"resourceList": pools}))

    def look(self) -> None:
        """Look at the host, as the driver does from time to time."""
        assert self.functions is not None
        self.offer = replace(self.offer, functions=self.functions.look())

    async def functions_known(self) -> None:
        """Look again when the kubelet has told what device plugins have."""
        assert self.functions is not None
        await self.functions.taken()
        self.look()

    def ledger(self, disk: Disk | None = None) -> Ledger:
        """Return the ledger as a process sees it."""
        return Ledger(self.state, self.clock, disk=disk)

    def held(self) -> dict[str, str]:
        """Return what is on disk: CPUs by the names of claims."""
        ledger = self.ledger()
        ledger.load()
        return {claim.name: str(CpuSet(claim.mask)) for claim in ledger.claims.values()}

    async def claim(
        self,
        name: str,
        *results: dict[str, Any],
        config: Sequence[dict[str, Any]] = (),
        users: Sequence[str] = (),
    ) -> ClaimRef:
        """Create a claim that is allocated and reserved for pods, as a scheduler leaves it."""
        requests = sorted({entry["request"].partition("/")[0] for entry in results})
        wanted = [{"name": request, "exactly": {"deviceClassName": "c"}} for request in requests]
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": wanted}},
        }
        created = await self.client.create(RESOURCE_CLAIMS, document)
        status = {
            "allocation": {"devices": {"results": list(results), "config": list(config)}},
            "reservedFor": [
                {"resource": "pods", "name": user, "uid": user}
                for user in users or (f"pod-{name}",)
            ],
        }
        kept = await self.client.update(
            RESOURCE_CLAIMS, {**created, "status": status}, subresource="status"
        )
        return ClaimRef("default", name, str(kept["metadata"]["uid"]))


async def prepared(driver: Preparer, ref: ClaimRef) -> Prepared:
    """Have a claim prepared; return what became of it."""
    return (await driver.prepare([ref]))[ref.uid]


async def unprepared(driver: Preparer, ref: ClaimRef) -> str:
    """Have a claim unprepared; return what went wrong."""
    return (await driver.unprepare([ref]))[ref.uid]

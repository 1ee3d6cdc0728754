"""What lives on an API server: nodes, controllers, exporters and the pods that really run.

    async with Crew(client, folder, inside=inside) as crew:
        await crew.pool.restart("node-0")

All of them know the API by its client alone, so the server may be the lab's own or any other one
that lets the client do everything: a bare kube-apiserver becomes a cluster with them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.deployer.apply_and_remove import Engine
from numakube.manifests.components import Choices, objects_of
from numakube_lab.controllers.all_controllers import ALL, Controllers
from numakube_lab.controllers.default_scheduler import DefaultScheduler
from numakube_lab.exporters.exporter_pool import ExporterPool
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.node_pool import NODE_INDEX, NodePool
from numakube_lab.processes.process_runtime import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube_lab.nodes.lab_kubelet import LabKubelet
    from numakube_lab.nodes.node_plan import NodePlan
    from numakube_lab.processes.config_sources import InsideAddress
    from numakube_lab.run_folder import RunDir


class Crew(Lifetime):
    """Nodes, controllers and exporters that run for the length of a context.

    Attributes:
        client: how they reach the API server.
        pool: the nodes.
        runtime: what runs containers of numakube's own image.
        exporters: what publishes the nodes' zones, if that is wanted.
    """

    def __init__(
        self,
        client: Client,
        folder: RunDir,
        *,
        inside: Callable[[], InsideAddress],
        plans: tuple[NodePlan, ...] = (),
        exporters: bool = False,
        default_scheduler: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare a crew.

        Args:
            client: has all rights; its clock is everybody's.
            folder: where nodes and pods keep their files.
            inside: tells where pods that really run reach the API server.
            plans: the nodes to start with.
            exporters: whether every node has an exporter.
            default_scheduler: whether pods that name no scheduler are scheduled.
            tell: receives the progress of starting nodes.
        """
        self.client = client
        self.runtime = ProcessRuntime(client, folder=folder.pods, nodes=folder.nodes, inside=inside)
        self.pool = NodePool(client, root=folder.nodes, runtime=self.runtime)
        self.exporters = ExporterPool(client, self.pool) if exporters else None
        self._controllers = [one for one in ALL if default_scheduler or one is not DefaultScheduler]
        self._plans = plans
        self._tell = tell

    async def live(self) -> AsyncIterator[None]:
        """Start everybody, until the nodes are reported; end them in the opposite order."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.runtime)
            await stack.enter_async_context(self.pool)
            self.runtime.attach(self.pool)
            await stack.enter_async_context(Controllers(self.client, which=self._controllers))
            if self.exporters is not None:
                await stack.enter_async_context(self.exporters)
            await self.add(*self._plans)
            yield

    async def add(self, *plans: NodePlan) -> None:
        """Start more nodes; returns when they have registered and were reported."""
        await self.pool.add(*plans, tell=self._tell)
        if self.exporters is not None:
            for number, plan in enumerate(plans, 1):
                await self.exporters.reported(plan.name)
                self._tell(f"{number} of {len(plans)} nodes are reported")


# How the kubelet begins the message of a pod that it refused.
REJECTED_PREFIX = "Pod was rejected: "


def node_summaries(pool: NodePool) -> list[dict[str, Any]]:
    """Return every node's state, with what is free on each of its NUMA nodes."""
    return [
        _summary(kubelet, rejected=sum(map(_is_rejected, pool.pods.select(NODE_INDEX, name))))
        for name, kubelet in pool.kubelets.items()
    ]


def _is_rejected(pod: Pod) -> bool:
    message = pod.status.message if pod.status else ""
    return bool(message) and message.startswith(REJECTED_PREFIX)


def _summary(kubelet: LabKubelet, *, rejected: int) -> dict[str, Any]:
    admission = kubelet.admission
    model = admission.model if admission else None
    config = kubelet.plan.config
    cpus = model.cpus if model else None
    return {
        "name": kubelet.name,
        "state": kubelet.state.value,
        "policy": config.topology_manager_policy or "none",
        "scope": config.topology_manager_scope or "container",
        "pods": len(list(admission.pods)) if admission else 0,
        "rejected": rejected,
        "exclusiveCpus": (cpus.allocatable & ~cpus.shared).bit_count() if cpus else 0,
        "allocatableCpus": cpus.allocatable.bit_count() if cpus else 0,
        "zones": _zones(model) if model else [],
    }


def _zones(model: KubeletNode) -> list[dict[str, Any]]:
    cpus = model.cpus.free_by_node("cpu") if model.cpus else {}
    memory = model.memory.free_by_node("memory") if model.memory else {}
    devices = {name: model.devices.free_by_node(name) for name in model.devices.resources()}
    return [
        {
            "id": node.id,
            "cpusFree": cpus.get(node.id),
            "memoryFreeBytes": memory.get(node.id),
            "devicesFree": {name: free.get(node.id, 0) for name, free in devices.items()},
        }
        for node in model.machine.nodes
    ]


PATIENCE_SECONDS: Final = 60.0


async def deploy_enforcers(client: Client) -> None:
    """Deploy enforcers; returns when those of all nodes work, or after a while."""
    documents = objects_of(("enforcer",), Choices())
    engine = Engine(client=client, tell=lambda _: None, adopt=True)
    await engine.deploy(documents)
    await engine.wait_ready(documents, PATIENCE_SECONDS, lambda _: None)

"""A lab: an API server, nodes, controllers, exporters, and the parts that it is made of.

    async with Lab(options, folder) as lab:
        ...  # lab.url, lab.client
        await lab.ended.wait()

Leaving the context ends every part in the opposite order of their start.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server import (
    AUTHENTICATED,
    MASTERS,
    ApiServer,
    FaultKind,
    FaultRule,
    Faults,
    User,
    server_context,
)
from numakube.api.codec import convert
from numakube.api.yaml_text import dump_yaml
from numakube.apps.deployer import DeployEngine
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.kube import Client
from numakube.kubelet import (
    from_cadvisor,
    lab_configuration,
    overridden,
    parse_kubelet_options,
    read_devices,
)
from numakube.manifests import Choices, objects_of
from numakube.topology import TreeTable, read_tree
from numakube_lab.control_socket import ControlServer
from numakube_lab.controllers.all_controllers import ALL, Controllers, DefaultScheduler
from numakube_lab.dumps.bring_pods import Bringing
from numakube_lab.exporters import ExporterPool, steer
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.lab_dashboard import LabDashboard
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.nodes.node_pool import NODE_INDEX, NodePool
from numakube_lab.openshift_kinds import install_openshift_kinds
from numakube_lab.processes.container_output import ContainerLogs
from numakube_lab.processes.full_pod_spec import InsideAddress
from numakube_lab.processes.process_runtime import ProcessRuntime
from numakube_lab.run_folder import LabInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from numakube.api.pod import Pod
    from numakube.kubelet import KubeletNode, Machine
    from numakube_lab.dumps.cluster_dump import Dump
    from numakube_lab.nodes.lab_kubelet import LabKubelet
    from numakube_lab.run_folder import RunDir


# What lives on an API server: nodes, controllers, exporters and the pods that really run.
#
#     async with Crew(client, folder, inside=inside) as crew:
#         await crew.pool.restart("node-0")
#
# All of them know the API by its client alone, so the server may be the lab's own or any other one
# that lets the client do everything: a bare kube-apiserver becomes a cluster with them.


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
        self._controllers = [
            factory for factory in ALL if default_scheduler or factory is not DefaultScheduler
        ]
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
    engine = DeployEngine(client=client, tell=lambda _: None, adopt=True)
    await engine.deploy(documents)
    await engine.wait_ready(documents, PATIENCE_SECONDS, lambda _: None)


ADMIN = "lab-admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """What a lab is to be.

    Attributes:
        plans: the nodes to start with.
        data: a file that keeps everything across restarts; in memory if ``None``.
        tls: whether to serve HTTPS, with an authority of the lab's own.
        rbac: whether users other than the administrator need rights.
        exporters: whether every node has an exporter, which publishes its zones.
        enforcers: whether every node has the enforcer, deployed as on a real cluster.
        default_scheduler: whether pods that name no scheduler are scheduled, blind to NUMA.
        openshift: whether kinds of OpenShift and of OLM exist, with nothing behind them.
        gates: feature gates of the API server that are on.
        pods_of: a dump whose pods are brought along; the nodes are to be of it too.
    """

    name: str = "lab"
    plans: tuple[NodePlan, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    data: Path | None = None
    tls: bool = False
    rbac: bool = False
    exporters: bool = False
    enforcers: bool = False
    default_scheduler: bool = True
    openshift: bool = False
    gates: frozenset[str] = frozenset()
    pods_of: Dump | None = None


def uniform_plans(
    count: int, machine: Machine, words: str, kubernetes: str, *, first: int = 0
) -> tuple[NodePlan, ...]:
    """Return plans of *count* equal nodes, named from ``node-<first>`` on."""
    config = lab_configuration(machine, parse_kubelet_options(words))
    return tuple(
        NodePlan(name=f"node-{number}", machine=machine, config=config, kubernetes=kubernetes)
        for number in range(first, first + count)
    )


class Lab(Lifetime):
    """A running lab.

    Attributes:
        ended: set when the lab has to end.
        client: a client with all rights that needs no sockets.
        crew: what lives on the server; its parts are attributes of the lab as well.
        pool: the nodes.
        runtime: what runs containers of numakube's own image.
        faults: what befalls requests over HTTP.
        exporters: what publishes the nodes' zones, if the options ask for it.
    """

    def __init__(
        self, options: LabOptions, folder: RunDir, *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """Prepare a lab; *tell* receives the progress of starting nodes."""
        self.ended = asyncio.Event()
        self._options = options
        self._folder = folder
        self._token = secrets.token_urlsafe(24)
        self.faults = Faults(Random())  # noqa: S311 - chance, not secrecy
        admin = User(ADMIN, "", (MASTERS, AUTHENTICATED))
        self.server = ApiServer(
            host=options.host,
            port=options.port,
            users={self._token: admin},
            rbac=options.rbac,
            tls=options.tls,
            data=options.data,
            faults=self.faults,
            for_pods=True,
            gates=options.gates,
        )
        self.client = Client(InProcess(self.server, user=ADMIN), rate=0)
        self.crew = Crew(
            self.client,
            folder,
            inside=self._inside,
            plans=options.plans,
            exporters=options.exporters,
            default_scheduler=options.default_scheduler,
            tell=tell,
        )
        self.runtime = self.crew.runtime
        self.pool = self.crew.pool
        self.exporters = self.crew.exporters
        self._dashboard = LabDashboard(self.client, name=options.name, host=options.host)
        self._tell = tell
        self._notes: list[str] = []

    async def live(self) -> AsyncIterator[None]:
        """Start everything, and end it in the opposite order."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            self.server.state.logs.append(ContainerLogs(self.runtime, self.client.clock))
            self.server.state.pod_servers.append(self.runtime.server)
            self.server.state.kubelet_configs.append(self.pool.config)
            await stack.enter_async_context(self.crew)
            if self._options.tls and self.server.authority is not None:
                names = dict.fromkeys((self._options.host, "127.0.0.1"))
                pair = self.server.authority.issue(names, self.server.state.now())
                self._dashboard.tls = server_context(*pair)
            await stack.enter_async_context(self._dashboard)
            control = ControlServer(self, self._folder.control_socket)
            await stack.enter_async_context(control)
            self._folder.kubeconfig.write_text(self._kubeconfig(), encoding="utf-8")
            self._folder.kubeconfig.chmod(0o600)
            if self._options.pods_of is not None:
                bringing = Bringing(self.client, self.pool, self._options.pods_of)
                await bringing.bring(self._tell)
                self._notes = bringing.notes
            if self._options.openshift:
                await install_openshift_kinds(self.client)
            if self._options.enforcers:
                await deploy_enforcers(self.client)
            yield

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self.server.url

    def info(self) -> LabInfo:
        """Return what other processes need to know."""
        return LabInfo(
            name=self._options.name,
            pid=os.getpid(),
            server=self.url,
            dashboard=self._dashboard.url,
            kubeconfig=str(self._folder.kubeconfig),
            notes=tuple(self._notes),
        )

    async def status(self) -> dict[str, Any]:
        """Return what runs."""
        info = self.info()
        return {
            "name": info.name,
            "server": info.server,
            "dashboard": info.dashboard,
            "kubeconfig": info.kubeconfig,
            "nodes": node_summaries(self.pool),
            "faults": len(self.faults.rules()),
        }

    async def add_nodes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Add nodes of a machine that the request describes."""
        try:
            machine = replace(
                from_cadvisor(
                    request["machine"], devices=read_devices(request.get("devices") or {})
                ),
                tree=read_tree(convert(TreeTable, request.get("tree") or {}, "request")),
            )
            count = int(request.get("count", 1))
        except (KeyError, TypeError, ValueError, InvalidValue) as error:
            raise MalformedObject("request", f"cannot add nodes: {error}") from None
        plans = uniform_plans(
            count,
            machine,
            str(request.get("kubelet", "")),
            str(request.get("kubernetes", "1.35")),
            first=self._next_number(),
        )
        await self.crew.add(*plans)
        return {"nodes": [plan.name for plan in plans]}

    async def set_kubelet(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Restart a node's kubelet with other settings or another version."""
        plan = self.pool.kubelet(name).plan
        words = parse_kubelet_options(str(request.get("kubelet") or ""))
        changed = replace(
            plan,
            config=overridden(plan.config, plan.machine, words),
            kubernetes=str(request.get("kubernetes") or plan.kubernetes),
        )
        await self.pool.reconfigure(name, changed)
        return {"node": name}

    async def steer_node(self, name: str, action: str) -> dict[str, Any]:
        """Kill, start, restart, pause, resume or remove a node, or have its folder written."""
        match action:
            case "folder":
                return {"path": str(await self.pool.folder(name))}
            case "kill":
                await self.pool.kill(name)
            case "start":
                await self.pool.start(name)
            case "restart":
                await self.pool.restart(name)
            case "pause":
                self.pool.pause(name)
            case "resume":
                self.pool.resume(name)
            case "remove":
                await self.pool.remove(name)
            case _:
                raise ConfigError(f"unknown action {action!r} for a node")
        return {"node": name}

    async def add_fault(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put a fault in force."""
        values = {key: value for key, value in request.items() if value is not None}
        try:
            values["kind"] = FaultKind(values["kind"])
            values["methods"] = tuple(values.get("methods", ()))
            rule = FaultRule(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedObject("fault", str(error)) from None
        return {"number": self.faults.add(rule)}

    async def clear_faults(self) -> dict[str, Any]:
        """Lift all faults."""
        self.faults.clear()
        if self.exporters is not None:
            self.exporters.clear()
        return {}

    async def list_faults(self) -> dict[str, Any]:
        """Return the faults in force: those of requests by number, of exporters by node."""
        rules = {str(number): asdict(rule) for number, rule in self.faults.rules().items()}
        exporters = self.exporters.faults() if self.exporters is not None else {}
        return {**rules, **({"exporters": exporters} if exporters else {})}

    async def steer_exporters(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Freeze, thaw or skew the exporters of the nodes that the request names."""
        if self.exporters is None:
            raise ConfigError("this lab runs no exporters; start it without --no-exporter")
        return steer(self.exporters, request)

    async def expire_history(self) -> dict[str, Any]:
        """Forget the past: older versions and continue tokens expire."""
        self.server.state.store.compact()
        return {}

    async def drop_watches(self) -> dict[str, Any]:
        """Break off all watches."""
        self.server.state.feeds.end()
        return {}

    async def shut_down(self) -> dict[str, Any]:
        """End the lab."""
        self.ended.set()
        return {}

    def _inside(self) -> InsideAddress:
        """Return where pods reach the API server."""
        server = self.server
        if server.inside is None or server.authority is None:
            raise ConfigError("the API server of this lab cannot be reached by pods")
        host, port = server.inside
        return InsideAddress(host=host, port=port, authority=server.authority.certificate)

    def _next_number(self) -> int:
        numbers = [
            int(name.removeprefix("node-"))
            for name in self.pool.kubelets
            if name.removeprefix("node-").isdecimal()
        ]
        return max(numbers, default=-1) + 1

    def _kubeconfig(self) -> str:
        context = f"numakube-{self._options.name}"
        cluster = {"server": self.url}
        if self._options.tls and self.server.authority is not None:
            certificate = base64.b64encode(self.server.authority.certificate)
            cluster["certificate-authority-data"] = certificate.decode()
        return dump_yaml(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": context,
                "clusters": [{"name": context, "cluster": cluster}],
                "users": [{"name": ADMIN, "user": {"token": self._token}}],
                "contexts": [
                    {
                        "name": context,
                        "context": {"cluster": context, "user": ADMIN, "namespace": "default"},
                    }
                ],
            }
        )

"""Nodes: what they offer and whether they are well."""

from typing import Final

import msgspec

from numakube.api.affinity_and_taints import Taint
from numakube.api.codec import ResourceList, Timestamp, Wire, always
from numakube.api.meta import ObjectMeta

ROLE_PREFIX: Final = "node-role.kubernetes.io/"
"""Labels of nodes with this beginning tell their roles."""
CONTROL_PLANE: Final = f"{ROLE_PREFIX}control-plane"
MASTER: Final = f"{ROLE_PREFIX}master"
WORKER: Final = f"{ROLE_PREFIX}worker"


class NodeSpec(Wire, frozen=True):
    """What the cluster knows of a node."""

    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Wire, frozen=True):
    """One aspect of a node's health."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


class NodeAddress(Wire, frozen=True):
    """An address or name of a node."""

    type: str
    address: str


class DaemonEndpoint(Wire, frozen=True):
    """A port; the JSON name really is capitalised."""

    port: int = msgspec.field(name="Port")


class NodeDaemonEndpoints(Wire, frozen=True):
    """Ports of the node's daemons."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSystemInfo(Wire, frozen=True):
    """Versions and ids of a node's software."""

    machine_id: str = msgspec.field(default="", name="machineID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class ContainerImage(Wire, frozen=True):
    """An image that a node has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Wire, frozen=True):
    """What a node offers."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints | None = None
    node_info: NodeSystemInfo | None = None
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Wire, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    api_version: str = always("v1")
    kind: str = always("Node")

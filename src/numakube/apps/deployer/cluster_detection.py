"""Which kind of cluster this is, and what of this field's stack is already on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import decode
from numakube.api.meta import ServerVersion
from numakube.api.nodes import CONTROL_PLANE
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.api.yaml_text import load_yaml
from numakube.errors import ApiError, NumakubeError
from numakube.kube.catalog import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NODES
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import Resource

if TYPE_CHECKING:
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document

EXPORTER: Final = "exporter"
SCHEDULER: Final = "scheduler"
OURS: Final = "numakube"
REPLACED: Final = "numakube.dev/replaced"
"""The annotation of what was stopped, with the replicas there were; and a label of no node."""
_CLUSTER_VERSIONS: Final = Resource(
    group="config.openshift.io",
    version="v1",
    plural="clusterversions",
    kind="ClusterVersion",
    namespaced=False,
    object_type=dict[str, Any],
)


@dataclass(frozen=True, slots=True)
class Platform:
    """What a cluster is.

    Attributes:
        kind: ``Kubernetes`` or ``OpenShift``.
        version: of the API server.
    """

    kind: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A part of an installation, of others or of ours.

    Attributes:
        role: ``exporter``, ``scheduler`` or ``operator``.
        project: whose it is.
        arguments: of its command line.
        scheduler_names: what pods name to be scheduled by it.
        configuration: the KubeSchedulerConfiguration of a scheduler, as it is written.
        unread: why that could not be read; empty if it was, or there is none.
        owner: what makes it and would mend it, such as ``NUMAResourcesScheduler/x``.
        resting: whether it was stopped, since ours took over from it.
    """

    role: str
    project: str
    kind: str
    namespace: str
    name: str
    image: str
    arguments: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()
    configuration: dict[str, Any] | None = None
    unread: str = ""
    owner: str = ""
    resting: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name} in {self.namespace} ({self.project})"


async def platform_of(client: Client) -> Platform:
    """Find out what the cluster is."""
    response = await client.request(Request(method="GET", path="/version"))
    version = decode(ServerVersion, bytes(response.body), "version").git_version
    try:
        found = await client.list(_CLUSTER_VERSIONS, page_size=1)
    except ApiError:
        return Platform("Kubernetes", version)
    return Platform("OpenShift" if found.items else "Kubernetes", version)


async def control_plane_nodes(client: Client) -> int:
    """Return how many nodes belong to the control plane."""
    return len((await client.list(NODES, labels=CONTROL_PLANE)).items)


async def installations(client: Client) -> list[Found]:
    """Return what there is of exporters, schedulers and operators, of others and of ours."""
    found: list[Found] = []
    for resource in (DAEMON_SETS, DEPLOYMENTS):
        for one in (await client.list(resource)).items:
            known = _recognised(one)
            if known is None:
                continue
            part = _found(*known, resource.kind, one)
            found.append(await _with_names(client, part, one) if part.role == SCHEDULER else part)
    return found


def _recognised(one: Document) -> tuple[str, str] | None:
    """Return role and project of a workload; ``None`` if it is something else."""
    image, words = _image(one), _words(one)
    last = image.rpartition("/")[2]
    if last.partition("@")[0].partition(":")[0] == OURS:
        role = next((word for word in words if word in (EXPORTER, SCHEDULER, "operator")), "")
        return (role, OURS) if role else None
    if "resource-topology-exporter" in image:
        return EXPORTER, "Resource Topology Exporter"
    if "node-feature-discovery" in image and any("topology-updater" in word for word in words):
        return EXPORTER, "Node Feature Discovery"
    if "numaresources-operator" in image:
        return "operator", "NUMA Resources Operator"
    plugins = "scheduler-plugins" in image or "noderesourcetopology-scheduler" in image
    return (SCHEDULER, "scheduler-plugins") if plugins and not last.startswith("contr") else None


async def _with_names(client: Client, found: Found, one: Document) -> Found:
    """Return *found* with the names that it answers to, and how it is configured."""
    if found.project == OURS and not _flag(found.arguments, "--config"):
        name = _flag(found.arguments, "--scheduler-name") or SCHEDULER_NAME
        return replace(found, scheduler_names=(name,))
    read = await _configuration(client, found, one)
    if isinstance(read, str):
        return replace(found, unread=read)
    profiles = [each for each in read.get("profiles") or [{}] if isinstance(each, dict)]
    names = tuple(str(each.get("schedulerName") or "default-scheduler") for each in profiles)
    return replace(found, configuration=read, scheduler_names=names)


async def _configuration(client: Client, found: Found, one: Document) -> dict[str, Any] | str:
    """Return the scheduler's configuration in the ConfigMaps that it mounts, or why there is none.

    If ``--config`` names a file that one of them has, that one is it.
    """
    read: dict[str, dict[str, Any]] = {}
    for volume in one["spec"]["template"]["spec"].get("volumes") or ():
        if "configMap" in volume:
            name = volume["configMap"].get("name", "")
            try:
                data = (await client.get(CONFIG_MAPS, name, namespace=found.namespace)).get("data")
                trees = {key: load_yaml(text, name) for key, text in (data or {}).items()}
            except NumakubeError as error:
                return f"its ConfigMap {name}: {error}"
            read |= {key: one for key, one in trees.items() if _is_configuration(one)}
    named = _flag(found.arguments, "--config").rpartition("/")[2]
    chosen = [read[named]] if named in read else list(read.values())
    if len(chosen) != 1:
        return f"its ConfigMaps hold {len(chosen)} configurations of a scheduler, not one"
    return chosen[0]


def _is_configuration(tree: object) -> bool:
    return isinstance(tree, dict) and tree.get("kind") == "KubeSchedulerConfiguration"


def _found(role: str, project: str, kind: str, one: Document) -> Found:
    metadata = one["metadata"]
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    return Found(
        role=role,
        project=project,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        image=_image(one),
        arguments=tuple(_container(one).get("args") or ()),
        owner="".join(f"{each['kind']}/{each['name']}" for each in owners),
        resting=REPLACED in (metadata.get("annotations") or {}),
    )


def _flag(arguments: tuple[str, ...], name: str) -> str:
    """Return the value of a flag; empty if it is not there."""
    for place, word in enumerate(arguments):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and place + 1 < len(arguments):
            return arguments[place + 1]
    return ""


def _container(one: Document) -> dict[str, Any]:
    containers = one["spec"]["template"]["spec"].get("containers") or [{}]
    first: dict[str, Any] = containers[0]
    return first


def _image(one: Document) -> str:
    return str(_container(one).get("image", ""))


def _words(one: Document) -> tuple[str, ...]:
    container = _container(one)
    return (*(container.get("command") or ()), *(container.get("args") or ()))

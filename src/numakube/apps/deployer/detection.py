"""Which kind of cluster this is, and what of this field's stack is already on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import decode
from numakube.api.nodes import CONTROL_PLANE
from numakube.api.yamls import load_yaml
from numakube.errors import ApiError, NumakubeError
from numakube.insight.workloads import ServerVersion
from numakube.kube.catalog import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NODES
from numakube.kube.resources import Resource
from numakube.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.kube.client import Client
    from numakube.kube.resources import Document

EXPORTER: Final = "exporter"
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
    """A part of an installation by others.

    Attributes:
        role: ``exporter``, ``scheduler`` or ``operator``.
        project: whose it is.
        scheduler_names: what pods name to be scheduled by it.
    """

    role: str
    project: str
    kind: str
    namespace: str
    name: str
    image: str
    scheduler_names: tuple[str, ...] = ()


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
    """Return what others have installed of exporters, schedulers and operators."""
    daemon_sets = (await client.list(DAEMON_SETS)).items
    deployments = (await client.list(DEPLOYMENTS)).items
    found = [*_exporters(daemon_sets), *_operators(deployments)]
    for deployment in deployments:
        one = await _scheduler(client, deployment)
        if one is not None:
            found.append(one)
    return found


def _exporters(daemon_sets: Iterable[Document]) -> Iterator[Found]:
    for one in daemon_sets:
        image = _image(one)
        if "resource-topology-exporter" in image:
            yield _found(EXPORTER, "Resource Topology Exporter", one)
        elif "node-feature-discovery" in image and "topology-updater" in _words(one):
            yield _found(EXPORTER, "Node Feature Discovery", one)


def _operators(deployments: Iterable[Document]) -> Iterator[Found]:
    for one in deployments:
        if "numaresources-operator" in _image(one):
            yield _found("operator", "NUMA Resources Operator", one)


async def _scheduler(client: Client, deployment: Document) -> Found | None:
    image = _image(deployment)
    if "scheduler-plugins" not in image and "noderesourcetopology-scheduler" not in image:
        return None
    if image.rpartition("/")[2].startswith("controller"):
        return None
    names: list[str] = []
    for volume in deployment["spec"]["template"]["spec"].get("volumes", []):
        if "configMap" in volume:
            names += await _profiles(
                client, deployment["metadata"]["namespace"], volume["configMap"].get("name", "")
            )
    return _found("scheduler", "scheduler-plugins", deployment, tuple(dict.fromkeys(names)))


async def _profiles(client: Client, namespace: str, config_map: str) -> list[str]:
    """Return the names of the profiles in a ConfigMap with a scheduler's configuration."""
    try:
        found = await client.get(CONFIG_MAPS, config_map, namespace=namespace)
        trees = [load_yaml(text, config_map) for text in found.get("data", {}).values()]
    except NumakubeError:
        return []
    profiles = [
        profile
        for tree in trees
        if isinstance(tree, dict)
        for profile in tree.get("profiles") or []
    ]
    return [
        profile["schedulerName"]
        for profile in profiles
        if isinstance(profile, dict) and profile.get("schedulerName")
    ]


def _found(role: str, project: str, one: Document, names: tuple[str, ...] = ()) -> Found:
    return Found(
        role=role,
        project=project,
        # The items of a list do not name their kind; only agents run on every node.
        kind="DaemonSet" if role == EXPORTER else "Deployment",
        namespace=one["metadata"]["namespace"],
        name=one["metadata"]["name"],
        image=_image(one),
        scheduler_names=names,
    )


def _container(one: Document) -> dict[str, Any]:
    containers = one["spec"]["template"]["spec"].get("containers") or [{}]
    first: dict[str, Any] = containers[0]
    return first


def _image(one: Document) -> str:
    return str(_container(one).get("image", ""))


def _words(one: Document) -> str:
    container = _container(one)
    return " ".join((*container.get("command", ()), *container.get("args", ())))

"""Which kind of cluster this is, what of this field's stack is on it, and taking over from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from numakube.api.meta import ServerVersion
from numakube.api.nodes import CONTROL_PLANE
from numakube.api.scheduler_config import API_VERSION, KIND, SCHEDULER_NAME
from numakube.api.yaml_text import load_yaml
from numakube.errors import ApiError, ConfigError, MalformedObject, NumakubeError
from numakube.insight.scheduler_engine import tried
from numakube.kube.catalog import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NODES
from numakube.kube.client import merge_patch
from numakube.kube.connection.transport import Request
from numakube.kube.decode import read_answer
from numakube.kube.resource_types import Resource
from numakube.scheduling.config.older_versions import OLDER, upgraded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube.manifests.components import Choices


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
    version = read_answer(ServerVersion, response.body, "version").git_version
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


# ``--adopt``: taking over from another installation, and giving back.
#
# What taking over means is decided before anything is done. A scheduler is taken over completely:
# every profile under its name, with its plugins and their arguments, in a configuration that ours
# has been tried with. If ours cannot do something that it does, it is not taken over at all.
#
# What is replaced is stopped, not deleted: a Deployment gets no replicas, a DaemonSet a node
# selector that no node has. An annotation keeps what is needed to start it again.


_OWN: Final = ("apiVersion", "kind", "profiles", "leaderElection", "clientConnection")
"""Fields of a configuration that are not taken over as they are."""
_TIMES: Final = ("leaseDuration", "renewDeadline", "retryPeriod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What is done about an installation.

    Attributes:
        found: what is stopped, or to be stopped.
        configuration: that of our scheduler, as chosen or as taken over; ``None`` for its default.
        report: what changes, in lines for people.
    """

    found: tuple[Found, ...] = ()
    configuration: dict[str, Any] | None = None
    report: tuple[str, ...] = ()


def plan_takeover(found: Sequence[Found], choices: Choices) -> Takeover:
    """Return how to take over from all of *found*.

    Raises:
        ConfigError: something of it cannot be; it says what, and nothing should be done.
    """
    _check_owners(found)
    schedulers = [one for one in found if one.role == SCHEDULER]
    configuration = _adopted_settings(schedulers, choices) if schedulers else choices.configuration
    report = tuple(line for one in found for line in _report(one))
    return Takeover(found=tuple(found), configuration=configuration, report=report)


def rivals(found: Iterable[Found], names: Collection[str]) -> list[Found]:
    """Return those that are at work and do what ours would: any exporter, schedulers of *names*."""
    return [
        one
        for one in found
        if not one.resting
        and (one.role == EXPORTER or not set(names).isdisjoint(one.scheduler_names))
    ]


def rival_text(one: Found) -> str:
    """Return what the trouble with a rival is."""
    if one.role == EXPORTER:
        return f"{one} writes the same NodeResourceTopology objects"
    return f"{one} schedules the pods that name {', '.join(one.scheduler_names)}"


def _check_owners(found: Sequence[Found]) -> None:
    """Refuse what another program manages: it would be started again at once."""
    mended = [one for one in found if one.owner and not one.resting]
    if mended and not any(one.role == "operator" for one in found):
        names = "; ".join(f"{one} is kept by {one.owner}" for one in mended)
        raise ConfigError(
            f"nothing is taken over: {names}, whose operator would wake it again; delete or change"
            " that object, or take over from the operator"
        )


def _adopted_settings(schedulers: Sequence[Found], choices: Choices) -> dict[str, Any]:
    """Return one configuration with all profiles; ours has been made from it once."""
    if choices.configuration is not None:
        return _complete(choices.configuration, schedulers)
    for scheduler in schedulers:
        if scheduler.configuration is None:
            why = scheduler.unread or "it has no configuration"
            raise ConfigError(f"nothing is taken over: {scheduler}: {why}")
    trees = [_as_v1(scheduler) for scheduler in schedulers]
    settings = [{name: text for name, text in tree.items() if name not in _OWN} for tree in trees]
    if any(each != settings[0] for each in settings):
        raise ConfigError("nothing is taken over: the schedulers have different settings")
    profiles = [profile for tree in trees for profile in tree.get("profiles") or [{}]]
    merged = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **settings[0],
        "leaderElection": _election(trees[0], choices),
        "profiles": _with_ours(profiles, choices.scheduler_name),
    }
    try:
        tried(merged, str(schedulers[0]))
    except ConfigError as error:
        raise ConfigError(
            f"nothing is taken over: {error}. --scheduler-config FILE gives ours a configuration of"
            " your own, with the same schedulerNames"
        ) from None
    return merged


def _as_v1(one: Found) -> dict[str, Any]:
    tree = one.configuration or {}
    if tree.get("apiVersion") not in OLDER:
        return tree
    try:
        return upgraded(tree, lambda _: None, str(one))
    except (ConfigError, MalformedObject) as error:
        raise ConfigError(f"nothing is taken over: {error}") from None


def _complete(chosen: dict[str, Any], schedulers: Sequence[Found]) -> dict[str, Any]:
    """Return the configuration that the user chose, if it has all profiles of *schedulers*."""
    names = {profile.get("schedulerName") for profile in chosen["profiles"]}
    for scheduler in schedulers:
        missing = sorted(set(scheduler.scheduler_names) - names)
        if missing:
            raise ConfigError(
                f"nothing is taken over: the configuration given has no profile {missing[0]},"
                f" which {scheduler} serves"
            )
    return chosen


def _election(tree: dict[str, Any], choices: Choices) -> dict[str, Any]:
    times = tree.get("leaderElection") or {}
    kept = {name: times[name] for name in times if name in _TIMES}
    lease = {"resourceName": choices.scheduler_name, "resourceNamespace": choices.namespace}
    return {**kept, "leaderElect": True, **lease}


def _with_ours(profiles: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return *profiles* with one for our own name, alike the first: they share a cache."""
    if any(profile.get("schedulerName") == name for profile in profiles):
        return profiles
    return [*profiles, {**profiles[0], "schedulerName": name}]


def _report(one: Found) -> Iterator[str]:
    rest = "is stopped already" if one.resting else "is stopped; `numakube remove` starts it again"
    yield f"{one} {rest}"
    if one.role == EXPORTER:
        given = [word for word in one.arguments if word.startswith("-")]
        if given:
            yield f"  ours has defaults of its own in place of {' '.join(given)}"
    tree = one.configuration or {}
    for profile in tree.get("profiles") or ():
        yield f"  schedulerName {profile.get('schedulerName')} is served by numakube"
        for plugin in profile.get("pluginConfig") or ():
            names = (plugin.get("args") or {}).keys() - {"apiVersion", "kind"}
            if names:
                yield f"    with {', '.join(sorted(names))} of {plugin.get('name')} as they are"
    if "clientConnection" in tree:
        yield "  without its clientConnection: ours uses the account of its pods"


async def put_to_rest(client: Client, found: Found, *, dry_run: bool = False) -> None:
    """Stop what *found* runs."""
    if found.kind == "DaemonSet":
        change: dict[str, Any] = {
            "metadata": {"annotations": {REPLACED: "true"}},
            "spec": {"template": {"spec": {"nodeSelector": {REPLACED: "never"}}}},
        }
        resource = DAEMON_SETS
    else:
        resource = DEPLOYMENTS
        live = await client.get(resource, found.name, namespace=found.namespace)
        if REPLACED in live["metadata"].get("annotations", {}):
            return
        change = {
            "metadata": {"annotations": {REPLACED: str(live["spec"].get("replicas", 1))}},
            "spec": {"replicas": 0},
        }
    await client.patch(
        resource, found.name, merge_patch(change), namespace=found.namespace, dry_run=dry_run
    )


async def wake_all(client: Client, *, dry_run: bool = False) -> list[str]:
    """Start again what was stopped; return the names."""
    woken = []
    for resource in (DAEMON_SETS, DEPLOYMENTS):
        for item in (await client.list(resource)).items:
            kept = item["metadata"].get("annotations", {}).get(REPLACED)
            if kept is None:
                continue
            change: dict[str, Any] = {"metadata": {"annotations": {REPLACED: None}}}
            if resource is DAEMON_SETS:
                selector = {REPLACED: None}
                change["spec"] = {"template": {"spec": {"nodeSelector": selector}}}
            else:
                change["spec"] = {"replicas": int(kept) if kept.isdecimal() else 1}
            metadata = item["metadata"]
            await client.patch(
                resource,
                metadata["name"],
                merge_patch(change),
                namespace=metadata["namespace"],
                dry_run=dry_run,
            )
            woken.append(f"{resource.kind.lower()}/{metadata['name']} in {metadata['namespace']}")
    return woken

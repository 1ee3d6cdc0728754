"""What a user of the Helm chart may choose: defaults, a sentence about each, and their schema.

How pods run (where, with what, as whom) can be chosen for every workload. The defaults are read off
the objects that we deploy without Helm, so that they cannot differ from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.yaml_text import dump_yaml
from numakube.manifests.components import COMPONENTS, Choices, component_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHART_COMPONENTS: Final = tuple(name for name in COMPONENTS if name != "api")
"""The kind of topologies is no component to Helm: it takes kinds from a folder of their own."""
POD_CHOICES: Final[Mapping[str, Any]] = {
    "nodeSelector": {},
    "tolerations": [],
    "affinity": {},
    "topologySpreadConstraints": [],
    "priorityClassName": "",
}
"""What can be chosen of a pod's specification, with what it means to choose nothing."""
_ON: Final = ("exporter", "scheduler")
"""Components that are on by default."""
_OPEN: Final = ("affinity", "configuration", "nodeSelector", "resources")
"""Objects of Kubernetes, whose fields are Kubernetes' matter."""
_DURATION: Final = "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"
_NO_NAMES: Final = ("false", "n", "no", "null", "off", "on", "true", "y", "yes")
_COMMENTS: Final[Mapping[str, str]] = {
    "image": "The image that every component runs.",
    "image.repository": "Where it is, without the tag. Name your own registry here.",
    "image.tag": "The chart's version; `TAG@sha256:...` pins the content as well.",
    "image.pullPolicy": "Always, IfNotPresent or Never.",
    "image.pullSecrets": "Secrets for a private registry, as in `[{name: mine}]`.",
    "exporter": "Reports every node's NUMA zones: a DaemonSet.",
    "exporter.period": "How often it looks even if nothing seems to have changed.",
    "exporter.maxSilence": "As in `5m`: report only surprises, and something that often.",
    "scheduler": "The secondary scheduler: a Deployment of which one pod works at a time.",
    "scheduler.name": "What pods name in spec.schedulerName.",
    "scheduler.replicas": "Pods of scheduler, extender, webhook, admission check and rebalancer.",
    "scheduler.pluginConfig": "Arguments of its plugins, as in a profile of kube-scheduler's.",
    "scheduler.profiles": "More profiles, as in a KubeSchedulerConfiguration.",
    "scheduler.configuration": "A KubeSchedulerConfiguration of your own instead of all that.",
    "scheduler.defaultScheduler": "The right to kube-scheduler's lease, without which pods of"
    " default-scheduler are not scheduled.",
    "scheduler.defaultScheduler.enabled": "Whether it has that right.",
    "extender": "For a stock kube-scheduler. Needs the Secret numakube-extender-tls.",
    "extender.kubeScheduler": "The second kube-scheduler, which asks the extender.",
    "sriov": "The SR-IOV device plugin: a DaemonSet. What it offers is in its ConfigMap.",
    "enforcer": "Aligns pods where kubelets do not: a DaemonSet. Changes how running pods run.",
    "operator": "The operator, for NUMAResourcesOperator and NUMAResourcesScheduler objects.",
    "webhook": "Refuses pods with mistaken annotations. Needs the Secret numakube-webhook-tls.",
    "rebalancer": "Moves a few pods an hour so that others fit.",
    "admission": "Lets queued work start when it fits: for Kueue, or by a scheduling gate.",
    "networkPolicy": "Policies that allow each component its own traffic only.",
    "podDisruptionBudget": "Budgets of the components with several replicas.",
    "serviceMonitor": "PodMonitors; need the Prometheus operator's kinds.",
    "prometheusRule": "Alert rules; need the Prometheus operator's kinds.",
    "enabled": "Whether it is installed.",
    "extraArgs": "More arguments, as in `[--log-level=debug]`; the last of two wins.",
    "resources": "Requests and limits of its container.",
    "nodeSelector": "Labels of the nodes on which it may run.",
    "tolerations": "Taints that it tolerates.",
    "affinity": "Rules on which nodes, and beside which pods, it runs.",
    "topologySpreadConstraints": "How its pods are spread over nodes or zones.",
    "priorityClassName": "Its priority; the class has to exist.",
}
"""By path or, for what many have, by the last word of it."""


def default_values() -> dict[str, Any]:
    """Return what a user may choose, and what is chosen otherwise."""
    plain = Choices()
    repository, _, tag = plain.image.rpartition(":")
    image = {"repository": repository, "tag": tag, "pullPolicy": plain.pull_policy}
    own: dict[str, dict[str, Any]] = {
        "exporter": {"period": "1m", "maxSilence": plain.max_silence},
        "scheduler": {
            "name": plain.scheduler_name,
            "replicas": plain.replicas,
            "pluginConfig": [],
            "profiles": [],
            "configuration": {},
            "defaultScheduler": {"enabled": False},
        },
    }
    return {
        "image": {**image, "pullSecrets": []},
        **{
            name: {"enabled": name in _ON, **own.get(name, {}), **_workloads(name)}
            for name in CHART_COMPONENTS
        },
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "serviceMonitor": {"enabled": False},
        "prometheusRule": {"enabled": False},
    }


def workload_path(component: str, document: Mapping[str, Any]) -> str | None:
    """Return where the choices of a workload are, or nothing if *document* runs no pods."""
    if document["kind"] not in ("DaemonSet", "Deployment"):
        return None
    foreign = document["metadata"]["name"] == "numakube-kube-scheduler"
    return f"{component}.kubeScheduler" if foreign else component


def _workloads(component: str) -> dict[str, Any]:
    """Return the choices of a component's workloads, as they are without Helm."""
    choices: dict[str, Any] = {}
    for document in component_objects(component, Choices()):
        path = workload_path(component, document)
        if path is not None:
            pod = document["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            of_pod = {key: pod.get(key, none) for key, none in POD_CHOICES.items()}
            found = {"resources": container.get("resources", {}), **of_pod}
            choices |= {"extraArgs": [], **found} if path == component else {"kubeScheduler": found}
    return choices


def values_text() -> str:
    """Return values.yaml, with a sentence about every value."""
    parts = ("\n".join(_lines({key: value})) for key, value in default_values().items())
    return "\n\n".join(parts) + "\n"


def _lines(values: Mapping[str, Any], path: str = "", indent: str = "") -> Iterator[str]:
    for key, value in values.items():
        name = f"{path}.{key}".lstrip(".")
        yield f"{indent}# {_COMMENTS.get(name) or _COMMENTS[key]}"
        if isinstance(value, dict) and key not in _OPEN:
            yield f"{indent}{key}:"
            yield from _lines(value, name, indent + "  ")
        else:
            yield from (indent + line for line in dump_yaml({key: value}).splitlines())


def schema() -> dict[str, Any]:
    """Return the schema of the values: a mistyped one is refused, not ignored."""
    document = _schema_of("", default_values())
    document["$schema"] = "http://json-schema.org/draft-07/schema#"
    parts = {key: one.get("properties", {}) for key, one in document["properties"].items()}
    parts["image"]["pullPolicy"]["enum"] = ["Always", "IfNotPresent", "Never"]
    for name in ("repository", "tag"):
        parts["image"][name]["pattern"] = "^[^\\s\"']+$"
    parts["exporter"]["period"]["pattern"] = _DURATION
    parts["exporter"]["maxSilence"]["pattern"] = f"^$|{_DURATION}"
    parts["scheduler"]["replicas"]["minimum"] = 1
    parts["scheduler"]["name"]["pattern"] = "^[a-z]([-a-z0-9.]*[a-z0-9])?$"
    # Templates do not quote it, and to YAML these are no names.
    parts["scheduler"]["name"]["not"] = {"enum": list(_NO_NAMES)}
    document["properties"]["global"] = {"type": "object"}
    return document


def _schema_of(key: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the values
    match value:
        case dict() if key in _OPEN:
            return {"type": "object"}
        case dict():
            properties = {name: _schema_of(name, one) for name, one in value.items()}
            return {"type": "object", "properties": properties, "additionalProperties": False}
        case list():
            items = "string" if key == "extraArgs" else "object"
            return {"type": "array", "items": {"type": items}}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case _:
            return {"type": "string"}

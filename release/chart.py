"""The Helm chart, made from the same objects that everything else deploys.

Objects are built with words in the places where a user may choose, and the words are then replaced
by expressions. So a template is never written by hand, and what it renders to with the default
values is what ``numakube manifests render`` prints.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from numakube.annexes import annexes
from numakube.api.crds import NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD, UPDATE_CRD, crd, crd_text
from numakube.api.scheduler_config import configuration_tree, numa_configuration
from numakube.api.yaml_text import dump_yaml
from numakube.apps.host.settings_sources import gate_names
from numakube.manifests.cluster_policies import flow_control
from numakube.manifests.components import COMPONENTS, Choices, component_objects
from numakube.manifests.operator import LEASE as OPERATOR_LEASE
from numakube.manifests.rbac_rules import leases_of, view_role
from numakube.manifests.release_image import IMAGE, VERSION
from numakube.manifests.scheduler import CONFIG_KEY, SchedulerManifest
from numakube.version import VERSION as APP_VERSION
from release.alerts import prometheus_rule
from release.project import CAPABILITIES, ICON, REPOSITORY_PAGE, SITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_REPLICAS: Final = 424242
_WORDS: Final[Mapping[str, str]] = {
    "zz-namespace-zz": "{{ .Release.Namespace }}",
    "zz-image-zz": "{{ .Values.image.repository }}:{{ .Values.image.tag }}",
    "zz-pull-policy-zz": "{{ .Values.image.pullPolicy }}",
    "zz-scheduler-name-zz": "{{ .Values.scheduler.name }}",
    "zz-period-zz": "{{ .Values.exporter.period }}",
    str(_REPLICAS): "{{ .Values.scheduler.replicas }}",
}


def _configuration(name: str) -> dict[str, Any]:
    """Return the scheduler's configuration, open for arguments and for more profiles."""
    tree = configuration_tree(numa_configuration((name,)))
    (first,) = tree["profiles"]
    opened = {**first, "pluginConfig": "zz-value-scheduler.pluginConfig-zz"}
    return {**tree, "profiles": [opened, "zz-more-scheduler.profiles-zz"]}


_CHOICES: Final = Choices(
    namespace="zz-namespace-zz",
    image="zz-image-zz",
    pull_policy="zz-pull-policy-zz",
    scheduler_name="zz-scheduler-name-zz",
    period="zz-period-zz",
    max_silence="zz-given-exporter.maxSilence-zz",
    replicas=_REPLICAS,
    configuration=_configuration("zz-scheduler-name-zz"),
)
_VALUE: Final = re.compile(r"^( *\w+): zz-value-([\w.]+)-zz\n", re.MULTILINE)
_MORE: Final = re.compile(r"^( *- )zz-more-([\w.]+)-zz\n", re.MULTILINE)
_GATES: Final = re.compile(r"^( *- )zz-gates-zz\n", re.MULTILINE)
_EACH_GATE: Final = r"""{{- range $name, $on := .Values.featureGates }}
\1--feature-gates={{ $name }}={{ $on }}
{{- end }}
"""
_GIVEN: Final = re.compile(r"^( *- .*)zz-given-([\w.]+)-zz\n", re.MULTILINE)
"""What may be absent, what may be added to a list, and an item that ends with a value, if there is
one. JSON is YAML on one line."""
_HASH: Final = re.compile(r"SHA256:[0-9a-f]{64}")
_HASHED: Final = ("name", "pluginConfig", "profiles", "configuration")
"""The values that the scheduler's configuration is made of: pods start again when one changes."""
_SEPARATE: Final[Mapping[str, str]] = {
    "NetworkPolicy": "networkPolicy",
    "PodDisruptionBudget": "podDisruptionBudget",
}
"""Kinds that can be left out of every component."""
_PORTS: Final = {
    "exporter": "metrics-port",
    "scheduler": "metrics",
    "extender": "health",
    "admission-check": "metrics",
    "rebalancer": "metrics",
}
"""What the Prometheus operator scrapes."""


@dataclass(frozen=True, slots=True)
class ChartFile:
    """A file of the chart."""

    path: str
    text: str


def chart() -> list[ChartFile]:
    """Return every file of the chart."""
    return [
        ChartFile("Chart.yaml", dump_yaml(_about())),
        ChartFile("values.yaml", values_text()),
        ChartFile("values.schema.json", json.dumps(schema(), indent=2) + "\n"),
        *(ChartFile(f"crds/{name}", crd_text(name)) for name in (NRT_CRD, UPDATE_CRD)),
        *(ChartFile(f"templates/{name}.yaml", _template(name)) for name in CHART_COMPONENTS),
        ChartFile("templates/view.yaml", dump_yaml(view_role())),
        ChartFile("templates/priority.yaml", _priority()),
        ChartFile("templates/monitoring.yaml", _monitoring()),
        ChartFile("templates/_helpers.tpl", _HELPERS),
        ChartFile("templates/NOTES.txt", _NOTES),
    ]


def _about() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "numakube",
        "description": "NUMA-aware scheduling for Kubernetes",
        "type": "application",
        "version": VERSION,
        "appVersion": APP_VERSION,
        "kubeVersion": ">=1.31.0-0",
        "home": REPOSITORY_PAGE,
        "icon": f"{REPOSITORY_PAGE}/raw/main/{ICON}",
        "keywords": ["numa", "scheduler", "topology-manager", "gpu", "sr-iov", "dra"],
        "sources": [REPOSITORY_PAGE],
        "maintainers": [{"name": "The numakube authors", "url": REPOSITORY_PAGE}],
        "annotations": _hub_annotations(),
    }


def _hub_annotations() -> dict[str, str]:
    """Return what Artifact Hub shows of the chart; values are YAML in texts."""
    image = {
        "name": "numakube",
        "image": IMAGE,
        "platforms": ["linux/amd64", "linux/arm64"],
    }
    kinds = (crd(name) for name in (NRT_CRD, UPDATE_CRD, OPERATOR_CRD, SCHEDULER_CRD))
    links = (("Documentation", SITE), ("Changes", f"{REPOSITORY_PAGE}/blob/main/CHANGELOG.md"))
    shown = {
        "crds": [
            {
                "kind": kind["spec"]["names"]["kind"],
                "version": version["name"],
                "name": kind["metadata"]["name"],
                "displayName": kind["spec"]["names"]["kind"],
                "description": version["schema"]["openAPIV3Schema"].get("description", ""),
            }
            for kind in kinds
            for version in kind["spec"]["versions"]
        ],
        "images": [image],
        "links": [{"name": name, "url": url} for name, url in links],
    }
    plain = {"license": "Apache-2.0", "operator": "true", "operatorCapabilities": CAPABILITIES}
    found = plain | {name: dump_yaml(value) for name, value in shown.items()}
    return {f"artifacthub.io/{name}": found[name] for name in sorted(found)}


def _priority() -> str:
    documents = flow_control(_CHOICES.namespace)
    return "---\n".join(_with_expressions(dump_yaml(document)) for document in documents)


def _template(component: str) -> str:
    shared = (view_role(), *flow_control(_CHOICES.namespace))
    parts = []
    plain, measuring = (
        component_objects(component, replace(_CHOICES, measure=measure))
        for measure in (False, True)
    )
    for document, other in zip(plain, measuring, strict=True):
        if document["kind"] in ("Namespace", "CustomResourceDefinition") or document in shared:
            continue  # Helm makes namespaces itself; kinds and these have places of their own.
        texts = [_opened(component, one) for one in (document, other)]
        text = _switched("exporter.measure", *texts)
        if document["kind"] == "ConfigMap" and component == "scheduler":
            text = _replaceable(text, f"  {CONFIG_KEY}: ", "scheduler.configuration")
        switch = _SEPARATE.get(document["kind"])
        parts.append(text if switch is None else _if(switch, text))
        parts += [_unless_of_others(lease) for lease in _own_leases(component, document)]
    if component == "operator":
        parts += [_unless_of_others(_kept(crd(name))) for name in (OPERATOR_CRD, SCHEDULER_CRD)]
    if component == "scheduler":
        main = SchedulerManifest(namespace=_CHOICES.namespace).main_access()
        text = "".join("---\n" + _with_expressions(dump_yaml(one)) for one in main)
        parts.append(_if("scheduler.defaultScheduler", text))
    return _if(component, "".join(parts))


def _opened(component: str, document: dict[str, Any]) -> str:
    """Return the template of *document* with all that can be chosen of it."""
    _open_choices(component, document)
    return "---\n" + _with_expressions(dump_yaml(document))


def _switched(value: str, off: str, on: str) -> str:
    """Return the template that is *on* where a *value* of the user's is true, and else *off*.

    What both have stands there once, so that the template can be read as the object that it makes.
    """
    before, after = (text.splitlines(keepends=True) for text in (off, on))
    parts = []
    for kind, start, end, since, until in SequenceMatcher(None, before, after).get_opcodes():
        old, new = "".join(before[start:end]), "".join(after[since:until])
        otherwise = f"{{{{- else }}}}\n{old}" if old else ""
        changed = f"{{{{- if .Values.{value} }}}}\n{new}{otherwise}{{{{- end }}}}\n"
        parts.append(old if kind == "equal" else changed)
    return "".join(parts)


def _own_leases(component: str, role: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the leases that *component* itself holds by *role*; the operator hands rights on."""
    leases = leases_of(role)
    if component != "operator":
        return leases
    return [lease for lease in leases if lease["metadata"]["name"] == OPERATOR_LEASE]


def _kept(definition: dict[str, Any]) -> dict[str, Any]:
    """Return *definition* so that Helm never deletes it, and with it all objects of the kind."""
    annotations = definition["metadata"].setdefault("annotations", {})
    annotations["helm.sh/resource-policy"] = "keep"
    return definition


def _unless_of_others(document: dict[str, Any]) -> str:
    """Return the template of what may be there already, from a program or another installation.

    Helm ends with an error if an object is there that it has not made.
    """
    metadata = document["metadata"]
    names = (
        *(document["apiVersion"], document["kind"]),
        *(metadata.get("namespace", ""), metadata["name"]),
    )
    words = " ".join(_quoted(name) for name in names)
    text = "---\n" + _with_expressions(dump_yaml(document))
    return f'{{{{- if include "numakube.isOurs" (list . {words}) }}}}\n{text}{{{{- end }}}}\n'


def _quoted(text: str) -> str:
    """Return *text* as an operand of an expression: one of its own, or a quoted text."""
    expression = _WORDS.get(text)
    return json.dumps(text) if expression is None else expression.strip("{} ")


def _replaceable(text: str, start: str, value: str) -> str:
    """Return *text* whose last entry, which begins with *start*, a *value* of the user's replaces.

    As a text in JSON that holds JSON: both are YAML.
    """
    head, entry, rest = text.partition(start)
    own = f"{start}{{{{ toJson (toJson .Values.{value}) }}}}\n"
    return (
        f"{head}{{{{- if .Values.{value} }}}}\n{own}{{{{- else }}}}\n{entry}{rest}{{{{- end }}}}\n"
    )


def _open_choices(component: str, document: dict[str, Any]) -> None:
    """Put words where the specification of a workload's pods can be chosen."""
    path = workload_path(component, document)
    if path is None:
        return
    pod = document["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pod["imagePullSecrets"] = "zz-value-image.pullSecrets-zz"
    pod |= {key: f"zz-value-{path}.{key}-zz" for key in POD_CHOICES}
    container["resources"] = f"zz-value-{path}.resources-zz"
    if path == component:
        container["args"] = [*container["args"], "zz-gates-zz", f"zz-more-{path}.extraArgs-zz"]


def _monitoring() -> str:
    monitors = "".join(
        "---\n" + dump_yaml(monitor) for monitor in service_monitors(_CHOICES.namespace)
    )
    rule = dump_yaml(prometheus_rule(_CHOICES.namespace))
    # Prometheus has expressions of the same form in its texts; Helm must print them as they are.
    rule = rule.replace("{{", "{{`{{`}}")
    texts = _if("serviceMonitor", _with_expressions(monitors))
    return texts + _if("prometheusRule", "---\n" + _with_expressions(rule))


def _if(switch: str, text: str) -> str:
    return f"{{{{- if .Values.{switch}.enabled }}}}\n{text}{{{{- end }}}}\n"


def _with_expressions(text: str) -> str:
    for word, expression in _WORDS.items():
        text = text.replace(word, expression)
    values = " ".join(f".Values.scheduler.{name}" for name in _HASHED)
    text = _HASH.sub(f"SHA256:{{{{ toJson (list {values}) | sha256sum }}}}", text)
    text = _VALUE.sub(r"{{- if .Values.\2 }}\n\1: {{ toJson .Values.\2 }}\n{{- end }}\n", text)
    text = _GATES.sub(_EACH_GATE, text)
    text = _GIVEN.sub(r"{{- if .Values.\2 }}\n\1{{ .Values.\2 }}\n{{- end }}\n", text)
    return _MORE.sub(r"{{- range .Values.\2 }}\n\1{{ toJson . }}\n{{- end }}\n", text)


_HELPERS: Final = """\
{{- /* Says "true" unless there is such an object that this release has not made. */ -}}
{{- define "numakube.isOurs" -}}
{{- $release := (index . 0).Release -}}
{{- $live := lookup (index . 1) (index . 2) (index . 3) (index . 4) -}}
{{- $notes := dig "metadata" "annotations" (dict) $live -}}
{{- $name := get $notes "meta.helm.sh/release-name" -}}
{{- $namespace := get $notes "meta.helm.sh/release-namespace" -}}
{{- if or (not $live) (and (eq $name $release.Name) (eq $namespace $release.Namespace)) -}}
true
{{- end -}}
{{- end -}}
"""

_NOTES: Final = """\
numakube is being started in {{ .Release.Namespace }}.

{{- if .Values.scheduler.enabled }}
Pods with schedulerName {{ .Values.scheduler.name }} are placed by NUMA topology.
{{- end }}

  kubectl -n {{ .Release.Namespace }} get pods
  kubectl get noderesourcetopologies
"""


def service_monitors(namespace: str) -> list[dict[str, Any]]:
    """Return one monitor of pods for each component."""
    return [_monitor(component, port, namespace) for component, port in _PORTS.items()]


def _monitor(component: str, port: str, namespace: str) -> dict[str, Any]:
    name = f"numakube-{component}"
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "podMetricsEndpoints": [{"port": port}],
        },
    }


# What a user of the Helm chart may choose: defaults, a sentence about each, and their schema.
#
# How pods run (where, with what, as whom) can be chosen for every workload. The defaults are read
# off the objects that we deploy without Helm, so that they cannot differ from them.


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
_OPEN: Final = ("affinity", "configuration", "featureGates", "nodeSelector", "resources")
"""Objects of Kubernetes, whose fields are Kubernetes' matter."""
_DURATION: Final = "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"
_NO_NAMES: Final = ("false", "n", "no", "null", "off", "on", "true", "y", "yes")
_COMMENTS: Final[Mapping[str, str]] = {
    **{manifest.name: manifest.summary for annex in annexes() for manifest in annex.manifests},
    "image": "The image that every component runs.",
    "image.repository": "Where it is, without the tag. Name your own registry here.",
    "image.tag": "The chart's version; `TAG@sha256:...` pins the content as well.",
    "image.pullPolicy": "Always, IfNotPresent or Never.",
    "image.pullSecrets": "Secrets for a private registry, as in `[{name: mine}]`.",
    "featureGates": "Features to switch on or off in all programs, as in `{PodMoves: false}`.",
    "exporter": "Reports every node's NUMA zones: a DaemonSet.",
    "exporter.period": "How often it looks even if nothing seems to have changed.",
    "exporter.maxSilence": "As in `5m`: report only surprises, and something that often.",
    "exporter.measure": "Whether it also measures where memory and threads of pods really are.",
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
        "exporter": {"period": "1m", "maxSilence": plain.max_silence, "measure": plain.measure},
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
        "featureGates": {},
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
    document["properties"]["featureGates"] |= {
        "properties": {name: {"type": "boolean"} for name in gate_names()},
        "additionalProperties": False,
    }
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

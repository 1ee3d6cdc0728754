"""The Helm chart, made from the same objects that everything else deploys.

Objects are built with words in the places where a user may choose, and the words are then replaced
by expressions. So a template is never written by hand, and what it renders to with the default
values is what ``numakube render`` prints.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numakube
from numakube.api.crds import NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD, crd_text
from numakube.api.yamls import dump_yaml
from numakube.manifests.components import COMPONENTS, Choices, component_objects
from numakube.manifests.monitoring.alerts import prometheus_rule
from numakube.manifests.readers import view_role
from numakube.manifests.service_monitors import service_monitors

if TYPE_CHECKING:
    from collections.abc import Mapping

_REPLICAS: Final = 424242
_WORDS: Final[Mapping[str, str]] = {
    "zz-namespace-zz": "{{ .Release.Namespace }}",
    "zz-image-zz": "{{ .Values.image.repository }}:{{ .Values.image.tag }}",
    "zz-pull-policy-zz": "{{ .Values.image.pullPolicy }}",
    "zz-scheduler-name-zz": "{{ .Values.scheduler.name }}",
    "zz-period-zz": "{{ .Values.exporter.period }}",
    str(_REPLICAS): "{{ .Values.scheduler.replicas }}",
}
_CHOICES: Final = Choices(
    namespace="zz-namespace-zz",
    image="zz-image-zz",
    pull_policy="zz-pull-policy-zz",
    scheduler_name="zz-scheduler-name-zz",
    period="zz-period-zz",
    replicas=_REPLICAS,
)
_SEPARATE: Final[Mapping[str, str]] = {
    "NetworkPolicy": "networkPolicy",
    "PodDisruptionBudget": "podDisruptionBudget",
}
"""Kinds that can be left out of every component."""
_ON: Final = ("exporter", "scheduler")
"""Components that are on by default."""
_NO_TEXTS: Final = ("false", "n", "no", "null", "off", "on", "true", "y", "yes")
_DURATION: Final = "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"


@dataclass(frozen=True, slots=True)
class ChartFile:
    """A file of the chart."""

    path: str
    text: str


def chart() -> list[ChartFile]:
    """Return every file of the chart."""
    components = [name for name in COMPONENTS if name != "api"]
    return [
        ChartFile("Chart.yaml", dump_yaml(_about())),
        ChartFile("values.yaml", dump_yaml(default_values())),
        ChartFile("values.schema.json", json.dumps(_schema(), indent=2) + "\n"),
        *(
            ChartFile(f"crds/{name}", crd_text(name))
            for name in (NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD)
        ),
        *(ChartFile(f"templates/{name}.yaml", _template(name)) for name in components),
        ChartFile("templates/view.yaml", dump_yaml(view_role())),
        ChartFile("templates/monitoring.yaml", _monitoring()),
        ChartFile("templates/NOTES.txt", _NOTES),
    ]


def default_values() -> dict[str, Any]:
    """Return what a user may choose, and what is chosen otherwise."""
    plain = Choices()
    repository, _, tag = plain.image.rpartition(":")
    switches = {name: {"enabled": name in _ON} for name in COMPONENTS if name != "api"}
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": plain.pull_policy},
        **switches,
        "exporter": {"enabled": True, "period": "1m"},
        "scheduler": {
            "enabled": True,
            "name": plain.scheduler_name,
            "replicas": plain.replicas,
        },
        "networkPolicy": {"enabled": True},
        "podDisruptionBudget": {"enabled": True},
        "serviceMonitor": {"enabled": False},
        "prometheusRule": {"enabled": False},
    }


def _about() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "numakube",
        "description": "NUMA-aware scheduling for Kubernetes",
        "type": "application",
        "version": numakube.__version__.partition("+")[0],
        "appVersion": numakube.__version__,
        "kubeVersion": ">=1.31.0-0",
        "home": "https://github.com/numakube/numakube",
    }


def _template(component: str) -> str:
    parts = []
    for document in component_objects(component, _CHOICES):
        if document["kind"] in ("Namespace", "CustomResourceDefinition") or document == view_role():
            continue  # Helm makes namespaces itself; kinds and that role have files of their own.
        text = "---\n" + _with_expressions(dump_yaml(document))
        switch = _SEPARATE.get(document["kind"])
        parts.append(text if switch is None else _if(switch, text))
    return _if(component, "".join(parts))


def _monitoring() -> str:
    monitors = "".join("---\n" + dump_yaml(one) for one in service_monitors(_CHOICES.namespace))
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
    return text


def _schema() -> dict[str, Any]:
    """Return the schema of the values: a mistyped one is refused, not ignored."""
    schema = _schema_of(default_values())
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema["properties"]["image"]["properties"]["pullPolicy"]["enum"] = [
        "Always",
        "IfNotPresent",
        "Never",
    ]
    for name in ("repository", "tag"):
        schema["properties"]["image"]["properties"][name]["pattern"] = "^[^\\s\"']+$"
    schema["properties"]["exporter"]["properties"]["period"]["pattern"] = _DURATION
    scheduler = schema["properties"]["scheduler"]["properties"]
    scheduler["replicas"]["minimum"] = 1
    scheduler["name"]["pattern"] = "^[a-z]([-a-z0-9.]*[a-z0-9])?$"
    # Templates do not quote it, and to YAML these are no names.
    scheduler["name"]["not"] = {
        "enum": ["false", "n", "no", "null", "off", "on", "true", "y", "yes"]
    }
    schema["properties"]["global"] = {"type": "object"}
    return schema


def _schema_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the values
    match value:
        case dict():
            properties = {key: _schema_of(one) for key, one in value.items()}
            return {"type": "object", "properties": properties, "additionalProperties": False}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case _:
            return {"type": "string"}


_NOTES: Final = """\
numakube is being started in {{ .Release.Namespace }}.

{{- if .Values.scheduler.enabled }}
Pods with schedulerName {{ .Values.scheduler.name }} are placed by NUMA topology.
{{- end }}

  kubectl -n {{ .Release.Namespace }} get pods
  kubectl get noderesourcetopologies
"""

"""Objects from the words of a command: pods, what owns them, and what they need.

create pod web cpu=2 memory=1Gi gpu=1 qos=guaranteed containers=2
create gang train pods=8 least=6 api=coscheduling cpu=2 claim=template
create deployment web pods=3 cpu=1
create pod database cpu=2 disk=local
create pod claimed claimed-cpus=4
create pod vm cpu=2 memory=1Gi vm=dedicated
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.apps.scheduler.gang_trials import (
    GROUP_VERSIONS,
    group_definition,
    groups_of,
)
from tests.worlds.claimed_cpus import claim_of
from tests.worlds.disks import disk_claim
from tests.worlds.virtual_machines import as_launcher

from numakube.api.koordinator import keys
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.watched_kinds import CLAIMS
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
)
from numakube.kube.resource_types import Resource
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    MIN_LABEL,
    NAME_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    VOLCANO_ANNOTATION,
)
from numakube.testing.pods import GPU, IMAGE
from numakube_lab.nodes.dra_driver import driver_of

Document = dict[str, Any]
Objects = Iterator[tuple[Resource[Any], Document]]
"""What to create, in this order."""

APP: Final = "app"
"""The label with the name of what a pod belongs to."""
GROUPS: Final = {"coscheduling": "scheduling.x-k8s.io", "volcano": "scheduling.volcano.sh"}
PRIORITIES: Final = {"high": 1000, "low": -10}
_SHORT: Final = {"gpu": GPU}


KINDS: Final[Mapping[str, Resource[Any]]] = {
    "pod": PODS.raw,
    "deployment": DEPLOYMENTS.raw,
    "statefulset": STATEFUL_SETS.raw,
    "daemonset": DAEMON_SETS.raw,
    "job": JOBS.raw,
    "claim": RESOURCE_CLAIMS.raw,
    "disk": CLAIMS.raw,
}


def fixtures() -> Objects:
    """Return what every cluster has from the start: kinds of gangs, and priorities."""
    for group, version in GROUP_VERSIONS.items():
        yield CUSTOM_RESOURCE_DEFINITIONS.raw, group_definition(group, version)
    for name, value in PRIORITIES.items():
        yield PRIORITY_CLASSES.raw, {"metadata": {"name": name}, "value": value}
    never = {"metadata": {"name": "never"}, "value": 0, "preemptionPolicy": "Never"}
    yield PRIORITY_CLASSES.raw, never


def objects(kind: str, name: str, options: Mapping[str, str]) -> Objects:
    """Return the objects that ``create KIND NAME`` makes."""
    if options.get("claim") == "template" or "claimed-cpus" in options:
        yield (
            RESOURCE_CLAIM_TEMPLATES.raw,
            {"metadata": {"name": name}, "spec": {"spec": _claim(options)}},
        )
    if "disk" in options and kind == "pod":
        yield CLAIMS.raw, {"metadata": {"name": name}, "spec": disk_claim(options["disk"])}
    yield from _MAKERS[kind](name, options)


def _pod(name: str, options: Mapping[str, str]) -> Objects:
    yield PODS.raw, pod_document(name, options)


def _shared_claim(name: str, options: Mapping[str, str]) -> Objects:
    yield RESOURCE_CLAIMS.raw, {"metadata": {"name": name}, "spec": _claim(options)}


_NAMESPACE: Final = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
PROJECTED: Final = {"downwardAPI": {"items": [_NAMESPACE]}}
"""What a volume with the token of a service account has beside the token."""
WISHES: Final = {
    REQUIRED_TOPOLOGY: "required",
    PREFERRED_TOPOLOGY: "preferred",
    "kueue.x-k8s.io/podset-required-topology": "kueue",
    "numakube.dev/gang-slices": "slices",
    "numakube.dev/gang-balance": "balance",
    "numakube.dev/gang-spare": "spare",
    "numakube.dev/gang-replacement": "replacement",
}
"""Annotations of gangs, by the option that gives them."""


def _gang(name: str, options: Mapping[str, str]) -> Objects:
    size = int(options.get("pods", "2"))
    least, api = int(options.get("least", size)), options.get("api", "labels")
    labels, annotations, wishes = {APP: name}, dict[str, str](), dict[str, str]()
    for key, option in WISHES.items():
        wishes |= {key: options[option]} if option in options else {}
    if api == "labels":
        labels |= {NAME_LABEL: name, MIN_LABEL: str(least)}
        annotations |= wishes
    else:
        yield (
            groups_of(GROUPS[api]),
            {"metadata": {"name": name, "annotations": wishes}, "spec": {"minMember": least}},
        )
        if api == "coscheduling":
            labels |= {COSCHEDULING_LABEL: name}
        else:
            annotations |= {VOLCANO_ANNOTATION: name}
    for number in range(size):
        yield PODS.raw, pod_document(f"{name}-{number}", options, labels, annotations, of=name)


def _replicated(name: str, options: Mapping[str, str], kind: str) -> Objects:
    template = pod_document(name, options, {APP: name})
    template["metadata"].pop("name")
    spec: Document = {"selector": {"matchLabels": {APP: name}}, "template": template}
    if kind != "daemonset":
        spec |= {"replicas": int(options.get("pods", "2"))}
    if "disk" in options:
        claim = {"metadata": {"name": "data"}, "spec": disk_claim(options["disk"])}
        spec |= {"volumeClaimTemplates": [claim]}
    yield KINDS[kind], {"metadata": {"name": name}, "spec": spec}


def _job(name: str, options: Mapping[str, str]) -> Objects:
    template = pod_document(name, options, {APP: name})
    template["metadata"].pop("name")
    template["spec"]["restartPolicy"] = "Never"
    count = int(options.get("pods", "2"))
    spec = {"template": template, "parallelism": count, "completions": count, "backoffLimit": 50}
    yield JOBS.raw, {"metadata": {"name": name}, "spec": spec}


_MAKERS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Objects]]] = {
    "pod": _pod,
    "claim": _shared_claim,
    "gang": _gang,
    "job": _job,
    "deployment": lambda name, options: _replicated(name, options, "deployment"),
    "statefulset": lambda name, options: _replicated(name, options, "statefulset"),
    "daemonset": lambda name, options: _replicated(name, options, "daemonset"),
}


def exporter_pod(name: str, node: str) -> Document:
    """Return the pod in which the exporter of a node runs, as a DaemonSet makes it."""
    spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}]}
    container = {"name": "exporter", "image": IMAGE}
    return {
        "metadata": {"name": name, "labels": {APP: "exporter"}},
        "spec": {**spec, "containers": [container], "terminationGracePeriodSeconds": 5},
    }


def pod_document(
    name: str,
    options: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    *,
    of: str = "",
) -> Document:
    """Return a pod; *of* is the name of what it belongs to, its own if not given."""
    told = {APP: of or name, **(labels or {})}
    said = dict(annotations or {})
    spec: Document = {
        "schedulerName": options.get("scheduler", SCHEDULER_NAME),
        "containers": list(_containers(options)),
        "terminationGracePeriodSeconds": int(options.get("grace", "5")),
        # An API server adds the like to every pod, each time under another name.
        "volumes": [{"name": f"kube-api-access-{name}", "projected": {"sources": [PROJECTED]}}],
    }
    if "init" in options:
        spec["initContainers"] = [
            _container("init", {"cpu": options["init"], "memory": "64Mi"}, options)
        ]
    if "sidecar" in options:
        amounts = {"cpu": options["sidecar"], "memory": "64Mi"}
        sidecar = {**_container("sidecar", amounts, options), "restartPolicy": "Always"}
        spec["initContainers"] = [*spec.get("initContainers", []), sidecar]
    if options.get("level") == "pod":
        wanted = _amounts(options)
        spec["resources"] = {"requests": wanted, "limits": wanted}
    if claimed := options.get("disk-of", name if "disk" in options and not of else ""):
        claim = {"claimName": claimed}
        spec["volumes"].append({"name": "data", "persistentVolumeClaim": claim})
    _add_claims(spec, options, of or name)
    _add_constraints(spec, options, told[APP])
    if "align" in options:
        policy, _, scope = options["align"].partition("/")
        wish = {"numaTopologyPolicy": policy} | ({"numaTopologyScope": scope} if scope else {})
        said[keys.NUMA_TOPOLOGY_SPEC] = json.dumps(wish)
        told |= {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}
    if "near" in options:
        said["numakube.dev/claim-alignment"] = options["near"]
    said |= {
        f"numakube.dev/{key}": options[key]
        for key in ("zone-anti-affinity", "zone-spread", "zone-mode", "linked")
        if key in options
    }
    if "seconds" in options:
        said["lab.numakube.dev/run-seconds"] = options["seconds"]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": told, "annotations": said},
        "spec": spec,
    }
    return as_launcher(document, options) if "vm" in options else document


def _add_claims(spec: Document, options: Mapping[str, str], of: str) -> None:
    claim = "template" if "claimed-cpus" in options else options.get("claim", "")
    if not claim:
        return
    source = (
        {"resourceClaimTemplateName": of} if claim == "template" else {"resourceClaimName": claim}
    )
    spec["resourceClaims"] = [{"name": "device", **source}]
    for container in spec["containers"]:
        container["resources"]["claims"] = [{"name": "device"}]


def _add_constraints(spec: Document, options: Mapping[str, str], app: str) -> None:
    selector = {"matchLabels": {APP: app}}
    if "priority" in options:
        spec["priorityClassName"] = options["priority"]
    if "selector" in options:
        key, _, value = options["selector"].partition("=")
        spec["nodeSelector"] = {key: value}
    if "spread" in options:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": options["spread"],
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    for option, field in (("apart", "podAntiAffinity"), ("together", "podAffinity")):
        if option in options:
            term = {"topologyKey": options[option], "labelSelector": selector}
            affinity = {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            spec["affinity"] = {**spec.get("affinity", {}), **affinity}
    if "gate" in options:
        spec["schedulingGates"] = [{"name": options["gate"]}]
    if "tolerates" in options:
        spec["tolerations"] = [{"key": options["tolerates"], "operator": "Exists"}]


def _amounts(options: Mapping[str, str]) -> dict[str, str]:
    """Return what a container, or the pod, asks for."""
    wanted = {"cpu": options.get("cpu", "1"), "memory": options.get("memory", "256Mi")}
    for name, text in options.items():
        pod_level = options.get("level") == "pod"
        if (name in _SHORT and not pod_level) or name.startswith("hugepages-"):
            wanted[_SHORT.get(name, name)] = text
    return wanted


def _containers(options: Mapping[str, str]) -> Iterator[Document]:
    for number in range(int(options.get("containers", "1"))):
        if options.get("level") == "pod":
            devices = {_SHORT[one]: options[one] for one in _SHORT if one in options}
            resources = {"requests": devices, "limits": devices}
            yield {"name": f"c{number}", "image": IMAGE, "resources": resources}
        elif "claimed-cpus" in options:
            yield {"name": f"c{number}", "image": IMAGE, "resources": {}}
        else:
            yield _container(f"c{number}", _amounts(options), options)


def _container(name: str, wanted: dict[str, str], options: Mapping[str, str]) -> Document:
    exact = {key: text for key, text in wanted.items() if "/" in key or key.startswith("huge")}
    resources: Document = {"requests": wanted, "limits": wanted}
    match options.get("qos", "guaranteed"):
        case "burstable":
            resources = {"requests": wanted, "limits": exact}
        case "besteffort":
            resources = {"requests": exact, "limits": exact}
        case _:
            pass
    return {"name": name, "image": IMAGE, "resources": resources}


def _claim(options: Mapping[str, str]) -> Document:
    if "claimed-cpus" in options:
        return claim_of(options["claimed-cpus"])
    exactly = {
        "deviceClassName": driver_of(GPU),
        "allocationMode": "ExactCount",
        "count": int(options.get("devices", "1")),
    }
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}

"""The proposed version v1beta1 of NodeResourceTopology, and what its fields are in v1alpha2.

``spec`` is what the machine is and how its kubelet is configured; ``status`` is what is left, of
which pods that is true, and how far to trust it. Attributes that readers know are typed fields;
conditions and a heartbeat are new. docs/contribute/nrt-v1beta1.md has the reasons.

Both functions work on plain content (an object without metadata) and carry over what either version
can say. What only one of them can say is the business of `numakube.topology.nrt_conversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.api.nrt import GROUP, POLICY_AND_SCOPE, Attribute, NodeResourceTopology
from numakube.topology import nrt_names
from numakube.topology.kubelet_attributes import kubelet_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.topology.kubelet_attributes import KubeletConfig

Content: TypeAlias = "dict[str, Any]"

V1BETA1: Final = f"{GROUP}/v1beta1"
CURRENT: Final = "Current"
"""The condition that is False while the producer says that its data is old."""
CONFIGURATION_KNOWN: Final = "KubeletConfigurationKnown"
"""The condition that is False while the producer does not know the kubelet's policies."""

_CONDITIONS: Final = {
    nrt_names.STALE: (CURRENT, "Stale"),
    nrt_names.POLICY_UNKNOWN: (CONFIGURATION_KNOWN, "Unknown"),
}
_FIELDS: Final = {
    nrt_names.TOPOLOGY_POLICY: ("topologyManager", "policy"),
    nrt_names.TOPOLOGY_SCOPE: ("topologyManager", "scope"),
    nrt_names.MAX_NUMA_NODES: ("topologyManager", "maxNUMANodes"),
    nrt_names.CPU_POLICY: ("cpuManager", "policy"),
    nrt_names.MEMORY_POLICY: ("memoryManager", "policy"),
}
_OPTIONS: Final = {
    nrt_names.TOPOLOGY_OPTION_PREFIX: "topologyManager",
    nrt_names.CPU_OPTION_PREFIX: "cpuManager",
}
_PODS: Final = {
    nrt_names.FINGERPRINT: "fingerprint",
    nrt_names.FINGERPRINT_METHOD: "fingerprintMethod",
}
_OF_PODS: Final = frozenset({nrt_names.PLACEMENT_METADATA, nrt_names.PLACEMENT_VECTOR})
"""Attributes that say something of pods, and so belong to the status."""


def to_v1beta1(content: Mapping[str, Any]) -> Content:
    """Return what v1alpha2 *content* says, in v1beta1."""
    attributes = content.get("attributes") or ()
    rest = [attribute for attribute in attributes if not _is_typed(attribute)]
    zones = content.get("zones") or ()
    spec = {
        "kubelet": _kubelet(content.get("topologyPolicies") or (), attributes),
        "attributes": [entry for entry in rest if entry["name"] not in _OF_PODS],
        "zones": [_without_empty(_spec_zone(zone), ("name", "type")) for zone in zones],
    }
    status = {
        # Of an attribute that is there twice, readers take the first.
        "pods": {
            _PODS[attribute["name"]]: attribute["value"]
            for attribute in reversed(attributes)
            if attribute["name"] in _PODS
        },
        "conditions": list(_conditions(attributes)),
        "attributes": [entry for entry in rest if entry["name"] in _OF_PODS],
        "zones": [_without_empty(_status_zone(zone), ("name",)) for zone in zones],
    }
    return {"spec": _without_empty(spec, ("zones",)), "status": _without_empty(status)}


def from_v1beta1(content: Mapping[str, Any]) -> Content:
    """Return what v1beta1 *content* says, in v1alpha2.

    What a zone has left without a status is nothing, so that no pod is promised anything.
    """
    spec, status = content.get("spec") or {}, content.get("status") or {}
    kubelet = spec.get("kubelet") or {}
    attributes = [
        *_kubelet_attributes(kubelet),
        *_pod_attributes(status),
        *_condition_attributes(status.get("conditions") or ()),
        *(status.get("attributes") or ()),
        *(spec.get("attributes") or ()),
    ]
    zones = _joined(spec.get("zones") or (), status.get("zones") or ())
    legacy = {"topologyPolicies": legacy_policies(attributes)}
    return _without_empty({**legacy, "attributes": attributes, "zones": zones}, ("zones",))


def legacy_policies(attributes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the value of ``topologyPolicies`` for *attributes*; nothing if they tell no policy."""
    if not any(attribute["name"] == nrt_names.TOPOLOGY_POLICY for attribute in attributes):
        return []
    told, _ = _config(attributes=attributes)
    names = {both: name for name, both in POLICY_AND_SCOPE.items()}
    return [names.get((told.policy, told.scope), "None")]


def policy_attributes(policies: Sequence[str]) -> list[dict[str, str]]:
    """Return the attributes that say what ``topologyPolicies`` say; none if that is nothing."""
    return list(_kubelet_attributes(_kubelet(policies, ())))


def _config(
    policies: Sequence[str] = (), attributes: Sequence[Mapping[str, str]] = ()
) -> tuple[KubeletConfig, bool]:
    """Return what is told of the kubelet, and whether all of it could be read."""
    problems: list[str] = []
    typed = tuple(
        Attribute(name=attribute["name"], value=attribute["value"]) for attribute in attributes
    )
    nrt = NodeResourceTopology(topology_policies=tuple(policies), attributes=typed)
    return kubelet_config(nrt, problems), not problems


def _is_typed(attribute: Mapping[str, str]) -> bool:
    """Tell whether an attribute has a field of its own, and a value that the field can have."""
    name = attribute["name"]
    if name in _PODS or name in _CONDITIONS:
        return True
    for prefix in _OPTIONS:
        if option := nrt_names.option_of(prefix, name):
            return nrt_names.option_attribute(prefix, option) == name
    return name in _FIELDS and _config(attributes=[attribute])[1]


def _kubelet(policies: Sequence[str], attributes: Sequence[Mapping[str, str]]) -> Content:
    managers: dict[str, Content] = {}
    told, readable = _config(policies[:1])
    if policies and readable:
        managers["topologyManager"] = {"policy": str(told.policy), "scope": str(told.scope)}
    for attribute in attributes:
        name, value = attribute["name"], attribute["value"]
        if not _is_typed(attribute):
            continue
        if name in _FIELDS:
            manager, field = _FIELDS[name]
            number = name == nrt_names.MAX_NUMA_NODES
            managers.setdefault(manager, {})[field] = int(value) if number else value
        for prefix, manager in _OPTIONS.items():
            if option := nrt_names.option_of(prefix, name):
                options = managers.setdefault(manager, {}).setdefault("policyOptions", {})
                options[option] = value
    return managers


def _kubelet_attributes(kubelet: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name, (manager, field) in _FIELDS.items():
        value = (kubelet.get(manager) or {}).get(field)
        if value is not None:
            yield {"name": name, "value": str(value)}
    for prefix, manager in _OPTIONS.items():
        options = (kubelet.get(manager) or {}).get("policyOptions") or {}
        for option, value in sorted(options.items()):
            yield {"name": nrt_names.option_attribute(prefix, option), "value": value}


def _pod_attributes(status: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    pods = status.get("pods") or {}
    for name, field in _PODS.items():
        if field in pods:
            yield {"name": name, "value": pods[field]}


def _conditions(attributes: Sequence[Mapping[str, str]]) -> Iterator[Content]:
    for name, (type_, reason) in _CONDITIONS.items():
        texts = [attribute["value"] for attribute in attributes if attribute["name"] == name]
        if texts:
            yield {"type": type_, "status": "False", "reason": reason, "message": texts[0]}


def _condition_attributes(conditions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for name, (type_, _) in _CONDITIONS.items():
        for condition in conditions:
            if condition.get("type") == type_ and condition.get("status") == "False":
                yield {"name": name, "value": condition.get("message", "")}


def _spec_zone(zone: Mapping[str, Any]) -> Content:
    return {
        "name": zone["name"],
        "type": zone["type"],
        "parent": zone.get("parent", ""),
        "distances": [
            {"zone": cost["name"], "value": cost["value"]} for cost in zone.get("costs") or ()
        ],
        "attributes": [
            attribute
            for attribute in zone.get("attributes") or ()
            if attribute["name"] not in _OF_PODS
        ],
        "resources": [
            {
                name: resource[name]
                for name in ("name", "capacity", "allocatable")
                if name in resource
            }
            for resource in zone.get("resources") or ()
        ],
    }


def _status_zone(zone: Mapping[str, Any]) -> Content:
    return {
        "name": zone["name"],
        "attributes": [
            attribute for attribute in zone.get("attributes") or () if attribute["name"] in _OF_PODS
        ],
        "resources": [
            {name: resource[name] for name in ("name", "available")}
            for resource in zone.get("resources") or ()
            if "available" in resource  # missing in objects from before 2021
        ],
    }


def _joined(spec: Sequence[Content], status: Sequence[Content]) -> list[Content]:
    """Return the zones of *spec*, each with what *status* says of the zone of its name."""
    waiting: dict[str, list[Content]] = {}
    for zone in status:
        waiting.setdefault(zone["name"], []).append(zone)
    return [
        _zone(zone, waiting[zone["name"]].pop(0) if waiting.get(zone["name"]) else {})
        for zone in spec
    ]


def _zone(zone: Content, left: Mapping[str, Any]) -> Content:
    available: dict[str, list[Any]] = {}
    for resource in left.get("resources") or ():
        available.setdefault(resource["name"], []).append(resource["available"])
    joined = {
        "name": zone["name"],
        "type": zone["type"],
        "parent": zone.get("parent", ""),
        "costs": [
            {"name": distance["zone"], "value": distance["value"]}
            for distance in zone.get("distances") or ()
        ],
        "attributes": [*(zone.get("attributes") or ()), *(left.get("attributes") or ())],
        "resources": [
            {
                **resource,
                "available": available[resource["name"]].pop(0)
                if available.get(resource["name"])
                else "0",
            }
            for resource in zone.get("resources") or ()
        ],
    }
    return _without_empty(joined, ("name", "type"))


def _without_empty(content: Content, needed: Sequence[str] = ()) -> Content:
    return {
        key: value for key, value in content.items() if key in needed or value not in ("", [], {})
    }

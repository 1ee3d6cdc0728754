"""Which resources the server serves, built-in and custom.

OpenAPI v3 documents of what is served, made when they are first asked for.

Kinds that are served in another form than the one they are stored in.

Versions of custom kinds, and of nearly all built-in ones, differ in name only. Two built-in kinds
differ in their fields: events of ``events.k8s.io`` and autoscalers of ``autoscaling/v1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kube_lab_server.catalogue.resources import GROUPS, RESOURCES, ScalePaths
from kube_lab_server.catalogue.tables import BuiltinColumns, Columns
from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.custom.custom_type import CustomType
from kube_lab_server.schema.openapi import (
    Route,
    builtin_schemas,
    custom_schemas,
    digest,
    document_path,
    openapi_document,
    openapi_index,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube_lab_server.catalogue.resource_rules import BuiltinRules, Rules
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.kind_names import Json

_DEPRECATED: Final = {
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}
"""Built-in resources, by their shelves, that users are warned of."""

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


@dataclass(frozen=True, slots=True)
class Served:
    """A resource with the rules of its kind.

    Attributes:
        columns: what tables show of the objects.
        stored_by: the rules of the version that objects are stored in, if that is another one.
        selectable: fields that objects can be selected by, beyond those of every kind.
        scale: where the objects have their numbers of replicas, if any.
        deprecation: what users of the resource are warned of.
        terminating: whether its definition is being deleted, so that nothing may be created.
    """

    resource: VersionedResource
    rules: Rules
    columns: Columns
    stored_by: Rules | None = None
    selectable: tuple[str, ...] = ()
    scale: ScalePaths = field(default_factory=ScalePaths)
    deprecation: str = ""
    terminating: bool = False


@dataclass
class ApiGroup:
    """An API group; versions in order of preference."""

    name: str
    versions: dict[str, dict[str, Served]] = field(default_factory=dict)

    def listed(self, version: str) -> list[Served]:
        """Return the resources of a version that discovery tells of."""
        return [served for served in self.versions[version].values() if served.resource.listed]


class Registry:
    """All resources by group, version and plural name."""

    def __init__(self, rules_of: Callable[[GVK], BuiltinRules]) -> None:
        self.rules_of = rules_of
        self._groups: dict[str, ApiGroup] = {"": ApiGroup("")}
        for name, versions in GROUPS:
            self._groups[name] = ApiGroup(name, {version: {} for version in versions})
        for resource in RESOURCES:
            versions_of = self._groups[resource.group].versions.setdefault(resource.version, {})
            versions_of[resource.plural] = Served(
                resource,
                rules_of(resource.kind),
                BuiltinColumns(rules_of(resource.kind).table),
                deprecation=_DEPRECATED.get(resource.shelf, ""),
            )
        self._builtin = frozenset(self._groups)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """Return the resource at that path."""
        found = self._groups.get(group)
        return found.versions.get(version, {}).get(plural) if found else None

    def is_builtin(self, group: str) -> bool:
        """Tell whether the group is one of Kubernetes' own."""
        return group in self._builtin

    def group(self, name: str) -> ApiGroup | None:
        """Return the group called *name*."""
        return self._groups.get(name)

    def groups(self) -> list[ApiGroup]:
        """Return the named groups: built-in ones in their order, then custom ones by name."""
        custom = sorted(name for name in self._groups if name not in self._builtin)
        named = [name for name in self._groups if name in self._builtin and name]
        return [self._groups[name] for name in (*named, *custom)]

    def all(self) -> Iterator[Served]:
        """Yield every resource in every version."""
        for group in self._groups.values():
            for resources in group.versions.values():
                yield from resources.values()

    def any_version(self, group: str, plural: str) -> Served | None:
        """Return a resource in its most preferred version."""
        for resources in self._groups[group].versions.values() if group in self._groups else ():
            if plural in resources:
                return resources[plural]
        return None

    def install(self, group: str, plural: str, served: list[Served]) -> None:
        """Serve a custom resource in exactly the versions given; none removes it."""
        target = self._groups.setdefault(group, ApiGroup(group))
        for resources in target.versions.values():
            resources.pop(plural, None)
        for entry in served:
            target.versions.setdefault(entry.resource.version, {})[plural] = entry
        if group in self._builtin:
            return
        names = sorted((v for v, found in target.versions.items() if found), key=version_priority)
        target.versions = {name: dict(sorted(target.versions[name].items())) for name in names}
        if not target.versions:
            del self._groups[group]


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts stable before beta before alpha, and newer before older."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), version)


_Contents = tuple[tuple[Route, CustomType | None], ...]


class _Document(NamedTuple):
    contents: _Contents
    text: Json
    digest: str


class OpenApi:
    """Documents by name, each kept until what it describes changes."""

    def __init__(self) -> None:
        self._documents: dict[str, _Document] = {}

    def index(self, registry: Registry) -> Json:
        """Return the document at ``/openapi/v3``."""
        digests = {name: self._document(name, held).digest for name, held in _all(registry)}
        return openapi_index(digests)

    def document(self, registry: Registry, name: str) -> Json | None:
        """Return the document at ``/openapi/v3/NAME``."""
        held = dict(_all(registry)).get(name)
        return self._document(name, held).text if held else None

    def _document(self, name: str, contents: _Contents) -> _Document:
        known = self._documents.get(name)
        if known is None or known.contents != contents:
            text = _write(contents)
            known = self._documents[name] = _Document(contents, text, digest(text))
        return known


def _write(contents: _Contents) -> Json:
    routes = [route for route, _ in contents]
    kinds = [route.kind for route in routes]
    kinds += [kind for route in routes for _, kind, _ in route.subresources]
    schemas: dict[str, Any] = builtin_schemas(kinds)
    custom = {info.gvk: info.schema.source for _, info in contents if info is not None}
    if custom:
        schemas |= custom_schemas(custom)
    return openapi_document(routes, schemas)


def _all(registry: Registry) -> Iterator[tuple[str, _Contents]]:
    """Yield the name and the contents of every document."""
    for group in [registry.group(""), *registry.groups()]:
        for version, resources in group.versions.items() if group else ():
            contents = tuple((_route(served), _custom(served)) for served in resources.values())
            if contents and group is not None:
                yield document_path(group.name, version), contents


def _route(served: Served) -> Route:
    resource = served.resource
    return Route(
        kind=resource.kind,
        plural=resource.plural,
        namespaced=resource.namespaced,
        verbs=resource.verbs,
        subresources=tuple((sub.name, sub.kind, sub.verbs) for sub in resource.subresources),
        custom=resource.custom,
    )


def _custom(served: Served) -> CustomType | None:
    info = getattr(served.rules, "info", None)
    return info if isinstance(info, CustomType) else None


# Field of an Event of events.k8s.io to the field of a core Event.
_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FORMS: Final = {
    GVK("events.k8s.io", "v1", "Event"): "event",
    GVK("autoscaling", "v1", "HorizontalPodAutoscaler"): "autoscaler",
}
_CORE_EVENT_FIELDS: Final = {core: new for new, core in _EVENT_FIELDS.items()}


def is_converted(resource: VersionedResource) -> bool:
    """Tell whether objects of *resource* are stored in another form."""
    return _form(resource) is not None


def _form(resource: VersionedResource) -> str | None:
    return _FORMS.get(resource.kind)


def from_stored(resource: VersionedResource, obj: Json) -> Json:
    """Return a stored object as one of *resource*'s kind and version."""
    match _form(resource):
        case "event":
            return _renamed(obj, _CORE_EVENT_FIELDS, resource.kind.api_version)
        case "autoscaler":
            return _autoscaler_v1(obj)
        case _:
            return obj


def to_stored(resource: VersionedResource, obj: Json) -> Json:
    """Return an object of *resource*'s kind and version as it is stored."""
    match _form(resource):
        case "event":
            return _renamed(obj, _EVENT_FIELDS, "v1")
        case "autoscaler":
            return _autoscaler_v2(obj)
        case _:
            return obj


def _renamed(obj: Json, names: dict[str, str], api_version: str) -> Json:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    # All but the series is written the same in both versions.
    alike = {key: value for key, value in renamed.items() if key != "series"}
    return _canonical({**renamed, "apiVersion": api_version}, alike)


def _canonical(obj: Json, known: Json | None = None) -> Json:
    return BUILTIN[GVK.of(obj)].canonical(obj, known)


def _autoscaler_v1(obj: Json) -> Json:
    """Express the CPU target in its own field; other metrics are left to version 2."""
    spec = dict(obj.get("spec") or {})
    for metric in spec.pop("metrics", ()):
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if resource.get("name") == "cpu" and "averageUtilization" in target:
            spec["targetCPUUtilizationPercentage"] = target["averageUtilization"]
    spec.pop("behavior", None)
    status = dict(obj.get("status") or {})
    for metric in status.pop("currentMetrics", None) or ():
        current = (metric.get("resource") or {}).get("current") or {}
        if "averageUtilization" in current:
            status["currentCPUUtilizationPercentage"] = current["averageUtilization"]
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
    return _canonical({**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status})


def _autoscaler_v2(obj: Json) -> Json:
    spec = dict(obj.get("spec") or {})
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        spec["metrics"] = [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": percentage},
                },
            }
        ]
    status = dict(obj.get("status") or {})
    status.pop("currentCPUUtilizationPercentage", None)
    status.setdefault("currentMetrics", None)
    return _canonical({**obj, "apiVersion": "autoscaling/v2", "spec": spec, "status": status})

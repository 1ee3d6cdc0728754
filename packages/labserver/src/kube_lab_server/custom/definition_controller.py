"""Turns definitions into served resources, and cleans up after those that are deleted.

On a real server several controllers do this in the background. Here it happens right after the
request that gave cause for it, before the next one is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_lab_server.catalogue.resources import (
    SCALE,
    Habits,
    ScalePaths,
    Subresource,
    VersionedResource,
)
from kube_lab_server.catalogue.served_resources import Served, version_priority
from kube_lab_server.catalogue.tables import CustomColumns
from kube_lab_server.custom.custom_rules import CustomRules
from kube_lab_server.custom.definitions import (
    CLEANUP_FINALIZER,
    SHELF,
    accept_names,
    is_terminating,
    is_true,
    storage_version,
    versions,
    with_conditions,
)
from kube_lab_server.handling.object_meta import timestamp, with_metadata
from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.custom.custom_type import CustomType
from kube_lab_server.store.store import ChangeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_lab_server.handling.call import ServerState
    from kube_lab_server.kind_names import Json
    from kube_lab_server.store.store import StoreChange, Stored

_PART = ("get", "patch", "update")


class DefinitionController:
    """Keeps what is served in step with the stored definitions."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._changed: dict[str, None] = {}
        self._removed: list[Json] = []
        self._terminating: set[str] = set()
        self._served: dict[str, Json] = {}
        state.store.subscribe(SHELF, self._note)
        for stored in state.store.listed(SHELF):
            self._changed[stored.key.name] = None
        self.settle()

    def _note(self, change: StoreChange) -> None:
        if change.type is ChangeType.DELETED:
            self._removed.append(change.now.obj)
            self._terminating.discard(change.now.key.name)
        else:
            self._changed[change.now.key.name] = None

    def settle(self) -> None:
        """Do everything that the changes since the last time give cause for."""
        while self._changed or self._removed:
            while self._removed:
                self._retract(self._removed.pop(0))
            names, self._changed = list(self._changed), {}
            for name in names:
                self._sync(name)
        for name in list(self._terminating):
            self._clean_up(name)

    def _sync(self, name: str) -> None:
        stored = self._find(name)
        if stored is None:
            return
        stored = self._name(stored)
        if is_true(stored.obj, "Established"):
            self._serve(stored.obj)
        if is_terminating(stored.obj):
            self._terminating.add(name)

    def _find(self, name: str) -> Stored | None:
        return next((s for s in self._state.store.listed(SHELF) if s.key.name == name), None)

    def _name(self, stored: Stored) -> Stored:
        """Accept what can be accepted of a definition's names."""
        definition = stored.obj
        group = definition["spec"]["group"]
        others = [
            other.obj
            for other in self._state.store.listed(SHELF)
            if other.obj["spec"]["group"] == group and other.key != stored.key
        ]
        naming = accept_names(definition, others)
        if naming is None:
            return stored
        status = {**(definition.get("status") or {}), "acceptedNames": naming.names}
        now = timestamp(self._state.now())
        return self._state.store.put(
            stored.key, with_conditions({**definition, "status": status}, naming.conditions, now)
        )

    def _serve(self, definition: Json) -> None:
        spec = definition["spec"]
        rules = {version["name"]: _rules(definition, version) for version in versions(definition)}
        served = [
            _served(definition, version, rules)
            for version in versions(definition)
            if version["served"]
        ]
        self._state.registry.install(spec["group"], spec["names"]["plural"], served)
        shelf = f"{spec['group']}/{spec['names']['plural']}"
        before = self._served.get(shelf, spec)
        self._served[shelf] = spec
        if before != spec:
            # As a real server does, so that clients find out what is served now.
            self._state.feeds.end(shelf)

    def _retract(self, definition: Json) -> None:
        """Serve a removed definition's resource no longer, and look again at its namesakes."""
        spec = definition["spec"]
        plural = spec["names"]["plural"]
        self._state.registry.install(spec["group"], plural, [])
        self._state.feeds.end(f"{spec['group']}/{plural}")
        self._served.pop(f"{spec['group']}/{plural}", None)
        for other in self._state.store.listed(SHELF):
            if other.obj["spec"]["group"] == spec["group"]:
                self._changed[other.key.name] = None

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a definition that is being deleted, then the definition."""
        stored = self._find(name)
        if stored is None:
            self._terminating.discard(name)
            return
        spec = stored.obj["spec"]
        shelf = f"{spec['group']}/{spec['names']['plural']}"
        left = [item for item in self._state.store.listed(shelf) if not self._remove(item)]
        if left or CLEANUP_FINALIZER not in (stored.obj["metadata"].get("finalizers") or ()):
            return
        finalizers = [f for f in stored.obj["metadata"]["finalizers"] if f != CLEANUP_FINALIZER]
        self._terminating.discard(name)
        if finalizers:
            obj = with_metadata(stored.obj, finalizers=finalizers)
            self._state.store.put(stored.key, obj)
        else:
            self._state.store.remove(stored.key)
            self.settle()

    def _remove(self, item: Stored) -> bool:
        """Delete a custom object; false if its finalizers must be waited for."""
        metadata = item.obj["metadata"]
        if not metadata.get("finalizers"):
            self._state.store.remove(item.key)
            return True
        if not metadata.get("deletionTimestamp"):
            now = timestamp(self._state.now())
            obj = with_metadata(item.obj, deletionTimestamp=now, deletionGracePeriodSeconds=0)
            self._state.store.put(item.key, obj, form=item.form)
        return False


def _accepted_names(definition: Json) -> Json:
    names: Json = definition["spec"]["names"]
    return (definition.get("status") or {}).get("acceptedNames") or names


def _kind(definition: Json, version: Json) -> GVK:
    group = definition["spec"]["group"]
    return GVK(group, version["name"], _accepted_names(definition)["kind"])


def _rules(definition: Json, version: Json) -> CustomRules:
    """Return the rules of one version of a definition."""
    kind = _kind(definition, version)
    parts = version.get("subresources") or {}
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return CustomRules(
        kind,
        CustomType.of(kind, schema),
        namespaced=definition["spec"]["scope"] == "Namespaced",
        has_status="status" in parts,
        scale=_scale_paths(parts["scale"]) if "scale" in parts else None,
    )


def _served(definition: Json, version: Json, rules: Mapping[str, CustomRules]) -> Served:
    """Return the resource of one version of a definition, given the rules of all of them."""
    spec = definition["spec"]
    names = _accepted_names(definition)
    kind = _kind(definition, version)
    parts = version.get("subresources") or {}
    stored = storage_version(definition)
    resource = VersionedResource(
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        namespaced=spec["scope"] == "Namespaced",
        shelf=f"{spec['group']}/{names['plural']}",
        stored_as=kind._replace(version=stored),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(_parts(kind, parts)),
        habits=Habits(unconditional_update=False),
        custom=True,
    )
    return Served(
        resource=resource,
        rules=rules[version["name"]],
        stored_by=None if stored == version["name"] else rules.get(stored),
        selectable=tuple(
            field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()
        ),
        columns=CustomColumns(version.get("additionalPrinterColumns") or ()),
        scale=_scale_paths(parts.get("scale") or {}),
        deprecation=_deprecation(definition, version) if version.get("deprecated") else "",
        terminating=is_terminating(definition),
    )


def _deprecation(definition: Json, version: Json) -> str:
    """Return the warning for users of a deprecated version."""
    if (warning := version.get("deprecationWarning")) is not None:
        return str(warning)
    spec = definition["spec"]
    group, kind = spec["group"], spec["names"]["kind"]
    own = version_priority(version["name"])
    better = sorted(
        (
            other["name"]
            for other in versions(definition)
            if other["served"]
            and not other.get("deprecated")
            and version_priority(other["name"]) < own
        ),
        key=version_priority,
    )
    advice = f"; use {group}/{better[0]} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{advice}"


def _parts(kind: GVK, parts: Json) -> list[Subresource]:
    found = []
    if "status" in parts:
        found.append(Subresource("status", kind, _PART))
    if "scale" in parts:
        found.append(Subresource("scale", SCALE, _PART))
    return found


def _scale_paths(paths: Json) -> ScalePaths:
    return ScalePaths(
        wanted=paths.get("specReplicasPath", ""),
        actual=paths.get("statusReplicasPath", ""),
        selector=paths.get("labelSelectorPath", ""),
    )

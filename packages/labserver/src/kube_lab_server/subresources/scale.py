"""The ``scale`` subresource: the number of replicas of whatever has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_lab_server.catalogue.resources import SCALE
from kube_lab_server.catalogue.tables import CREATED_DESCRIPTION, NAME_DESCRIPTION, definition, find
from kube_lab_server.handling.body_decoding import decode_object
from kube_lab_server.handling.object_meta import (
    in_namespace,
    manager_of,
    metadata_of,
    timestamp,
    with_metadata,
)
from kube_lab_server.handling.object_views import document_reply, view_object
from kube_lab_server.kinds.table_columns import Row, human_age
from kube_lab_server.kinds.value_checks import selector_of
from kube_lab_server.patching import (
    WriteEndpoint,
    to_parent,
    to_scale,
    track_update,
    with_managed_fields,
)
from kube_lab_server.verbs.patching import (
    APPLY_PATCH,
    applied,
    check_patch_type,
    decode_patched,
    patched,
    read_config,
)
from kube_lab_server.verbs.updating import check_name, precondition_failed, store_changed
from kube_lab_server.wire.negotiation import media_type
from kube_lab_server.wire.refusals import conflict, internal_error, invalid, not_found
from kube_lab_server.wire.request_options import WriteOptions, write_options
from numakube.api.field_errors import invalid as invalid_field
from numakube.api.selector_text import selector_text
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.catalogue.resources import ScalePaths
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json
    from kube_lab_server.store.store import Stored


def scale(state: ServerState, call: Call) -> Reply:
    """Handle a GET, PUT or PATCH of a scale."""
    existing = state.find(call.resource, call.namespace, call.info.name)
    if existing is None:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    if call.info.verb == "get":
        if call.resource.custom and not find(_paths(call).wanted, call.read(existing)):
            why = f"the spec replicas field {go_quote(_paths(call).wanted)} does not exist"
            raise internal_error(why)
        return _reply(call, existing.obj)
    options, wanted = _wanted(state, call, existing)
    _check(call, existing, wanted)
    changed = _scaled(call, call.read(existing), wanted)
    stored = store_changed(state, call, existing, changed, options, part="")
    return _reply(call, stored.obj)


def _reply(call: Call, obj: Json) -> Reply:
    shown = scale_of(call, obj)
    if call.representation.view:
        shown = view_object(call, shown, ScaleColumns())
    return document_reply(call, 200, shown)


class ScaleColumns:
    """What a table shows of a scale."""

    def definitions(self) -> list[Json]:
        """Return the columns."""
        return [
            definition("Name", description=NAME_DESCRIPTION),
            definition("Desired", "integer", description="Number of desired pods."),
            definition("Available", "integer", description="Number of pods that are there."),
            definition("Age", description=CREATED_DESCRIPTION),
        ]

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        metadata = obj["metadata"]
        replicas = obj["spec"].get("replicas", 0)
        age = human_age(metadata["creationTimestamp"], now)
        return Row([metadata["name"], replicas, obj["status"]["replicas"], age])


def scale_of(call: Call, obj: Json) -> Json:
    """Return the scale of *obj*."""
    metadata = metadata_of(obj)
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    paths = _paths(call)
    status: Json = {"replicas": _number(paths.actual, obj)}
    if selector := _selector(call, obj):
        status["selector"] = selector
    replicas = _number(paths.wanted, obj)
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _paths(call: Call) -> ScalePaths:
    assert call.served is not None  # noqa: S101 - the router looked it up
    return call.served.scale


def _number(path: str, obj: Json) -> int:
    values = find(path, obj) if path else []
    return values[0] if values and isinstance(values[0], int) else 0


def _selector(call: Call, obj: Json) -> str:
    if call.resource.custom:
        values = find(_paths(call).selector, obj) if _paths(call).selector else []
        return str(values[0]) if values and isinstance(values[0], str) else ""
    selector = (obj.get("spec") or {}).get("selector")
    if obj["kind"] == "ReplicationController":
        selector = {"matchLabels": selector or {}}
    return selector_text(selector_of(selector))


def _wanted(state: ServerState, call: Call, existing: Stored) -> tuple[WriteOptions, Json]:
    """Return the scale that the request asks for, and who manages it."""
    rules = state.rules_of(SCALE)
    live = _managed_scale(call, call.read(existing))
    if call.info.verb == "update":
        options = write_options(call.query, kind="UpdateOptions")
        wanted = decode_object(call, options, SCALE, rules)
    else:
        kind = media_type(call.headers.get("Content-Type"))
        check_patch_type(call, kind)
        options = write_options(call.query, kind="PatchOptions", apply=kind == APPLY_PATCH)
        if kind == APPLY_PATCH:
            config = read_config(call, options)
            wanted = applied(state, live, config, _endpoint(rules), options)
            return options, _checked_name(call, rules.complete(wanted))
        changed = patched(call, kind, live, options, rules)
        wanted = decode_patched(call, changed, options, SCALE, rules)
    entries = track_update(
        live,
        wanted,
        endpoint=_endpoint(rules),
        manager=manager_of(call, options),
        now=timestamp(state.now()),
    )
    return options, _checked_name(call, with_managed_fields(wanted, entries))


def _checked_name(call: Call, wanted: Json) -> Json:
    check_name(wanted, call.info.name)
    return in_namespace(wanted, call.namespace)


def _managed_scale(call: Call, obj: Json) -> Json:
    """Return the scale of *obj* with the entries of those who manage its replicas."""
    entries = to_scale(metadata_of(obj).get("managedFields"), _replicas_path(call))
    return with_managed_fields(scale_of(call, obj), entries)


def _replicas_path(call: Call) -> list[str]:
    return [f"f:{name}" for name in _paths(call).wanted.strip(".").split(".")]


def _endpoint(rules: Rules) -> WriteEndpoint:
    named = {"apiVersion": SCALE.api_version, "kind": SCALE.kind}
    empty = {**named, **rules.canonical({})}
    return WriteEndpoint(gvk=SCALE, root=rules.root, empty=empty, subresource="scale", ignored={})


def _check(call: Call, existing: Stored, wanted: Json) -> None:
    name, resource = existing.key.name, call.resource
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if replicas < 0 and not resource.custom:
        detail = "must be greater than or equal to 0"
        problem = invalid_field("spec.replicas", replicas, detail)
        raise invalid(SCALE.group, SCALE.kind, name, [problem])
    uid, actual = metadata_of(wanted).get("uid"), existing.obj["metadata"]["uid"]
    if uid and uid != actual:
        if call.info.verb == "update":
            raise precondition_failed(resource, existing.key[1:], uid, actual)
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict(resource.group, f"{resource.plural}/scale", name, why)


def _scaled(call: Call, obj: Json, wanted: Json) -> Json:
    """Return *obj* with the wanted number of replicas, as of the version the client knows."""
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    version = metadata_of(wanted).get("resourceVersion")
    entries = to_parent(
        metadata_of(obj).get("managedFields"),
        metadata_of(wanted).get("managedFields"),
        api_version=call.resource.kind.api_version,
        replicas=_replicas_path(call),
    )
    if version or not call.resource.custom:
        obj = with_metadata(obj, resourceVersion=version)
    changed = with_managed_fields(obj, entries)
    return _with_value(changed, _paths(call).wanted.strip(".").split("."), replicas)


def _with_value(obj: Json, path: list[str], value: int) -> Json:
    first, *rest = path
    inner = _with_value(obj.get(first) or {}, rest, value) if rest else value
    return {**obj, first: inner}

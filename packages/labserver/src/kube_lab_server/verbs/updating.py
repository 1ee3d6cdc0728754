"""Change objects: PUT, and what PATCH has in common with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_lab_server.catalogue.resources import registry_path
from kube_lab_server.handling.body_decoding import decode_object
from kube_lab_server.handling.object_meta import (
    dedupe_owners,
    in_namespace,
    metadata_of,
    track,
    wiped,
    with_metadata,
)
from kube_lab_server.handling.object_views import object_reply
from kube_lab_server.patching import keep_times
from kube_lab_server.schema.metadata_checks import validate_any_update
from kube_lab_server.store.store import Stored
from kube_lab_server.verbs.admitting import admit_update, authorize_create, validate_update
from kube_lab_server.verbs.creating import store_new
from kube_lab_server.wire.refusals import bad_request, conflict, failed, invalid, not_found
from kube_lab_server.wire.request_options import WriteOptions, write_options
from numakube.api.field_errors import invalid as invalid_field
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def update(state: ServerState, call: Call) -> Reply:
    """Handle a PUT of an object or of a part of it."""
    options = write_options(call.query, kind="UpdateOptions")
    obj = decode_object(call, options, call.resource.kind, call.rules)
    check_name(obj, call.info.name)
    obj = in_namespace(obj, call.namespace)
    existing = state.find(call.resource, call.namespace, call.info.name)
    if existing is None:
        return _create_missing(state, call, obj, options)
    uid = metadata_of(obj).get("uid")
    if uid and uid != existing.obj["metadata"]["uid"]:
        actual = existing.obj["metadata"]["uid"]
        raise precondition_failed(call.resource, existing.key[1:], uid, actual)
    obj = dedupe_owners(call, obj)
    obj = track(state, call, call.read(existing), obj, options)
    return object_reply(call, 200, store_changed(state, call, existing, obj, options))


def check_name(obj: Json, name: str) -> None:
    """Refuse an object whose name is not the one in the path."""
    stated = metadata_of(obj).get("name")
    if not stated:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if stated != name:
        raise bad_request(
            f"the name of the object ({stated}) does not match the name on the URL ({name})"
        )


def _create_missing(state: ServerState, call: Call, obj: Json, options: WriteOptions) -> Reply:
    if not call.resource.habits.create_on_update or call.info.subresource:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    authorize_create(state, call)
    if uid := metadata_of(obj).get("uid"):
        raise precondition_failed(call.resource, (call.namespace, call.info.name), uid)
    obj = dedupe_owners(call, with_metadata(wiped(obj), resourceVersion=None))
    obj = track(state, call, None, obj, options)
    return object_reply(call, 201, store_new(state, call, obj, options))


def precondition_failed(
    resource: VersionedResource,
    key: tuple[str, str],
    wanted: str,
    actual: str = "",
    what: str = "UID",
) -> Exception:
    """The object at *key* is not the one that the request is about, or does not exist at all."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {registry_path(resource, *key)}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: "
        f"{wanted}, {what} in object meta: {actual}"
    )
    return conflict(resource.group, resource.plural, key[1], why)


def store_changed(
    state: ServerState,
    call: Call,
    existing: Stored,
    obj: Json,
    options: WriteOptions,
    *,
    part: str | None = None,
) -> Stored:
    """Admit, complete, check and store a changed object.

    Args:
        state: the server.
        call: the request.
        existing: what is changed.
        obj: what it shall be.
        options: how.
        part: the part of the object that is changed, if not the request's subresource.

    Returns:
        the new version; the existing one if nothing changed; the last state if the change took the
        last finalizer of an object that was waiting for that to be deleted.
    """
    old = call.read(existing)
    obj = admit_update(state, call, obj, old)
    _check_version(call, existing, obj)
    obj = _prepared(state, call, obj, old, call.info.subresource if part is None else part)
    if should_delete(obj, old):
        return _finish_deletion(state, call, existing, obj, options)
    if keep_times(old, obj) == old:
        return existing
    written, form = call.write(obj)
    if options.dry_run:
        return Stored(existing.key, written, existing.version, form)
    return state.store.put(existing.key, written, form=form)


def _check_version(call: Call, existing: Stored, obj: Json) -> None:
    stated = metadata_of(obj).get("resourceVersion") or "0"
    resource = call.resource
    if not (stated.isascii() and stated.isdigit()):
        raise failed(f"strconv.ParseUint: parsing {go_quote(stated)}: invalid syntax")
    if stated == "0":
        if resource.habits.unconditional_update:
            return
        problem = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.group, resource.plural, existing.key.name, [problem])
    if stated != str(existing.version):
        raise conflict(resource.group, resource.plural, existing.key.name, MODIFIED)


def _prepared(state: ServerState, call: Call, obj: Json, old: Json, part: str) -> Json:
    """Return *obj* with what cannot change restored, after checking it."""
    before = old["metadata"]
    obj = with_metadata(
        obj, generation=before.get("generation"), resourceVersion=before["resourceVersion"]
    )
    obj = call.rules.prepare_update(obj, old, part)
    metadata = metadata_of(obj)
    obj = with_metadata(
        obj,
        uid=metadata.get("uid") or before["uid"],
        creationTimestamp=before.get("creationTimestamp"),
        deletionTimestamp=before.get("deletionTimestamp") or metadata.get("deletionTimestamp"),
        deletionGracePeriodSeconds=metadata.get(
            "deletionGracePeriodSeconds", before.get("deletionGracePeriodSeconds")
        ),
    )
    errors = validate_any_update(obj["metadata"], before, namespaced=call.resource.namespaced)
    errors += call.rules.validate_update(obj, old, part)
    if errors:
        kind = call.resource.stored_as
        raise invalid(kind.group, kind.kind, before["name"], errors)
    call.warnings.extend(call.rules.warnings(obj, old, part))
    validate_update(state, call, obj, old)
    # Who manages which fields was worked out just now, and written as it is stored.
    known = with_metadata(old, managedFields=obj["metadata"].get("managedFields"))
    return call.rules.canonical(obj, known)


def should_delete(obj: Json, old: Json) -> bool:
    """Tell whether an object that is being deleted has nothing more to wait for."""
    before = old["metadata"]
    return (
        not obj["metadata"].get("finalizers")
        and bool(before.get("deletionTimestamp"))
        and not before.get("deletionGracePeriodSeconds")
        and _spec_finalized(obj)
    )


def _spec_finalized(obj: Json) -> bool:
    """A namespace also waits for the finalizers in its spec."""
    return obj.get("kind") != "Namespace" or not (obj.get("spec") or {}).get("finalizers")


def _finish_deletion(
    state: ServerState, call: Call, existing: Stored, obj: Json, options: WriteOptions
) -> Stored:
    if not options.dry_run:
        state.store.remove(existing.key)
    written, form = call.write(obj)
    return Stored(existing.key, written, existing.version, form)

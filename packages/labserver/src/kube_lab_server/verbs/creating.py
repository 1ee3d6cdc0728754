"""Create objects: POST, and PUT or apply of an object that does not exist yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.handling.body_decoding import decode_object
from kube_lab_server.handling.object_meta import (
    dedupe_owners,
    generate_name,
    in_namespace,
    metadata_of,
    new_uid,
    timestamp,
    track,
    wiped,
    with_metadata,
)
from kube_lab_server.handling.object_views import object_reply
from kube_lab_server.schema.metadata_checks import validate_any_create
from kube_lab_server.store.store import Key, Stored
from kube_lab_server.verbs.admitting import admit_create, validate_create
from kube_lab_server.wire.refusals import already_exists, failed, invalid
from kube_lab_server.wire.request_options import WriteOptions, write_options

if TYPE_CHECKING:
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json

# A generated name that is taken is tried again with another suffix.
_NAME_ATTEMPTS: Final = 8


def create(state: ServerState, call: Call) -> Reply:
    """Handle a POST to a collection."""
    options = write_options(call.query, kind="CreateOptions")
    obj = decode_object(call, options, call.resource.kind, call.rules)
    obj = dedupe_owners(call, in_namespace(wiped(obj), call.namespace))
    obj = track(state, call, None, obj, options)
    return object_reply(call, 201, store_new(state, call, obj, options))


def store_new(state: ServerState, call: Call, obj: Json, options: WriteOptions) -> Stored:
    """Admit, complete, check and store a decoded object that is to be created."""
    decoded, obj = obj, admit_create(state, call, obj)
    generated = not metadata_of(obj).get("name") and metadata_of(obj).get("generateName")
    attempts = _NAME_ATTEMPTS if generated else 1
    for attempt in range(attempts):
        ready = _ready(state, call, obj)
        if not options.dry_run:
            _check_unversioned(ready)
        key = Key(call.resource.shelf, call.namespace, metadata_of(ready)["name"])
        existing = state.store.get(key)
        if existing is None:
            return _put(state, call, key, call.rules.canonical(ready, decoded), options)
        if attempt == attempts - 1:
            raise _taken(call, existing)
    raise AssertionError("unreachable: the loop returns or raises")


def _ready(state: ServerState, call: Call, obj: Json) -> Json:
    """Return *obj* with system metadata, completed by its kind's rules and found valid."""
    name = metadata_of(obj).get("name")
    if not name and (prefix := metadata_of(obj).get("generateName")):
        name = generate_name(prefix, state.rng)
    obj = with_metadata(
        obj, name=name, uid=new_uid(state.rng), creationTimestamp=timestamp(state.now())
    )
    obj = call.rules.prepare_create(obj)
    errors = call.rules.validate_create(obj)
    errors = errors or validate_any_create(
        obj["metadata"],
        namespaced=call.resource.namespaced,
        checked=call.rules.checks_metadata,
    )
    if errors:
        kind = call.resource.stored_as
        raise invalid(kind.group, kind.kind, name or "", errors)
    call.warnings.extend(call.rules.warnings(obj, None))
    validate_create(state, call, obj)
    return obj


def _check_unversioned(obj: Json) -> None:
    version = metadata_of(obj).get("resourceVersion") or ""
    if version.isdigit() and int(version):
        raise failed("resourceVersion should not be set on objects to be created")


def _put(state: ServerState, call: Call, key: Key, obj: Json, options: WriteOptions) -> Stored:
    written, form = call.write(obj)
    if options.dry_run:
        return Stored(key, written, state.store.version, form)
    return state.store.put(key, written, form=form)


def _taken(call: Call, existing: Stored) -> Exception:
    refusal = already_exists(call.resource.group, call.resource.plural, existing.key.name)
    if metadata_of(existing.obj).get("deletionTimestamp"):
        refusal.status["message"] = f"object is being deleted: {refusal.status['message']}"
    return refusal

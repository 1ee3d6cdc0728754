"""Server-side apply: make an object what its manager's configuration says, or create it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.handling.object_meta import (
    dedupe_owners,
    endpoint_of,
    in_namespace,
    metadata_of,
    timestamp,
    with_metadata,
)
from kube_lab_server.handling.object_views import object_reply
from kube_lab_server.patching import ApplyConflict, MalformedPatch, PatchError, apply
from kube_lab_server.schema.canonical import json_type
from kube_lab_server.verbs.admitting import authorize_create
from kube_lab_server.verbs.creating import store_new
from kube_lab_server.verbs.updating import check_name, store_changed
from kube_lab_server.wire.negotiation import MalformedYaml, read_yaml
from kube_lab_server.wire.refusals import RequestRefusal, bad_request, conflict, failed, not_found

if TYPE_CHECKING:
    from kube_lab_server.handling.call import Call, Reply
    from kube_lab_server.handling.server_state import ServerState
    from kube_lab_server.kind_names import Json
    from kube_lab_server.patching import WriteEndpoint
    from kube_lab_server.wire.request_options import WriteOptions

_PREFIX: Final = "error decoding YAML"


def apply_patch(state: ServerState, call: Call, options: WriteOptions) -> Reply:
    """Handle an apply patch."""
    existing = state.find(call.resource, call.namespace, call.info.name)
    if existing is None and call.info.subresource:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    config = read_config(call, options)
    live = None if existing is None else call.read(existing)
    merged = applied(state, live, config, endpoint_of(call), options)
    obj = call.rules.complete(merged, live)
    check_name(obj, call.info.name)
    obj = dedupe_owners(call, in_namespace(obj, call.namespace), late=True)
    if existing is not None:
        return object_reply(call, 200, store_changed(state, call, existing, obj, options))
    if uid := metadata_of(config).get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, "
            "and no existing object was found"
        )
        raise conflict(call.resource.group, call.resource.plural, call.info.name, why)
    authorize_create(state, call)
    obj = with_metadata(obj, resourceVersion=None)
    return object_reply(call, 201, store_new(state, call, obj, options))


def read_config(call: Call, options: WriteOptions) -> Json:
    """Read the configuration that is applied."""
    try:
        document = read_yaml(call.body)
    except MalformedYaml as error:
        raise bad_request(f"{_PREFIX}: error converting YAML to JSON: {error}") from None
    config = {} if document.value is None else document.value
    if not isinstance(config, dict):
        raise bad_request(
            f"{_PREFIX}: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type(config)} into Go value of type map[string]interface {{}}"
        )
    if document.repeated and options.field_validation == "Strict":
        raise bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: {document.refusal}"
        )
    if options.field_validation != "Ignore":
        call.warnings.extend(document.repeated)
    return config


def applied(
    state: ServerState,
    live: Json | None,
    config: Json,
    endpoint: WriteEndpoint,
    options: WriteOptions,
) -> Json:
    """Return *live* with *config* applied to it."""
    try:
        return apply(
            live,
            config,
            endpoint=endpoint,
            manager=options.field_manager,
            now=timestamp(state.now()),
            force=bool(options.force),
        ).object
    except ApplyConflict as conflict:
        raise _conflict(conflict) from None
    except MalformedPatch as error:
        raise bad_request(str(error)) from None
    except PatchError as error:
        raise failed(str(error)) from None


def _conflict(conflict: ApplyConflict) -> RequestRefusal:
    causes = [
        {"reason": "FieldManagerConflict", "message": found.message, "field": found.path}
        for found in conflict.conflicts
    ]
    return RequestRefusal(409, "Conflict", str(conflict), {"causes": causes})

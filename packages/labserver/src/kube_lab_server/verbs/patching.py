"""Change objects by PATCH: JSON patch, merge patch, strategic merge patch, and apply.

Server-side apply: make an object what its manager's configuration says, or create it so.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Final, NamedTuple

from kube_lab_server.handling.body_decoding import (
    accepted_types,
    inconvertible,
    repeated_fields,
)
from kube_lab_server.handling.object_meta import (
    dedupe_owners,
    endpoint_of,
    in_namespace,
    metadata_of,
    timestamp,
    track,
    with_metadata,
)
from kube_lab_server.handling.object_views import object_reply
from kube_lab_server.kind_names import GVK, Problems
from kube_lab_server.patching import (
    ApplyConflict,
    InapplicablePatch,
    MalformedPatch,
    PatchError,
    TooManyOperations,
    apply,
    check_operations,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from kube_lab_server.schema.canonical import json_type, plain
from kube_lab_server.schema.go_decoding import check_converted
from kube_lab_server.schema.jsontext import MalformedJson, read_json
from kube_lab_server.verbs.admitting import authorize_create
from kube_lab_server.verbs.creating import store_new
from kube_lab_server.verbs.updating import check_name, store_changed
from kube_lab_server.wire.negotiation import MalformedYaml, media_type, read_yaml
from kube_lab_server.wire.refusals import (
    RequestRefusal,
    bad_request,
    conflict,
    failed,
    invalid,
    not_found,
    unsupported_media_type,
)
from kube_lab_server.wire.request_options import WriteOptions, write_options
from numakube.api.field_errors import invalid as invalid_field
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json, JsonValue
    from kube_lab_server.patching import WriteEndpoint
    from kube_lab_server.wire.request_options import WriteOptions

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CUSTOM_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_LARGE: Final = 2**63


class Patched(NamedTuple):
    """A document that a patch was applied to, and what is strictly wrong with that patch."""

    document: Json
    noted: tuple[str, ...]


def patch(state: ServerState, call: Call) -> Reply:
    """Handle a PATCH of an object or of a part of it."""
    kind = media_type(call.headers.get("Content-Type"))
    check_patch_type(call, kind)
    options = write_options(call.query, kind="PatchOptions", apply=kind == APPLY_PATCH)
    if kind == APPLY_PATCH:
        return apply_patch(state, call, options)
    existing = state.find(call.resource, call.namespace, call.info.name)
    if existing is None:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    shown = call.shown(existing)
    changed = patched(call, kind, shown, options, call.rules)
    obj = decode_patched(call, changed, options, call.resource.kind, call.rules, before=shown)
    check_name(obj, call.info.name)
    obj = dedupe_owners(call, in_namespace(obj, call.namespace), late=True)
    obj = track(state, call, shown, obj, options)
    return object_reply(call, 200, store_changed(state, call, existing, obj, options))


def check_patch_type(call: Call, kind: str) -> None:
    """Refuse a patch of type *kind* if the resource does not know it."""
    if call.resource.custom and kind not in _CUSTOM_TYPES:
        raise unsupported_media_type(accepted_types(_CUSTOM_TYPES))
    if kind not in _TYPES:
        raise unsupported_media_type("415: Unsupported Media Type", {})


def patched(call: Call, kind: str, obj: Json, options: WriteOptions, rules: Rules) -> Patched:
    """Return *obj* as the request's patch of type *kind* changes it."""
    change, noted = _read_patch(call, kind, options)
    try:
        if kind == JSON_PATCH:
            result: JsonValue = json_patch(obj, change)
        elif kind == MERGE_PATCH:
            result = merge_patch(obj, change)
        else:
            result = strategic_merge_patch(obj, change, rules.root)
    except PatchError as error:
        raise _refused(error) from None
    return Patched(_as_object(result), noted)


def _read_patch(call: Call, kind: str, options: WriteOptions) -> tuple[JsonValue, tuple[str, ...]]:
    """Return the patch, and what is strictly wrong with it."""
    strict = options.field_validation != "Ignore"
    # A patch that is looked at strictly is decoded for that first, except a strategic one.
    prefix = "error decoding patch: " if strict and kind != STRATEGIC_PATCH else ""
    try:
        change = read_json(call.body)
    except MalformedJson as error:
        text = "Invalid JSON Patch" if kind == MERGE_PATCH and not strict else str(error)
        raise bad_request(f"{prefix}{text}") from None
    if _is_plain(change) and not (strict and kind == JSON_PATCH):
        return change, ()
    noted: tuple[str, ...] = ()
    if strict and kind == JSON_PATCH:
        problems = check_operations(change)
        if problems.fatal is not None:
            raise bad_request(f"{prefix}{problems.fatal}")
        noted = problems.strict
    elif strict:
        noted = tuple(repeated_fields(change))
    return plain(change), noted


def _is_plain(value: JsonValue) -> bool:
    """Tell whether no key is repeated and no number needs rounding, which is so of nearly all."""
    kind = type(value)
    if kind is dict:
        return all(map(_is_plain, value.values()))
    if kind is list:
        return all(map(_is_plain, value))
    return kind in (str, bool, NoneType) or (kind is int and abs(value) < _LARGE)


def _as_object(result: JsonValue) -> Json:
    if not isinstance(result, dict):
        raise failed("the patch does not result in an object")
    return result


def _refused(error: PatchError) -> RequestRefusal:
    match error:
        case MalformedPatch():
            return bad_request(str(error))
        case InapplicablePatch():
            message = "the server rejected our request due to an error in our request"
            return RequestRefusal(422, "Invalid", message, {})
        case TooManyOperations():
            message = f"Request entity is too large: {error}"
            return RequestRefusal(413, "RequestEntityTooLarge", message)
        case _:
            return failed(str(error))


def decode_patched(
    call: Call,
    patched: Patched,
    options: WriteOptions,
    kind: GVK,
    rules: Rules,
    *,
    before: Json | None = None,
) -> Json:
    """Return a patched document as an object of *kind*; what it has of *before* was checked."""
    obj = patched.document
    sent = GVK.of(obj)
    if sent != kind and call.resource.custom:
        raise _other_kind(obj, sent, kind)
    if sent != kind:
        raise _invalid_patch(obj, inconvertible(sent, kind))
    problems = _problems(call, obj, rules, before, strict=options.field_validation != "Ignore")
    if problems.fatal is not None:
        raise _invalid_patch(obj, problems.fatal)
    strict = (*patched.noted, *problems.strict)
    if strict and options.field_validation == "Strict":
        raise _invalid_patch(obj, f"strict decoding error: {', '.join(strict)}")
    call.warnings.extend(strict)
    return rules.complete(obj, before)


def _problems(
    call: Call, obj: Json, rules: Rules, before: Json | None, *, strict: bool
) -> Problems:
    """Tell what is wrong with a patched document, as the kind of patch has it."""
    if before is not None and not call.resource.custom:
        # What was stored is right; a patch leaves the parts alone that it does not name.
        obj = _changed(obj, before)
    if media_type(call.headers.get("Content-Type")) == STRATEGIC_PATCH:
        return check_converted(obj, rules.root, strict=strict)
    problems = rules.check(obj, strict=strict)
    if problems == Problems():
        return problems
    # Other patched documents are read in the order of their keys, and so problems are reported.
    return rules.check(_sorted(obj), strict=strict)


def _changed(obj: Json, before: Json) -> Json:
    """Return what of *obj* is not taken from *before*."""
    found: Json = {}
    for key, value in obj.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and value is not old:
            found[key] = _changed(value, old)
        elif value is not old:
            found[key] = value
    return found


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _other_kind(obj: Json, sent: GVK, kind: GVK) -> RequestRefusal:
    """A patch made a custom object one of another kind or version."""
    problems = []
    if sent.kind != kind.kind:
        problems.append(invalid_field("kind", sent.kind, f"must be {kind.kind}"))
    if sent.api_version != kind.api_version:
        detail = f"must be {kind.api_version}"
        problems.append(invalid_field("apiVersion", sent.api_version, detail))
    return invalid(sent.group, sent.kind, metadata_of(obj).get("name") or "", problems)


def _invalid_patch(document: JsonValue, why: str) -> RequestRefusal:
    return invalid("", "", "", [invalid_field("patch", go_json(document), why)])


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

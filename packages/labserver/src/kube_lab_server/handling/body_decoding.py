"""Turn a request's body into an object of the resource's kind, or refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.canonical import json_type
from kube_lab_server.schema.custom.custom_type import CustomType
from kube_lab_server.schema.jsontext import MalformedJson, RepeatedKeys, read_json
from kube_lab_server.schema.protobuf import (
    MalformedProtobuf,
    UnknownKind,
    has_protobuf_form,
    read_protobuf,
)
from kube_lab_server.wire.negotiation import (
    JSON_TYPE,
    MEDIA_TYPES,
    PROTOBUF_TYPE,
    YAML_TYPE,
    BodyDocument,
    MalformedYaml,
    media_type,
    read_yaml,
)
from kube_lab_server.wire.refusals import bad_request, invalid, unsupported_media_type
from numakube.api.field_errors import invalid as invalid_field
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.handling.call import Call
    from kube_lab_server.kind_names import Json, JsonValue
    from kube_lab_server.wire.request_options import WriteOptions

_SUMMARY_LENGTH: Final = 30
LEGACY_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
"""How messages of the real server name its registry of built-in kinds."""

KIND_UNKNOWN: Final = "couldn't get version/kind; json parse error"


class _Target(NamedTuple):
    """What a body must be."""

    kind: GVK
    rules: Rules
    custom: bool


def read_body(call: Call, kind: GVK) -> BodyDocument:
    """Read the body, which should be a *kind*; refuse media types that are not understood."""
    sent = media_type(call.headers.get("Content-Type")) or JSON_TYPE
    if sent == YAML_TYPE:
        return read_yaml(call.body)
    if sent == PROTOBUF_TYPE and has_protobuf_form(kind):
        return BodyDocument(read_protobuf(call.body, assumed=kind))
    if sent != JSON_TYPE:
        raise unsupported_media_type(accepted_types(MEDIA_TYPES))
    return BodyDocument(read_json(call.body))


def accepted_types(types: Sequence[str]) -> str:
    """Return what is said to a client that sent none of *types*."""
    listed = ", ".join(types)
    return (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


def decode_object(
    call: Call,
    options: WriteOptions,
    kind: GVK,
    rules: Rules,
    *,
    aliases: Collection[GVK] = (),
) -> Json:
    """Return the body as an object of *kind*, its fields checked as the options ask.

    The returned object has been completed by its rules but has not been validated. It may also be
    sent as one of *aliases*, which are other names of the same.
    """
    target = _Target(kind, rules, call.resource.custom and kind == call.resource.kind)
    document = _read_object(call, target)
    value: Json = document.value
    checked = options.field_validation != "Ignore"
    if target.custom and checked:
        _warn_of_other_version(call, value, target.kind)
    if GVK.of(value) in aliases:
        value = {**value, "apiVersion": kind.api_version}
    obj = _identify(value, target)
    problems = rules.check(obj, strict=checked)
    if problems.fatal is not None:
        raise _undecodable(target, obj, problems.fatal)
    if checked:
        strict = options.field_validation == "Strict" and document.repeated
        repeated = [document.refusal] if strict else document.repeated
        report_strict(call, options, [*repeated, *problems.strict], target, obj)
    return rules.complete(obj)


def _read_object(call: Call, target: _Target) -> BodyDocument:
    """Read the body, which must be an object that tells its kind if it has to."""
    try:
        document = read_body(call, target.kind)
    except MalformedJson as error:
        raise bad_request(_unrecognized(target, error, call.body)) from None
    except MalformedProtobuf as error:
        raise bad_request(_unreadable(target, error, call.body)) from None
    value: JsonValue = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise bad_request(_unrecognized(target, _not_an_object(value), call.body))
    for member in ("kind", "apiVersion"):
        if not isinstance(value.get(member, ""), str | None):
            raise bad_request(_unrecognized(target, _not_text(member, value[member]), call.body))
    if target.custom and not value.get("kind"):
        raise bad_request(_kindless(target, call.body))
    return BodyDocument(value, document.repeated)


def _warn_of_other_version(call: Call, obj: Json, kind: GVK) -> None:
    """Warn of the fields of an object in a version that its definition does not have.

    It will be refused, but the real server looks at its fields first.
    """
    sent = GVK.of(obj)
    if sent.kind == kind.kind and sent.group == kind.group and sent.version != kind.version:
        call.warnings.extend(CustomType.of(sent, {"type": "object"}).check(obj, strict=True).strict)


def repeated_fields(value: JsonValue, path: str = "") -> list[str]:
    """Return what is said of the fields that a JSON text names more than once."""
    found: list[str] = []
    if isinstance(value, dict):
        pairs = value.pairs if isinstance(value, RepeatedKeys) else list(value.items())
        seen: set[str] = set()
        for name, item in pairs:
            where = f"{path}.{name}" if path else name
            if name in seen:
                found.append(f"duplicate field {go_quote(where)}")
            seen.add(name)
            found += repeated_fields(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += repeated_fields(item, f"{path}[{index}]")
    return found


def report_strict(
    call: Call, options: WriteOptions, problems: list[str], target: _Target, obj: Json
) -> None:
    """Refuse or warn of fields that are unknown or repeated."""
    if not problems:
        return
    if options.field_validation == "Strict":
        raise _undecodable(target, obj, f"strict decoding error: {', '.join(problems)}")
    call.warnings.extend(problems)


def _undecodable(target: _Target, obj: Json, problem: str) -> Exception:
    sent = GVK.of(obj)
    return bad_request(
        f"{sent.kind} in version {go_quote(sent.version)} cannot be handled as a "
        f"{target.kind.kind}: {problem}"
    )


def _identify(obj: Json, target: _Target) -> Json:
    """Return *obj* with its kind filled in; refuse an object of another kind."""
    kind, sent = target.kind, GVK.of(obj)
    full = sent
    if not target.custom:
        full = GVK(
            sent.group if obj.get("apiVersion") else kind.group,
            sent.version or kind.version,
            sent.kind or kind.kind,
        )
    named = {**obj, "apiVersion": full.api_version, "kind": full.kind}
    if full == kind:
        return named
    if target.custom:
        _refuse_custom(named, full, kind)
    raise bad_request(_wrong_kind(full, kind))


def _refuse_custom(obj: Json, sent: GVK, kind: GVK) -> None:
    if sent.api_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({sent.api_version}) does not match "
            f"the expected API version ({kind.api_version})"
        )
    name = (obj.get("metadata") or {}).get("name") or ""
    problem = invalid_field("kind", sent.kind, f"must be {kind.kind}")
    raise invalid(sent.group, sent.kind, name, [problem])


def _wrong_kind(sent: GVK, kind: GVK) -> str:
    head = f"{sent.kind} in version {go_quote(sent.version)} cannot be handled as a {kind.kind}"
    return f"{head}: {inconvertible(sent, kind)}"


def inconvertible(sent: GVK, kind: GVK) -> str:
    """Return why an object of the kind *sent* cannot be one of *kind*."""
    if _is_registered(sent):
        package = kind.group.split(".")[0] or "core"
        return (
            f"converting ({sent.version}.{sent.kind}) to ({package}.{kind.kind}): "
            "unknown conversion"
        )
    return unregistered(sent, LEGACY_SCHEME)


def _is_registered(kind: GVK) -> bool:
    """Tell whether the real server knows the kind: those it serves, and lists of them."""
    return kind in BUILTIN or kind._replace(kind=kind.kind.removesuffix("List")) in BUILTIN


def unregistered(kind: GVK, scheme: str) -> str:
    """Return what is said of a kind that the server does not know."""
    return (
        f"no kind {go_quote(kind.kind)} is registered for version "
        f"{go_quote(kind.api_version)} in scheme {go_quote(scheme)}"
    )


def _unreadable(target: _Target, error: MalformedProtobuf, body: bytes) -> str:
    wanted, sent = target.kind.kind, error.kind
    if sent is None:
        return (
            f"the object provided is unrecognized (must be of type {wanted}): "
            f"{error} ({_summary(body)})"
        )
    problem = unregistered(sent, LEGACY_SCHEME) if isinstance(error, UnknownKind) else error
    return (
        f"{sent.kind} in version {go_quote(sent.version)} cannot be handled as a {wanted}: "
        f"{problem}"
    )


def _unrecognized(target: _Target, problem: object, body: bytes) -> str:
    where = "" if isinstance(problem, MalformedYaml) else f"{KIND_UNKNOWN}: "
    return (
        f"the object provided is unrecognized (must be of type {target.kind.kind}): "
        f"{where}{problem} ({_summary(body)})"
    )


def _kindless(target: _Target, body: bytes) -> str:
    """Return what is said of a custom object that does not tell its kind."""
    text = body.decode("utf-8", "replace")
    return (
        f"the object provided is unrecognized (must be of type {target.kind.kind}): "
        f"Object 'Kind' is missing in '{text}' ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """Return how a body begins: as text if that looks like JSON, else in hexadecimal digits."""
    if not body:
        return "<empty>"
    head = body[:_SUMMARY_LENGTH]
    text = head.decode("utf-8", "replace") if head.startswith(b"{") else head.hex()
    return text if len(body) <= _SUMMARY_LENGTH else f"{text} ..."


def _not_text(member: str, value: JsonValue) -> str:
    return (
        f"json: cannot unmarshal {json_type(value)} into Go struct field .{member} of type string"
    )


def _not_an_object(value: JsonValue) -> str:
    return (
        f"json: cannot unmarshal {json_type(value)} into Go value of type struct "
        '{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }'
    )

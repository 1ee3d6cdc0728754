"""Field selectors: which fields a kind can be selected by, parsing and matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_lab_server.wire.refusals import bad_request
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.kind_names import Json, JsonValue

_NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"
_COMMON: Final = (_NAME, _NAMESPACE)

_REGARDING: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)


def _same(*fields: str) -> dict[str, str]:
    """Fields that are found in the stored object under their own name."""
    return {field: field for field in fields}


# Kind (with group) to the fields it can be selected by, and where the stored object has them.
# A kind that is not here has the common two.
_FIELDS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("", "Pod"): {
        **_same(
            *_COMMON,
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ),
        "spec.host": "spec.nodeName",
    },
    ("", "Node"): _same(_NAME, "spec.unschedulable"),
    ("", "ReplicationController"): _same(*_COMMON, "status.replicas"),
    ("", "Event"): _same(
        *_COMMON,
        *(f"involvedObject.{name}" for name in _REGARDING),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "Event"): {
        **_same(*_COMMON, "reason", "type"),
        **{f"regarding.{name}": f"involvedObject.{name}" for name in _REGARDING},
        "reportingController": "reportingComponent",
    },
    ("", "Namespace"): _same(_NAME, "status.phase"),
    ("", "Secret"): _same(*_COMMON, "type"),
    ("", "Service"): _same(*_COMMON, "spec.clusterIP", "spec.type"),
    ("batch", "Job"): {**_same(*_COMMON), "status.successful": "status.succeeded"},
    ("certificates.k8s.io", "CertificateSigningRequest"): _same(_NAME, "spec.signerName"),
    ("resource.k8s.io", "ResourceSlice"): _same(_NAME, "spec.nodeName", "spec.driver"),
}

# What stands for a field that the object does not have, if not the empty text.
_ABSENT: Final = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.succeeded": "0",
    "status.replicas": "0",
}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on a field."""

    field: str
    value: str
    negated: bool = False


FieldSelector: TypeAlias = tuple[FieldTerm, ...]


def parse_field_selector(
    text: str, resource: VersionedResource, selectable: Collection[str] = ()
) -> FieldSelector:
    """Parse a ``fieldSelector`` parameter into terms on the stored objects of *resource*.

    A custom kind can also be selected by the fields *selectable* of its definition.
    """
    selector = [_parse_term(term, text) for term in sorted(_split_terms(text)) if term]
    return tuple(
        FieldTerm(_place(term.field, resource, selectable), term.value, term.negated)
        for term in selector
    )


def _place(field: str, resource: VersionedResource, selectable: Collection[str]) -> str:
    known = _FIELDS.get((resource.group, resource.kind.kind))
    if known is None:
        if field in _COMMON or field in selectable:
            return field
        raise bad_request(_unknown(field, resource))
    if field not in known:
        raise bad_request(_unknown(field, resource))
    return known[field]


def _unknown(field: str, resource: VersionedResource) -> str:
    kind = (resource.group, resource.kind.kind)
    if resource.custom or kind in _FIELDS:
        if kind == ("batch", "Job"):
            return f"field label {go_quote(field)} not supported for Job"
        if kind == ("resource.k8s.io", "ResourceSlice"):
            shown = f"{resource.kind.api_version}, Kind={resource.kind.kind}"
            return f"field label not supported for {shown}: {field}"
        return f"field label not supported: {field}"
    known = ", ".join(go_quote(name) for name in _COMMON)
    return f"{go_quote(field)} is not a known field selector: only {known}"


def matches_fields(selector: FieldSelector, obj: Json) -> bool:
    """Tell whether the stored object *obj* fulfils every term."""
    return all((field_value(obj, term.field) == term.value) != term.negated for term in selector)


def field_value(obj: Json, field: str) -> str:
    """Return the field's value as text."""
    if field == "source":  # of an Event: what reported it, in the old field or in the new one
        return field_value(obj, "source.component") or field_value(obj, "reportingComponent")
    value: JsonValue = obj
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return _text(value, _ABSENT.get(field, ""))


def _text(value: JsonValue, absent: str) -> str:
    match value:
        case None | {} | []:
            return absent
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(str(item.get("ip", "")) for item in value)
        case _:
            return str(value)


def _split_terms(text: str) -> list[str]:
    """Split at commas that are not escaped."""
    terms: list[str] = [""]
    escaped = False
    for character in text:
        if character == "," and not escaped:
            terms.append("")
            continue
        terms[-1] += character
        escaped = character == "\\" and not escaped
    return terms


def _parse_term(term: str, whole: str) -> FieldTerm:
    for index, character in enumerate(term):
        for operator in ("!=", "==", "="):
            if character in "!=" and term.startswith(operator, index):
                value = _unescape(term[index + len(operator) :])
                return FieldTerm(term[:index], value, operator == "!=")
    raise bad_request(f"invalid selector: '{whole}'; can't understand '{term}'")


def _unescape(value: str) -> str:
    result = ""
    characters = iter(value)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in ("\\", ",", "="):
                escape = f"\\{following}"
                raise bad_request(f"invalid field selector: invalid escape sequence: {escape}")
            result += following
        elif character in ",=":
            # The real server prints the character's number here.
            code = ord(character)
            raise bad_request(f"invalid field selector: unescaped character in value: {code}")
        else:
            result += character
    return result

"""Conversion of NodeResourceTopologies between versions, without loss.

Versions stand in a row; an object is converted from one to the next. What the next one cannot say
travels along in an annotation and comes back on the way back. An entry of it is a field, its value,
and a digest of what the field would otherwise come back as: if that has changed meanwhile, somebody
has written the object in the other version, and what was written counts.

    convert_version(convert_version(tree, V1BETA1), V1ALPHA2) == tree

Labels and annotations are all of the metadata that a conversion may change.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from numakube.api.nrt import GROUP, KIND, V1ALPHA1, V1ALPHA2
from numakube.errors import MalformedObject
from numakube.topology.nrt_v1beta1 import (
    V1BETA1,
    from_v1beta1,
    legacy_policies,
    policy_attributes,
    to_v1beta1,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Content: TypeAlias = dict[str, Any]
    Change: TypeAlias = Callable[[Mapping[str, Any]], Content]

VERSIONS: Final = (V1ALPHA1, V1ALPHA2, V1BETA1)
"""In the order in which objects are converted."""
KEPT_PREFIX: Final = f"{GROUP}/kept-"
"""Annotations that carry what a version cannot say; the version whose fields these are follows."""

_ENVELOPE: Final = ("apiVersion", "kind", "metadata")
_ABSENT: Final = "absent"


def convert_version(tree: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    """Return an object in another version.

    Raises:
        MalformedObject: it is no object of a version that we know, or not of its shape.
    """
    source = tree.get("apiVersion")
    subject = f"{KIND} {_metadata(tree).get('name', '')}"
    for version in (source, api_version):
        if version not in VERSIONS or tree.get("kind") != KIND:
            known = ", ".join(VERSIONS)
            detail = f"{tree.get('kind')} of {version!r}; known are {KIND} of {known}"
            raise MalformedObject(subject, detail, path="apiVersion")
    try:
        return _walk(dict(tree), VERSIONS.index(source), VERSIONS.index(api_version))
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        # The API server has checked the object against the schema, so this is a broken promise.
        raise MalformedObject(subject, f"not of the shape of {source}: {error!r}") from None


def _walk(tree: dict[str, Any], position: int, end: int) -> dict[str, Any]:
    while position != end:
        step = 1 if end > position else -1
        tree = _converted(tree, VERSIONS[position], VERSIONS[position + step])
        position += step
    return tree


def _converted(tree: Mapping[str, Any], source: str, target: str) -> dict[str, Any]:
    metadata = dict(_metadata(tree))
    annotations = dict(metadata.get("annotations") or {})
    content = {key: value for key, value in tree.items() if key not in _ENVELOPE}
    kept = _read(annotations.pop(_annotation(target), ""))
    result = _restored(_CHANGES[source, target](content), kept)
    lost = _lost(content, _CHANGES[target, source](result))
    if lost:
        annotations[_annotation(source)] = msgspec.json.encode(lost).decode()
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**result, "apiVersion": target, "kind": KIND, "metadata": metadata}


def _metadata(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = tree.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _annotation(version: str) -> str:
    return KEPT_PREFIX + version.rpartition("/")[2]


def _read(text: str) -> dict[str, Any]:
    """Return what an annotation keeps; one that somebody has spoiled keeps nothing."""
    try:
        kept = msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    right = isinstance(kept, dict) and all(
        isinstance(one, dict) and "of" in one for one in kept.values()
    )
    return kept if right else {}


def _lost(content: Mapping[str, Any], back: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of *content* that come *back* as something else."""
    before, after = dict(_fields(content)), dict(_fields(back))
    return {
        field: {
            "of": _digest(after.get(field, _ABSENT)),
            **({"value": before[field]} if field in before else {}),
        }
        for field in sorted(before.keys() | after.keys())
        if before.get(field, _ABSENT) != after.get(field, _ABSENT)
    }


def _restored(content: Content, kept: Mapping[str, Any]) -> Content:
    fields = dict(_fields(content))
    for field, entry in kept.items():
        if entry["of"] != _digest(fields.get(field, _ABSENT)):
            continue
        if "value" in entry:
            fields[field] = entry["value"]
        else:
            fields.pop(field, None)
    return _joined(fields)


def _fields(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object; those of spec and status one by one."""
    for key, value in content.items():
        if key in ("spec", "status") and isinstance(value, dict) and value:
            yield from ((f"{key}.{name}", one) for name, one in value.items())
        else:
            yield key, value


def _joined(fields: Mapping[str, Any]) -> Content:
    content: Content = {}
    for field, value in fields.items():
        key, dot, name = field.partition(".")
        if dot:
            content.setdefault(key, {})[name] = value
        else:
            content.setdefault(key, value)
    return content


def _digest(value: object) -> str:
    return blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=8).hexdigest()


def _to_v1alpha2(content: Mapping[str, Any]) -> Content:
    attributes = policy_attributes(content.get("topologyPolicies") or ())
    return {**content, **({"attributes": attributes} if attributes else {})}


def _from_v1alpha2(content: Mapping[str, Any]) -> Content:
    attributes = content.get("attributes") or ()
    policies = content.get("topologyPolicies") or legacy_policies(attributes) or ["None"]
    rest = {key: value for key, value in content.items() if key != "attributes"}
    return {**rest, "topologyPolicies": policies}


_CHANGES: Final[Mapping[tuple[str, str], Change]] = {
    (V1ALPHA1, V1ALPHA2): _to_v1alpha2,
    (V1ALPHA2, V1ALPHA1): _from_v1alpha2,
    (V1ALPHA2, V1BETA1): to_v1beta1,
    (V1BETA1, V1ALPHA2): from_v1beta1,
}

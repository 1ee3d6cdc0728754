"""What a CustomResourceDefinition says, what the server adds to it, and which names it accepts.

Checks of CustomResourceDefinitions, beyond their metadata. The real server checks an older form,
in which what all versions share stands once: hence paths such as
``spec.validation.openAPIV3Schema`` for the schema of a definition's only version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kube_lab_server.schema.custom.schema_checks import check_schema
from kube_lab_server.schema.custom.structural import check_selectable_fields
from numakube.api.field_errors import (
    FieldError,
    aggregate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from numakube.values.gotext import go_quote
from numakube.values.names import dns_1035_label, dns_subdomain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kube_lab_server.kind_names import Json


SHELF: Final = "apiextensions.k8s.io/customresourcedefinitions"
CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


def complete_definition(obj: Json) -> Json:
    """Return a definition with what its author left open."""
    spec = dict(obj.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    spec["names"] = names
    conversion = dict(spec.get("conversion") or {})
    conversion.setdefault("strategy", "None")
    spec["conversion"] = conversion
    return {**obj, "spec": spec}


def versions(definition: Json) -> list[Json]:
    """Return the versions that a definition has."""
    return (definition.get("spec") or {}).get("versions") or []


def storage_version(definition: Json) -> str:
    """Return the version that objects are stored in."""
    return next((version["name"] for version in versions(definition) if version["storage"]), "")


def with_stored_version(definition: Json) -> Json:
    """Return a definition whose status says that objects may be stored in its storage version."""
    status = dict(definition.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    name = storage_version(definition)
    if name and name not in stored:
        stored.append(name)
    status["storedVersions"] = stored
    return {**definition, "status": status}


def condition(definition: Json, kind: str) -> Json | None:
    """Return the condition of that type."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind), None)


def is_true(definition: Json, kind: str) -> bool:
    """Tell whether the condition of that type holds."""
    found = condition(definition, kind)
    return found is not None and found["status"] == "True"


def with_conditions(definition: Json, fresh: list[Json], now: str) -> Json:
    """Return a definition with conditions set; a time changes only with its status."""
    status = dict(definition.get("status") or {})
    conditions = list(status.get("conditions") or ())
    for new in fresh:
        old = condition({"status": {"conditions": conditions}}, new["type"])
        since = old["lastTransitionTime"] if old and old["status"] == new["status"] else now
        stamped = {**new, "lastTransitionTime": since}
        if old is None:
            conditions.append(stamped)
        else:
            conditions[conditions.index(old)] = stamped
    status["conditions"] = conditions
    return {**definition, "status": status}


def is_terminating(definition: Json) -> bool:
    """Tell whether a definition is being deleted."""
    return bool(definition["metadata"].get("deletionTimestamp"))


def marked_for_deletion(definition: Json, now: str) -> Json:
    """Return a definition that waits for its objects to be removed."""
    metadata = dict(definition["metadata"])
    metadata.setdefault("deletionTimestamp", now)
    finalizers = list(metadata.get("finalizers") or ())
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    metadata["finalizers"] = finalizers
    terminating = {
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; "
        "CustomResource deletion will begin soon",
    }
    return with_conditions({**definition, "metadata": metadata}, [terminating], now)


@dataclass
class _Taken:
    """The names that definitions of a group have."""

    resources: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Naming:
    """The outcome: names that a definition has now, and the two conditions that tell of it."""

    names: Json
    conditions: list[Json]


def accept_names(definition: Json, others: Iterable[Json]) -> Naming | None:
    """Return what of a definition's names is accepted; None if nothing changes."""
    requested = definition["spec"]["names"]
    accepted = (definition.get("status") or {}).get("acceptedNames") or {}
    if requested == accepted:
        return None
    taken = _taken(others)
    names = dict(accepted)
    refusals: list[tuple[str, str]] = []
    for member, pool, reason in (
        ("plural", taken.resources, "PluralConflict"),
        ("singular", taken.resources, "SingularConflict"),
        ("shortNames", taken.resources, "ShortNamesConflict"),
        ("kind", taken.kinds, "KindConflict"),
        ("listKind", taken.kinds, "ListKindConflict"),
    ):
        problem = _problem(requested.get(member), accepted.get(member), pool)
        if problem:
            refusals.append((reason, problem))
        elif requested.get(member):
            names[member] = requested[member]
        else:
            names.pop(member, None)
    if requested.get("categories"):
        names["categories"] = requested["categories"]
    naming = Naming(names, [_accepted(refusals), _established(definition, refusals)])
    unchanged = names == accepted and _same(condition(definition, "NamesAccepted"), naming)
    return None if unchanged else naming


def _taken(others: Iterable[Json]) -> _Taken:
    taken = _Taken()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        taken.resources.update((names.get("plural", ""), names.get("singular", "")))
        taken.resources.update(names.get("shortNames") or ())
        taken.kinds.update((names.get("kind", ""), names.get("listKind", "")))
    return taken


def _problem(
    requested: str | list[str] | None, accepted: str | list[str] | None, taken: set[str]
) -> str:
    if isinstance(requested, str):
        return _used(requested) if requested != accepted and requested in taken else ""
    fresh = [name for name in requested or () if name not in (accepted or ())]
    problems = [_used(name) for name in fresh if name in taken]
    return aggregate(problems) if problems else ""


def _used(name: str) -> str:
    return f"{go_quote(name)} is already in use"


def _accepted(refusals: list[tuple[str, str]]) -> Json:
    if refusals:
        reason, message = refusals[-1]
        status = "False"
    else:
        reason, message, status = "NoConflicts", "no conflicts found", "True"
    return {"type": "NamesAccepted", "status": status, "reason": reason, "message": message}


def _established(definition: Json, refusals: list[tuple[str, str]]) -> Json:
    old = condition(definition, "Established")
    if old is not None and (old["status"] == "True" or refusals):
        return {key: old[key] for key in ("type", "status", "reason", "message")}
    if refusals:
        return {
            "type": "Established",
            "status": "False",
            "reason": "NotAccepted",
            "message": "not all names are accepted",
        }
    return {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    }


def _same(old: Json | None, naming: Naming) -> bool:
    fresh = naming.conditions[0]
    return old is not None and all(old.get(key) == value for key, value in fresh.items())


_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "binary",
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_SCALE_PATHS: Final = (
    ("specReplicasPath", (".spec",)),
    ("statusReplicasPath", (".status",)),
    ("labelSelectorPath", (".spec", ".status")),
)
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_SUGGESTION: Final = (
    "protected groups must have approval annotation "
    f'"{_APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
)


def check_definition(obj: Json, old: Json | None = None) -> list[FieldError]:
    """Check a definition; *old* is what an update replaces."""
    spec = obj.get("spec") or {}
    errors = [*_check_spec(spec)]
    if old is not None:
        errors += _check_immutable(spec, old)
    errors += _check_stored_versions(obj)
    errors += _check_approval(obj, old)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    return errors


def _check_spec(spec: Json) -> Iterator[FieldError]:
    yield from _check_group(spec.get("group") or "")
    yield from _check_choice("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    found = spec.get("versions") or []
    for index, version in enumerate(found):
        if not _schema(version):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    yield from _check_versions(found)
    yield from _check_names(spec.get("names") or {})
    yield from _check_shared(found)
    yield from _check_conversion(spec.get("conversion"))


def _schema(version: Json) -> Json | None:
    schema: Json | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _check_group(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif problems := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _check_choice(path: str, value: str, accepted: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in accepted:
        yield not_supported(path, value, accepted)


def _check_versions(found: list[Json]) -> Iterator[FieldError]:
    shared = _shared(found)
    for index, version in enumerate(found):
        path = f"spec.versions[{index}]"
        if problems := dns_1035_label(version["name"]):
            yield invalid(f"{path}.name", version["name"], ",".join(problems))
        yield from _check_deprecation(version, path)
        if "schema" not in shared and (schema := _schema(version)):
            status = "status" in (version.get("subresources") or {})
            yield from check_schema(schema, f"{path}.schema.openAPIV3Schema", status=status)
        if "subresources" not in shared:
            yield from _check_scale(version, f"{path}.subresources")
        if "additionalPrinterColumns" not in shared:
            yield from _check_columns(version, path)
        if "selectableFields" not in shared:
            yield from _check_selectable(version, _schema(version), f"{path}.selectableFields")
    names = [version["name"] for version in found]
    if len(set(names)) != len(names):
        yield invalid("spec.versions", found, "must contain unique version names")
    if sum(1 for version in found if version["storage"]) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", found, detail)
    if names and (problems := dns_1035_label(names[0])):
        yield invalid("spec.version", names[0], ",".join(problems))


def _shared(found: list[Json]) -> set[str]:
    """Return which members are the same in all versions."""
    return {
        member
        for member in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
        if found and all(version.get(member) == found[0].get(member) for version in found)
    }


def _check_shared(found: list[Json]) -> Iterator[FieldError]:
    """Check what all versions share, at the place where it stands in the older form."""
    shared = _shared(found)
    if "schema" in shared and (schema := _schema(found[0])):
        status = any("status" in (version.get("subresources") or {}) for version in found)
        yield from check_schema(schema, "spec.validation.openAPIV3Schema", status=status)
    if "subresources" in shared:
        yield from _check_scale(found[0], "spec.subresources")
    if "additionalPrinterColumns" in shared:
        yield from _check_columns(found[0], "spec")
    if "selectableFields" in shared:
        schema = _schema(found[0]) if "schema" in shared else None
        yield from _check_selectable(found[0], schema, "spec.selectableFields")


def _check_selectable(version: Json, schema: Json | None, path: str) -> Iterator[FieldError]:
    fields = version.get("selectableFields") or []
    if fields and schema is None:
        yield invalid(path, "", "may only be set when validations.schema is included")
    elif schema is not None:
        yield from check_selectable_fields(fields, schema, path)


def _check_scale(version: Json, path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for name, roots in _SCALE_PATHS:
        place, value = f"{path}.scale.{name}", scale.get(name) or ""
        if not value:
            if name != "labelSelectorPath":
                yield required(place)
        elif not value.startswith("."):
            yield invalid(place, value, "must be a simple json path starting with .")
        elif not value.startswith(tuple(f"{root}." for root in roots)):
            under = " or ".join(roots)
            either = "either " if len(roots) > 1 else ""
            yield invalid(place, value, f"should be a json path under {either}{under}")


def _check_deprecation(version: Json, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        detail = "can only be set for deprecated versions"
        yield invalid(f"{path}.deprecationWarning", warning, detail)
    elif len(warning) > 256:
        yield invalid(f"{path}.deprecationWarning", warning, "must be <= 256 characters long")
    elif not warning:
        yield invalid(f"{path}.deprecationWarning", warning, "must not be an empty string")


def _check_columns(version: Json, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        kind, form = column.get("type") or "", column.get("format") or ""
        if not kind:
            yield required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield invalid(f"{where}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if form and form not in _COLUMN_FORMATS:
            yield invalid(f"{where}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{where}.JSONPath")


def _check_names(names: Json) -> Iterator[FieldError]:
    path = "spec.names"
    for member in ("plural", "singular", "kind", "listKind"):
        if not names.get(member):
            yield required(f"{path}.{member}")
    for member in ("plural", "singular", "kind", "listKind"):
        value = names.get(member) or ""
        if value and (problems := dns_1035_label(value.lower())):
            yield invalid(f"{path}.{member}", value, _lowered(problems, member))
    for index, short in enumerate(names.get("shortNames") or ()):
        if problems := dns_1035_label(short):
            yield invalid(f"{path}.shortNames[{index}]", short, ",".join(problems))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield invalid(f"{path}.listKind", names["listKind"], detail)
    for index, category in enumerate(names.get("categories") or ()):
        if problems := dns_1035_label(category):
            yield invalid(f"{path}.categories[{index}]", category, ",".join(problems))


def _lowered(problems: list[str], member: str) -> str:
    text = ",".join(problems)
    if member in ("kind", "listKind"):
        return f"may have mixed case, but should otherwise match: {text}"
    return text


def _check_conversion(conversion: Json | None) -> Iterator[FieldError]:
    if conversion is None:
        return
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    yield from _check_choice(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook") or {}
    if strategy == "Webhook":
        config = webhook.get("clientConfig")
        if config is None:
            where = f"{path}.webhookClientConfig"
            yield required(where, "required when strategy is set to Webhook")
        elif ("url" in config) == ("service" in config):
            yield required(
                f"{path}.webhookClientConfig", "exactly one of url or service is required"
            )
        if not webhook.get("conversionReviewVersions"):
            yield required(f"{path}.conversionReviewVersions")
    elif webhook:
        why = "should not be set when strategy is not set to Webhook"
        yield forbidden(f"{path}.webhookClientConfig", why)


def _check_stored_versions(obj: Json) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored = (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    names = [version["name"] for version in versions(obj)]
    for version in versions(obj):
        if version["storage"] and version["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
    for index, name in enumerate(stored):
        if name not in names:
            yield invalid(
                f"{path}[{index}]",
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must "
                f"remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions",
            )


def _check_approval(obj: Json, old: Json | None) -> Iterator[FieldError]:
    """Groups of the Kubernetes project need a note of who approved their API."""
    group = (obj.get("spec") or {}).get("group") or ""
    if not (group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")):
        return
    path = f"metadata.annotations[{_APPROVAL}]"
    value = (obj["metadata"].get("annotations") or {}).get(_APPROVAL)
    before = ((old or {}).get("metadata", {}).get("annotations") or {}).get(_APPROVAL)
    if old is not None and value == before:
        return
    if value is None:
        yield required(path, _APPROVAL_SUGGESTION)
    elif not value.startswith(("https://", "http://", "unapproved")):
        yield invalid(path, value, _APPROVAL_SUGGESTION)


def _check_immutable(spec: Json, old: Json) -> Iterator[FieldError]:
    before = old.get("spec") or {}
    names, names_before = spec.get("names") or {}, before.get("names") or {}
    fields = [("group", spec, before), ("names.plural", names, names_before)]
    if is_true(old, "Established"):
        fields = [("scope", spec, before), ("names.kind", names, names_before), *fields]
    for path, now, then in fields:
        member = path.rpartition(".")[2]
        if now.get(member) != then.get(member):
            yield invalid(f"spec.{path}", now.get(member), "field is immutable")

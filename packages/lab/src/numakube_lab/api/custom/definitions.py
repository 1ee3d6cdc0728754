"""What a CustomResourceDefinition says, what the server adds to it, and which names it accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import aggregate
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.kinds import Json

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

"""What a CustomResourceDefinition says, and what the server adds to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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

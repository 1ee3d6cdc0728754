"""Rules of CustomResourceDefinitions themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.field_errors import invalid
from numakube.values.names import dns_subdomain
from numakube_lab.api.catalogue.builtin_rules import BuiltinRules
from numakube_lab.api.custom.definition_checks import check_definition
from numakube_lab.api.custom.definitions import (
    complete_definition,
    versions,
    with_stored_version,
)
from numakube_lab.api.handling.object_meta import with_metadata
from numakube_lab.schema.custom.schema_checks import unrecognized_formats
from numakube_lab.schema.metadata_checks import validate_metadata_update

if TYPE_CHECKING:
    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import Json


class DefinitionRules(BuiltinRules):
    """Rules of the kind CustomResourceDefinition."""

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding."""
        return complete_definition(self.canonical(obj, known))

    def prepare_create(self, obj: Json) -> Json:
        """Return *obj* with a fresh status."""
        fresh = {**with_metadata(obj, generation=1), "status": {}}
        return with_stored_version(fresh)

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        return False

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new definition."""
        return [*_check_name(obj), *check_definition(obj)]

    def prepare_update(self, obj: Json, old: Json, subresource: str) -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        if subresource == "status":
            return {**obj, "spec": old["spec"], "metadata": _status_metadata(obj, old)}
        kept = {**obj, "status": old.get("status") or {}}
        if kept["spec"] != old["spec"]:
            kept = with_metadata(kept, generation=old["metadata"].get("generation", 0) + 1)
        return with_stored_version(kept)

    def validate_update(self, obj: Json, old: Json, subresource: str) -> list[FieldError]:
        """Check a changed definition."""
        errors = validate_metadata_update(obj["metadata"], old["metadata"])
        return errors if subresource == "status" else errors + check_definition(obj, old)

    def warnings(self, obj: Json, old: Json | None, subresource: str = "") -> list[str]:
        """Return what the user is warned of: new formats that are never checked."""
        if subresource:
            return []
        known = _unrecognized(old or {})
        return [f'unrecognized format "{name}"' for name in _unrecognized(obj) if name not in known]


def _unrecognized(definition: Json) -> list[str]:
    schemas = [version.get("schema") for version in versions(definition)]
    found = [(schema or {}).get("openAPIV3Schema") or {} for schema in schemas]
    names = [name for schema in found for name in unrecognized_formats(schema)]
    return list(dict.fromkeys(names))


def _status_metadata(obj: Json, old: Json) -> Json:
    """A change of the status keeps all metadata but the version and who manages what."""
    metadata = dict(old["metadata"])
    for name in ("resourceVersion", "managedFields"):
        if name in obj["metadata"]:
            metadata[name] = obj["metadata"][name]
    return metadata


def _check_name(obj: Json) -> list[FieldError]:
    name, spec = obj["metadata"].get("name") or "", obj.get("spec") or {}
    problems = dns_subdomain(name)
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        problems.append('must be spec.names.plural+"."+spec.group')
    return [invalid("metadata.name", name, problem) for problem in problems]

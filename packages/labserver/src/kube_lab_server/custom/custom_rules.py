"""Rules of a custom kind, in one version of its definition.

Rules of CustomResourceDefinitions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.catalogue.resource_rules import BuiltinRules
from kube_lab_server.catalogue.tables import find
from kube_lab_server.custom.definitions import (
    check_definition,
    complete_definition,
    versions,
    with_stored_version,
)
from kube_lab_server.handling.object_meta import with_metadata
from kube_lab_server.schema.custom.schema_checks import unrecognized_formats
from kube_lab_server.schema.metadata_checks import validate_metadata, validate_metadata_update
from numakube.api.field_errors import invalid
from numakube.values.gotext import go_quote
from numakube.values.names import dns_subdomain, qualified_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.catalogue.resources import ScalePaths
    from kube_lab_server.kind_names import GVK, Json, Problems
    from kube_lab_server.kinds.kind_rules import ClusterView
    from kube_lab_server.schema.custom.custom_type import CustomType
    from kube_lab_server.schema.types import Struct
    from numakube.api.field_errors import FieldError


_MAX_INT32: Final = 2**31 - 1
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


class CustomRules:
    """Rules of a custom kind.

    Args:
        kind: the kind.
        info: its type, from the schema of its version.
        namespaced: whether objects live in namespaces.
        has_status: whether the status is changed by a subresource of its own.
        scale: where objects have their numbers of replicas, if they can be scaled.
    """

    def __init__(
        self,
        kind: GVK,
        info: CustomType,
        *,
        namespaced: bool,
        has_status: bool,
        scale: ScalePaths | None = None,
    ) -> None:
        self._scale = scale
        self.kind = kind
        self.info = info
        self._namespaced = namespaced
        self._has_status = has_status

    @property
    def root(self) -> Struct:
        """The kind's type."""
        return self.info.root

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent."""
        return self.info.check(obj, strict=strict)

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding: pruned, then with its defaults."""
        return self.info.default(self.info.prune(self.info.canonical(obj, known)))

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is stored and shown, with the parts of *known* that it has."""
        return self.info.canonical(obj, known)

    def admit_create(self, obj: Json, view: ClusterView) -> Json:
        """Return *obj*: admission by policies alone looks at custom resources."""
        del view
        return obj

    def check_create(self, obj: Json, view: ClusterView) -> None:
        """Have nothing against *obj*."""

    def admit_update(self, obj: Json, old: Json, view: ClusterView, subresource: str = "") -> Json:
        """Return *obj*: admission by policies alone looks at custom resources."""
        del old, view, subresource
        return obj

    def check_update(self, obj: Json, old: Json, view: ClusterView, subresource: str = "") -> None:
        """Have nothing against *obj*."""

    def prepare_create(self, obj: Json) -> Json:
        """Return *obj* as a first generation; its status comes later."""
        if self._has_status:
            obj = {key: value for key, value in obj.items() if key != "status"}
        return with_metadata(obj, generation=1)

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        return False

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object."""
        errors = validate_metadata(obj["metadata"], namespaced=self._namespaced, name=dns_subdomain)
        errors += self.info.validate(obj, None)
        return errors + self._check_scale(obj, whole=True)

    def prepare_update(self, obj: Json, old: Json, subresource: str = "") -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        if subresource == "status":
            return _with_status_of(old, obj)
        if self._has_status:
            obj = {key: value for key, value in obj.items() if key != "status"}
            if "status" in old:
                obj["status"] = old["status"]
        if _content(obj) != _content(old):
            return with_metadata(obj, generation=old["metadata"].get("generation", 0) + 1)
        return obj

    def validate_update(self, obj: Json, old: Json, subresource: str = "") -> list[FieldError]:
        """Check a changed object."""
        errors = validate_metadata_update(obj["metadata"], old["metadata"])
        if subresource == "status":
            errors += self.info.validate_status(obj, old)
            return errors + self._check_scale(obj, whole=False)
        errors += self.info.validate(obj, old)
        return errors + self._check_scale(obj, whole=True)

    def _check_scale(self, obj: Json, *, whole: bool) -> list[FieldError]:
        """Check the numbers of replicas; only that of the status unless *whole*."""
        if self._scale is None:
            return []
        paths = [self._scale.wanted, self._scale.actual] if whole else [self._scale.actual]
        return [error for path in paths for error in _check_replicas(path, obj)]

    def warnings(self, obj: Json, old: Json | None = None, subresource: str = "") -> list[str]:
        """Warn of finalizers without a prefix, which might clash with those of others."""
        del subresource
        known = (old or {}).get("metadata", {}).get("finalizers") or ()
        added = set(obj["metadata"].get("finalizers") or ()) - set(known)
        return [warning for name in sorted(added) for warning in _finalizer_warnings(name)]

    def bare_metadata(self, obj: Json) -> Json:
        """Return the metadata of an object."""
        metadata: Json = obj["metadata"]
        return metadata

    def empty(self) -> Json:
        """Return what an object in which nothing is set has next to its metadata: nothing."""
        return {}


def _finalizer_warnings(name: str) -> Iterator[str]:
    head = f"metadata.finalizers: {go_quote(name)}"
    yield from (f"{head}: {problem}" for problem in qualified_name(name))
    if "/" in name or name in _STANDARD_FINALIZERS:
        return
    path = " including a path (/)" if "." in name else ""
    yield (
        f"{head}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
        "with other finalizer writers"
    )


def _check_replicas(path: str, obj: Json) -> list[FieldError]:
    values = find(path, obj)
    value = values[0] if values else 0
    if isinstance(value, bool) or not isinstance(value, int):
        return []  # the schema has something to say about that
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value > _MAX_INT32:
        return [invalid(path, value, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _content(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _with_status_of(old: Json, new: Json) -> Json:
    """Return *old* with the status of *new*, and who manages it."""
    changed = {key: value for key, value in old.items() if key != "status"}
    if "status" in new:
        changed["status"] = new["status"]
    return with_metadata(changed, managedFields=new["metadata"].get("managedFields"))


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

    def prepare_update(self, obj: Json, old: Json, subresource: str = "") -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        if subresource == "status":
            return {**obj, "spec": old["spec"], "metadata": _status_metadata(obj, old)}
        kept = {**obj, "status": old.get("status") or {}}
        if kept["spec"] != old["spec"]:
            kept = with_metadata(kept, generation=old["metadata"].get("generation", 0) + 1)
        return with_stored_version(kept)

    def validate_update(self, obj: Json, old: Json, subresource: str = "") -> list[FieldError]:
        """Check a changed definition."""
        errors = validate_metadata_update(obj["metadata"], old["metadata"])
        return errors if subresource == "status" else errors + check_definition(obj, old)

    def warnings(self, obj: Json, old: Json | None = None, subresource: str = "") -> list[str]:
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

"""How objects of a kind are decoded, completed, checked and shown.

The verbs ask a kind's `Rules`; whether those come from built-in code or from a
CustomResourceDefinition is of no concern to them.

Rules of built-in kinds: what the verbs ask is answered by the functions of the kind. All of it is
pure: objects are JSON dicts in canonical form, arguments are never changed, other objects are
looked up through a `ClusterView` that the caller gives. Follows kube-apiserver 1.35 with its
default feature gates.

The order of a creation: `complete`, `admit_create`, `prepare_create`, `validate_create`, then
`check_create`; of an update: `complete`, `admit_update`, `prepare_update`, `validate_update`, then
`check_update`. What holds for the metadata of every kind, custom ones included, is in
`kube_lab_server.schema.metadata_checks`.

Admission covers the plugins of kube-apiserver 1.35 that are on by default and decide by objects
alone: LimitRanger, TaintNodesByCondition, Priority, DefaultTolerationSeconds, DefaultStorageClass,
StorageObjectInUseProtection, RuntimeClass, DefaultIngressClass and PodTopologyLabels; and the
allocation of addresses and ports of services. The life cycle of namespaces is the verbs' business.
ServiceAccount is left out: what it adds to pods depends on controllers that a server may not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kube_lab_server.kinds.all_kinds import rules_of
from kube_lab_server.kinds.kind_rules import copy_json, leave, sharing

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_lab_server.kind_names import GVK, Json, Problems
    from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView
    from kube_lab_server.kinds.table_columns import Table
    from kube_lab_server.schema.builtin_types import BuiltinTypeInfo
    from kube_lab_server.schema.types import Struct
    from numakube.api.field_errors import FieldError


class Rules(Protocol):
    """What the verbs need to know of a kind. Arguments are never changed."""

    def __hash__(self) -> int:
        """Rules are what they are, whatever they say."""
        ...

    @property
    def root(self) -> Struct:
        """The kind's type: what patches are merged by."""
        ...

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent, before anything else looks at it."""
        ...

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding: unknown fields dropped, defaults filled in.

        Parts that it has in common with *known*, a stored object, are not looked at.
        """
        ...

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is stored and shown, with the parts of *known* that it has."""
        ...

    def admit_create(self, obj: Json, view: ClusterView) -> Json | AdmissionRefused:
        """Return a decoded new object with what admission adds, or why it is refused."""
        ...

    def check_create(self, obj: Json, view: ClusterView) -> AdmissionRefused | None:
        """Tell why a complete and valid new object may not be stored, if so."""
        ...

    def admit_update(
        self, obj: Json, old: Json, view: ClusterView, subresource: str = ""
    ) -> Json | AdmissionRefused:
        """Return a decoded changed object with what admission adds, or why it is refused."""
        ...

    def check_update(
        self, obj: Json, old: Json, view: ClusterView, subresource: str = ""
    ) -> AdmissionRefused | None:
        """Tell why a complete and valid changed object may not be stored, if so."""
        ...

    def prepare_create(self, obj: Json) -> Json:
        """Return *obj* with what a creation sets, such as an empty status."""
        ...

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        ...

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object."""
        ...

    def prepare_update(self, obj: Json, old: Json, subresource: str = "") -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        ...

    def validate_update(self, obj: Json, old: Json, subresource: str = "") -> list[FieldError]:
        """Check a changed object."""
        ...

    def warnings(self, obj: Json, old: Json | None = None, subresource: str = "") -> list[str]:
        """Return what the user is warned of."""
        ...

    def bare_metadata(self, obj: Json) -> Json:
        """Return the metadata of an object for those who ask for nothing else."""
        ...

    def empty(self) -> Json:
        """Return what an object in which nothing is set has next to its metadata."""
        ...


class BuiltinRules:
    """Rules of a built-in kind; *now* gives the time as metadata shows it."""

    def __init__(
        self,
        kind: GVK,
        info: BuiltinTypeInfo,
        now: Callable[[], str],
        gates: frozenset[str] = frozenset(),
    ) -> None:
        self.kind = kind
        self._info = info
        self._now = now
        self._own = rules_of(kind, gates)
        blank = info.canonical({})
        self._empty = {
            k: v for k, v in blank.items() if k not in ("kind", "apiVersion", "metadata")
        }

    @property
    def root(self) -> Struct:
        """The kind's type."""
        return self._info.root

    @property
    def table(self) -> Table:
        """What tables show of the objects."""
        return self._own.table

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent."""
        return self._info.check(obj, strict=strict)

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is stored and shown, with the parts of *known* that it has."""
        return self._info.canonical(obj, known)

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding; what it has of *known* is as it should be."""
        return self.default(self._info.canonical(obj, known))

    def default(self, obj: Json) -> Json:
        """Return a decoded object with the defaults of the kind filled in."""
        return obj if self._own.default is leave else _changed(obj, self._own.default)

    def admit_create(self, obj: Json, view: ClusterView) -> Json | AdmissionRefused:
        """Return a decoded new object with what admission adds, or why it is refused."""
        steps = self._own.admission.create
        if not steps:
            return obj
        changed = copy_json(obj)
        for step in steps:
            if refused := step(changed, view):
                return refused
        return sharing(changed, obj)

    def prepare_create(self, obj: Json) -> Json:
        """Return an object, which has its name, uid and time, with what a creation sets."""
        return _changed(obj, self._own.prepare_create) if self._own.changes_new else obj

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        return self._own.own_metadata

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object that is complete."""
        return self._own.validate_create(obj)

    def check_create(self, obj: Json, view: ClusterView) -> AdmissionRefused | None:
        """Tell why a complete and valid new object may not be stored, if so."""
        refusals = (step(obj, view) for step in self._own.admission.check_create)
        return next(filter(None, refusals), None)

    def admit_update(
        self, obj: Json, old: Json, view: ClusterView, subresource: str = ""
    ) -> Json | AdmissionRefused:
        """Return a decoded changed object with what admission adds, or why it is refused."""
        step = self._own.admission.update.get(subresource)
        if step is None:
            return obj
        changed = copy_json(obj)
        return step(changed, old, view) or sharing(changed, obj)

    def prepare_update(self, obj: Json, old: Json, subresource: str = "") -> Json:
        """Return *obj* with what an update of it or of its part cannot change from *old*."""
        changed = copy_json(obj)
        if not subresource:
            self._own.prepare_update(changed, old)
        elif subresource in self._own.parts:
            self._own.parts[subresource].prepare(changed, old, self._now())
        return sharing(changed, obj)

    def validate_update(self, obj: Json, old: Json, subresource: str = "") -> list[FieldError]:
        """Check a changed object that is complete."""
        if not subresource:
            return self._own.validate_update(obj, old)
        known = subresource in self._own.parts
        return self._own.validate_part(subresource, obj, old) if known else []

    def check_update(
        self, obj: Json, old: Json, view: ClusterView, subresource: str = ""
    ) -> AdmissionRefused | None:
        """Tell why a complete and valid changed object may not be stored, if so."""
        if (old.get("metadata") or {}).get("deletionTimestamp"):
            return None
        step = self._own.admission.check_update.get(subresource)
        return None if step is None else step(obj, view)

    def warnings(self, obj: Json, old: Json | None = None, subresource: str = "") -> list[str]:
        """Return what the user is warned of: an accepted object, or a part of one."""
        if not subresource:
            return self._own.warn(obj, old)
        parts = self._own.parts
        return parts[subresource].warn(obj) if subresource in parts else []

    def bare_metadata(self, obj: Json) -> Json:
        """Return the metadata of an object for those who ask for nothing else."""
        metadata: Json = obj["metadata"]
        notes, annotations = self._own.version_notes, metadata.get("annotations") or {}
        if notes.isdisjoint(annotations):
            return metadata
        kept = {key: text for key, text in annotations.items() if key not in notes}
        shown = {key: value for key, value in metadata.items() if key != "annotations"}
        return {**shown, "annotations": kept} if kept else shown

    def empty(self) -> Json:
        """Return what an object in which nothing is set has next to its metadata."""
        return self._empty


def _changed(obj: Json, change: Callable[[Json], None]) -> Json:
    """Return *obj* as *change* makes it."""
    changed = copy_json(obj)
    change(changed)
    return sharing(changed, obj)

"""What there is to know of a kind, as a value: how its objects are completed, checked and shown.

A kind's module makes one `KindRules` of small functions. Functions that default or prepare change
the object that they are given, which is the caller's own copy: the rules that verbs ask make it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import msgspec

from kube_lab_server.kind_names import Json
from kube_lab_server.kinds.table_columns import PLAIN_TABLE, Table
from kube_lab_server.schema.metadata_checks import (
    validate_metadata,
    validate_metadata_update,
    validate_own_finalizers,
)
from numakube.api.field_errors import FieldError
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Iterable


class ClusterView(Protocol):
    """Read access to stored objects."""

    def get(self, group: str, kind: str, name: str, namespace: str = "") -> Json | None:
        """Return one object, None if there is none."""
        ...

    def list(self, group: str, kind: str, namespace: str = "") -> Iterable[Json]:
        """Return all objects of a kind, in one namespace if it is given."""
        ...


@dataclass(frozen=True, slots=True)
class AdmissionRefused:
    """Why admission refuses.

    Attributes:
        reason: the words after ``pods "p" is forbidden:`` of a 403 answer.
        errors: what is wrong with the object; if there is any, the answer is a 422.
    """

    reason: str
    errors: tuple[FieldError, ...] = ()


Change: TypeAlias = Callable[[Json], None]
ChangeFrom: TypeAlias = Callable[[Json, Json], None]
Check: TypeAlias = Callable[[Json], list[FieldError]]
CheckChange: TypeAlias = Callable[[Json, Json], list[FieldError]]
Warn: TypeAlias = Callable[[Json, Json | None], list[str]]
Step: TypeAlias = Callable[[Json, ClusterView], AdmissionRefused | None]
ChangeStep: TypeAlias = Callable[[Json, Json, ClusterView], AdmissionRefused | None]


def leave(obj: Json) -> None:
    """Change nothing: what a kind has nothing to add to is given to."""
    del obj


def _leave_both(new: Json, old: Json) -> None:
    del new, old


def _accept(obj: Json) -> list[FieldError]:
    del obj
    return []


def _accept_change(new: Json, old: Json) -> list[FieldError]:
    del new, old
    return []


def _stay_silent(obj: Json, old: Json | None) -> list[str]:
    del obj, old
    return []


def keep(new: Json, old: Json, *parts: str) -> None:
    """Make *parts* of *new* what they are in *old*."""
    for part in parts:
        if part in old:
            new[part] = old[part]
        else:
            new.pop(part, None)


def _stay_silent_of_part(obj: Json) -> list[str]:
    del obj
    return []


def keep_spec(new: Json, old: Json, now: str) -> None:
    """Let an update of the status change nothing but the status and the metadata."""
    del now
    keep(new, old, "spec")


def keep_metadata(new: Json, old: Json) -> None:
    """Keep labels, annotations, finalizers and owners, as updates of some parts do."""
    keep(
        new["metadata"],
        old["metadata"],
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRules:
    """How a subresource that is written like the object differs from it.

    Attributes:
        prepare: takes from the old object what the part cannot change; also gets the time.
        check: checks a change made through the part, beyond the metadata.
        rechecks: the object as a whole is checked as well.
        warn: tells the user what is accepted but odd in the part.
    """

    prepare: Callable[[Json, Json, str], None] = keep_spec
    check: CheckChange = _accept_change
    rechecks: bool = False
    warn: Callable[[Json], list[str]] = _stay_silent_of_part


@dataclass(frozen=True, slots=True, kw_only=True)
class KindAdmission:
    """What admission does with objects of a kind, looking at other objects, by the plugins' order.

    Steps of ``create`` and ``update`` add to the object that they are given, or say why it is
    refused; an update may be one of a part, named by its subresource. The others only look at what
    is complete and valid.
    """

    create: tuple[Step, ...] = ()
    check_create: tuple[Step, ...] = ()
    update: Mapping[str, ChangeStep] = field(default_factory=dict)
    check_update: Mapping[str, Step] = field(default_factory=dict)


STATUS: Mapping[str, PartRules] = {"status": PartRules()}
"""The parts of a kind whose status is not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """The rules of one kind.

    Attributes:
        namespaced: objects live in a namespace.
        name_check: what names must look like.
        knows_finalizers: finalizers are well-known or have a prefix.
        own_metadata: the kind checks the metadata itself, beyond what is checked of all kinds.
        own_metadata_change: so it does with a change of the metadata.
        counted: the parts of an object whose change makes a new generation; a kind without any
            leaves the generation alone.
        parts: the subresources that are written like the object, with ``status`` if the object
            has one.
        creates_status: a status that comes with a new object is not dropped.
        default: fills in what the user left open, before anything else looks at the object.
        on_create: sets what a creation sets; name, uid and time of creation are there already.
        on_update: takes what an update cannot change from the old object.
        check: checks an object, new or changed, beyond its metadata.
        check_create: checks what only holds for new objects.
        check_change: checks a change, before everything else if ``change_first``.
        whole_first: an update checks the object as a whole before what changed of it, metadata
            included.
        rechecks_name: an update checks the metadata as a creation does, too.
        rechecks_twice: an update applies the checks of a creation twice, and so tells every
            problem twice, as the real server does for some kinds.
        warn: tells the user what is accepted but odd.
        version_notes: annotations that stand for fields of other versions; the metadata alone
            is shown without them.
        admission: what is added or refused by looking at other objects.
        table: the columns that ``kubectl get`` shows.
    """

    namespaced: bool = True
    name_check: names.TextCheck = names.dns_subdomain
    knows_finalizers: bool = True
    own_metadata: bool = True
    own_metadata_change: bool = True
    counted: tuple[str, ...] = ()
    parts: Mapping[str, PartRules] = field(default_factory=dict)
    creates_status: bool = False
    default: Change = leave
    on_create: Change = leave
    on_update: ChangeFrom = _leave_both
    check: Check = _accept
    check_create: Check = _accept
    check_change: CheckChange = _accept_change
    change_first: bool = False
    whole_first: bool = False
    rechecks_name: bool = False
    rechecks_twice: bool = False
    warn: Warn = _stay_silent
    version_notes: frozenset[str] = frozenset()
    admission: KindAdmission = field(default_factory=KindAdmission)
    table: Table = PLAIN_TABLE

    @property
    def changes_new(self) -> bool:
        """Whether there is anything to do for `prepare_create`."""
        return bool(self.counted) or "status" in self.parts or self.on_create is not leave

    def prepare_create(self, obj: Json) -> None:
        """Make *obj* what is checked and stored as a new object."""
        if "status" in self.parts and not self.creates_status:
            obj.pop("status", None)
        if self.counted:
            obj["metadata"]["generation"] = 1
        self.on_create(obj)

    def prepare_update(self, new: Json, old: Json) -> None:
        """Make *new* what is checked and stored in place of *old*."""
        if "status" in self.parts:
            keep(new, old, "status")
        self.on_update(new, old)
        self.count(new, old)

    def count(self, new: Json, old: Json) -> None:
        """Make a new generation if a part that counts has changed."""
        if any(new.get(part) != old.get(part) for part in self.counted):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object."""
        return self._check_name(obj) + self.check(obj) + self.check_create(obj)

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Check a changed object."""
        errors = self._check_metadata_change(new, old)
        change = self.check_change(new, old)
        whole = (self._check_name(new, old) if self.rechecks_name else []) + self.check(new)
        whole *= 2 if self.rechecks_twice else 1
        if self.whole_first:
            return whole + errors + change
        return errors + (change + whole if self.change_first else whole + change)

    def validate_part(self, part: str, new: Json, old: Json) -> list[FieldError]:
        """Check a change made through a subresource."""
        rules = self.parts[part]
        errors = self._check_metadata_change(new, old)
        if rules.rechecks:
            errors += self._check_name(new, old) + self.check(new)
        return errors + rules.check(new, old)

    def _check_name(self, obj: Json, old: Json | None = None) -> list[FieldError]:
        if not self.own_metadata:
            return []
        meta, before = obj["metadata"], {} if old is None else old["metadata"]
        errors = validate_metadata(
            meta, namespaced=self.namespaced, name=self.name_check, old=before
        )
        return errors + (validate_own_finalizers(meta) if self.knows_finalizers else [])

    def _check_metadata_change(self, new: Json, old: Json) -> list[FieldError]:
        if not self.own_metadata or not self.own_metadata_change:
            return []
        errors = validate_metadata_update(new["metadata"], old["metadata"])
        return errors + (validate_own_finalizers(new["metadata"]) if self.knows_finalizers else [])


def annotation_of(obj: Json, key: str) -> str:
    """Return the annotation *key* of an object; empty if it has none."""
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def newest_of(found: list[Json]) -> str:
    """Return the name of the newest object, the first by name of equally new ones."""
    by_name = sorted(found, key=lambda obj: str(obj["metadata"]["name"]))
    newest = max(by_name, key=lambda obj: str(obj["metadata"].get("creationTimestamp") or ""))
    return str(newest["metadata"]["name"])


def copy_json(obj: Json) -> Json:
    """Return a deep copy of an object, many times as fast as ``copy.deepcopy``.

    ``managedFields``, half of many objects, are shared: no rule of a kind changes them.
    """
    metadata = obj.get("metadata") or {}
    entries = metadata.get("managedFields")
    if entries is None:
        return cast("Json", msgspec.to_builtins(obj))
    rest = {**obj, "metadata": {**metadata, "managedFields": None}}
    copied: Json = msgspec.to_builtins(rest)
    copied["metadata"]["managedFields"] = entries
    return copied


def sharing(changed: Json, obj: Json) -> Json:
    """Return *changed*, a changed copy of *obj*, with the very parts of it that are the same.

    What comes next need not look into them.
    """
    for key, value in changed.items():
        before = obj.get(key)
        if value == before:
            changed[key] = before
        elif isinstance(value, dict) and isinstance(before, dict):
            sharing(value, before)
    return changed


def json_diff(old: object, new: object) -> str:
    """Return a unified diff of the two values printed with one space of indentation."""
    before, after = (
        json.dumps(value, indent=1, sort_keys=True).splitlines() for value in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm=""))
    return "".join(f"{line}\n" for line in lines[2:])

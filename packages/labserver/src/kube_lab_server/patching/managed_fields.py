"""Who manages which fields of an object: ``metadata.managedFields`` decoded, and encoded again.

A manager is identified by its name, operation and subresource, and unless it applies, by the
API version that it used. The entries of the scale subresource are a view of who manages the
replicas of its parent.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kube_lab_server.patching.field_sets import (
    FieldSet,
    contains,
    difference,
    from_wire,
    of_paths,
    to_wire,
    union,
)
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_FIELDS_TYPE: Final = "FieldsV1"

# Older updaters than this are put together under one name.
MAX_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"

SCALE_VERSION: Final = "autoscaling/v1"
REPLICAS_IN_SCALE: Final = ("f:spec", "f:replicas")


class MalformedManagedFields(InvalidValue):
    """Entries of ``managedFields`` that cannot be used."""


class Manager(NamedTuple):
    """Who manages fields."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @classmethod
    def applier(cls, name: str, subresource: str) -> Manager:
        """One that applies, in whatever version."""
        return cls(name, APPLY, "", subresource)

    def identifier(self) -> str:
        """A text to sort by, as kube-apiserver makes it."""
        members = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return json.dumps({k: v for k, v in members.items() if v}, separators=(",", ":"))

    def __str__(self) -> str:
        """As conflicts name it."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class ManagerFields(NamedTuple):
    """The fields of one manager, in which version they are named, and when they last changed."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Shares = dict[Manager, ManagerFields]


def decode(entries: Iterable[dict[str, Any]] | None) -> Shares:
    """Read ``managedFields``; raise `MalformedManagedFields` if any entry cannot be read."""
    shares: Shares = {}
    for index, entry in enumerate(entries or ()):
        _check_entry(entry, index)
        fields = from_wire(entry.get("fieldsV1") or {})
        shares[manager_of(entry)] = ManagerFields(
            fields, str(entry["apiVersion"]), entry.get("time")
        )
    return shares


def manager_of(entry: dict[str, Any]) -> Manager:
    """Return whose entry it is."""
    operation = str(entry["operation"])
    return Manager(
        str(entry.get("manager") or ""),
        operation,
        "" if operation == APPLY else str(entry["apiVersion"]),
        str(entry.get("subresource") or ""),
    )


def readable(entries: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return *entries*; none at all if any of them cannot be read."""
    try:
        for index, entry in enumerate(entries or ()):
            _check_entry(entry, index)
    except MalformedManagedFields:
        return []
    return entries or []


def _check_entry(entry: dict[str, Any], index: int) -> None:
    if entry.get("operation") not in (APPLY, UPDATE):
        raise MalformedManagedFields("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise MalformedManagedFields("apiVersion must not be empty")
    kind = entry.get("fieldsType")
    if not kind:
        raise MalformedManagedFields(f"missing fieldsType in managed fields entry {index}")
    if kind != _FIELDS_TYPE:
        raise MalformedManagedFields(
            f"invalid fieldsType {go_quote(str(kind))} in managed fields entry {index}"
        )


def encode(shares: Shares) -> list[dict[str, Any]]:
    """Write ``managedFields``: appliers first, then by time and name."""
    return in_order(entries_of(shares))


def entries_of(shares: Shares) -> list[dict[str, Any]]:
    """Write the entries of ``managedFields`` in any order."""
    return [_entry(manager, share) for manager, share in shares.items()]


def in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort entries as ``managedFields`` has them."""
    return sorted(
        entries,
        key=lambda entry: (
            entry["operation"],
            _seconds(entry.get("time")),
            entry.get("manager", ""),
            entry["apiVersion"],
            entry.get("subresource", ""),
        ),
    )


def _entry(manager: Manager, share: ManagerFields) -> dict[str, Any]:
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": share.api_version,
        "time": share.time,
        "fieldsType": _FIELDS_TYPE,
        "fieldsV1": to_wire(share.fields),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in entry.items() if value not in (None, "")}


@lru_cache(maxsize=1024)
def _seconds(time: str | None) -> float:
    return parse_time(time).timestamp() if time else 0


def cap_updaters(shares: Shares) -> Shares:
    """Put the oldest updaters together until no more than `MAX_UPDATERS` are left."""
    updaters = [manager for manager in shares if manager.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return shares
    capped = dict(shares)
    updaters.sort(key=lambda m: (_seconds(shares[m].time), m.identifier()))
    first: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        share = shares[manager]
        bucket = Manager(_ANCIENT, UPDATE, share.api_version)
        if share.api_version not in first:
            first[share.api_version] = manager
            continue
        if bucket not in capped:
            capped[bucket] = capped.pop(first[share.api_version])
        together = union(share.fields, capped[bucket].fields)
        capped.pop(manager, None)
        capped[bucket] = share._replace(fields=together)
        excess -= 1
    return capped


def to_scale(
    entries: Iterable[dict[str, Any]] | None, replicas: Sequence[str] = REPLICAS_IN_SCALE
) -> list[dict[str, Any]]:
    """Return the entries of the parent that own its *replicas*, as entries of its scale."""
    return encode(
        {
            manager: ManagerFields(of_paths(REPLICAS_IN_SCALE), SCALE_VERSION, share.time)
            for manager, share in decode(entries).items()
            if contains(share.fields, replicas)
        }
    )


def to_parent(
    parent: Iterable[dict[str, Any]] | None,
    scale: Iterable[dict[str, Any]] | None,
    *,
    api_version: str,
    replicas: Sequence[str] = REPLICAS_IN_SCALE,
) -> list[dict[str, Any]]:
    """Return the entries of the parent after those of its scale became *scale*.

    A manager that came to own the replicas through the scale has no time, as on a real server.
    """
    in_scale = {m: s for m, s in decode(scale).items() if contains(s.fields, REPLICAS_IN_SCALE)}
    shares = {}
    for manager, share in decode(parent).items():
        if not contains(share.fields, replicas):
            shares[manager] = share
        elif manager in in_scale:
            del in_scale[manager]
            shares[manager] = share
        elif left := difference(share.fields, of_paths(replicas)):
            shares[manager] = ManagerFields(left, share.api_version, share.time)
    for manager in in_scale:
        shares[manager] = ManagerFields(of_paths(replicas), api_version, None)
    return encode(shares)

"""Which names of a definition are accepted: those that no other of its group has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.api.field_errors import aggregate
from numakube.values.gotext import go_quote
from numakube_lab.api.custom.definitions import condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.kinds import Json


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

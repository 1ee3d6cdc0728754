"""The options of requests, from query parameters or from a DeleteOptions body, and their checks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from multidict import MultiDict

from numakube.api.field_errors import FieldError, forbidden, not_supported, required
from numakube.api.field_errors import invalid as invalid_field
from numakube.values.gotext import go_quote
from numakube_lab.api.wire.refusals import bad_request, invalid
from numakube_lab.api.wire.request_info import is_true
from numakube_lab.schema.metadata_checks import validate_field_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multidict import MultiMapping

    from numakube_lab.kinds import Json

_META_GROUP: Final = "meta.k8s.io"
_INT64: Final = re.compile(r"[+-]?[0-9]+")

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How to list or watch."""

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    bookmarks: bool = False
    resource_version: str = ""
    version_match: str = ""
    timeout_seconds: int | None = None
    limit: int = 0
    continuation: str = ""
    send_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to create, update or patch.

    Attributes:
        field_validation: ``Ignore``, ``Warn`` or ``Strict``.
        force: of an apply; None if not given.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must hold for a deletion."""

    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    grace_seconds: int | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions = Preconditions()
    dry_run: bool = False


def list_options(query: MultiMapping[str], *, watch: bool) -> ListOptions:
    """Read and check the options of a list or watch."""
    initial = query.get("sendInitialEvents")
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        watch=watch,
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        resource_version=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
        timeout_seconds=integer(query, "timeoutSeconds"),
        limit=integer(query, "limit") or 0,
        continuation=query.get("continue", ""),
        send_initial_events=None if initial is None else is_true(initial),
    )
    problems = list(_check_watch(options) if watch else _check_list(options))
    if problems:
        raise invalid(_META_GROUP, "ListOptions", "", problems)
    return options


def write_options(query: MultiMapping[str], *, kind: str, apply: bool = False) -> WriteOptions:
    """Read and check the options of a ``CreateOptions``, ``UpdateOptions`` or ``PatchOptions``."""
    return _write_options(tuple(query.items()), kind, apply)


@lru_cache(maxsize=256)
def _write_options(items: tuple[tuple[str, str], ...], kind: str, apply: bool) -> WriteOptions:
    query = MultiDict(items)
    dry_run = query.getall("dryRun", [])
    manager = query.get("fieldManager", "")
    validation = query.get("fieldValidation", "")
    force = query.get("force")
    problems: list[FieldError] = []
    if kind == "PatchOptions":
        problems += _check_patch(manager, force, apply=apply)
    problems += validate_field_manager(manager, "fieldManager")
    problems += _check_dry_run(dry_run)
    if validation not in ("", "Ignore", "Strict", "Warn"):
        known = ("", "Ignore", "Strict", "Warn")
        problems.append(not_supported("fieldValidation", validation, known))
    if problems:
        raise invalid(_META_GROUP, kind, "", problems)
    return WriteOptions(
        dry_run=bool(dry_run),
        field_manager=manager,
        field_validation=validation or "Warn",
        force=None if force is None else is_true(force),
    )


def delete_options(query: MultiMapping[str], body: Json | None) -> DeleteOptions:
    """Read and check the options of a deletion, from *body* if there is one."""
    if body is None:
        orphan = query.get("orphanDependents")
        dry_run = query.getall("dryRun", [])
        options = DeleteOptions(
            grace_seconds=integer(query, "gracePeriodSeconds"),
            propagation=query.get("propagationPolicy"),
            orphan_dependents=None if orphan is None else is_true(orphan),
            dry_run=bool(dry_run),
        )
    else:
        dry_run = body.get("dryRun") or []
        wanted = body.get("preconditions") or {}
        options = DeleteOptions(
            grace_seconds=body.get("gracePeriodSeconds"),
            propagation=body.get("propagationPolicy"),
            orphan_dependents=body.get("orphanDependents"),
            preconditions=Preconditions(wanted.get("uid"), wanted.get("resourceVersion")),
            dry_run=bool(dry_run),
        )
    problems = [*_check_propagation(options), *_check_dry_run(dry_run)]
    if problems:
        raise invalid(_META_GROUP, "DeleteOptions", "", problems)
    return options


_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0")


def check_timeout(text: str | None) -> None:
    """Refuse a ``timeout`` parameter that is no duration; nothing here takes long enough for it."""
    if text and not _DURATION.fullmatch(text):
        raise bad_request(
            "invalid timeout specified in the request URL - "
            f"time: invalid duration {go_quote(text)}"
        )


def integer(query: MultiMapping[str], name: str) -> int | None:
    """Read a parameter that is a 64-bit number."""
    text = query.get(name)
    if text is None:
        return None
    if not _INT64.fullmatch(text):
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return value


def _check_list(options: ListOptions) -> Iterator[FieldError]:
    field, match = "resourceVersionMatch", options.version_match
    if match:
        if not options.resource_version:
            yield forbidden(field, f"{field} is forbidden unless resourceVersion is provided")
        if options.continuation:
            yield forbidden(field, f"{field} is forbidden when continue is provided")
        if match not in (EXACT, NOT_OLDER_THAN):
            yield not_supported(field, match, (EXACT, NOT_OLDER_THAN, ""))
        if match == EXACT and options.resource_version == "0":
            yield forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"')
    if options.send_initial_events is not None:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _check_watch(options: ListOptions) -> Iterator[FieldError]:
    field, match = "resourceVersionMatch", options.version_match
    initial = options.send_initial_events
    if initial is not None and match != NOT_OLDER_THAN:
        yield forbidden(field, f"sendInitialEvents requires setting {field} to {NOT_OLDER_THAN}")
    if match and initial is None:
        why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        yield forbidden(field, why)
    if match and match != NOT_OLDER_THAN:
        yield not_supported(field, match, (NOT_OLDER_THAN,))
    if options.continuation:
        yield forbidden(field, f"{field} is forbidden when continue is provided")


def _check_patch(manager: str, force: str | None, *, apply: bool) -> Iterator[FieldError]:
    if apply and not manager:
        yield required("fieldManager", "is required for apply patch")
    if not apply and force is not None:
        yield forbidden("force", "may not be specified for non-apply patch")


def _check_dry_run(values: list[str]) -> Iterator[FieldError]:
    if any(value != "All" for value in values):
        yield not_supported("dryRun", values, ("All",))


def _check_propagation(options: DeleteOptions) -> Iterator[FieldError]:
    policy = options.propagation
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        yield invalid_field("propagationPolicy", policy, detail)
    known = ("Foreground", "Background", "Orphan")
    if policy is not None and policy not in known:
        yield not_supported("propagationPolicy", policy, (*known, "nil"))

"""The options of requests, from query parameters or from a DeleteOptions body, and their checks.

What a request's method and path ask for, before any resource is looked up. Mirrors
kube-apiserver's request info: authorisation is decided on it, so it is made for every path, known
or not.

Continue tokens: where a list in pages goes on, and at which version.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from multidict import MultiDict

from kube_lab_server.schema.metadata_checks import validate_field_manager
from kube_lab_server.wire.refusals import RequestRefusal, bad_request, invalid
from numakube.api.field_errors import FieldError, forbidden, not_supported, required
from numakube.api.field_errors import invalid as invalid_field
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multidict import MultiMapping

    from kube_lab_server.kind_names import Json


_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

# Subresources of a namespace: any other word after its name is a resource inside it.
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


class RequestInfo(NamedTuple):
    """A request taken apart.

    Attributes:
        verb: what is done (``list``), or the method in lower case for a path beside the resources.
        is_resource: whether the path has the form of a resource's.
        legacy_watch: whether the path has the old form ``/api/v1/watch/...``.
        selected: whether the name comes from a field selector instead of the path.
        rest: what follows the subresource in the path.
    """

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    legacy_watch: bool = False
    selected: bool = False
    rest: tuple[str, ...] = ()


def parse_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Take the request apart."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest] if rest and rest[0]:
            return _resource_request(method, path, query, ("", version, rest))
        case ["apis", group, version, *rest] if rest and rest[0]:
            return _resource_request(method, path, query, (group, version, rest))
    return RequestInfo(verb=method.lower(), path=path)


def _resource_request(
    method: str, path: str, query: Mapping[str, str], parts: tuple[str, str, list[str]]
) -> RequestInfo:
    group, version, rest = parts
    verb = _VERBS.get(method, "")
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        verb, rest = "watch", rest[1:]
    namespace, rest = _namespace(rest)
    resource, name, subresource = (*rest, "", "", "")[:3]
    selected = not name
    if not name:
        verb = _collection_verb(verb, query)
        name = _selected_name(query) if verb in ("list", "watch", "deletecollection") else ""
    return RequestInfo(
        verb=verb,
        path=path,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        legacy_watch=legacy_watch,
        selected=selected,
        rest=tuple(rest[3:]),
    )


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    if rest[0] != "namespaces" or len(rest) == 1:
        return "", rest
    if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
        return rest[1], rest[2:]
    return rest[1], rest


def _collection_verb(verb: str, query: Mapping[str, str]) -> str:
    if verb == "get":
        return "watch" if is_true(query.get("watch")) else "list"
    return "deletecollection" if verb == "delete" else verb


def is_true(value: str | None) -> bool:
    """Tell whether a query parameter is set: anything but ``0``, ``false`` in any case, counts."""
    if value is None:
        return False
    return value.lower() not in ("0", "false")


def _selected_name(query: Mapping[str, str]) -> str:
    """Return the name that a field selector requires: a list of one object needs less rights."""
    for term in query.get("fieldSelector", "").split(","):
        field, mark, value = term.partition("=")
        if mark and field.rstrip("!") == "metadata.name" and not field.endswith("!"):
            return value.removeprefix("=")
    return ""


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


_FORMAT: Final = "meta.k8s.io/v1"
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

INCONSISTENT: Final = -1
"""Stands for "the newest version", in the token that an expired one is replaced by."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A list goes on at the path *start* of the version *version*."""

    version: int
    start: str

    def token(self) -> str:
        """Return the token that a client sends back."""
        text = json.dumps(
            {"v": _FORMAT, "rv": self.version, "start": self.start}, separators=(",", ":")
        )
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def parse_continuation(token: str) -> Continuation:
    """Read a token."""
    for position, character in enumerate(token):
        if character not in _ALPHABET:
            raise _invalid(f"illegal base64 data at input byte {position}")
    try:
        fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, start, form = int(fields["rv"]), str(fields["start"]), fields.get("v", "")
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise _invalid(f"illegal base64 data at input byte {len(token)}") from None
    if form != _FORMAT:
        raise _invalid(f"server does not recognize this encoded version {go_quote(str(form))}")
    return Continuation(version, start)


def _invalid(why: str) -> RequestRefusal:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")

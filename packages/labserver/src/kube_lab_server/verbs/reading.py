"""Read objects: GET of one and of a collection, at any version that is still known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kube_lab_server.catalogue.field_selectors import (
    FieldSelector,
    FieldTerm,
    matches_fields,
    parse_field_selector,
)
from kube_lab_server.handling.object_views import ListPage, list_reply, object_reply
from kube_lab_server.store.store import Stored, VersionCompacted
from kube_lab_server.wire.refusals import RequestRefusal, bad_request, expired, failed, not_found
from kube_lab_server.wire.request_options import (
    EXACT,
    INCONSISTENT,
    NOT_OLDER_THAN,
    Continuation,
    ListOptions,
    list_options,
    parse_continuation,
)
from numakube.api.field_errors import invalid as invalid_field
from numakube.api.selector_text import parse_label_selector
from numakube.api.selectors import EVERYTHING, Selector
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.handling.call import Call, Reply, ServerState
    from kube_lab_server.kind_names import Json

_CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a resource a request is about."""

    labels: Selector = EVERYTHING
    fields: FieldSelector = ()

    @property
    def empty(self) -> bool:
        """Whether everything is selected."""
        return self.labels.is_empty and not self.fields

    def matches(self, stored: Stored) -> bool:
        """Tell whether *stored* is selected."""
        if self.empty:
            return True
        obj = stored.obj
        return self.labels.matches(obj["metadata"].get("labels") or {}) and (
            not self.fields or matches_fields(self.fields, obj)
        )


def get(state: ServerState, call: Call) -> Reply:
    """Handle the GET of one object."""
    asked = parse_version(call.query.get("resourceVersion", ""))
    if asked > state.store.version:
        raise too_large(asked, state.store.version)
    stored = state.find(call.resource, call.namespace, call.info.name)
    if stored is None:
        raise not_found(call.resource.group, _title(call.resource), call.info.name)
    return object_reply(call, 200, stored)


def _title(resource: VersionedResource) -> str:
    """Return what a resource is called when it is not found: one has a name of its own."""
    return "componentstatus" if resource.shelf == "componentstatuses" else resource.plural


def list_collection(state: ServerState, call: Call) -> Reply:
    """Handle the GET of a collection."""
    return list_reply(call, list_objects(state, call, list_options(call.query, watch=False)))


def selection_of(call: Call, options: ListOptions) -> Selection:
    """Return what the selectors of a request select."""
    assert call.served is not None  # noqa: S101 - the router looked it up
    try:
        labels = parse_label_selector(options.label_selector)
    except InvalidValue as error:
        raise bad_request(str(error)) from None
    text = options.field_selector
    fields = parse_field_selector(text, call.resource, call.served.selectable)
    if call.info.legacy_watch and not call.info.selected:
        fields += (FieldTerm("metadata.name", call.info.name),)
    return Selection(labels, fields)


def list_objects(state: ServerState, call: Call, options: ListOptions) -> ListPage:
    """Return the page of objects that a list asks for."""
    selection = selection_of(call, options)
    version, start = _where(state, options)
    found = state.store.list_at(call.resource.shelf, call.namespace, version)
    if isinstance(found, VersionCompacted):
        raise _too_old(options, start)
    if name := _only_name(call, selection):
        found = [stored for stored in found if stored.key.name == name]
    # A list that any version satisfies comes from a cache, which knows no pages.
    limit = 0 if options.resource_version == "0" else max(options.limit, 0)
    return _page(found, selection, Continuation(version, start), limit)


def _only_name(call: Call, selection: Selection) -> str:
    """Return the name that all selected objects have, if a list is to look at one object only."""
    if call.resource.namespaced and not call.namespace:
        return ""
    names = (term for term in selection.fields if term.field == "metadata.name")
    return next((term.value for term in names if not term.negated), "")


def _where(state: ServerState, options: ListOptions) -> tuple[int, str]:
    """Return the version to show and the path to start at."""
    newest = state.store.version
    if options.continuation:
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        continuation = parse_continuation(options.continuation)
        version = continuation.version
        return newest if version == INCONSISTENT else version, continuation.start
    asked = _list_version(options.resource_version)
    if asked > newest:
        raise too_large(asked, newest)
    exact = options.version_match == EXACT or (
        options.version_match != NOT_OLDER_THAN and options.limit > 0
    )
    return asked if exact and asked else newest, ""


def _page(
    found: list[Stored], selection: Selection, continuation: Continuation, limit: int
) -> ListPage:
    metadata: Json = {"resourceVersion": str(continuation.version)}
    items: list[Stored] = []
    for index, stored in enumerate(found):
        if limit and len(items) == limit:
            # More may come: whether it will be selected is not looked at.
            following = Continuation(continuation.version, f"{items[-1].key.path}\0")
            metadata["continue"] = following.token()
            if selection.empty:
                metadata["remainingItemCount"] = len(found) - index
            break
        if stored.key.path >= continuation.start and selection.matches(stored):
            items.append(stored)
    return ListPage(items, metadata)


def _too_old(options: ListOptions, start: str) -> RequestRefusal:
    if options.continuation:
        fresh = Continuation(INCONSISTENT, start).token()
        return expired(_CONTINUE_EXPIRED, {"continue": fresh})
    return expired(_LIST_EXPIRED)


def _list_version(text: str) -> int:
    try:
        return parse_version(text)
    except RequestRefusal as refusal:
        raise bad_request(f"invalid resource version: {refusal}") from None


def parse_version(text: str) -> int:
    """Read a resourceVersion parameter; an empty one is zero."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        problem = f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
        raise failed(str(invalid_field("resourceVersion", text, problem)))
    return int(text)


def too_large(asked: int, newest: int) -> RequestRefusal:
    """A version is asked for that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return RequestRefusal(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {newest}",
        {"causes": [cause], "retryAfterSeconds": 1},
        {"Retry-After": "1"},
    )

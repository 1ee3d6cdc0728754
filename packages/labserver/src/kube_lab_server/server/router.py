"""From a request to the handler that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_lab_server.handling.call import (
    Awaited,
    Call,
    Reply,
    StreamedAnswer,
    json_reply,
    text_reply,
)
from kube_lab_server.server.non_resource_paths import NOT_FOUND_TEXT, answer_path
from kube_lab_server.subresources.account_tokens import request_token, review
from kube_lab_server.subresources.eviction import bind, evict
from kube_lab_server.subresources.log_requests import (
    node_proxy,
    pod_proxy,
    read_log,
    refuse_streaming,
)
from kube_lab_server.subresources.scale import scale
from kube_lab_server.verbs import creating, deleting, patching, reading, updating, watching
from kube_lab_server.wire.negotiation import check_route_accepts, negotiate
from kube_lab_server.wire.refusals import (
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_found,
    not_supported_on,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_lab_server.catalogue.served_resources import Served
    from kube_lab_server.handling.call import ServerState
    from kube_lab_server.wire.request_options import RequestInfo

Handler: TypeAlias = Callable[["ServerState", Call], Reply | StreamedAnswer | Awaited]

_REVIEW_GROUPS: Final = ("authentication.k8s.io", "authorization.k8s.io")

_VERBS: Final[Mapping[str, Handler]] = {
    "get": reading.get,
    "list": reading.list_collection,
    "watch": watching.watch,
    "create": creating.create,
    "update": updating.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}

_SPECIAL: Final[Mapping[tuple[str, str], Handler]] = {
    ("bindings", ""): bind,
    ("pods", "binding"): bind,
    ("pods", "eviction"): evict,
    ("pods", "log"): read_log,
    ("serviceaccounts", "token"): request_token,
    **{("pods", part): refuse_streaming for part in ("attach", "exec", "portforward")},
    ("pods", "proxy"): pod_proxy,
    ("nodes", "proxy"): node_proxy,
    ("services", "proxy"): refuse_streaming,
}
_ITEM_VERBS: Final = frozenset({"get", "update", "patch", "delete"})
_OF_COLLECTIONS: Final = frozenset({"create", "list", "deletecollection"})
_WITHOUT_TABLES: Final = (bind, evict, request_token, review)
_PARTS: Final[Mapping[str, Handler]] = {"scale": scale}


def answer(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    """Answer *call*, whose sender may do what it asks, and do what follows from it."""
    call.now = state.now
    try:
        return _answer(state, call)
    finally:
        for follow in state.after_request:
            follow()


def _answer(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    if not call.info.is_resource:
        return answer_path(state, call)
    served = _find(state, call.info)
    if served is None:
        return text_reply(404, NOT_FOUND_TEXT)
    call.serve(served)
    if served.deprecation:
        call.warnings.append(served.deprecation)
    _check_verb(served, call.info)
    accept = call.headers.get("Accept")
    check_route_accepts(accept, streams=call.info.verb in ("list", "watch"))
    handler = _handler(call)
    call.representation = negotiate(accept, tables=handler not in _WITHOUT_TABLES)
    return handler(state, call)


def _handler(call: Call) -> Handler:
    info, resource = call.info, call.resource
    if "list" not in resource.verbs and resource.group in _REVIEW_GROUPS:
        return review
    special = _SPECIAL.get((resource.shelf, info.subresource)) or _PARTS.get(info.subresource)
    return special or _VERBS[info.verb]


def _find(state: ServerState, info: RequestInfo) -> Served | None:
    """Return the resource of a request; None if its group is unknown."""
    registry = state.registry
    builtin = registry.is_builtin(info.group)
    served = registry.find(info.group, info.version, info.resource)
    if served is None or not _in_scope(served, info):
        if not builtin:
            return None
        raise no_such_resource()
    beyond = info.rest and info.subresource != "proxy"
    if beyond or (info.subresource and served.resource.subresource(info.subresource) is None):
        if builtin:
            raise no_such_resource()
        raise not_found(info.group, info.resource, info.name)
    return served


def _in_scope(served: Served, info: RequestInfo) -> bool:
    return bool(info.namespace) == served.resource.namespaced or _spans_namespaces(served, info)


def _spans_namespaces(served: Served, info: RequestInfo) -> bool:
    """Tell whether a request outside of any namespace is fine: all objects are listed."""
    if served.resource.plural == "namespaces" and not served.resource.group:
        return True
    return not info.namespace and info.path.rstrip("/").endswith(f"/{info.resource}")


def _check_verb(served: Served, info: RequestInfo) -> None:
    verbs = served.resource.verbs
    if info.subresource:
        part = served.resource.subresource(info.subresource)
        verbs = part.verbs if part else ()
    if served.resource.custom:
        _check_custom_verb(served, info, verbs)
        return
    on_one_object = bool(info.name) and not info.selected
    if on_one_object and not info.subresource and _ITEM_VERBS.isdisjoint(verbs):
        raise no_such_resource()
    creates_part = info.verb == "create" and bool(info.subresource)
    of_one_object = creates_part or info.verb not in _OF_COLLECTIONS
    wrong = on_one_object != of_one_object and info.verb != "watch"
    if info.verb not in verbs or wrong:
        raise method_not_allowed()


def _check_custom_verb(served: Served, info: RequestInfo, verbs: tuple[str, ...]) -> None:
    """Custom resources are served by a part that is laxer about names, and words it otherwise."""
    if info.verb not in verbs:
        raise not_supported_on(info.group, info.resource, info.verb)
    if info.verb in ("update", "patch") and not info.name:
        raise bad_request("name must be provided")


def compact(state: ServerState) -> Reply:
    """Forget all history, so that older versions are expired."""
    state.store.compact()
    return json_reply(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

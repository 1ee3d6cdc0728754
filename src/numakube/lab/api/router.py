"""From a request to the handler that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.api import creating, deleting, reading, updating, watching
from numakube.lab.api.call import Reply, Stream, json_reply, text_reply
from numakube.lab.api.negotiation import check_route_accepts, negotiate
from numakube.lab.api.refusals import method_not_allowed, no_such_resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.lab.api.call import Call
    from numakube.lab.api.registry import Served
    from numakube.lab.api.request_info import RequestInfo
    from numakube.lab.api.state import State

NOT_FOUND_TEXT: Final = "404 page not found\n"

_VERBS: Final[Mapping[str, Callable[[State, Call], Reply | Stream]]] = {
    "get": reading.get,
    "list": reading.list_collection,
    "watch": watching.watch,
    "create": creating.create,
    "update": updating.update,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}


def answer(state: State, call: Call) -> Reply | Stream:
    """Answer *call*, whose sender may do what it asks."""
    info = call.info
    if not info.is_resource:
        return text_reply(404, NOT_FOUND_TEXT)
    if not state.registry.has_version(info.group, info.version):
        if not state.registry.is_builtin(info.group):
            return text_reply(404, NOT_FOUND_TEXT)
        raise no_such_resource()
    served = _find(state, info)
    call.served = served
    _check_verb(served, info)
    check_route_accepts(call.headers.get("Accept"), streams=info.verb in ("list", "watch"))
    call.representation = negotiate(call.headers.get("Accept"))
    handler = _VERBS.get(info.verb)
    if handler is None:
        raise method_not_allowed()
    return handler(state, call)


def _find(state: State, info: RequestInfo) -> Served:
    served = state.registry.find(info.group, info.version, info.resource)
    if served is None or info.rest:
        raise no_such_resource()
    namespaced = served.resource.namespaced
    if bool(info.namespace) != namespaced and not _spans_namespaces(served, info):
        raise no_such_resource()
    if info.subresource and served.resource.subresource(info.subresource) is None:
        raise no_such_resource()
    return served


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
    if info.verb not in verbs:
        raise method_not_allowed()


def compact(state: State) -> Reply:
    """Forget all history, so that older versions are expired."""
    state.store.compact()
    return json_reply(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

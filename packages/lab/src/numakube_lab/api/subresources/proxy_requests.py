"""``/proxy`` of pods that really run and serve something, and of nodes; ``exec`` is refused.

As on a real server the name of a pod in the path may have a scheme before it and a port after it,
which is a number or the name of a port, and the sender's ``Authorization`` stays here. Nodes show
``/configz``, the configuration that the kubelet runs with, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from yarl import URL

from numakube.api.kubelet_config import with_defaults
from numakube_lab.api.handling.call import Awaited, Call, Reply
from numakube_lab.api.wire.refusals import Refusal, bad_request, not_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

_SECONDS: Final = 60.0
_KEPT: Final = frozenset(
    {"authorization", "host", "connection", "content-length", "transfer-encoding", "upgrade"}
)
"""Headers that are between two ends of a connection, or only for us."""


def pod_proxy(state: State, call: Call) -> Awaited:
    """Pass a request on to a port of a pod."""
    _, name, wanted = _parts(call.info.name)
    stored = state.find(call.resource, call.namespace, name)
    if stored is None:
        raise not_found("", "pods", name)
    port = _port(stored.obj, wanted)
    uid = str(stored.obj["metadata"]["uid"])
    for server in state.pod_servers:
        url = server(uid, port)
        if url:
            target = URL(url).with_path("/" + "/".join(call.info.rest)).with_query(call.query)
            return Awaited(_passed_on(call, target))
    what = f"nothing serves port {port} of pod {name} in the lab"
    raise Refusal(503, "ServiceUnavailable", f"error trying to reach service: {what}", {})


async def _passed_on(call: Call, url: URL) -> Reply:
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    headers = _passed(call.headers)
    try:
        async with (
            aiohttp.ClientSession(
                timeout=timeout, auto_decompress=False, headers=headers
            ) as session,
            session.request(
                call.method, url, data=call.body or None, allow_redirects=False, ssl=False
            ) as answer,
        ):
            body = await answer.read()
            headers = _passed(answer.headers)
            content_type = headers.pop("Content-Type", "application/octet-stream")
            return Reply(answer.status, body, content_type, headers)
    except (aiohttp.ClientError, TimeoutError) as error:
        message = f"error trying to reach service: {error}"
        raise Refusal(503, "ServiceUnavailable", message, {}) from None


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() not in _KEPT}


def _parts(text: str) -> tuple[str, str, str]:
    """Return scheme, name and port of ``[scheme:]name[:port]``."""
    match text.split(":"):
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [scheme, name, port]:
            return scheme, name, port
        case _:
            pass
    raise bad_request(f"invalid pod request {text!r}")


def _port(pod: Json, wanted: str) -> int:
    """Return the number of a port; the first one of the pod if none is named."""
    if wanted.isdecimal():
        return int(wanted)
    for name, number in _ports(pod):
        if wanted in ("", name):
            return number
    return 80


def _ports(pod: Json) -> Iterator[tuple[str, int]]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            yield str(port.get("name", "")), int(port["containerPort"])


_JSON: Final = "application/json"


def node_proxy(state: State, call: Call) -> Reply:
    """Answer a request to a node's kubelet."""
    if call.info.verb != "get" or call.info.rest != ("configz",):
        return refuse_streaming(state, call)
    if state.find(call.resource, "", call.info.name) is None:
        raise not_found("", "nodes", call.info.name)
    for source in state.kubelet_configs:
        config = source(call.info.name)
        if config is not None:
            body = msgspec.json.encode({"kubeletconfig": with_defaults(config)})
            return Reply(200, body, _JSON)
    return refuse_streaming(state, call)


def refuse_streaming(state: State, call: Call) -> Reply:
    """Refuse what needs a connection into a container or node: the lab has none to offer."""
    if state.find(call.resource, call.namespace, call.info.name) is None:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    what = f"{call.resource.plural}/{call.info.subresource}"
    message = f"the lab's API server does not serve {what}: there is nothing to connect to"
    raise Refusal(405, "MethodNotAllowed", message, {})

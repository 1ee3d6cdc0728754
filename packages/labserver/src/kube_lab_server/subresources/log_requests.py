"""The output of containers that the lab keeps.

``/proxy`` of pods that really run and serve something, and of nodes; ``exec`` is refused. As on a
real server the name of a pod in the path may have a scheme before it and a port after it, which
is a number or the name of a port, and the sender's ``Authorization`` stays here. Nodes show
``/configz``, the configuration that the kubelet runs with, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from yarl import URL

from kube_lab_server.handling.call import Awaited, Call, LogOptions, Reply, StreamedAnswer
from kube_lab_server.wire.refusals import RequestRefusal, bad_request, invalid, not_found
from kube_lab_server.wire.request_options import integer, is_true
from numakube.api.field_errors import FieldError, forbidden
from numakube.api.field_errors import invalid as invalid_field
from numakube.api.kubelet_config import with_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_lab_server.handling.call import ServerState
    from kube_lab_server.kind_names import Json


_TEXT: Final = "text/plain"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def read_log(state: ServerState, call: Call) -> Reply | StreamedAnswer:
    """Handle the GET of a pod's log."""
    stored = state.find(call.resource, call.namespace, call.info.name)
    if stored is None:
        raise not_found("", "pods", call.info.name)
    options = _options(call, stored.obj)
    if not stored.obj["spec"].get("nodeName"):
        return Reply(204, b"", "")
    for source in state.logs:
        output = source.open_log(stored.obj, options)
        if output is not None:
            return StreamedAnswer(output, _TEXT)
    raise bad_request(
        f"the lab keeps no output of container {options.container} of pod {call.info.name}: "
        "only containers that it runs for real print anything"
    )


def _options(call: Call, pod: Json) -> LogOptions:
    query = call.query
    options = LogOptions(
        container=_container(pod, query.get("container", "")),
        follow=is_true(query.get("follow")),
        previous=is_true(query.get("previous")),
        timestamps=is_true(query.get("timestamps")),
        since_seconds=integer(query, "sinceSeconds"),
        since_time=query.get("sinceTime"),
        tail_lines=integer(query, "tailLines"),
        limit_bytes=integer(query, "limitBytes"),
    )
    if errors := list(_check(options)):
        raise invalid("", "PodLogOptions", call.info.name, errors)
    return options


def _check(options: LogOptions) -> Iterator[FieldError]:
    if options.tail_lines is not None and options.tail_lines < 0:
        yield invalid_field("tailLines", options.tail_lines, "must be greater than or equal to 0")
    if options.limit_bytes is not None and options.limit_bytes < 1:
        yield invalid_field("limitBytes", options.limit_bytes, "must be greater than 0")
    if options.since_seconds is not None and options.since_time is not None:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        yield forbidden("[]", why)
    elif options.since_seconds is not None and options.since_seconds < 1:
        yield invalid_field("sinceSeconds", options.since_seconds, "must be greater than 0")


def _container(pod: Json, wanted: str) -> str:
    """Return the name of the container that is meant."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    regular = [container["name"] for container in spec["containers"]]
    others = [
        container["name"]
        for kind in ("initContainers", "ephemeralContainers")
        for container in spec.get(kind) or ()
    ]
    if wanted:
        if wanted not in (*regular, *others):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    default: str = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, "")
    if default in regular:
        return default
    if len(regular) == 1:
        return str(regular[0])
    initial = [container["name"] for container in spec.get("initContainers") or ()]
    listed = " ".join([*initial, *regular])
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{listed}]"
    )


_SECONDS: Final = 60.0
_KEPT: Final = frozenset(
    {"authorization", "host", "connection", "content-length", "transfer-encoding", "upgrade"}
)
"""Headers that are between two ends of a connection, or only for us."""


def pod_proxy(state: ServerState, call: Call) -> Awaited:
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
    raise RequestRefusal(503, "ServiceUnavailable", f"error trying to reach service: {what}", {})


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
        raise RequestRefusal(503, "ServiceUnavailable", message, {}) from None


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


def node_proxy(state: ServerState, call: Call) -> Reply:
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


def refuse_streaming(state: ServerState, call: Call) -> Reply:
    """Refuse what needs a connection into a container or node: the lab has none to offer."""
    if state.find(call.resource, call.namespace, call.info.name) is None:
        raise not_found(call.resource.group, call.resource.plural, call.info.name)
    what = f"{call.resource.plural}/{call.info.subresource}"
    message = f"the lab's API server does not serve {what}: there is nothing to connect to"
    raise RequestRefusal(405, "MethodNotAllowed", message, {})

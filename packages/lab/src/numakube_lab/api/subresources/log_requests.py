"""The output of containers that the lab keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden
from numakube.api.field_errors import invalid as invalid_field
from numakube_lab.api.handling.call import Reply, Stream
from numakube_lab.api.handling.server_state import LogOptions
from numakube_lab.api.wire.refusals import bad_request, invalid, not_found
from numakube_lab.api.wire.request_info import is_true
from numakube_lab.api.wire.request_options import integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

_TEXT: Final = "text/plain"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def read_log(state: State, call: Call) -> Reply | Stream:
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
            return Stream(output, _TEXT)
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

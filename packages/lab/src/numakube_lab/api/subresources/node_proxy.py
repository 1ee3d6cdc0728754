"""``/proxy`` of nodes: as much of a kubelet's own server as the lab's kubelets have to show.

That is ``/configz``, the configuration that the kubelet runs with. Everything else is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.kubelet_config import with_defaults
from numakube_lab.api.handling.call import Reply
from numakube_lab.api.subresources.pod_logs import refuse_streaming
from numakube_lab.api.wire.refusals import not_found

if TYPE_CHECKING:
    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.state import State

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

"""A Kubernetes API server in one process: the REST protocol over HTTP, with its store in memory.

    async with ApiServer() as server:
        print(server.url)

It decodes, defaults, checks, admits, patches, stores, lists and watches objects as kube-apiserver
1.35 does: every built-in kind, custom resources by their definitions, server-side apply, tables,
discovery, OpenAPI, users with rights by RBAC. There are no controllers and no nodes: what has to
happen with an object is up to who writes to the server.

What `__all__` names is public; the modules themselves may change. From the bottom up:

    wire, store         requests taken apart, refusals; objects with their history and journal
    schema              types of kinds, decoding and printing as Go does, custom types
    kinds, patching     what is known of each built-in kind; patches and server-side apply
    catalogue, access   which resources there are; who may do what
    handling, custom    a request and its answer; resources that definitions make
    verbs, subresources what is done with objects and their parts
    server              HTTP, routing, start-up
"""

from kube_lab_server.access.authentication import (
    AUTHENTICATED,
    MASTERS,
    Authority,
    User,
    server_context,
)
from kube_lab_server.faults import Fault, FaultKind, FaultRule, Faults
from kube_lab_server.handling.call import LogOptions, LogSource
from kube_lab_server.kind_names import GVK, Json, JsonValue
from kube_lab_server.server.api_server import ApiServer, InsideAnswer, InsideRequest
from kube_lab_server.server.http_front import COMPACT_PATH
from kube_lab_server.wire.refusals import RequestRefusal, bad_request

__all__ = [
    "AUTHENTICATED",
    "COMPACT_PATH",
    "GVK",
    "MASTERS",
    "ApiServer",
    "Authority",
    "Fault",
    "FaultKind",
    "FaultRule",
    "Faults",
    "InsideAnswer",
    "InsideRequest",
    "Json",
    "JsonValue",
    "LogOptions",
    "LogSource",
    "RequestRefusal",
    "User",
    "bad_request",
    "server_context",
]

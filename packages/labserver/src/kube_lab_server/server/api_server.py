"""The API server as a part of a process.

>>> async with ApiServer() as server:
...     print(server.url)

Events expire an hour after they were last written, as a kube-apiserver does by default. A server
that kept them for ever would grow with everything that ever happened in its cluster. A lab keeps
them in memory, so the oldest expire earlier where there are very many. What has expired is
removed after a request, so that no timer is needed.

What a fresh server holds before anybody asks for anything.

Requests from inside the server's process: no sockets, no HTTP that is written or parsed.

A request costs its handling and nothing more, and objects that are read come as the bytes that the
store keeps anyway. Who asks this way is trusted: nothing is authenticated, and no rights are looked
at.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from random import SystemRandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict, MultiDict

from kube_lab_server.access.authentication import (
    Authority,
    Signer,
    TokenAuthenticator,
    User,
    server_context,
)
from kube_lab_server.access.authorization import (
    RBAC_GROUP,
    AllowEverything,
    RoleBasedAccess,
    cluster_role_bindings,
    cluster_roles,
)
from kube_lab_server.catalogue.resource_rules import BuiltinRules
from kube_lab_server.catalogue.served_resources import Registry
from kube_lab_server.custom.custom_rules import DefinitionRules
from kube_lab_server.custom.definition_controller import DefinitionController
from kube_lab_server.handling.call import (
    Awaited,
    Call,
    Reply,
    ServerState,
    StreamedAnswer,
    json_reply,
)
from kube_lab_server.handling.object_meta import new_uid, timestamp
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.server import router
from kube_lab_server.server.http_front import MAX_BODY, Front
from kube_lab_server.store.store import ChangeType, Journal, Key, NotKept, VersionedStore
from kube_lab_server.subresources.account_tokens import ServiceAccountTokens
from kube_lab_server.wire.refusals import RequestRefusal, internal_error
from kube_lab_server.wire.request_options import parse_request
from numakube.http import SERVER_LOG, PlainRequests
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.web_protocol import RequestHandler

    from kube_lab_server.access.authentication import User
    from kube_lab_server.faults import Faults
    from kube_lab_server.handling.call import Chunks
    from kube_lab_server.kind_names import GVK, Json
    from kube_lab_server.store.store import StoreChange

EVENT_LIFETIME: Final = timedelta(hours=1)
"""The default of kube-apiserver's ``--event-ttl``."""
MOST_EVENTS: Final = 50_000
"""Some hundred megabytes; ten thousand pods have about as many."""
_SHELF: Final = "events"


class EventExpiry:
    """Removes events that have not been written for an hour, and the oldest of too many."""

    def __init__(self, state: ServerState, *, most: int = MOST_EVENTS) -> None:
        self._state = state
        self._most = most
        written = state.now()
        # When those of an earlier run were written is not known; their hour starts now.
        self._written: OrderedDict[Key, datetime] = OrderedDict(
            (stored.key, written) for stored in state.store.listed(_SHELF)
        )
        state.store.subscribe(_SHELF, self._note)

    def remove_expired(self) -> None:
        """Remove events that were not written for an hour, and the oldest of too many."""
        written = self._written
        while written and (
            len(written) > self._most
            or next(iter(written.values())) + EVENT_LIFETIME <= self._state.now()
        ):
            self._state.store.remove(next(iter(written)))

    def _note(self, change: StoreChange) -> None:
        key = change.now.key
        self._written.pop(key, None)
        if change.type is not ChangeType.DELETED:
            self._written[key] = self._state.now()


_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "default")


def bootstrap(state: ServerState) -> None:
    """Create what is missing of the objects that every cluster has."""
    for name in _NAMESPACES:
        _ensure(state, "namespaces", _namespace(name))
    for role in cluster_roles():
        _ensure(state, f"{RBAC_GROUP}/clusterroles", role)
    for binding in cluster_role_bindings():
        _ensure(state, f"{RBAC_GROUP}/clusterrolebindings", binding)
    for priority_class in _priority_classes():
        _ensure(state, "scheduling.k8s.io/priorityclasses", priority_class)


def _namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _priority_classes() -> Iterator[Json]:
    described = (
        (
            "system-node-critical",
            2000001000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2000000000,
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary.",
        ),
    )
    for name, value, description in described:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
            "description": description,
        }


def _ensure(state: ServerState, shelf: str, obj: Json) -> None:
    key = Key(shelf, "", obj["metadata"]["name"])
    if state.store.get(key) is not None:
        return
    metadata = {
        **obj["metadata"],
        "uid": new_uid(state.rng),
        "creationTimestamp": timestamp(state.now()),
    }
    state.store.put(key, {**obj, "metadata": metadata})


# Requests that are under way when the server stops have this many seconds to finish.
_SHUTDOWN_SECONDS = 2.0
# This many connections may wait to be taken.
_BACKLOG = 128
# As long as the web framework keeps a connection without requests.
_SILENT_SECONDS = 3630.0
# Pods that really run do so in this very process.
_LOOPBACK = "127.0.0.1"


class ApiServer:
    """A Kubernetes API server.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        users: bearer tokens and whose they are.
        anonymous: whether requests without token are served.
        rbac: whether users need rights; without, everybody may do everything.
        tls: whether to serve HTTPS, with a certificate of the server's own authority.
        data: file that keeps everything across restarts; without, all is in memory.
        now: the clock.
        rng: source of uids and generated names.
        faults: what befalls requests that come over HTTP.
        for_pods: whether pods that really run reach it over HTTPS, on a port of their own.
        gates: feature gates that are on, of `kube_lab_server.kinds.all_kinds.GATES`.

    Attributes:
        state: what handlers work with, once the server has started.
        url: where it is reached.
        authority: the certificate authority, if there is one.
        inside: host and port for pods, if they can reach it.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, User] | None = None,
        anonymous: bool = True,
        rbac: bool = False,
        tls: bool = False,
        data: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: Random | None = None,
        faults: Faults | None = None,
        for_pods: bool = False,
        gates: frozenset[str] = frozenset(),
    ) -> None:
        self._address = (host, port)
        self._tls = tls
        self._for_pods = for_pods
        self._data = data
        self._faults = faults
        store = VersionedStore()
        self.state = ServerState(
            store=store,
            registry=Registry(partial(_rules, now=lambda: timestamp(now()), gates=gates)),
            authenticator=TokenAuthenticator(users or {}, anonymous=anonymous),
            authorizer=RoleBasedAccess(store) if rbac else AllowEverything(),
            signer=Signer(secrets.token_bytes(32)),
            now=now,
            rng=rng or SystemRandom(),
        )
        self.state.authenticator.sources.append(ServiceAccountTokens(self.state))
        self.authority: Authority | None = None
        self.url = ""
        self.inside: tuple[str, int] | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            journal = await self._restore(stack)
            bootstrap(self.state)
            self.state.after_request.append(DefinitionController(self.state).settle)
            self.state.after_request.append(EventExpiry(self.state).remove_expired)
            await self.state.settled()
            await self._listen(stack, journal)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all watches, and finish what is under way."""
        await self._running.aclose()

    async def ask(self, user: User, request: InsideRequest) -> InsideAnswer:
        """Answer a request from inside this process, of a *user* who is trusted."""
        return await answer_inside(self.state, user, request)

    async def _restore(self, stack: AsyncExitStack) -> Journal | None:
        """Take over what the data file holds."""
        if self._data is None:
            return None
        journal = Journal(self._data)
        stack.push_async_callback(journal.aclose)
        journal.attach(self.state.store)
        self.state.settled, self.state.is_settled = journal.settled, journal.is_settled
        self.state.cannot_keep = lambda: journal.fails
        secret = journal.setting("token-secret")
        if secret is None:
            secret = self.state.signer.secret
            journal.set("token-secret", secret)
        self.state.signer = Signer(secret)
        return journal

    async def _listen(self, stack: AsyncExitStack, journal: Journal | None) -> None:
        host, port = self._address
        front = Front(self.state, self._faults, private=is_loopback(host))
        server = web.Server(
            front.handle,
            access_log=None,
            # As a real server: a compressed body is no object.
            auto_decompress=False,
            handler_cancellation=True,
            logger=SERVER_LOG,
            request_factory=_request,
        )
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        plain = PlainRequests(
            find=front.plain_answer,
            hand_over=server,
            max_body_bytes=MAX_BODY,
            first_seconds=_SILENT_SECONDS,
            keep_alive_seconds=_SILENT_SECONDS,
        )
        stack.push_async_callback(plain.close, _SHUTDOWN_SECONDS)
        stack.callback(self.state.feeds.end)
        listen = partial(_listening, stack, plain.connection)
        context = None
        if self._tls or self._for_pods:
            self.authority = _authority(journal, self.state.now())
            names = dict.fromkeys((host, _LOOPBACK))
            context = server_context(*self.authority.issue(names, self.state.now()))
        bound, number = await listen(host, port, context if self._tls else None)
        if self._for_pods:
            self.inside = await listen(_LOOPBACK, 0, context)
        self.state.address = f"[{bound}]:{number}" if ":" in bound else f"{bound}:{number}"
        self.url = f"{'https' if self._tls else 'http'}://{self.state.address}"


async def _listening(
    stack: AsyncExitStack,
    connection: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    context: ssl.SSLContext | None,
) -> tuple[str, int]:
    """Listen until the end of *stack*; return the address."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(connection, host, port, ssl=context, backlog=_BACKLOG)
    stack.push_async_callback(_stop_listening, server)
    bound, number = server.sockets[0].getsockname()[:2]
    return bound, number


async def _stop_listening(server: asyncio.Server) -> None:
    """Close *server* once it has taken what it is accepting.

    Before Python 3.12, a server that closes in the turn in which it accepts a connection leaves
    that connection open and silent, and a client in the same process waits for it.
    """
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await asyncio.sleep(0)
    server.close()


def _authority(journal: Journal | None, now: datetime) -> Authority:
    """Return the certificate authority of the data file, or a new one."""
    if journal is not None:
        certificate, key = journal.setting("ca-certificate"), journal.setting("ca-key")
        if certificate is not None and key is not None:
            return Authority(certificate, key)
    authority = Authority.create(now)
    if journal is not None:
        journal.set("ca-certificate", authority.certificate)
        journal.set("ca-key", authority.key)
    return authority


def _rules(kind: GVK, now: Callable[[], str], gates: frozenset[str]) -> BuiltinRules:
    if kind.kind == "CustomResourceDefinition":
        return DefinitionRules(kind, BUILTIN[kind], now)
    return BuiltinRules(kind, BUILTIN[kind], now, gates)


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Make a request whose body may be as large as on a real server."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


class InsideRequest(NamedTuple):
    """A request from inside; its path is percent-encoded, as in HTTP."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


class InsideAnswer:
    """The answer to a request from inside: whole, or a stream that the server goes on writing to.

    Attributes:
        status: the HTTP status.
        headers: the headers, warnings included.
    """

    def __init__(self, reply: Reply | StreamedAnswer, warnings: Sequence[str]) -> None:
        self._body = reply.body if isinstance(reply, Reply) else reply.chunks
        self.status = reply.status if isinstance(reply, Reply) else 200
        self.headers = _headers(reply, warnings)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives."""
        return _once(self._body) if isinstance(self._body, bytes) else _passed_on(self._body)

    async def read(self) -> bytes:
        """Return the rest of the body."""
        if isinstance(self._body, bytes):
            return self._body
        async with contextlib.aclosing(self):
            return b"".join([chunk async for chunk in self.chunks()])

    async def aclose(self) -> None:
        """Let the server stop writing."""
        if not isinstance(self._body, bytes):
            await self._body.aclose()


async def answer_inside(state: ServerState, user: User, request: InsideRequest) -> InsideAnswer:
    """Return the answer to a request of *user*, when what it changed is kept."""
    # Handling never waits; without this a busy client would keep everybody else waiting.
    await asyncio.sleep(0)
    call = _call(user, request)
    reply = await _kept(state, call)
    return InsideAnswer(await reply.reply if isinstance(reply, Awaited) else reply, call.warnings)


def _call(user: User, request: InsideRequest) -> Call:
    query = MultiDict(request.query)
    return Call(
        method=request.method,
        info=parse_request(request.method, unquote(request.path), query),
        query=query,
        headers=request.headers,
        body=request.body,
        user=user,
    )


async def _kept(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    if call.method == "GET":
        reply = _answered(state, call)
        await state.shown()
        return reply
    try:
        await state.writable()
        reply = _answered(state, call)
        await state.settled()
    except NotKept as error:
        refusal = internal_error(str(error))
        call.warnings.clear()
        return json_reply(refusal.code, refusal.status)
    return reply


def _answered(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    try:
        return router.answer(state, call)
    except RequestRefusal as refusal:
        return json_reply(refusal.code, refusal.status, dict(refusal.headers))


def _headers(reply: Reply | StreamedAnswer, warnings: Sequence[str]) -> Mapping[str, str]:
    headers = CIMultiDict(reply.headers if isinstance(reply, Reply) else ())
    headers["Content-Type"] = reply.content_type
    for warning in warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{escaped}"')
    return headers


async def _passed_on(chunks: Chunks) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body

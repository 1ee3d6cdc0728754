"""The API server as a part of a process.

>>> async with ApiServer() as server:
...     print(server.url)
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING

from aiohttp import web

from numakube.apps.host.http_serving import SERVER_LOG
from numakube.apps.host.plain_requests import PlainRequests
from numakube.kube.connection.proxy_settings import is_loopback
from numakube_lab.api.access.authentication import Authenticator, Signer, User
from numakube_lab.api.access.authorization import AllowEverything, RoleBasedAccess
from numakube_lab.api.access.certificate_authority import Authority, server_context
from numakube_lab.api.catalogue.builtin_rules import BuiltinRules
from numakube_lab.api.catalogue.served_resources import Registry
from numakube_lab.api.custom.definition_controller import DefinitionController
from numakube_lab.api.custom.definition_rules import DefinitionRules
from numakube_lab.api.handling.object_meta import timestamp
from numakube_lab.api.handling.server_state import State
from numakube_lab.api.server.event_expiry import EventExpiry
from numakube_lab.api.server.first_objects import bootstrap
from numakube_lab.api.server.http_front import MAX_BODY, Front
from numakube_lab.api.store.journal import Journal
from numakube_lab.api.store.store import Store
from numakube_lab.api.subresources.account_tokens import ServiceAccountTokens
from numakube_lab.lifetime import Lifetime
from numakube_lab.schema.builtin_types import BUILTIN

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path
    from random import Random

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.web_protocol import RequestHandler

    from numakube_lab.api.catalogue.resource_rules import Rules
    from numakube_lab.faults import Faults
    from numakube_lab.kinds import GVK

# Requests that are under way when the server stops have this many seconds to finish.
_SHUTDOWN_SECONDS = 2.0
# This many connections may wait to be taken.
_BACKLOG = 128
# As long as the web framework keeps a connection without requests.
_SILENT_SECONDS = 3630.0
# Pods that really run do so in this very process.
_LOOPBACK = "127.0.0.1"


class ApiServer(Lifetime):
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
    ) -> None:
        self._address = (host, port)
        self._tls = tls
        self._for_pods = for_pods
        self._data = data
        self._faults = faults
        store = Store()
        self.state = State(
            store=store,
            registry=Registry(partial(_rules, now=lambda: timestamp(now()))),
            authenticator=Authenticator(users or {}, anonymous=anonymous),
            authorizer=RoleBasedAccess(store) if rbac else AllowEverything(),
            signer=Signer(secrets.token_bytes(32)),
            now=now,
            rng=rng or SystemRandom(),
        )
        self.state.authenticator.sources.append(ServiceAccountTokens(self.state))
        self.authority: Authority | None = None
        self.url = ""
        self.inside: tuple[str, int] | None = None

    async def live(self) -> AsyncIterator[None]:
        """Serve; in the end, end all watches and finish what is under way."""
        async with AsyncExitStack() as stack:
            journal = await self._restore(stack)
            bootstrap(self.state)
            self.state.after_request.append(DefinitionController(self.state).settle)
            self.state.after_request.append(EventExpiry(self.state).remove_expired)
            await self.state.settled()
            await self._listen(stack, journal)
            yield

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
    stack.callback(server.close)
    bound, number = server.sockets[0].getsockname()[:2]
    return bound, number


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


def _rules(kind: GVK, now: Callable[[], str]) -> Rules:
    rules = DefinitionRules if kind.kind == "CustomResourceDefinition" else BuiltinRules
    return rules(kind, BUILTIN[kind], now)


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

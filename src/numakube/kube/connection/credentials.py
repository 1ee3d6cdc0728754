"""Who we are to the API server: every way a kubeconfig can say it.

An `Authenticator` gives `Credentials` before each request and learns when the server refused them
with 401, so that what can change is looked up again: token and certificate files are re-read each
minute and after a 401, an exec plugin is run again when its credentials expire or are refused.
Precedence follows client-go: an exec plugin is not asked when the user has a token, a certificate
or a password.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
import structlog

from numakube.errors import ConfigError, CredentialError
from numakube.kube.connection.exec_plugin import ExecCredentials, run_plugin
from numakube.kube.connection.tls import CertificatePair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from numakube.kube.clock import Clock
    from numakube.kube.connection.cluster_config import ExecPlugin, Impersonation, UserConfig


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

REREAD_SECONDS = 60.0
"""How long the content of a token or certificate file is believed; client-go's figure."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one request shows to the server."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    pair: CertificatePair | None = None


class Authenticator(Protocol):
    """A source of credentials."""

    async def credentials(self) -> Credentials:
        """Return what to show with the next request."""
        ...

    def rejected(self, used: Credentials) -> bool:
        """Forget *used* after a 401; tell whether others may be had by asking again."""
        ...


class UserCredentials:
    """Token, certificate, password or id-token of a kubeconfig user, or of a service account."""

    def __init__(self, user: UserConfig, *, clock: Clock) -> None:
        self._user = user
        self._clock = clock
        self._current: Credentials | None = None
        self._read_at = 0.0

    async def credentials(self) -> Credentials:
        """Return what the files and the configuration say, at most a minute old."""
        now = self._clock.monotonic()
        if self._current is None or now - self._read_at >= REREAD_SECONDS:
            self._current = self._read_or_keep()
            self._read_at = now
        return self._current

    def rejected(self, used: Credentials) -> bool:
        """Read the files again; it is worth another try only if they say something new."""
        if self._user.token_file is None and self._user.certificate is None:
            return False
        if used == self._current:
            self._current = self._read_or_keep()
            self._read_at = self._clock.monotonic()
        return self._current != used

    def _read_or_keep(self) -> Credentials:
        """Read again; while a file cannot be read, its last content stays in use."""
        try:
            return self._read()
        except (ConfigError, OSError) as exc:
            if self._current is None:
                raise
            _log.warning("credentials_not_reread", error=str(exc))
            return self._current

    def _read(self) -> Credentials:
        user = self._user
        pair = None
        if user.certificate is not None and user.key is not None:
            pair = CertificatePair(user.certificate.read(), user.key.read())
        authorization = self._authorization()
        headers = (("Authorization", authorization),) if authorization else ()
        return Credentials((*headers, *impersonation_headers(user.impersonation)), pair)

    def _authorization(self) -> str:
        user = self._user
        if user.token or user.token_file:
            return f"Bearer {self._token()}"
        if user.username or user.password:
            both = f"{user.username}:{user.password}".encode()
            return f"Basic {base64.b64encode(both).decode()}"
        if user.id_token:
            _check_id_token(user.id_token, self._clock.now())
            return f"Bearer {user.id_token}"
        return ""

    def _token(self) -> str:
        """Return the token; what the file says has precedence over one given in place."""
        path = self._user.token_file
        if path is None:
            return self._user.token
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            if self._user.token:
                return self._user.token
            raise CredentialError(f"{path}: cannot read this token: {exc}") from exc
        if not token:
            raise CredentialError(f"{path}: this token file is empty")
        return token


class PluginCredentials:
    """Credentials that an exec plugin prints; it runs once for all who wait for them."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock,
        env: Mapping[str, str],
        interactive: bool,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._env = env
        self._interactive = interactive
        self._headers = headers
        self._current: Credentials | None = None
        self._expires: datetime | None = None
        self._flight: SingleFlight[Credentials] = SingleFlight(self._run)

    async def credentials(self) -> Credentials:
        """Return the credentials at hand, running the plugin if there are none or they expired."""
        if self._current is not None and not self._expired():
            return self._current
        return await self._flight.result()

    def rejected(self, used: Credentials) -> bool:
        """Have the plugin run again, unless it has done so since *used*."""
        if used is self._current:
            self._current = None
        return True

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires

    async def _run(self) -> Credentials:
        answer = await run_plugin(
            self._plugin, clock=self._clock, env=self._env, terminal=self._interactive
        )
        self._current = self._credentials_of(answer)
        self._expires = answer.expires
        return self._current

    def _credentials_of(self, answer: ExecCredentials) -> Credentials:
        token = (("Authorization", f"Bearer {answer.token}"),) if answer.token else ()
        return Credentials((*token, *self._headers), answer.pair)


def authenticator_for(
    user: UserConfig,
    *,
    clock: Clock,
    env: Mapping[str, str] = os.environ,
    interactive: bool = False,
) -> Authenticator:
    """Return the authenticator for *user*.

    Args:
        user: what the configuration says.
        clock: for expiry and re-reading.
        env: the environment an exec plugin inherits.
        interactive: standard input is a terminal that a plugin may ask questions on.
    """
    has_own = user.token or user.token_file or user.certificate or user.username or user.password
    if user.plugin is None or has_own:
        return UserCredentials(user, clock=clock)
    return PluginCredentials(
        user.plugin,
        clock=clock,
        env=env,
        interactive=interactive,
        headers=impersonation_headers(user.impersonation),
    )


def impersonation_headers(who: Impersonation | None) -> tuple[tuple[str, str], ...]:
    """Return the headers that ask the server to act in the name of *who*."""
    if who is None:
        return ()
    headers = [("Impersonate-User", who.user)]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers += [("Impersonate-Group", group) for group in who.groups]
    headers += [
        (f"Impersonate-Extra-{_header_key(key)}", value)
        for key, values in who.extra
        for value in values
    ]
    return tuple(headers)


def _header_key(key: str) -> str:
    """Percent-encode what may not stand in the name of a header."""
    legal = set("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return "".join(
        each if each in legal else "".join(f"%{byte:02X}" for byte in each.encode()) for each in key
    )


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


def _check_id_token(token: str, now: datetime) -> None:
    """Refuse an id-token past its expiry: the server's bare 401 would not tell the reason."""
    expiry = None
    with contextlib.suppress(ValueError, IndexError):
        payload = token.split(".")[1]
        padded = payload + "=" * (-len(payload) % 4)
        expiry = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims).exp
    if expiry is not None and expiry <= now.timestamp():
        raise CredentialError(
            "the id-token of auth-provider oidc has expired; run a kubectl command to renew it, "
            "or use an exec plugin"
        )


T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares each run of *work* among those who ask for it while it runs."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._running: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """Return what the run in progress gives, or a new one if there is none."""
        while self._running is not None:
            try:
                return await asyncio.shield(self._running)
            except asyncio.CancelledError:
                if not self._abandoned():
                    raise
        return await self._fly()

    def _abandoned(self) -> bool:
        """Tell whether a cancellation was the leader's, not ours."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    async def _fly(self) -> T:
        flight: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running = flight
        try:
            value = await self._work()
        except asyncio.CancelledError:
            self._running = None
            flight.cancel()
            raise
        except BaseException as exc:
            self._running = None
            flight.set_exception(exc)
            flight.exception()  # retrieved: nobody may be waiting
            raise
        self._running = None
        flight.set_result(value)
        return value

"""Who we are to the API server, and whom we trust to be it: every way a kubeconfig can say it.

An `Authenticator` gives `Credentials` before each request and learns when the server refused them
with 401, so that what can change is looked up again: token and certificate files are re-read each
minute and after a 401, an exec plugin is run again when its credentials expire or are refused.
Precedence follows client-go: an exec plugin is not asked when the user has a token, a certificate
or a password.

TLS is as tolerant as kubectl and no more. Python 3.13 verifies certificates more strictly than Go
does and refuses cluster CAs made by older tools (no key usage, no authority key identifier), so
that strictness is switched off; and, as in Go, any certificate of the bundle is an anchor of trust,
not only self-signed ones.

An exec plugin (``client.authentication.k8s.io`` v1 and v1beta1) receives the cluster and its own
settings in ``KUBERNETES_EXEC_INFO`` and prints an ``ExecCredential`` with a token, a client
certificate, or both, and possibly an expiry. This is the only place where numakube starts a
process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import ssl
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
import structlog

from numakube.api.codec import BROKEN_JSON
from numakube.errors import ConfigError, CredentialError
from numakube.values.safe_text import printable_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from numakube.kube.clock import Clock
    from numakube.kube.connection.cluster_config import ExecPlugin, Impersonation, UserConfig


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A client certificate (with its chain) and its key, both in PEM form."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def client_context(
    *, authority: bytes | None, insecure: bool = False, pair: CertificatePair | None = None
) -> ssl.SSLContext:
    """Return the context for connections to one API server.

    Args:
        authority: the certificates to trust, in PEM form; None means those of the system.
        insecure: trust anybody.
        pair: the certificate to show to the server.
    """
    context = _trusting(authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        _show(context, pair)
    return context


def _trusting(authority: bytes | None) -> ssl.SSLContext:
    if authority is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as exc:
        raise ConfigError(f"certificate-authority: not a certificate in PEM form: {exc}") from exc


def _show(context: ssl.SSLContext, pair: CertificatePair) -> None:
    try:
        with _as_file(pair.certificate + b"\n" + pair.key) as path:
            context.load_cert_chain(path, password=_refuse_password)
    except (ssl.SSLError, ValueError) as exc:
        raise ConfigError(f"client certificate or its key cannot be used: {exc}") from exc


def _refuse_password() -> str:
    """Fail where OpenSSL would otherwise ask on the terminal."""
    raise ValueError("the key is encrypted; Kubernetes clients need it in the clear")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Lend *content* a path, because OpenSSL reads keys from files only.

    In memory where the system can: our images have a read-only file system, and a key should not
    touch a disk.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


EXEC_INFO = "KUBERNETES_EXEC_INFO"
"""The environment variable in which a plugin finds what it is asked."""

TIME_LIMIT_SECONDS = 120.0
"""How long a plugin may take that cannot be waiting for a person."""

_QUOTED = 300
"""How much of a plugin's error output an error message shows."""


@dataclass(frozen=True, slots=True)
class ExecCredentials:
    """What a plugin gave."""

    token: str = field(default="", repr=False)
    pair: CertificatePair | None = None
    expires: datetime | None = None


class _ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


async def run_plugin(
    plugin: ExecPlugin, *, clock: Clock, env: Mapping[str, str], terminal: bool
) -> ExecCredentials:
    """Run *plugin* and return its credentials.

    Args:
        plugin: what to run.
        clock: for the time limit of a run that cannot be waiting for a person.
        env: the environment that the plugin inherits; its ``PATH`` is searched.
        terminal: standard input is a terminal.
    """
    interactive = _is_interactive(plugin, terminal=terminal)
    process = await _start(plugin, env, interactive=interactive)
    try:
        async with clock.timeout(None if interactive else TIME_LIMIT_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as exc:
        raise CredentialError(
            f"exec plugin {plugin.command}: no answer within {TIME_LIMIT_SECONDS:.0f} s"
        ) from exc
    finally:
        await _end(process)
    if process.returncode:
        raise CredentialError(_failure(plugin, process.returncode, errors or b""))
    return parse_answer(output, plugin)


def parse_answer(output: bytes, plugin: ExecPlugin) -> ExecCredentials:
    """Return the credentials in what *plugin* printed."""
    name = f"exec plugin {plugin.command}"
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except BROKEN_JSON as exc:
        raise CredentialError(f"{name}: its output is not an ExecCredential: {exc}") from exc
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialError(
            f"{name}: configured for {plugin.api_version} but it returned "
            f"{answer.api_version or 'no apiVersion'} {answer.kind or 'without a kind'}"
        )
    status = answer.status
    if status is None:
        raise CredentialError(f"{name}: it returned no status")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialError(f"{name}: it returned only a certificate or a key, not both")
    if not status.token and not status.client_key_data:
        raise CredentialError(f"{name}: it returned neither a token nor a certificate with its key")
    return ExecCredentials(status.token, _pair(status), _in_utc(status.expiration_timestamp))


def exec_info(plugin: ExecPlugin, *, interactive: bool) -> bytes:
    """Return what a plugin finds in ``KUBERNETES_EXEC_INFO``."""
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.cluster_info is not None:
        spec["cluster"] = dict(plugin.cluster_info)
    return msgspec.json.encode(
        {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    )


def _is_interactive(plugin: ExecPlugin, *, terminal: bool) -> bool:
    if plugin.interactive_mode == "Always" and not terminal:
        raise CredentialError(
            f"exec plugin {plugin.command} has to ask a person (interactiveMode: Always), "
            "but standard input is not a terminal"
        )
    return terminal and plugin.interactive_mode != "Never"


async def _start(plugin: ExecPlugin, env: Mapping[str, str], *, interactive: bool) -> Process:
    """Start the plugin; one that asks questions gets our terminal."""
    program = shutil.which(plugin.command, path=env.get("PATH"))
    if program is None:
        hint = f"\n{printable_lines(plugin.install_hint)}" if plugin.install_hint else ""
        raise CredentialError(f"exec plugin {plugin.command} is not installed{hint}")
    info = exec_info(plugin, interactive=interactive).decode()
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *plugin.args,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            stderr=None if interactive else PIPE,
            env={**env, **dict(plugin.env), EXEC_INFO: info},
        )
    except OSError as exc:
        raise CredentialError(f"exec plugin {plugin.command} cannot be started: {exc}") from exc


async def _end(process: Process) -> None:
    """Leave no process behind, however the wait for it ended."""
    if process.returncode is None:
        process.kill()
        await asyncio.shield(process.wait())


def _failure(plugin: ExecPlugin, code: int, errors: bytes) -> str:
    said = printable_lines(errors.decode(errors="replace").strip())[-_QUOTED:]
    return f"exec plugin {plugin.command} failed with exit code {code}" + (
        f": {said}" if said else ""
    )


def _pair(status: _ExecStatus) -> CertificatePair | None:
    if not status.client_key_data:
        return None
    return CertificatePair(status.client_certificate_data.encode(), status.client_key_data.encode())


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC)


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

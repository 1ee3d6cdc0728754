"""The HTTP transport: TLS both ways, credentials renewed after 401, proxies, time limits."""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from numakube.errors import ClusterUnreachable, ConfigError, Unauthorized, UntrustedServer
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock, ManualClock
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig, Pem, TlsConfig, UserConfig
from numakube.kube.connection.transport import Request
from numakube.kube.scripted_server import ScriptedServer

READ = Request(method="GET", path="/ping")
WRITE = Request(method="POST", path="/ping", body=b"{}")


@pytest.fixture(params=[READ, WRITE], ids=str)
def ping(request: pytest.FixtureRequest) -> Request:
    """A request; those with a body go another way than those without."""
    sent: Request = request.param
    return sent


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, in PEM form."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority as old tools made them: no key usage, no key identifiers."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = (
            self._builder(self._name, self._key)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *, dns: str = "", ip: str = "") -> Identity:
        """Issue a certificate for *name*."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key)
        names: list[x509.GeneralName] = [x509.DNSName(dns)] if dns else []
        if ip:
            names.append(x509.IPAddress(ipaddress.ip_address(ip)))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Identity(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The authority that the servers of these tests belong to."""
    return Authority()


def server_tls(authority: Authority, folder: Path, identity: Identity) -> ssl.SSLContext:
    """Return the TLS context of a server that asks for client certificates."""
    both = folder / "server.pem"
    both.write_bytes(identity.certificate + identity.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def whoami(request: web.Request) -> web.StreamResponse:
    """Answer with the name in the client's certificate, and what it sent as authorization."""
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for _, value in part]
    return web.json_response(
        {"names": names, "authorization": request.headers.get("Authorization", "")}
    )


@pytest.fixture
async def secure(authority: Authority, tmp_path: Path) -> AsyncIterator[ScriptedServer]:
    """A server with a certificate for 127.0.0.1."""
    identity = authority.issue("server", ip="127.0.0.1")
    tls = server_tls(authority, tmp_path, identity)
    async with ScriptedServer(tls=tls, otherwise=whoami) as server:
        yield server


async def ask(ping: Request, config: ClusterConfig) -> bytes:
    """Return the answer to one request, without retries."""
    async with connect(config, clock=JumpingClock()) as client:
        return bytes((await client.request(ping)).body)


async def test_a_server_of_the_configured_authority_is_trusted(
    ping: Request, authority: Authority, secure: ScriptedServer
) -> None:
    """Even if the authority lacks the extensions that newer Pythons ask for."""
    config = replace(secure.config, tls=TlsConfig(authority=Pem(authority.pem)))

    assert await ask(ping, config) == b'{"names": [], "authorization": ""}'


async def test_any_other_server_is_not_trusted(ping: Request, secure: ScriptedServer) -> None:
    """Neither with another authority nor with those of the system."""
    other = replace(secure.config, tls=TlsConfig(authority=Pem(Authority().pem)))

    for config in (other, secure.config):
        with pytest.raises(
            UntrustedServer, match=r"is not accepted: .*certificate-authority"
        ) as told:
            await ask(ping, config)
        assert "SSL" not in str(told.value), "the cause in words, not Python's"


async def test_verification_can_be_switched_off(ping: Request, secure: ScriptedServer) -> None:
    """For those who ask for it by name."""
    assert await ask(ping, replace(secure.config, tls=TlsConfig(insecure=True)))


async def test_the_name_to_verify_can_be_given(
    ping: Request, authority: Authority, tmp_path: Path
) -> None:
    """A server reached through a tunnel has a certificate for another name."""
    tls = server_tls(authority, tmp_path, authority.issue("server", dns="k8s.internal"))
    trust = TlsConfig(authority=Pem(authority.pem))
    async with ScriptedServer(tls=tls, otherwise=whoami) as server:
        with pytest.raises(UntrustedServer, match=r"for another name: .* tls-server-name"):
            await ask(ping, replace(server.config, tls=trust))
        assert await ask(
            ping, replace(server.config, tls=replace(trust, server_name="k8s.internal"))
        )


async def test_a_client_certificate_is_shown(
    ping: Request, authority: Authority, secure: ScriptedServer
) -> None:
    """Certificate and key may be given in place; they reach no disk."""
    me = authority.issue("me")
    config = replace(
        secure.config,
        tls=TlsConfig(authority=Pem(authority.pem)),
        user=UserConfig(certificate=Pem(me.certificate), key=Pem(me.key)),
    )

    assert b'"names": ["me"]' in await ask(ping, config)


async def test_renewed_certificates_and_authorities_are_picked_up(
    ping: Request, authority: Authority, secure: ScriptedServer, tmp_path: Path
) -> None:
    """A client that runs for months sees its files change."""
    clock = ManualClock()
    ca, certificate, key = tmp_path / "ca", tmp_path / "crt", tmp_path / "key"

    def install(identity: Identity) -> None:
        certificate.write_bytes(identity.certificate)
        key.write_bytes(identity.key)

    ca.write_bytes(authority.pem)
    install(authority.issue("one"))
    config = replace(
        secure.config,
        tls=TlsConfig(authority=Pem(path=ca)),
        user=UserConfig(certificate=Pem(path=certificate), key=Pem(path=key)),
    )
    async with connect(config, clock=clock) as client:
        assert b"one" in (await client.request(ping)).body
        install(authority.issue("two"))
        assert b"one" in (await client.request(ping)).body
        await clock.advance(61)
        assert b"two" in (await client.request(ping)).body
        ca.write_bytes(Authority().pem)
        await clock.advance(61)
        with pytest.raises(UntrustedServer):
            await client.request(ping)


async def test_unusable_certificates_are_explained(ping: Request, secure: ScriptedServer) -> None:
    """A broken file is the user's mistake, not a broken network."""
    nonsense = Pem(b"nonsense")
    wrong_authority = replace(secure.config, tls=TlsConfig(authority=nonsense))
    wrong_pair = replace(
        secure.config,
        tls=TlsConfig(insecure=True),
        user=UserConfig(certificate=nonsense, key=nonsense),
    )

    with pytest.raises(ConfigError, match="not a certificate in PEM form"):
        await ask(ping, wrong_authority)
    with pytest.raises(ConfigError, match="client certificate or its key cannot be used"):
        await ask(ping, wrong_pair)


async def test_a_401_is_answered_with_a_fresh_token(
    ping: Request, server: ScriptedServer, tmp_path: Path
) -> None:
    """Requests and streams are repeated once, with what the token file says now."""
    token = tmp_path / "token"
    token.write_text("old")

    async def guard(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return web.Response(body=b"welcome")
        token.write_text("new")
        return web.Response(status=401)

    server.otherwise = guard
    config = replace(server.config, user=UserConfig(token_file=token))
    async with connect(config, clock=ManualClock()) as client:
        assert (await client.request(ping)).body == b"welcome"
    token.write_text("old")
    async with connect(config, clock=ManualClock()) as client, client.stream(ping) as stream:
        assert await stream.read() == b"welcome"


async def test_a_second_401_is_an_error(ping: Request, server: ScriptedServer) -> None:
    """Credentials that do not change are not tried again."""
    server.refuse(401, "Unauthorized")

    with pytest.raises(Unauthorized):
        await ask(ping, replace(server.config, user=UserConfig(token="t")))
    assert len(server.received) == 1


async def test_credentials_travel_over_tls_or_loopback_only(
    ping: Request, server: ScriptedServer
) -> None:
    """Plain HTTP to elsewhere (here through a proxy that shows what it gets) carries none."""
    server.otherwise = whoami
    user = UserConfig(token="secret")
    elsewhere = ClusterConfig(server="http://elsewhere.example", user=user, proxy_url=server.url)

    assert b"secret" in await ask(ping, replace(server.config, user=user))
    assert b"secret" not in await ask(ping, elsewhere)
    assert server.received[-1].headers["Host"] == "elsewhere.example"


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be an HTTP proxy for one CONNECT request."""
    head = await reader.readuntil(b"\r\n\r\n")
    target = head.split()[1].decode()
    PROXIED.append(target)
    host, _, port = target.rpartition(":")
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


PROXIED: list[str] = []


async def test_tls_goes_through_a_proxy(
    ping: Request, authority: Authority, secure: ScriptedServer
) -> None:
    """The certificate that counts is the API server's; the proxy sees none of it."""
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    me = authority.issue("me")
    config = replace(
        secure.config,
        tls=TlsConfig(authority=Pem(authority.pem)),
        user=UserConfig(certificate=Pem(me.certificate), key=Pem(me.key)),
        proxy_url=f"http://127.0.0.1:{port}",
    )

    assert b'"names": ["me"]' in await ask(ping, config)
    assert PROXIED[-1] == f"127.0.0.1:{secure.port}"
    proxy.close()


async def test_other_kinds_of_proxy_are_refused() -> None:
    """SOCKS is not spoken; better said than ignored."""
    with pytest.raises(ConfigError, match="only http and https proxies"):
        connect(ClusterConfig(server="https://x", proxy_url="socks5://p:1"))


async def test_a_server_that_does_not_answer_in_time_is_unreachable(
    server: ScriptedServer, client: Client
) -> None:
    """The request may have been carried out."""
    gate = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        await gate.wait()
        return web.Response()

    server.otherwise = silent
    for request in (
        Request(method="POST", path="/x", timeout=0.02),
        Request(method="POST", path="/x", body=b"{}", timeout=0.02),
        Request(method="POST", path="/x", timeout=None, idle_timeout=0.02),
    ):
        with pytest.raises(ClusterUnreachable, match="no answer in time") as caught:
            await client.request(request)
        assert caught.value.sent
    gate.set()


async def test_warnings_of_the_server_are_logged_once(
    ping: Request, server: ScriptedServer, client: Client
) -> None:
    """A deprecated API in a loop is not worth a line a second."""
    for text in ('299 - "v1beta1 is deprecated"', '299 - "another"', '299 - "another"'):
        server.reply({}, headers={"Warning": text})
    with capture_logs() as logs:
        for _ in range(3):
            await client.request(ping)

    assert [each["text"] for each in logs if each["event"] == "server_warning"] == [
        '299 - "v1beta1 is deprecated"',
        '299 - "another"',
    ]


async def test_streams_do_not_take_connections_from_requests(
    ping: Request, server: ScriptedServer, client: Client
) -> None:
    """A hundred watches leave room for a request."""

    async def endless(request: web.Request) -> web.StreamResponse:
        if request.path == "/ping":
            return web.Response(body=b"pong")
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    server.otherwise = endless
    opened = asyncio.Event()
    count = 0

    async def hold() -> None:
        nonlocal count
        async with client.stream(Request(method="GET", path="/watch", timeout=None)):
            count += 1
            if count == 100:
                opened.set()
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold()) for _ in range(100)]
    await opened.wait()
    assert (await client.request(ping)).body == b"pong"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""A real kube-apiserver on its own etcd, on loopback and in a directory of its own.

It is started as the recorded answers were made: RBAC, bearer tokens from a file, no controllers
and no ServiceAccount admission (nobody would create the accounts that it insists on).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from numakube.lab.replay.run import TOKENS, USERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VARIABLE: Final = "KUBEBUILDER_ASSETS"
START_SECONDS: Final = 50.0
STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


def assets() -> Path | None:
    """Return the directory of the real binaries, if there is one."""
    directory = os.environ.get(VARIABLE)
    return Path(directory) if directory else None


needs_assets = pytest.mark.skipif(
    assets() is None, reason=f"needs a real kube-apiserver: set {VARIABLE}"
)


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running kube-apiserver.

    Attributes:
        url: its address.
        ca: file of the certificate to trust.
        etcd: the address of its store.
    """

    url: str
    ca: Path
    etcd: str

    @property
    def tls(self) -> ssl.SSLContext:
        """Return what a client needs to trust it."""
        return ssl.create_default_context(cafile=str(self.ca))

    def session(self) -> aiohttp.ClientSession:
        """Return a client; requests name their own tokens."""
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.tls))


@contextlib.asynccontextmanager
async def real_server(directory: Path, *, anonymous: bool = True) -> AsyncIterator[RealServer]:
    """Start etcd and kube-apiserver in *directory*; stop both at the end."""
    binaries = assets()
    assert binaries is not None, f"{VARIABLE} is not set"
    client, peer, secure = _free_ports(3)
    etcd = f"http://127.0.0.1:{client}"
    async with contextlib.AsyncExitStack() as stack:
        store = _etcd_arguments(directory, etcd, f"http://127.0.0.1:{peer}")
        await stack.enter_async_context(_running(binaries / "etcd", store, directory))
        arguments = _server_arguments(directory, etcd, secure, anonymous=anonymous)
        process = await stack.enter_async_context(
            _running(binaries / "kube-apiserver", arguments, directory)
        )
        certificate = directory / "certs" / "apiserver.crt"
        server = RealServer(f"https://127.0.0.1:{secure}", certificate, etcd)
        await _ready(server, process, directory)
        yield server


def _etcd_arguments(directory: Path, client: str, peer: str) -> list[str]:
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        # What a test stores need not survive the machine.
        "--unsafe-no-fsync",
    ]


def _server_arguments(directory: Path, etcd: str, port: int, *, anonymous: bool) -> list[str]:
    key = _write_key(directory / "service-account.key")
    users = _write_users(directory / "users.csv")
    return [
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory / 'certs'}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={users}",
        "--authorization-mode=RBAC",
        f"--anonymous-auth={str(anonymous).lower()}",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]


def _write_key(file: Path) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return file


def _write_users(file: Path) -> Path:
    rows = [
        f'{token},{user.name},{user.uid},"{",".join(user.groups)}"\n'
        for token, user in USERS.items()
    ]
    file.write_text("".join(rows))
    return file


@contextlib.asynccontextmanager
async def _running(
    binary: Path, arguments: list[str], directory: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    with (directory / f"{binary.name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _ready(server: RealServer, process: asyncio.subprocess.Process, directory: Path) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await _answers(server):
                assert process.returncode is None, f"kube-apiserver ended; see {directory}"
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        log = (directory / "kube-apiserver.log").read_text()
        pytest.fail(f"kube-apiserver is not ready after {START_SECONDS:.0f} s:\n{log[-2000:]}")


async def _answers(server: RealServer) -> bool:
    if not server.ca.exists():
        return False
    headers = {"Authorization": f"Bearer {TOKENS['admin']}"}
    try:
        async with (
            server.session() as session,
            session.get(f"{server.url}/readyz", headers=headers) as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, ssl.SSLError):
        return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]

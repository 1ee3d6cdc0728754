"""A real kube-apiserver on its own etcd, on loopback and in a directory of its own.

It is started as the recorded answers were made: RBAC, bearer tokens from a file, no controllers
and no ServiceAccount admission (nobody would create the accounts that it insists on). A test may
kill it at any moment and start it again: its store and its address stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import aiohttp
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from numakube.api.yaml_text import dump_yaml
from numakube.testing import until_blocking
from numakube_lab.replay.run_case import TOKENS, USERS

VARIABLE: Final = "KUBEBUILDER_ASSETS"
START_SECONDS: Final = 200.0
STOP_SECONDS: Final = 10.0


def assets() -> Path | None:
    """Return the directory of the real binaries, if there is one."""
    directory = os.environ.get(VARIABLE)
    return Path(directory) if directory else None


@dataclass(slots=True)
class RealServer:
    """A kube-apiserver with its etcd; use it as a context.

    Attributes:
        directory: where both keep their files and logs.
        anonymous: whether requests without credentials are let in.
        accounts: whether pods get service accounts, which somebody has to create then.
        gates: feature gates that are not at their defaults: those of the lab's API.
        url: its address.
        etcd: the address of its store.
    """

    directory: Path
    anonymous: bool = True
    accounts: bool = False
    gates: str = "DRAExtendedResource=true"
    url: str = ""
    etcd: str = ""
    _arguments: dict[str, list[str]] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Start both; returns when requests are answered."""
        client, peer, secure = free_ports(3)
        self.etcd = f"http://127.0.0.1:{client}"
        self.url = f"https://127.0.0.1:{secure}"
        self._arguments["etcd"] = self._etcd_arguments(f"http://127.0.0.1:{peer}")
        self._arguments["kube-apiserver"] = self._server_arguments(secure)
        try:
            self._launch("etcd")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop both."""
        for name in ("kube-apiserver", "etcd"):
            process = self._processes.pop(name, None)
            if process is not None:
                stop(process)

    def kill(self) -> None:
        """End the server on the spot, as ``kill -9`` does; etcd keeps what was written."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def start(self) -> None:
        """Start the server; returns when it is ready."""
        self._launch("kube-apiserver")
        try:
            until_blocking(self._lives_ready, within=START_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._last_words()}") from None

    def _lives_ready(self) -> bool:
        assert self._processes["kube-apiserver"].poll() is None, "it has ended"
        return self._is_ready()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of server and store."""
        return tuple(process.pid for process in self._processes.values())

    @property
    def ca(self) -> Path:
        """File of the certificate to trust."""
        return self.directory / "certs" / "apiserver.crt"

    @property
    def service_account_key(self) -> Path:
        """File of the key that signs the tokens of service accounts."""
        return self.directory / "service-account.key"

    @property
    def tls(self) -> ssl.SSLContext:
        """What a client needs to trust it."""
        return ssl.create_default_context(cafile=str(self.ca))

    def session(self) -> aiohttp.ClientSession:
        """Return a client; requests name their own tokens."""
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.tls))

    def write_kubeconfig(self, path: Path, *, url: str = "") -> Path:
        """Write how its administrator reaches it, directly or at another *url*; return *path*."""
        cluster = {"server": url or self.url, "certificate-authority": str(self.ca)}
        context = {"cluster": "real", "user": "admin", "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": TOKENS["admin"]}}],
            "contexts": [{"name": "real", "context": context}],
        }
        path.write_text(dump_yaml(config))
        return path

    def _launch(self, name: str) -> None:
        binaries = assets()
        assert binaries is not None, f"{VARIABLE} is not set"
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - the developer's own
                [binaries / name, *self._arguments[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _last_words(self) -> str:
        return (self.directory / "kube-apiserver.log").read_text(errors="replace")[-2000:]

    def _is_ready(self) -> bool:
        if not self.ca.exists():
            return False
        headers = {"Authorization": f"Bearer {TOKENS['admin']}"}
        address = self.url.removeprefix("https://")
        try:
            # The certificate may be half-written.
            connection = http.client.HTTPSConnection(address, timeout=10, context=self.tls)
            with contextlib.closing(connection):
                connection.request("GET", "/readyz", headers=headers)
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _etcd_arguments(self, peer: str) -> list[str]:
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd}",
            f"--advertise-client-urls={self.etcd}",
            f"--listen-peer-urls={peer}",
            # What a test stores need not survive the machine.
            "--unsafe-no-fsync",
        ]

    def _server_arguments(self, port: int) -> list[str]:
        key = _write_key(self.service_account_key)
        users = _write_users(self.directory / "users.csv")
        return [
            f"--etcd-servers={self.etcd}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory / 'certs'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={users}",
            "--authorization-mode=RBAC",
            f"--anonymous-auth={str(self.anonymous).lower()}",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--feature-gates={self.gates}",
            *([] if self.accounts else ["--disable-admission-plugins=ServiceAccount"]),
        ]


@contextlib.asynccontextmanager
async def real_server(directory: Path, *, anonymous: bool = True) -> AsyncIterator[RealServer]:
    """Start etcd and kube-apiserver in *directory*; stop both at the end."""
    server = RealServer(directory, anonymous)
    await asyncio.to_thread(server.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.__exit__)


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


def stop(process: subprocess.Popen[bytes]) -> None:
    """End *process*, by force if it does not end by itself in time."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]

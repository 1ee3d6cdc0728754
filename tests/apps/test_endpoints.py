"""Who may call what: the table of the documentation, asked of the programs themselves."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from tests.annexes.contributions import needs_every_annex, rows
from tests.docs.pages import ROOT
from tests.sites.bare import BareServer, bare_lab

from kube_lab_server import Authority
from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.apps.host.program import load_program
from numakube.kube.catalog import NAMESPACES
from numakube.testing import until
from numakube_lab.replay.run_case import TOKENS

PAGE = ROOT / "docs" / "reference" / "debug-endpoints.md"
ROW = re.compile(r"^\| ([\w\' -]+) \| `(\w+) (\S+)` \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))
CALLERS = ("", TOKENS["alice"], TOKENS["admin"])
HEALTH = "extender's health port"
PORT, HEALTH_PORT = 10263, 10264


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster, certificates, and where the servers turn out to be."""

    server: BareServer
    folder: Path
    around: Surroundings
    places: dict[int, str]
    announced: asyncio.Event

    def arguments(self, *more: str) -> tuple[str, ...]:
        """What each program is told: to serve all the world."""
        return (
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            self.address,
            *self.certificate(),
            *more,
        )

    @property
    def address(self) -> str:
        """The flag for where to serve."""
        return f"--bind-address=0.0.0.0:{PORT}"

    def certificate(self) -> tuple[str, ...]:
        """The flags for the server's certificate."""
        folder = self.folder
        return f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-key-file={folder / 'tls.key'}"

    def trust(self, *, known: bool = False) -> ssl.SSLContext:
        """What a client needs, with a certificate of its own if it is *known*."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        if known:
            # That of the authority serves any purpose.
            context.load_cert_chain(self.folder / "ca.crt", self.folder / "ca.key")
        return context


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Nothing runs yet but an API server that knows three users, of whom one has all rights."""
    now = datetime.now(UTC)
    authority = Authority.create(now)
    certificate, key = authority.issue(["localhost", "127.0.0.1"], now)
    for name, data in {
        "tls.crt": certificate,
        "tls.key": key,
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
    }.items():
        (tmp_path / name).write_bytes(data)
    places: dict[int, str] = {}
    announced = asyncio.Event()

    def announce(port: int, url: str) -> None:
        places[port] = url
        if port == PORT:
            announced.set()

    around = Surroundings(env={}, elsewhere=Elsewhere(move=True, announce=announce))
    async with bare_lab() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        await server.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        yield Scene(server, tmp_path, around, places, announced)


Run = Callable[[Scene, asyncio.Event], Awaitable[object]]


async def _scheduler(scene: Scene, stop: asyncio.Event) -> object:
    return await load_program("scheduler").perform(
        scene.arguments("--no-leader-elect"), scene.around, stop
    )


async def _extender(scene: Scene, stop: asyncio.Event) -> object:
    more = (
        f"--tls-client-ca-file={scene.folder / 'ca.crt'}",
        f"--health-address=0.0.0.0:{HEALTH_PORT}",
    )
    return await load_program("extender").perform(scene.arguments(*more), scene.around, stop)


async def _dashboard(scene: Scene, stop: asyncio.Event) -> object:
    return await load_program("dashboard").perform(scene.arguments(), scene.around, stop)


async def _webhook(scene: Scene, stop: asyncio.Event) -> object:
    return await load_program("webhook").perform(
        scene.arguments(f"--ca-file={scene.folder / 'ca.crt'}"), scene.around, stop
    )


async def _operator(scene: Scene, stop: asyncio.Event) -> object:
    return await load_program("operator").perform(scene.arguments(), scene.around, stop)


async def _gc(scene: Scene, stop: asyncio.Event) -> object:
    return await load_program("gc").perform(scene.arguments(), scene.around, stop)


async def _rebalancer(scene: Scene, stop: asyncio.Event) -> object:
    arguments = scene.arguments("--no-leader-elect")
    return await load_program("rebalancer").perform(arguments, scene.around, stop)


async def _admission_check(scene: Scene, stop: asyncio.Event) -> object:
    arguments = scene.arguments("--no-leader-elect")
    return await load_program("admission-check").perform(arguments, scene.around, stop)


async def _enforcer(scene: Scene, stop: asyncio.Event) -> object:
    groups = scene.folder / "cgroup"
    groups.mkdir()
    (groups / "cgroup.controllers").write_text("cpuset cpu memory\n")
    more = (
        "--hostname=n",
        f"--cgroup-root={groups}",
        f"--sysfs={scene.folder}",
        f"--kubelet-state-dir={scene.folder}",
        f"--state-dir={scene.folder}",
    )
    return await load_program("enforcer").perform(scene.arguments(*more), scene.around, stop)


async def _exporter(scene: Scene, stop: asyncio.Event) -> object:
    words = (
        f"--kubeconfig={scene.folder / 'kubeconfig'}",
        "--hostname=n",
        f"--sysfs={scene.folder}",
        f"--kubelet-state-dir={scene.folder}",
        f"--podresources-socket=unix://{scene.folder}/none.sock",
        "--metrics-mode=httptls",
        "--metrics-ip=0.0.0.0",
        f"--metrics-port={PORT}",
        f"--metrics-certs-dir={scene.folder}",
        "--metrics-cert-file=tls.crt",
        "--metrics-key-file=tls.key",
    )
    return await load_program("exporter").perform(words, scene.around, stop)


PROGRAMS: dict[str, Run] = {
    "scheduler": _scheduler,
    "extender": _extender,
    "dashboard": _dashboard,
    "webhook": _webhook,
    "operator": _operator,
    "gc": _gc,
    "admission-check": _admission_check,
    "rebalancer": _rebalancer,
    "enforcer": _enforcer,
    "exporter": _exporter,
    **rows("SERVERS"),
}


@contextlib.asynccontextmanager
async def running(scene: Scene, program: str) -> AsyncIterator[None]:
    """Run *program* until the end of the context; it lives when this begins."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(PROGRAMS[program](scene, stop))  # type: ignore[arg-type]
        try:
            await scene.announced.wait()
            await until_ready(scene, program)
            yield
        finally:
            stop.set()


async def until_ready(scene: Scene, program: str) -> None:
    """Wait until a program answers, and says so if it has what it needs here."""
    lacks = program in (
        *("admission-check", "rebalancer", "enforcer", "exporter", "webhook", "operator"),
        *rows("SERVERS"),
    )
    path = "/livez" if lacks else "/readyz"
    await until(lambda: asked(scene, program, "GET", path, ""), lambda status: status == 200)


async def asked(scene: Scene, program: str, method: str, path: str, token: str) -> int:
    """Return the status of the answer; nothing if there is no connection."""
    url = scene.places[HEALTH_PORT if program == HEALTH else PORT]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    trust = scene.trust(known=program == "extender")
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, url + path, headers=headers, ssl=trust, allow_redirects=False
            ) as response,
        ):
            return response.status
    except aiohttp.ClientConnectorError:
        return 0


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_answers_those_whom_the_table_says(scene: Scene, program: str) -> None:
    """Nobody, somebody without rights, and somebody with all of them."""
    rows = [row for row in ROWS if row[0] in (program, HEALTH * (program == "extender"))]
    assert rows
    async with running(scene, program):
        for server, method, path, *expected in rows:
            found = [await asked(scene, server, method, path, token) for token in CALLERS]
            assert found == [int(one) for one in expected], (server, method, path)


@needs_every_annex
def test_the_table_has_all_programs_and_no_other() -> None:
    """Those with a server."""
    assert {row[0] for row in ROWS} == {*PROGRAMS, HEALTH}


async def test_the_extender_has_no_connection_for_who_shows_no_certificate(scene: Scene) -> None:
    """Whatever else he shows."""
    async with running(scene, "extender"), aiohttp.ClientSession() as session:
        for token in CALLERS:
            with pytest.raises(aiohttp.ClientError):
                await session.post(
                    f"{scene.places[PORT]}/filter",
                    ssl=scene.trust(),
                    headers={"Authorization": f"Bearer {token}"},
                )


async def test_on_loopback_a_request_must_name_the_machine(scene: Scene) -> None:
    """A page of the web could have a name of its own point to 127.0.0.1."""
    args = (f"--kubeconfig={scene.folder / 'kubeconfig'}", f"--bind-address=127.0.0.1:{PORT}")
    stop = asyncio.Event()
    words = (*args, "--no-leader-elect")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load_program("scheduler").perform(words, scene.around, stop))
        await scene.announced.wait()
        try:
            async with aiohttp.ClientSession(scene.places[PORT]) as session:
                for path in ("/configz", "/metrics", "/dashboard/", "/debug/queue"):
                    for host, status in (("evil.example", 421), ("localhost:1", 200)):
                        async with session.get(path, headers={"Host": host}) as response:
                            assert response.status == status, (path, host)
        finally:
            stop.set()

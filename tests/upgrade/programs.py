"""Programs of this version and of an older one, each in a process of its own, on one cluster."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from tests.apps.own_process import THIS, fetch

from numakube.kube import ObjectKey
from numakube.kube.subresources import request_token
from numakube.testing import until
from numakube_lab.testing import Site

OLDER = os.environ.get("NUMAKUBE_OLDER", "")
"""A virtual environment with the older version; `make upgrade` makes it."""

VERSIONS = {"this": THIS, "older": (f"{OLDER}/bin/numakube",)}


@dataclass(slots=True)
class Running:
    """A program, and what it has logged so far."""

    process: Process
    url: str = ""
    complaints: list[str] = field(default_factory=list)

    async def read(self) -> None:
        """Keep the pipe of the log empty."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            entry = json.loads(line)
            if entry["event"] == "serving":
                self.url = entry["url"]
            if entry["level"] in ("error", "critical"):
                self.complaints.append(line.decode())

    async def metrics(self) -> dict[str, float]:
        """Return its figures by name with labels."""
        status, text = await fetch(f"{self.url}/metrics")
        assert status == 200, text
        rows = re.findall(r"^([a-z_]+(?:{.*})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in rows}

    async def end(self) -> None:
        """End it as its kubelet would."""
        self.process.send_signal(signal.SIGTERM)
        assert await self.process.wait() == 0
        assert self.complaints == []


@dataclass(slots=True)
class Programs:
    """The programs of a cluster, each of one version or the other."""

    site: Site
    tasks: asyncio.TaskGroup
    exporters: dict[str, Running] = field(default_factory=dict)
    scheduler: Running | None = None
    operator: Running | None = None

    async def start(self, version: str, *words: str, account: ObjectKey | None = None) -> Running:
        """Run a program as the administrator, or as an *account*; it serves when this returns."""
        kubeconfig = self.site.kubeconfig
        if account is not None:
            kubeconfig = await kubeconfig_of(self.site, account)
        told = ("--kubeconfig", str(kubeconfig), "--log-format=json")
        process = await asyncio.create_subprocess_exec(
            *VERSIONS[version], *words, *told, stderr=PIPE
        )
        running = Running(process)
        self.tasks.create_task(running.read())
        await until(lambda: running.url)
        return running

    async def export_with(self, version: str) -> None:
        """Replace the exporters one after the other, as their DaemonSet does."""
        for node in sorted(self.site.crew.pool.kubelets):
            if node in self.exporters:
                await self.exporters[node].end()
            folder = await self.site.crew.pool.folder(node)
            sockets = self.site.crew.pool.sockets(node)
            assert sockets is not None
            self.exporters[node] = await self.start(
                *(version, "exporter", "--hostname", node, "--sysfs", str(folder / "sys")),
                *("--kubelet-state-dir", str(folder), "--metrics-port", "0"),
                *("--kubelet-config-file", str(folder / "config.yaml")),
                *("--podresources-socket", str(sockets.pod_resources)),
            )

    async def schedule_with(self, version: str) -> Running:
        """Start a scheduler beside the one that leads, and end that one."""
        successor = await self.start(
            *(version, "scheduler", "--bind-address", "127.0.0.1:0"),
            *("--leader-elect-resource-namespace", "default"),
        )
        before, self.scheduler = self.scheduler, successor
        if before is not None:
            await before.end()

        async def leads() -> bool:
            figures = await successor.metrics()
            return figures.get('leader_election_master_status{name="numakube-scheduler"}') == 1

        await until(leads)
        return successor

    async def operate_with(self, version: str, account: ObjectKey, *words: str) -> Running:
        """Replace the operator, which has the rights of its *account* and no others."""
        if self.operator is not None:
            await self.operator.end()
        self.operator = await self.start(
            *(version, "operator", "--namespace", account.namespace),
            *("--bind-address", "127.0.0.1:0", *words),
            account=account,
        )
        return self.operator

    async def end(self) -> None:
        """End all of them."""
        for running in (*self.exporters.values(), self.scheduler, self.operator):
            if running is not None and running.process.returncode is None:
                running.process.kill()
                await running.process.wait()


async def kubeconfig_of(site: Site, account: ObjectKey) -> Path:
    """Write how a service account reaches a cluster; return the file."""
    config = yaml.safe_load(site.kubeconfig.read_text())
    token = await request_token(site.client, account)
    for user in config["users"]:
        user["user"] = {"token": token.token}
    file = site.folder / f"{account.name}.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


async def command(site: Site, version: str, *words: str | Path) -> str:
    """Run a command of that version on a cluster as its administrator; return what it prints."""
    return await run(*VERSIONS[version], *words, "--kubeconfig", site.kubeconfig)


async def run(*words: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a program to its end, and return what it prints."""
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=STDOUT, env=env)
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


def both_ways() -> Sequence[tuple[tuple[str, str], ...]]:
    """Return who exports and who schedules, up to this version and back, in both orders."""
    exporters_first = (
        *(("older", "older"), ("this", "older"), ("this", "this")),
        *(("older", "this"), ("older", "older")),
    )
    return exporters_first, tuple(reversed(exporters_first))

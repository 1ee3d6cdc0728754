"""How containers that really run fare over time, by a clock that stands still."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.lab.nodes.build import Lab, plan
from tests.lab.processes.build import IMAGE

from kube_lab_server import ApiServer
from numakube.kube.catalog import CONFIG_MAPS, PODS, SECRETS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import read_log
from numakube.testing import until
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool
from numakube_lab.processes.container_output import ContainerLogs
from numakube_lab.processes.full_pod_spec import InsideAddress
from numakube_lab.processes.process_runtime import REFRESH_SECONDS, ProcessRuntime
from numakube_lab.processes.program_table import Process


@dataclass
class Stage:
    """A lab with one node whose programs are the test's own."""

    lab: Lab
    runtime: ProcessRuntime
    started: list[Process] = field(default_factory=list)

    async def create(self, name: str, program: str, **spec: Any) -> None:
        """Create a pod that runs one of the programs below."""
        container = {"name": "main", "image": IMAGE, "args": [program]} | spec.pop("container", {})
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [container], **spec},
        }
        await self.lab.client.create(PODS, document)

    async def becomes(self, name: str, holds: Callable[[Any], bool]) -> Any:
        """Wait until *holds* for the status of a pod's container; return that."""

        async def status() -> Any:
            pod = await self.lab.get(name)
            return next(iter(pod.status.container_statuses if pod.status else ()), None)

        return await until(status, holds)

    async def process(self, count: int = 1) -> Process:
        """Wait until *count* processes have started; return the last."""
        await until(lambda: len(self.started) >= count)
        return self.started[count - 1]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A lab with programs that crash, exit, listen or do not."""
    clock = ManualClock()
    started: list[Process] = []

    async def crash(process: Process) -> int:
        started.append(process)
        raise RuntimeError("out of luck")

    async def leave(process: Process) -> int:
        started.append(process)
        sys.exit(3)

    async def polite(process: Process) -> int:
        started.append(process)
        await process.stop.wait()
        return 7

    async def deaf(process: Process) -> int:
        started.append(process)
        await asyncio.Event().wait()
        return 0

    programs = {"crash": crash, "leave": leave, "polite": polite, "deaf": deaf}
    async with ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        inside = InsideAddress(host="127.0.0.1", port=1, authority=b"CA")
        runtime = ProcessRuntime(
            client,
            folder=tmp_path / "pods",
            nodes=tmp_path / "nodes",
            inside=lambda: inside,
            programs=programs,
        )
        server.state.logs.append(ContainerLogs(runtime, clock))
        async with runtime, NodePool(client, runtime=runtime) as pool:
            runtime.attach(pool)
            await pool.add(plan("n1"))
            yield Stage(Lab(server, client, clock, pool), runtime, started)


async def test_a_crash_is_restarted_ever_later(stage: Stage) -> None:
    """At once, after 10 s, after 20 s; the trace is in the log, the lab goes on."""
    await stage.create("a", "crash")
    status = await stage.becomes("a", lambda one: "back-off 10s" in _message(one))
    assert (status.restart_count, len(stage.started)) == (1, 2)
    assert status.last_state.terminated.exit_code == 1
    log = await read_log(stage.lab.client, ObjectKey("default", "a"))
    assert log.endswith("RuntimeError: out of luck\n")
    await stage.lab.clock.advance(9)
    assert len(stage.started) == 2
    await stage.lab.clock.advance(2)
    status = await stage.becomes("a", lambda one: "back-off 20s" in _message(one))
    assert (status.restart_count, len(stage.started)) == (2, 3)


async def test_exit_ends_the_container_and_not_the_lab(stage: Stage) -> None:
    """With its code."""
    await stage.create("a", "leave", restartPolicy="Never")
    pod = await stage.lab.reaches("a", "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert (terminated.exit_code, terminated.reason) == (3, "Error")


async def test_who_listens_ends_by_itself(stage: Stage) -> None:
    """Within its grace period, with its own code, and is not restarted."""
    await stage.create("a", "polite")
    process = await stage.process()
    await stage.lab.runs("a")
    container = stage.runtime.process((await stage.lab.get("a")).metadata.uid, "main")
    assert container is not None
    await stage.lab.client.delete(PODS, "a", namespace="default")
    await stage.lab.reaches("a", "")
    assert process.stop.is_set()
    assert container.run.ended is not None
    assert container.run.ended.exit_code == 7
    assert len(stage.started) == 1
    await stage.lab.settle()
    assert not process.root.exists()


async def test_who_does_not_listen_is_killed_after_the_grace_period(stage: Stage) -> None:
    """Not before."""
    await stage.create("a", "deaf", terminationGracePeriodSeconds=5)
    await stage.process()
    await stage.lab.runs("a")
    container = stage.runtime.process((await stage.lab.get("a")).metadata.uid, "main")
    assert container is not None
    await stage.lab.client.delete(PODS, "a", namespace="default")
    await stage.lab.settle()
    await stage.lab.clock.advance(4)
    assert container.is_alive
    await stage.lab.clock.advance(2)
    await stage.lab.reaches("a", "")
    assert container.run.ended is not None
    assert container.run.ended.exit_code == 137
    assert container.run.ended.finished - container.run.ended.started >= timedelta(seconds=5)


async def test_a_pod_that_is_active_for_too_long_is_ended(stage: Stage) -> None:
    """As one of a Job."""
    await stage.create("a", "polite", activeDeadlineSeconds=30, restartPolicy="Never")
    await stage.process()
    await stage.lab.runs("a")
    await stage.lab.clock.advance(31)
    pod = await stage.lab.reaches("a", "Failed")
    assert pod.status.reason == "DeadlineExceeded"


async def test_an_end_that_no_kubelet_saw_is_reported_later(stage: Stage) -> None:
    """And only then is the container started again."""
    await stage.create("a", "polite")
    process = await stage.process()
    await stage.lab.runs("a")
    await stage.lab.pool.kill("n1")
    process.stop.set()
    await stage.lab.clock.advance(60)
    assert len(stage.started) == 1
    await stage.lab.pool.start("n1")
    await stage.process(2)
    status = await stage.becomes("a", lambda one: one.restart_count == 1)
    assert status.last_state.terminated.exit_code == 7


async def test_a_sidecar_outlives_the_app_and_ends_after_it(stage: Stage) -> None:
    """Without being restarted then."""
    sidecar = {"name": "side", "image": IMAGE, "args": ["polite"], "restartPolicy": "Always"}
    spec: dict[str, Any] = {"initContainers": [sidecar], "restartPolicy": "Never"}
    await stage.create("a", "polite", **spec)
    side, main = await stage.process(1), await stage.process(2)
    await stage.lab.runs("a")
    assert not side.stop.is_set()
    main.stop.set()
    await stage.lab.reaches("a", "Failed")  # the app ends with 7
    await until(side.stop.is_set)
    assert len(stage.started) == 2


async def test_the_environment_is_put_together_as_by_a_kubelet(stage: Stage) -> None:
    """From maps, secrets, fields and resources; later variables refer to earlier ones."""
    client = stage.lab.client
    await client.create(CONFIG_MAPS, _named("settings", data={"COLOR": "red", "SIZE": "1"}))
    await client.create(SECRETS, _named("keys", stringData={"pin": "1234"}))
    container = {
        "args": ["polite", "--at=$(NODE)", "$(NONE)", "$$(NODE)"],
        "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "pin"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "BOTH", "value": "$(NODE)/$(S_COLOR)"},
        ],
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
    }
    await stage.create("a", "polite", container=container)
    process = await stage.process()
    assert process.args == ("--at=n1", "$(NONE)", "$(NODE)")
    pod = await stage.lab.runs("a")
    wanted = {"S_COLOR": "red", "S_SIZE": "1", "NODE": "n1", "PIN": "1234", "CPUS": "2"}
    assert wanted.items() <= process.env.items()
    assert process.env["BOTH"] == "n1/red"
    assert process.env["IP"] == pod.status.pod_ip
    assert process.env["HOSTNAME"] == "a"


async def test_mounted_files_follow_their_map_all_at_once(stage: Stage) -> None:
    """Within a minute; those of a sub-path do not exist for that."""
    client = stage.lab.client
    await client.create(CONFIG_MAPS, _named("settings", data={"a": "1", "b": "1"}))
    items = [{"key": "a", "path": "deep/a"}, {"key": "b", "path": "b"}]
    volumes = [{"name": "v", "configMap": {"name": "settings", "items": items}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/etc/v"}]}
    await stage.create("a", "polite", container=mounts, volumes=volumes)
    process = await stage.process()
    assert (process.root / "etc/v/deep/a").read_text() == "1"
    token = process.path("/var/run/secrets/kubernetes.io/serviceaccount/token").read_text()
    await client.update(CONFIG_MAPS, _named("settings", data={"a": "2", "b": "2"}))
    await stage.lab.clock.advance(REFRESH_SECONDS)
    await until(lambda: (process.root / "etc/v/deep/a").read_text() == "2")
    assert (process.root / "etc/v/b").read_text() == "2"
    assert sorted(path.name for path in (process.root / "etc/v").iterdir())[-2:] == ["b", "deep"]
    account = process.root / "var/run/secrets/kubernetes.io/serviceaccount"
    assert (account / "token").read_text() == token
    await stage.lab.clock.advance(3000)
    await until(lambda: (account / "token").read_text() != token)


def _named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, **fields}


def _message(status: Any) -> str:
    waiting = status.state.waiting
    return "" if waiting is None else str(waiting.message)

"""GPUs that a scheduler allotted reach the container that they were allotted to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from packages.placement.tests.enforcer.single import Node

from numakube.api.koordinator import keys
from numakube.kube.clock import JumpingClock, SystemClock
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import NriContainer, Sandbox
from numakube_placement.enforcer.device_variables import NOTHING, VISIBLE, variables_of
from numakube_placement.enforcer.nri import NriLink, NriPlugin

WHOLE = {"resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}}


def pod_wide(*minors: int) -> dict[str, str]:
    """Return the annotations of a pod that has GPUs as a whole."""
    devices = {"gpu": [{"minor": minor, **WHOLE} for minor in minors]}
    return {keys.DEVICE_ALLOCATED: json.dumps(devices)}


def by_container(**minors: tuple[int, ...]) -> dict[str, str]:
    """Return those of one whose containers have GPUs of their own."""
    containers = [
        {"name": name, "devices": {"gpu": [{"minor": one, **WHOLE} for one in some]}}
        for name, some in minors.items()
    ]
    return {
        **pod_wide(*sum(minors.values(), ())),
        keys.RESOURCE_STATUS: json.dumps({"containers": containers}),
    }


@pytest.mark.parametrize(
    ("annotations", "container", "expected"),
    [
        ({}, "app", {}),
        (pod_wide(2, 0), "app", {VISIBLE: "0,2"}),
        (by_container(app=(1,), db=(3, 2)), "app", {VISIBLE: "1"}),
        (by_container(app=(1,), db=(3, 2)), "db", {VISIBLE: "2,3"}),
        (by_container(app=(1,)), "log", {VISIBLE: NOTHING}),
        ({keys.RESOURCE_STATUS: json.dumps({"cpuset": "0-1"})}, "app", {}),
        ({keys.DEVICE_ALLOCATED: "{"}, "app", {}),
        ({keys.DEVICE_ALLOCATED: '{"gpu": [{"minor": "x"}]}'}, "app", {}),
        ({keys.DEVICE_ALLOCATED: '{"rdma": [{"minor": 1}]}'}, "app", {}),
    ],
)
def test_a_container_sees_the_gpus_that_it_was_given_and_no_others(
    annotations: Mapping[str, str], container: str, expected: dict[str, str]
) -> None:
    assert variables_of(annotations, container) == expected


@pytest.mark.parametrize("gives", [True, False])
async def test_the_runtime_is_told_before_the_container_starts_if_that_is_asked_for(
    gives: bool, tmp_path: Path
) -> None:
    """What the image says of all GPUs does not count."""
    node = Node(tmp_path)
    plugin = NriPlugin(node.enforcer, node.metrics, SystemClock(), gives_devices=gives)
    socket = tmp_path / "nri.sock"
    link = NriLink(
        plugin, node.metrics, JumpingClock(), socket=socket, name="n", index="90", rng=Random(1)
    )
    pod = Sandbox(
        id="s", uid="u", namespace="ns", name="u", annotations=by_container(app=(1,), db=(2,))
    )
    async with FakeRuntime(socket, request_seconds=60.0) as runtime:
        task = asyncio.ensure_future(link.run())
        await runtime.connected.wait()
        made: dict[str, Any] = {}
        for name in ("app", "db", "log"):
            container = NriContainer(
                id=name.ljust(64, "0"), sandbox_id="s", name=name, env=(f"{VISIBLE}=all", "A=b")
            )
            await runtime.create(pod, container)
            made[name] = runtime.containers[container.id].env
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    visible = {name: dict(one.split("=") for one in env)[VISIBLE] for name, env in made.items()}
    assert visible == (
        {"app": "1", "db": "2", "log": "void"} if gives else dict.fromkeys(made, "all")
    )
    assert all("A=b" in env for env in made.values())

"""PodResources from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from numakube.errors import KubeletUnavailable, MalformedObject
from numakube.node.podresources_client import (
    AllocatableResources,
    Devices,
    FakePodResources,
    Memory,
)

ALLOCATABLE = """{"cpu_ids": [3, 1], "devices": [{"resource_name": "example.com/nic",
 "device_ids": ["a"], "topology": {"nodes": [{"ID": 1}]}}],
 "memory": [{"memory_type": "memory", "size": 1024, "topology": {"nodes": [{"ID": 0}]}}]}"""
LIST = """{"pod_resources": [{"name": "p", "namespace": "n", "new_field": 1,
 "containers": [{"name": "c", "cpu_ids": ["5"]}]}]}"""


async def test_answers_come_from_files_at_every_call(tmp_path: Path) -> None:
    """In the JSON form of the messages; fields of newer kubelets are ignored."""
    (tmp_path / "list.json").write_text(LIST)
    (tmp_path / "get_allocatable_resources.json").write_text(ALLOCATABLE)
    fake = FakePodResources(tmp_path)
    assert await fake.allocatable() == AllocatableResources(
        cpu_ids=(1, 3),
        memory=(Memory("memory", 1024, (0,)),),
        devices=(Devices("example.com/nic", ("a",), (1,)),),
    )
    (pod,) = await fake.list_pods()
    assert (pod.namespace, pod.name, pod.containers[0].cpu_ids) == ("n", "p", (5,))
    (tmp_path / "list.json").write_text("{}")
    assert await fake.list_pods() == ()


async def test_a_missing_file_is_a_kubelet_that_is_away(tmp_path: Path) -> None:
    """One that makes no sense is an error with its name."""
    fake = FakePodResources(tmp_path)
    with pytest.raises(KubeletUnavailable, match=r"list\.json: No such file"):
        await fake.list_pods()
    (tmp_path / "list.json").write_text("{]")
    with pytest.raises(MalformedObject, match=r"list\.json: is no answer of PodResources"):
        await fake.list_pods()

"""Pods of a dump run in a lab where they ran, on what they had."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.kube.catalog import PODS
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.topology.model_report import nrt_of
from numakube_lab.dumps.cluster_dump import Dump, dump_of, plans_of
from numakube_lab.lab_cluster import Lab, LabOptions
from numakube_lab.run_folder import RunDir

MACHINE = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 2")
GPU = "vendor.example/gpu"
NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"capacity": {"cpu": "32", "memory": "64Gi", "pods": "110"}},
}


def document(name: str, cpu: int, *, node: str = "n", gpu: int = 0, **spec: Any) -> dict[str, Any]:
    """Return a pod as it is dumped."""
    amounts = {"cpu": str(cpu), "memory": "1Gi", **({GPU: str(gpu)} if gpu else {})}
    resources = {"limits": amounts, "requests": amounts}
    container = {"name": "c", "image": "app:1", "resources": resources}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "x"}
            ],
        },
        "spec": {"nodeName": node, "containers": [container], **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


def dump(came: list[dict[str, Any]], gone: tuple[str, ...], *more: dict[str, Any]) -> Dump:
    """Return a dump of one node to which pods came, of which some had gone before the last."""
    model = KubeletNode(MACHINE, settings_of(lab_configuration(MACHINE, {}), MACHINE))
    *first, last = came
    for one in first:
        assert isinstance(model.admit(convert(Pod, one)), Admitted)
    for name in gone:
        model.remove(f"uid-{name}")
    assert isinstance(model.admit(convert(Pod, last)), Admitted)
    topology = msgspec.to_builtins(nrt_of("n", model))
    there = [item for item in came if item["metadata"]["name"] not in gone]
    return dump_of([NODE, topology, *there, *more], "dump")


@contextlib.asynccontextmanager
async def lab_from(found: Dump) -> AsyncIterator[Lab]:
    """Run a lab like what was dumped."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        async with Lab(LabOptions(plans=plans_of(found, {}), pods_of=found), folder) as lab:
            yield lab


async def cpus(lab: Lab, name: str) -> str:
    """Return the CPUs of a pod."""
    pod = await lab.client.get(PODS, name, namespace="team")
    admission = lab.pool.kubelet("n").admission
    assert admission is not None
    return str(admission.model.placement(pod.metadata.uid, "c").cpus)


async def test_pods_get_what_they_had_though_others_have_gone() -> None:
    """The last one had come into a gap: it has to come earlier now. Owners are not missed."""
    came = [document("a", 4), document("b", 2, gpu=1), document("c", 4)]
    async with lab_from(dump(came, ("a",))) as lab:
        assert await cpus(lab, "c") == "1-2,17-18"
        assert await cpus(lab, "b") == "3,19"
        assert lab.info().notes == ()


async def test_what_cannot_be_had_again_is_told() -> None:
    """A gap that nobody has filled."""
    came = [document("a", 4), document("b", 2), document("c", 6)]
    async with lab_from(dump(came, ("a",))) as lab:
        first, second = lab.info().notes
        assert first == (
            "team/c on n has CPUs 1-3,17-19, memory of NUMA 0;"
            " it had CPUs 1-2,4,17-18,20, memory of NUMA 0"
        )
        assert second.startswith("team/b on n has CPUs ")


async def test_all_kinds_of_pods_come_along() -> None:
    """Those that wait, have a priority, or are numakube's own, which do not run; not the ended."""
    own = [{"name": "c", "image": "ghcr.io/x/numakube:1", "args": ["scheduler"]}]
    ended = document("ended", 1)
    ended["status"]["phase"] = "Succeeded"
    found = dump(
        [document("a", 2, priorityClassName="high", priority=7)],
        (),
        document("own", 1, containers=own),
        document("waits", 99, node="", schedulerName="nobody"),
        document("far", 1, node="elsewhere"),
        document("large", 99),
        ended,
    )
    async with lab_from(found) as lab:
        pods = {pod.metadata.name: pod for pod in (await lab.client.list(PODS)).items}
        assert set(pods) == {"a", "own", "waits", "large"}
        assert pods["a"].spec.priority == 7
        assert not pods["waits"].spec.node_name
        away, refused = lab.info().notes
        assert away == "pods of elsewhere are left out: that node was not dumped"
        assert refused.startswith("team/large is refused by n: ")
        own_pod = pods["own"]
        assert lab.runtime.process(own_pod.metadata.uid, "c") is None


async def test_placements_that_nobody_knows_are_not_said_to_be_the_same() -> None:
    """Without exact data there is nothing to compare with."""
    async with lab_from(dump_of([NODE, document("a", 2)], "dump")) as lab:
        assert lab.info().notes == (
            "what pods held is not known, and may differ: no exact data of n",
        )

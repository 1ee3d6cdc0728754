"""What a lab's node counts of its pods, as a kernel would."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.kubelet.build import admit, guaranteed, start, static_settings
from tests.kubelet.build import pod as spec

from numakube.api.pod import Pod
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups import Version
from numakube.node.usage import GroupReader, Untold
from numakube.node.usage.group_usage import GroupPlaces
from numakube.node.usage.node_memory import ZoneMemoryReader
from numakube_lab.nodes.node_use import USES_MEMORY, NodeUse

MACHINE = from_shape("2 sockets, 4 cores, smt 2, 8Gi")
MIB = 1 << 20
GROUP, APP = "kubepods.slice/pod1", "kubepods.slice/pod1/app"


@pytest.fixture(params=list(Version))
def use(tmp_path: Path, request: pytest.FixtureRequest) -> NodeUse:
    """Return the counters of an empty node, of either version."""
    root = tmp_path / "sys/fs/cgroup"
    if request.param is Version.V2:
        root.mkdir(parents=True)
        (root / "cgroup.controllers").write_text("cpuset\n")
    else:
        for name in ("cpuset", "memory", "cpu,cpuacct"):
            (root / name).mkdir(parents=True)
    return NodeUse(MACHINE, tmp_path / "sys", request.param)


def memory(tmp_path: Path, group: str) -> dict[int, int]:
    """Return the memory of a group."""
    places = GroupPlaces.below(tmp_path / "sys/fs/cgroup")
    assert places is not None
    found = GroupReader(places, untold=Untold()).memory(group)
    assert found is not None
    return dict(found.mapped)


def running(**annotations: str) -> tuple[Pod, object]:
    """Return a pod with CPUs of its own, and the kubelet that admitted it."""
    kubelet = start(MACHINE, static_settings())
    pod = spec(guaranteed("app", cpu="2", memory="1Gi"), uid="db")
    admit(kubelet, pod)
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata), kubelet


def test_programs_use_memory_near_their_cpus(use: NodeUse, tmp_path: Path) -> None:
    pod, kubelet = running()
    use.show(pod, GROUP, {APP: "app"}, kubelet)  # type: ignore[arg-type]
    found = memory(tmp_path, GROUP)
    assert sum(found.values()) == 768 * MIB
    assert found == memory(tmp_path, APP)
    assert len([size for size in found.values() if size]) == 1


def test_a_pod_can_be_told_where_its_memory_is(use: NodeUse, tmp_path: Path) -> None:
    pod, kubelet = running(**{USES_MEMORY: "0=930, 1=70,7=5,x=y,1=-4"})
    use.show(pod, GROUP, {APP: "app"}, kubelet)  # type: ignore[arg-type]
    assert memory(tmp_path, GROUP) == {0: 930 * MIB, 1: 70 * MIB}


def test_zones_have_less_while_pods_use_them(use: NodeUse, tmp_path: Path) -> None:
    pod, kubelet = running(**{USES_MEMORY: "1=1024"})
    use.show(pod, GROUP, {APP: "app"}, kubelet)  # type: ignore[arg-type]
    reader = ZoneMemoryReader(tmp_path / "sys", Untold())
    assert [zone.free for zone in reader.read()] == [8192 * MIB, 7168 * MIB]
    use.remove(pod.metadata.uid)
    assert [zone.free for zone in reader.read()] == [8192 * MIB, 8192 * MIB]

"""Virtual machines as pods: what they ask for, where they fit, and what their guests see."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.annexes import Group, points
from numakube.cli.shared.pods_in_manifests import batches_of
from numakube.errors import MalformedObject
from numakube.insight.explain import explain, manifest_subject
from numakube.insight.observations import observed, observer
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod
from numakube.values.quantity import value
from numakube_virtual_machines.explaining import with_machine
from numakube_virtual_machines.guest_cells import GuestCell, cells_of, guest_of
from numakube_virtual_machines.launcher_pod import GUEST, pod_of

MIB = 1 << 20
GIB = 1 << 30


def machine(*, cpu: Any = None, **domain: Any) -> dict[str, Any]:
    """Return a machine of 4 CPUs and 8Gi, unless told otherwise."""
    fields = {
        "cpu": cpu or {"cores": 2, "threads": 2},
        "memory": {"guest": "8Gi"},
        "devices": {"autoattachSerialConsole": False},
        **domain,
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "db", "namespace": "team"},
        "spec": {"template": {"metadata": {"labels": {"app": "db"}}, "spec": {"domain": fields}}},
    }


def compute(tree: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return what the container of the machine asks for."""
    (container,) = pod_of(tree, "vm.yaml")["spec"]["containers"]
    found: dict[str, dict[str, str]] = container["resources"]
    return found


DEDICATED = {"cores": 4, "dedicatedCpuPlacement": True}
OVERHEAD = 16 * MIB + 220 * MIB + 4 * 8 * MIB + 8 * MIB + 16 * MIB
"""Of 8Gi and 4 CPUs with graphics: page tables, processes, CPUs, the thread of disks, graphics."""


def test_a_plain_machine_asks_for_a_tenth_of_its_cpus_and_for_overhead() -> None:
    asked = compute(machine())
    assert asked["requests"]["cpu"] == "400m"
    assert value(asked["requests"]["memory"]) == 8 * GIB + OVERHEAD
    assert "memory" not in asked["limits"]
    assert asked["limits"]["devices.kubevirt.io/kvm"] == "1"


def test_dedicated_cpus_make_the_pod_guaranteed() -> None:
    asked = compute(machine(cpu=DEDICATED))
    assert asked["requests"]["cpu"] == asked["limits"]["cpu"] == "4"
    assert value(asked["limits"]["memory"]) == 8 * GIB + OVERHEAD + 100 * MIB
    assert asked["requests"]["memory"] == asked["limits"]["memory"]


EVEN = {"alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""}


@pytest.mark.parametrize(("annotations", "cpus"), [({}, 5), (EVEN, 6)])
def test_the_emulator_has_a_cpu_of_its_own(annotations: dict[str, str], cpus: int) -> None:
    tree = machine(cpu={**DEDICATED, "isolateEmulatorThread": True})
    tree["metadata"]["annotations"] = annotations
    assert compute(tree)["limits"]["cpu"] == str(cpus)


def test_hugepages_hold_the_guest_and_memory_the_overhead() -> None:
    asked = compute(
        machine(cpu=DEDICATED, memory={"guest": "8Gi", "hugepages": {"pageSize": "1Gi"}})
    )
    assert value(asked["limits"]["hugepages-1Gi"]) == 8 * GIB
    assert value(asked["limits"]["memory"]) == OVERHEAD + 100 * MIB


def test_devices_of_the_host_are_asked_for_and_lock_memory() -> None:
    devices = {
        "autoattachSerialConsole": False,
        "gpus": [{"name": "a", "deviceName": "nvidia.com/gpu"}, {"deviceName": "nvidia.com/gpu"}],
    }
    asked = compute(machine(devices=devices))
    assert asked["limits"]["nvidia.com/gpu"] == "2"
    assert value(asked["requests"]["memory"]) == 8 * GIB + OVERHEAD + GIB


def test_an_instance_is_read_like_the_machine_it_belongs_to() -> None:
    tree = machine(cpu=DEDICATED)
    instance = {**tree, "kind": "VirtualMachineInstance", "spec": tree["spec"]["template"]["spec"]}
    assert compute(instance) == compute(tree)


def test_where_a_machine_may_run_is_where_its_pod_may() -> None:
    tree = machine()
    spec = tree["spec"]["template"]["spec"]
    spec |= {"nodeSelector": {"pool": "vms"}, "schedulerName": "numakube-scheduler"}
    made = pod_of(tree, "vm.yaml")
    assert made["spec"]["nodeSelector"] == {"pool": "vms"}
    assert made["spec"]["schedulerName"] == "numakube-scheduler"
    assert made["metadata"]["labels"] == {"app": "db", "kubevirt.io": "virt-launcher"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"cpu": {"cores": 2, "isolateEmulatorThread": True}}, "isolateEmulatorThread"),
        ({"cpu": {**DEDICATED, "numa": {"guestMappingPassthrough": {}}}}, "Passthrough"),
        ({"cpu": {"cores": -1}}, "spec.domain.cpu"),
        ({"cpu": {"cores": 1000, "threads": 1000}}, "spec.domain.cpu"),
        ({"cpu": "many"}, "cpu"),
        ({"memory": {"guest": "lots"}}, "spec.domain"),
        ({"memory": {"guest": "-8Gi"}}, "spec.domain"),
        ({"resources": {"requests": {"cpu": "x"}}}, "spec.domain"),
    ],
)
def test_what_kubevirt_refuses_is_refused(change: dict[str, Any], path: str) -> None:
    with pytest.raises(MalformedObject, match=path):
        pod_of(machine(**change), "vm.yaml")


def test_an_instance_type_is_the_clusters_to_know() -> None:
    tree = machine()
    tree["spec"]["instancetype"] = {"name": "u1.large"}
    with pytest.raises(MalformedObject, match="kubectl get vmi"):
        pod_of(tree, "vm.yaml")


NAMES = ["spec", "domain", "cpu", "memory", "guest", "resources", "requests", "devices", "gpus"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(ANYTHING, st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=4))
def test_no_manifest_ends_in_a_traceback(spec: object, domain: dict[str, object]) -> None:
    for one in (spec, {"domain": domain}):
        tree = {"kind": "VirtualMachineInstance", "metadata": {"name": "x"}, "spec": one}
        with suppress(MalformedObject):
            pod_of(tree, "vm.yaml")


def test_guest_cells_follow_the_cpus_and_share_the_memory() -> None:
    zones = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1}
    assert cells_of([2, 3, 4, 1, 5], zones, 8 * GIB, 4) == (
        GuestCell(0, 2, 4 * GIB),
        GuestCell(1, 2, 4 * GIB),
    )


def test_manifests_of_machines_are_read_wherever_pods_are() -> None:
    assert {"VirtualMachine", "VirtualMachineInstance"} <= points(Group.POD_KINDS).keys()
    (batch,) = batches_of([machine(cpu=DEDICATED)], "vm.yaml")
    assert batch.title == "virtualmachine/db"
    assert batch.pod.metadata.namespace == "team"


def test_an_explanation_says_what_the_guest_sees() -> None:
    world = World()
    world.add_node("node", machine="2 sockets, 4 cores, smt 2, 32Gi, hugepages-1Gi 16")
    tree = machine(
        cpu={**DEDICATED, "isolateEmulatorThread": True, "numa": {"guestMappingPassthrough": {}}},
        memory={"guest": "8Gi", "hugepages": {"pageSize": "1Gi"}},
    )
    (batch,) = batches_of([tree], "vm.yaml")
    facts = world.facts()
    # The devices of KubeVirt come from its own plugin, which this node has not.
    subject = manifest_subject(_without_devices(batch.pod))
    engine = engine_of(facts)
    found = with_machine(explain(facts, engine, subject), engine, subject)
    assert found.chosen == "node"
    text = " ".join(found.notes)
    assert "virtual machine db: a guest of 4 CPUs and 8Gi" in text
    assert "it asks for cpu 5 and" in text
    assert "On node its guest sees cell 0 on zone " in text
    assert "with 4 CPUs and 8Gi" in text


def _without_devices(planned: Any) -> Any:
    (container,) = planned.spec.containers
    kept = {
        side: {
            name: text
            for name, text in getattr(container.resources, side).items()
            if "kubevirt" not in name
        }
        for side in ("requests", "limits")
    }
    resources = msgspec.structs.replace(container.resources, **kept)
    container = msgspec.structs.replace(container, resources=resources)
    spec = msgspec.structs.replace(planned.spec, containers=(container,))
    return msgspec.structs.replace(planned, spec=spec)


@pytest.mark.parametrize("text", ["", "4", "4 x", "-1 5", "9" * 5000 + " 1", "1 2 3", "٤ 5"])
def test_a_forged_mark_is_no_guest(text: str) -> None:
    """Whoever writes pods could write anything there."""
    planned = pod("db")
    metadata = msgspec.structs.replace(planned.metadata, annotations={GUEST: text})
    found = guest_of(msgspec.structs.replace(planned, metadata=metadata))
    assert found is None or text == "٤ 5"


def test_pods_of_running_machines_are_shown_as_such() -> None:
    world = World()
    world.add_node("node")
    plain = world.run(pod("web"), "node")
    launcher = pod("virt-launcher-db-x")
    metadata = msgspec.structs.replace(
        launcher.metadata,
        labels={"kubevirt.io": "virt-launcher"},
        annotations={"kubevirt.io/domain": "db"},
    )
    running = world.run(msgspec.structs.replace(launcher, metadata=metadata), "node")
    node = observed(world.facts(), "node")
    watcher = observer("virtual-machine")
    assert watcher.of_pod(node, running).text == "default/db"
    assert not watcher.of_pod(node, plain).is_known

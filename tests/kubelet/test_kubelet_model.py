"""What must hold on a node whatever is admitted and removed, in any order."""

from __future__ import annotations

from collections import Counter
from functools import partial

from hypothesis import given
from tests.kubelet.scenarios import nodes, pods, workloads

from numakube.api.pod import Pod
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.kubelet.kubelet_model import KubeletNode


def run(node: KubeletNode, steps: list[Pod | str]) -> bool:
    """Perform the steps of a workload; tell whether memory can be accounted for afterwards."""
    accountable = True
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            node.admit(step)
            accountable = accountable and is_accountable(node)
    node.collect_garbage()
    return accountable


def is_accountable(node: KubeletNode) -> bool:
    """Tell whether no NUMA node serves containers both alone, or in one group, and in another.

    Where one does, which some versions allow, releasing a group's memory takes what others have
    reserved on its first node. Their release then finds nothing there, and the kubelet loses it.
    """
    groups: dict[int, tuple[int, ...]] = {}
    for containers in node.memory.assignments.values() if node.memory else ():
        for blocks in containers.values():
            for block in blocks:
                for one in block.numa_nodes:
                    if groups.setdefault(one, block.numa_nodes) != block.numa_nodes:
                        return False
    return True


def fingerprint(node: KubeletNode, *, accountable: bool = True) -> object:
    """Return everything that a released pod must give back, memory only if it is *accountable*.

    Memory is summed over the machine: inside a group of nodes the kubelet releases it in another
    order than it took it.
    """
    memory: Counter[str] = Counter()
    assignments = 0
    for books in node.memory.books.values() if node.memory else ():
        assignments += books.assignments
        for kind, table in books.tables.items():
            memory[kind] += table.free
    return (
        node.cpus and (node.cpus.shared, node.cpus.assignments),
        memory if accountable else None,
        assignments,
        node.devices.assignments,
        {name: node.devices.free_by_node(name) for name in node.devices.resources()},
    )


@given(workloads())
def test_no_cpu_is_owned_by_two_pods_or_by_a_pod_and_the_shared_pool(
    case: tuple[KubeletNode, list[Pod | str]],
) -> None:
    """Exclusive means exclusive, and no CPU gets lost."""
    node, steps = case
    run(node, steps)
    if node.cpus is None:
        return
    seen = node.cpus.shared
    for sets in node.cpus.assignments.values():
        held = 0
        for cpus in sets.values():
            held |= cpus
        assert held & seen == 0
        assert held & node.cpus.reserved == 0
        seen |= held
    assert seen == node.cpus.managed


@given(workloads())
def test_no_device_is_owned_by_two_pods(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """Containers of one pod may share a device over time, pods never."""
    node, steps = case
    run(node, steps)
    owners: dict[tuple[str, str], str] = {}
    for uid, containers in node.devices.assignments.items():
        for held in containers.values():
            for resource, ids in held.items():
                for device in ids:
                    assert owners.setdefault((resource, device), uid) == uid


@given(workloads())
def test_memory_of_a_numa_node_never_exceeds_what_is_allocatable(
    case: tuple[KubeletNode, list[Pod | str]],
) -> None:
    """Free and reserved always add up to allocatable, and the blocks to what is reserved."""
    node, steps = case
    accountable = run(node, steps)
    if node.memory is None:
        return
    booked: Counter[str] = Counter()
    for books in node.memory.books.values():
        for kind, table in books.tables.items():
            assert table.free + table.reserved == table.allocatable
            assert table.free >= 0 <= table.reserved
            booked[kind] += table.reserved
    held: Counter[str] = Counter()
    for containers in node.memory.assignments.values():
        for blocks in containers.values():
            for block in blocks:
                held[block.type] += block.size_bytes
    assert +booked == +held or not accountable


@given(workloads(), pods("new"))
def test_a_released_pod_leaves_the_node_as_it_was(
    case: tuple[KubeletNode, list[Pod | str]], pod: Pod
) -> None:
    """Admit and remove, or reject, is as if nothing had happened."""
    node, steps = case
    run(node, steps)
    before = node.clone()
    accountable = run(node, [pod])
    node.remove("new")
    node.collect_garbage()
    after = fingerprint(node, accountable=accountable)
    assert after == fingerprint(before, accountable=accountable)


@given(workloads())
def test_an_empty_node_is_as_new(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """When all pods are gone, nothing of them is left."""
    node, steps = case
    before = node.clone()
    accountable = run(node, steps)
    for uid in list(node.pods):
        node.remove(uid)
    node.collect_garbage()
    after = fingerprint(node, accountable=accountable)
    assert after == fingerprint(before, accountable=accountable)
    assert not node.topology.hints


@given(workloads(), pods())
def test_tracing_and_copying_change_nothing(
    case: tuple[KubeletNode, list[Pod | str]], pod: Pod
) -> None:
    """A trace only listens, and a copy's decisions leave the original alone.

    With a trace all hints are made, without it those that the policy looks at.
    """
    node, steps = case
    run(node, steps)
    untouched = fingerprint(node)
    copy = node.clone()
    trace = AdmissionTrace()
    traced = copy.admit(pod, trace=trace)
    assert fingerprint(node) == untouched
    assert node.admit(pod) == traced
    if isinstance(traced, Rejected) and traced.reason == "TopologyAffinityError":
        last = trace.alignments[-1]
        assert last.container == traced.container
        assert not last.decision.admitted
        assert last.why


def _is_mixed(node: KubeletNode, resource: str) -> bool:
    """Tell whether some devices of *resource* have NUMA nodes, and others have none."""
    return len({bool(device.numa_nodes) for device in node.devices.devices_of(resource)}) > 1


@given(nodes(), pods())
def test_a_running_pod_is_admitted_again_with_what_it_holds(node: KubeletNode, pod: Pod) -> None:
    """After a restart of the kubelet all pods pass admission once more."""
    if node.behaviour.smt_check_before_existing and "full-pcpus-only" in node.settings.cpu_options:
        return  # up to 1.36 a full machine rejects its own running pods here
    if pod.spec.init_containers:
        return  # what init containers shared with others no longer matches their own request
    if "align-by-socket" in node.settings.cpu_options:
        return  # it may give CPUs of another NUMA node than the devices have; they no longer agree
    if any(map(partial(_is_mixed, node), node.devices.resources())):
        return  # a device without a NUMA node may be given, and then has no hints of its own
    first = node.admit(pod)
    if isinstance(first, Admitted) and node.settings.topology_scope == "container":
        again = node.admit(pod)
        assert isinstance(again, Admitted)
        assert {n: (c.cpus, c.memory, c.devices) for n, c in again.containers.items()} == {
            n: (c.cpus, c.memory, c.devices) for n, c in first.containers.items()
        }

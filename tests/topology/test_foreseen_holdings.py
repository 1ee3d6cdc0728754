"""What a tool that lists pods and reports knows of a node that reports only surprises."""

from __future__ import annotations

from dataclasses import replace

from tests.kubelet.build import start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht
from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    machine,
    of_surprises,
    pod,
    taken,
)

from numakube.topology.exact_report import Holding, MemoryCell, uid_hash
from numakube.topology.foreseen_holdings import current_view, overlap, same_state
from numakube.topology.model_from_report import report_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import CPU, MEMORY


def test_a_pod_that_has_the_memory_of_one_that_may_be_gone_counts() -> None:
    """Both do, but together they have no more than there is."""
    site = ReportedNode.make(on=machine(zones=1, gpus=0))
    site.admit(pod("gone", cpus=0.5, memory_gib=6))
    stays = pod("stays", memory_gib=6)
    site.admit(stays)
    view = view_of(of_surprises(site.report()))
    assert isinstance(view, NodeTopology)
    site.remove("gone")
    came = site.admit_as_foreseen(pod("came", memory_gib=5))
    (zone,) = current_view(view, [taken(stays), taken(came)]).zones
    (free,) = site.free
    assert zone.available == {CPU: free[CPU], MEMORY: 0}


def test_two_pods_cannot_hold_the_same_cpu_or_device() -> None:
    """One of them is gone then; the same position of another resource is another device."""
    cpus = Holding(cpus=CpuSet.parse("2-3"))
    gpu = Holding(devices={"gpu": (0, 1)})
    assert overlap(cpus, Holding(cpus=CpuSet.parse("3-4")))
    assert overlap(gpu, Holding(devices={"gpu": (1, 2)}))
    assert not overlap(cpus, gpu)
    assert not overlap(gpu, Holding(cpus=CpuSet.parse("0"), devices={"gpu": (2,), "nic": (0,)}))


def test_kubelets_are_in_the_same_state_only_if_nothing_that_counts_differs() -> None:
    """Every part of a report may decide about the next pod."""
    configured = static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    exact = report_of(start(dual_socket_ht(), configured))
    assert same_state(exact, replace(exact))
    for other in (
        replace(exact, kubernetes="1.30"),
        replace(exact, shared_cpus=CpuSet.parse("1")),
        replace(exact, memory={0: MemoryCell((0, 1), 1, {"memory": GIB})}),
        replace(exact, pods={uid_hash("p"): Holding(cpus=CpuSet.parse("1"))}),
    ):
        assert not same_state(exact, other)

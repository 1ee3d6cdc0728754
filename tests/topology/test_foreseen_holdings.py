"""What a tool that lists pods and reports knows of a node that reports only surprises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.kubelet.build import start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht, quad_numa
from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    ended,
    machine,
    of_surprises,
    pod,
    taken,
)

from numakube.kubelet.machine import Device, PciPath, tree_of
from numakube.kubelet.preferred_allocation import Preference
from numakube.topology.exact_report import (
    DeviceChoice,
    DeviceTable,
    Holding,
    MemoryCell,
    uid_hash,
)
from numakube.topology.foreseen_holdings import current_view, overlap, same_state, state_after
from numakube.topology.model_report import report_of
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
    path = PciPath("0000:18:00.0", "pci0000:15", ("0000:15:01.0",), 0)
    for other in (
        replace(exact, kubernetes="1.30"),
        replace(exact, shared_cpus=CpuSet.parse("1")),
        replace(exact, memory={0: MemoryCell((0, 1), 1, {"memory": GIB})}),
        replace(exact, pods={uid_hash("p"): Holding(cpus=CpuSet.parse("1"))}),
        replace(exact, machine=quad_numa()),
        replace(exact, settings=replace(exact.settings, topology_scope="pod")),
        replace(exact, tree=tree_of((path,))),
        replace(exact, devices={"vendor.example/gpu": DeviceTable(((0,),))}),
    ):
        assert not same_state(exact, other)


def test_only_what_pods_that_ended_held_is_free() -> None:
    """Others keep theirs; one that the report does not name held nothing of it."""
    site = ReportedNode.make(on=machine(zones=1, gpus=0))
    done, stays = pod("done", memory_gib=6), pod("stays", memory_gib=5)
    for one in (done, stays):
        site.admit(one)
    view = view_of(of_surprises(site.report()))
    assert isinstance(view, NodeTopology)
    site.remove("done")
    now = current_view(view, [ended(done), taken(stays)])
    assert now.report is not None
    assert now.report.pods.keys() == {uid_hash("stays")}
    assert tuple(zone.available for zone in now.zones) == site.free
    never_there = ended(pod("rejected"), reason="OutOfcpu")
    assert current_view(view, [never_there, taken(done), taken(stays)]) is view


def test_a_report_of_one_that_reports_every_change_is_taken_at_its_word() -> None:
    """Also if the API knows of a pod that has ended, and so is one without exact data."""
    site = ReportedNode.make(on=machine(zones=1, gpus=0))
    done = pod("done", memory_gib=6)
    site.admit(done)
    for exact in (True, False):
        site.exact = exact
        view = view_of(site.report())
        assert isinstance(view, NodeTopology)
        assert current_view(view, [ended(done)]) is view
        assert current_view(view, []) is view


@pytest.mark.parametrize(
    ("told", "alike"),
    [
        ({}, True),
        ({"functions": ("0000:18:00.0", "0000:19:00.0")}, False),
        ({"choice": DeviceChoice(Preference.PACKED, ((0, 1),))}, False),
        ({"unhealthy": (1,)}, False),
    ],
)
def test_which_of_two_devices_a_pod_has_matters_if_a_plugin_tells_them_apart(
    told: dict[str, Any], *, alike: bool
) -> None:
    """It chooses the next ones by those that are left; one that is broken is no other's equal."""
    gpus = {"vendor.example/gpu": (Device("a", (0,)), Device("b", (0,)))}
    exact = report_of(start(dual_socket_ht(), static_settings(), devices=gpus))
    tables = {name: replace(table, **told) for name, table in exact.devices.items()}
    first, second = (
        replace(exact, devices=tables, pods={uid_hash("p"): Holding(devices={name: (place,)})})
        for name in tables
        for place in (0, 1)
    )
    assert same_state(first, second) == alike


def test_nothing_follows_from_a_report_of_which_no_model_can_be_made() -> None:
    """Such as one of a version that is yet to come."""
    exact = report_of(start(dual_socket_ht(), static_settings()))
    assert state_after(exact, [], {}) == exact
    assert state_after(replace(exact, kubernetes="twelve"), [], {}) is None
    taken_twice = dict.fromkeys(("p", "q"), Holding(cpus=CpuSet.parse("1")))
    assert state_after(exact, [], taken_twice) is None

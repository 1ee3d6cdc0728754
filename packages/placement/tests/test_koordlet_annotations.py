"""What koordlet tells of a node, told by the exporter when asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.apps.exporter.build import inputs_of
from tests.kubelet.build import admit, guaranteed, start, static_settings
from tests.kubelet.build import pod as spec
from tests.sites.bare import BareOpener

from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import CpuBasicInfo
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, PodStatus
from numakube.apps.exporter.node_scan import NodeInputs
from numakube.apps.exporter.process import PROGRAM
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import ReportOptions, Trouble
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.node.sysfs_machine import write_tree
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.read_node import facts_of
from numakube_placement.koordlet_annotations import WRITTEN, KoordinatorInputs, read_cpu_info

MACHINE = from_shape("2 sockets, 2 cores, smt 2, 8Gi")


def scan(*pods: Pod, node: Mapping[str, str] | None = None) -> NodeInputs:
    """Return what a scan of a node with a static CPU Manager reads, one pod of it pinned."""
    kubelet = start(MACHINE, static_settings())
    pinned = spec(guaranteed("c", cpu="2"), uid="pinned")
    admit(kubelet, pinned)
    read = inputs_of(kubelet, {"pinned": pinned})
    known = KoordinatorInputs(pods=(pinned, *pods), node=node or {})
    return replace(read, annotations=(known,))


def bound(uid: str, cpuset: str, qos: str) -> Pod:
    """Return a pod to which a scheduler gave CPUs."""
    status = json.dumps({"cpuset": cpuset})
    return Pod(
        metadata=ObjectMeta(
            name=uid,
            namespace="default",
            uid=uid,
            labels={keys.QOS_CLASS: qos},
            annotations={keys.RESOURCE_STATUS: status},
        )
    )


def published(read: NodeInputs) -> NodeResourceTopology:
    """Return the object of a report."""
    return topology_of(read, ReportOptions(), cause=ScanCause.PERIODIC).topology("worker")


def told(read: NodeInputs) -> dict[str, object]:
    """Return koordlet's annotations of a report."""
    annotations = published(read).metadata.annotations
    return {key: json.loads(text) for key, text in annotations.items() if key in WRITTEN}


def pools(read: NodeInputs, key: str = keys.CPU_SHARED_POOLS) -> list[tuple[int, int, str]]:
    """Return a pool by socket and NUMA node."""
    entries = told(read)[key]
    assert isinstance(entries, list)
    return [(entry["socket"], entry["node"], entry.get("cpuset", "")) for entry in entries]


def test_nothing_is_told_unless_asked() -> None:
    """Without the option the report is what it was."""
    assert told(replace(scan(), annotations=())) == {}


def test_cpus_and_the_kubelets_manager_are_described() -> None:
    """In koordlet's words."""
    said = told(scan())
    topology = said[keys.CPU_TOPOLOGY]
    assert isinstance(topology, dict)
    assert topology["detail"][5] == {"id": 5, "core": 1, "socket": 0, "node": 0}
    assert len(topology["detail"]) == 8
    assert said[keys.CPU_MANAGER_POLICY] == {"policy": "static", "reservedCPUs": "0"}
    assert said[keys.CPU_BASIC_INFO] == {"hyperThreadEnabled": True}


def test_options_of_the_kubelets_manager_are_told_with_its_configuration() -> None:
    """Its policy alone may be known from elsewhere."""
    read = scan()
    options = {"full-pcpus-only": "true"}
    config = KubeletConfiguration(cpu_manager_policy="static", cpu_manager_policy_options=options)
    known = told(replace(read, kubelet=replace(read.kubelet, config=config)))
    unread = told(replace(read, kubelet=replace(read.kubelet, config=None, cpu_policy="static")))
    policy = {"policy": "static", "reservedCPUs": "0"}
    assert known[keys.CPU_MANAGER_POLICY] == {**policy, "options": options}
    assert unread[keys.CPU_MANAGER_POLICY] == policy


def test_what_the_kubelet_has_given_out_is_listed_and_in_no_pool() -> None:
    """CPUs that it reserves stay in the pools."""
    read = scan()
    assert told(read)[keys.POD_CPU_ALLOCS] == [
        {
            "namespace": "default",
            "name": "pinned",
            "uid": "pinned",
            "cpuset": "1,5",
            "managedByKubelet": True,
        }
    ]
    assert pools(read) == [(0, 0, "0,4"), (1, 1, "2-3,6-7")]


def test_nothing_given_out_is_null() -> None:
    """As koordlet writes it."""
    kubelet = start(MACHINE, KubeletSettings())
    read = replace(inputs_of(kubelet, {}), annotations=(KoordinatorInputs(),))
    assert published(read).metadata.annotations[keys.POD_CPU_ALLOCS] == "null"
    assert told(read)[keys.CPU_MANAGER_POLICY] == {"policy": "none"}


def test_pools_keep_off_bound_pods() -> None:
    """The BE pool only off those of class LSE; what the owner keeps back is in neither."""
    node = {
        keys.NODE_RESERVATION: '{"reservedCPUs": "7"}',
        keys.NODE_SYSTEM_QOS: '{"cpuset": "4", "cpusetExclusive": false}',
    }
    read = scan(bound("lsr", "2", "LSR"), bound("lse", "3", "LSE"), node=node)
    assert pools(read) == [(0, 0, "0,4"), (1, 1, "6")]
    assert pools(read, keys.BE_CPU_SHARED_POOLS) == [(0, 0, "0,4"), (1, 1, "2,6")]
    said = published(read).metadata.annotations
    assert {key: said[key] for key in node} == node


def test_a_pod_of_class_lse_without_cpus_takes_none_from_a_pool() -> None:
    """It has none before a scheduler gave it some, nor any more once it has ended."""
    waiting = bound("waiting", "", "LSE")
    ended = msgspec.structs.replace(bound("ended", "3", "LSE"), status=PodStatus(phase="Succeeded"))
    read = scan(waiting, ended)
    assert pools(read, keys.BE_CPU_SHARED_POOLS) == pools(scan(), keys.BE_CPU_SHARED_POOLS)


def test_a_reserved_number_of_cpus_is_told_as_cpus() -> None:
    """So that everybody keeps off the same ones."""
    read = scan(node={keys.NODE_RESERVATION: '{"resources": {"cpu": "1500m"}}'})
    said = told(read)[keys.NODE_RESERVATION]
    assert said == {"resources": {"cpu": "1500m"}, "reservedCPUs": "0,4"}
    assert pools(read)[0] == (0, 0, "")


def test_an_odd_annotation_is_a_problem_and_nothing_more() -> None:
    """It names the pod and the field."""
    read = scan(bound("odd", "x", "LSR"), node={keys.NODE_RESERVATION: '{"reservedCPUs": "y"}'})
    problems = topology_of(read, ReportOptions(), cause=ScanCause.PERIODIC).problems
    odd = [str(problem) for problem in problems if problem.kind is Trouble.ODD_ANNOTATION]
    assert any("pod default/odd" in one and "cpuset" in one for one in odd)
    assert any(keys.NODE_RESERVATION in one for one in odd)
    assert pools(read) == [(0, 0, "0,4"), (1, 1, "2-3,6-7")]


def test_our_own_scheduler_reads_it_too() -> None:
    """The layout, and who has CPUs that are not to be bound."""
    report = published(scan(node={keys.NODE_RESERVATION: '{"reservedCPUs": "7"}'}))
    view = view_of(report)
    assert isinstance(view, NodeTopology)
    facts = facts_of(Node(metadata=ObjectMeta(name="worker")), report, view, None)
    assert facts.cpus is not None
    assert facts.cpus.all == 0xFF
    assert CpuSet.parse("0-1,5").bits & ~facts.reserved_cpus == 0
    assert facts.zones.keys() == {0, 1}


def test_the_make_of_cpus_is_read_from_the_host(tmp_path: Path) -> None:
    """What a host does not tell is left out."""
    assert read_cpu_info(tmp_path, tmp_path) == CpuBasicInfo()
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\n\nprocessor\t: 1\n"
    )
    turbo = tmp_path / "devices/system/cpu/intel_pstate/no_turbo"
    turbo.parent.mkdir(parents=True)
    turbo.write_text("0\n")
    assert read_cpu_info(tmp_path, tmp_path) == CpuBasicInfo(
        cpu_model="Xeon", vendor_id="GenuineIntel", turbo_enabled=True
    )


@pytest.mark.timeout(120)
async def test_annotations_of_others_stay_unless_the_option_is_on(
    bare_servers: BareOpener, tmp_path: Path
) -> None:
    """A koordlet beside an exporter without the option keeps what it wrote."""
    write_tree(MACHINE, tmp_path / "sys")
    (tmp_path / "list.json").write_text("{}")
    (tmp_path / "get_allocatable_resources.json").write_text("{}")
    async with bare_servers() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        reserved = {keys.NODE_RESERVATION: '{"reservedCPUs":"7"}'}
        await server.client.create(NODES, {"metadata": {"name": "worker", "annotations": reserved}})
        theirs = {keys.CPU_TOPOLOGY: "{}", keys.NODE_SYSTEM_QOS: "{}"}
        await server.client.create(
            NODE_RESOURCE_TOPOLOGIES,
            {"metadata": {"name": "worker", "annotations": theirs}, "zones": []},
        )

        async def export(*words: str) -> dict[str, str]:
            line = (
                *("--kubeconfig", str(tmp_path / "kubeconfig"), "--hostname", "worker"),
                *("--sysfs", str(tmp_path / "sys"), "--kubelet-state-dir", ""),
                *("--podresources-socket", f"fake://{tmp_path}", "--oneshot"),
                *("--metrics-mode", "disabled", "--log-level", "error", *words),
            )
            around = Surroundings(env={})
            code = await PROGRAM.perform(line, around, asyncio.Event())
            assert code == 0
            found = await server.client.get(NODE_RESOURCE_TOPOLOGIES, "worker")
            return {key: text for key, text in found.metadata.annotations.items() if key in WRITTEN}

        assert await export() == theirs
        ours = await export("--koordinator")
        assert ours[keys.NODE_RESERVATION] == reserved[keys.NODE_RESERVATION]
        assert keys.NODE_SYSTEM_QOS not in ours
        assert json.loads(ours[keys.CPU_SHARED_POOLS])[1]["cpuset"] == "2-3,6"


def test_what_a_pod_holds_that_the_api_does_not_know_is_listed_too() -> None:
    """By its uid; its name will come."""
    read = scan()
    (known,) = read.annotations
    assert isinstance(known, KoordinatorInputs)
    unknown = replace(read, annotations=(replace(known, pods=()),))
    assert told(unknown)[keys.POD_CPU_ALLOCS] == [
        {"uid": "pinned", "cpuset": "1,5", "managedByKubelet": True}
    ]

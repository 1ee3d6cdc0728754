"""Exact data put together from what a scan reads is the kubelet's state, or there is none."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.apps.exporter.build import GIB, figures, inputs_of
from tests.apps.exporter.model_zones import model_zones
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.scenarios import workloads

from numakube.api.checkpoints import write_allocated_pods
from numakube.api.checkpoints.allocated_pods_state import entry_of
from numakube.api.codec import ResourceList
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.pod import Pod
from numakube.apps.exporter.exact_data import Inexact, exact_report
from numakube.apps.exporter.kubelet_checkpoints import (
    Checkpoints,
    read_checkpoints,
    without_dropped_devices,
)
from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.apps.exporter.zone_accounting import zones_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine, PciPath, tree_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.state_files import StateFiles, save
from numakube.node.device_plugin.device_choices import PluginChoice
from numakube.node.pci.device_links import Connected
from numakube.topology.exact_report import ExactReport, uid_hash
from numakube.topology.model_report import report_of

GPU = "vendor.example/gpu"


def exact(inputs: NodeInputs) -> ExactReport:
    """Return the report, which must be there."""
    report = exact_report(inputs)
    assert isinstance(report, ExactReport), report
    return report


def reason(inputs: NodeInputs) -> str:
    """Return why there is no report."""
    report = exact_report(inputs)
    assert isinstance(report, Inexact)
    return report.reason


def unordered(report: ExactReport) -> ExactReport:
    """Return *report* with memory blocks in an order that does not depend on the source."""
    pods = {
        uid: replace(one, memory=tuple(sorted(one.memory, key=repr)))
        for uid, one in report.pods.items()
    }
    return replace(report, pods=pods, settings=replace(report.settings, memory_reservation=None))


@settings(max_examples=40)
@given(workloads())
def test_the_report_is_the_state_of_the_model(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """PodResources, state files, configuration and sysfs together tell all that the model knows."""
    node, steps = case
    assume(node.behaviour.memory_group_rule)
    pods: dict[str, Pod] = {}
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            pods[step.metadata.uid] = step
            node.admit(step)
    assert unordered(exact(inputs_of(node, pods))) == unordered(report_of(node))


@settings(max_examples=25)
@given(workloads(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_kubelet_lists_pods_changes_nothing(
    case: tuple[KubeletNode, list[Pod | str]], random: Random
) -> None:
    """It is another one each time; a report that differs would be written again."""
    node, steps = case
    pods = {step.metadata.uid: step for step in steps if isinstance(step, Pod)}
    for one in pods.values():
        node.admit(one)
    inputs = inputs_of(node, pods)
    shuffled = list(inputs.pods)
    random.shuffle(shuffled)
    reports = (
        topology_of(one, ReportOptions(), cause=ScanCause.PERIODIC).topology("n1")
        for one in (inputs, replace(inputs, pods=tuple(shuffled)))
    )
    assert next(reports) == next(reports)


def test_the_report_says_how_devices_are_connected() -> None:
    """As far as that is known, and only then."""
    node, pods = busy_node()
    inputs = inputs_of(node, pods)
    assert not exact(inputs).tree
    path = PciPath("0000:18:00.0", "pci0000:15", ("0000:15:01.0",), 0)
    connected = Connected(tree_of((path,)), {"g0": path.address})
    report = exact(replace(inputs, connected=connected))
    assert report.tree.paths == {path.address: path}
    assert report.devices[GPU].functions == (path.address, "")


def test_zones_say_what_is_below_each_root_port() -> None:
    """For readers that know nothing of exact data; devices that are not known are left out."""
    node, pods = busy_node()
    path = PciPath("0000:18:00.0", "pci0000:15", ("0000:15:01.0",), 0)
    connected = Connected(tree_of((path,)), {"g0": path.address})
    inputs = replace(inputs_of(node, pods), connected=connected)
    report = topology_of(inputs, ReportOptions(), cause=ScanCause.PERIODIC)
    told = {
        zone.name: {attribute.name: attribute.value for attribute in zone.attributes}
        for zone in report.zones
    }
    assert told["node-0"]["topology.numakube.dev/switches"] == f"0000:15:01.0: {GPU} 1"
    assert "topology.numakube.dev/switches" not in told["node-1"]


def machine() -> Machine:
    """Two sockets with memory."""
    return from_shape("2 sockets, 4 cores, smt 2, 8Gi, hugepages-2Mi 0")


def busy_node() -> tuple[KubeletNode, dict[str, Pod]]:
    """A node on which one pod holds some of everything."""
    busy = static_settings(
        "restricted", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    node = start(machine(), busy, devices={GPU: (Device("g0", (0,)), Device("g1", (1,)))})
    one = pod(guaranteed("c", "2", "1Gi", gpu="1"))
    admit(node, one)
    return node, {"uid": one}


@pytest.mark.parametrize("policy", ["best-effort", "single-numa-node"])
def test_pods_with_resources_as_a_whole_are_in_the_report(policy: str) -> None:
    """And in the zones; the first of two is gone, which the state files do not know yet."""
    managed = static_settings(
        policy,
        topology_scope="pod",
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
        feature_gates={"PodLevelResourceManagers": True},
    )
    node = start(machine(), managed, kubernetes="1.36")
    level: ResourceList = {"cpu": "4", "memory": "3Gi"}
    pods = {
        uid: pod(guaranteed("own", "2", "1Gi"), container("shared"), uid=uid, level=level)
        for uid in ("first", "second")
    }
    for one in pods.values():
        admit(node, one)
    node.remove("first")
    read = inputs_of(node, pods)
    assert read.pods[0].cpu_ids
    assert unordered(exact(read)) == unordered(report_of(node))
    table = zones_of(read, read.pods, ReportOptions())
    assert figures(table.zones) == model_zones(node)


def test_two_pods_of_one_name_are_the_reason_for_no_report() -> None:
    """One of them is going; nobody can tell which uid is whose."""
    read = inputs_of(*busy_node())
    assert "two pods default/uid" in reason(replace(read, pods=read.pods * 2))


@pytest.mark.parametrize("whole", [True, False])
def test_a_cpu_that_the_machine_lacks_is_the_reason_for_no_report(whole: bool) -> None:
    """Whether a pod holds it as a whole or in a container."""
    read = inputs_of(*busy_node())
    (pod,) = read.pods
    (main, *others) = pod.containers
    holder = replace(main, cpu_ids=(999,))
    odd = replace(pod, cpu_ids=(999,)) if whole else replace(pod, containers=(holder, *others))
    assert "holds CPU 999, which is not there" in reason(replace(read, pods=(odd,)))


def test_a_pod_that_is_done_has_left_what_it_held() -> None:
    """The state files still name it; the next admission would release it first."""
    node, pods = busy_node()
    read = inputs_of(node, pods)
    done = replace(read, terminal=frozenset({("default", "uid")}))
    report = exact(done)
    node.remove("uid")
    assert unordered(report) == unordered(report_of(node))
    assert not report.accounts_for("uid")


def test_a_pod_without_anything_of_its_own_is_accounted_for() -> None:
    """A scheduler then knows that the node has seen it."""
    node = start(machine())
    admit(node, pod(guaranteed("c", "500m"), uid="small"))
    report = exact(inputs_of(node, {"small": pod(guaranteed("c", "500m"), uid="small")}))
    assert report.pods[uid_hash("small")].empty


def test_a_missing_state_of_the_cpu_manager_is_the_reason_for_no_report() -> None:
    """The shared pool follows from nothing else."""
    node = start(machine(), static_settings())
    admit(node, pod(guaranteed("c", "2"), uid="uid"))
    read = inputs_of(node, {"uid": pod(guaranteed("c", "2"), uid="uid")})
    assert reason(replace(read, checkpoints=replace(read.checkpoints, cpu=None))) == (
        "there is no cpu_manager_state of the static policy"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kubelet": KubeletFacts(version="v1.35.0")}, "configuration is not known"),
        ({"uids": {}}, "the uid of pod default/uid is not known"),
        ({"checkpoints": Checkpoints()}, "no kubelet_internal_checkpoint"),
    ],
)
def test_a_missing_source_is_the_reason_for_no_report(change: dict[str, object], why: str) -> None:
    """Nothing is guessed."""
    assert why in reason(replace(inputs_of(*busy_node()), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "why"), [(None, "version is not known"), ("odd", "'odd'"), ("v1.2.3", "oldest")]
)
def test_an_unknown_version_is_the_reason_for_no_report(version: str | None, why: str) -> None:
    """What a kubelet does depends on it."""
    read = inputs_of(*busy_node())
    assert why in reason(replace(read, kubelet=replace(read.kubelet, version=version)))


@pytest.mark.parametrize("version", ["v1.35.7", "1.35", "v1.35.4+k3s1", "v1.35.9-gke.1200"])
def test_the_report_names_the_release(version: str) -> None:
    """Vendors append what they like."""
    read = inputs_of(*busy_node())
    assert exact(replace(read, kubelet=replace(read.kubelet, version=version))).kubernetes == "1.35"


def test_a_policy_that_was_given_by_hand_is_in_the_report() -> None:
    """As in the attributes."""
    read = inputs_of(*busy_node())
    facts = replace(read.kubelet, topology_policy="best-effort")
    assert exact(replace(read, kubelet=facts)).settings.topology_policy == "best-effort"


def test_sysfs_without_cores_is_the_reason_for_no_report() -> None:
    """Zones can be told without cores and caches, the next decision cannot."""
    read = inputs_of(*busy_node())
    hardware = replace(read.hardware, machine=None)
    assert "does not describe the CPUs" in reason(replace(read, hardware=hardware))


def test_state_files_of_another_moment_are_the_reason_for_no_report() -> None:
    """A pod that was admitted between reading the files and the list would be free and used."""
    node, pods = busy_node()
    before = read_checkpoints(save(start(node.machine, node.settings)))
    assert "disagree on pod default/uid" in reason(
        replace(inputs_of(node, pods), checkpoints=before)
    )


def test_devices_that_the_kubelet_took_from_a_pod_are_free_though_its_file_has_them() -> None:
    """A pod that is rejected after a restart is listed without them until its containers end."""
    machine = replace(from_shape("2 sockets, 4 cores, 8Gi"), devices={})
    gpus = {GPU: (Device("g0", (0,)), Device("g1", (1,)))}
    node = start(machine, static_settings(), devices=gpus)
    one = pod(guaranteed("main", gpu="1"), init=(guaranteed("first", gpu="2"),))
    admit(node, one)
    read = inputs_of(node, {"uid": one})
    (listed,) = read.pods
    assert without_dropped_devices(read.checkpoints, {"uid": listed}) is read.checkpoints

    bare = replace(listed, containers=tuple(replace(c, devices=()) for c in listed.containers))
    checkpoints = without_dropped_devices(read.checkpoints, {"uid": bare})

    holding = exact(replace(read, pods=(bare,), checkpoints=checkpoints)).holding("uid")
    assert holding is not None
    assert (len(holding.cpus), holding.devices) == (1, {})


def test_hugepages_reserved_after_the_kubelet_started_are_the_reason_for_no_report() -> None:
    """The kubelet goes on with what it read at its start; the model would take the new sizes."""
    read = inputs_of(*busy_node())
    assert read.hardware.machine is not None
    first, *others = read.hardware.machine.nodes
    grown = replace(read.hardware.machine, nodes=(replace(first, memory_bytes=9 * GIB), *others))
    hardware = replace(read.hardware, machine=grown)
    assert "has not been restarted since" in reason(replace(read, hardware=hardware))


def test_a_configuration_that_no_kubelet_starts_with_is_the_reason_for_no_report() -> None:
    """It cannot be the running one's."""
    read = inputs_of(*busy_node())
    assert read.kubelet.config is not None
    broken = replace(
        read.kubelet, config=type(read.kubelet.config)(topology_manager_policy="always")
    )
    assert "no kubelet starts" in reason(replace(read, kubelet=broken))


@pytest.mark.parametrize("strategy", ["most-allocated", "least-allocated"])
def test_an_option_that_the_model_does_not_know_means_amounts_only(strategy: str) -> None:
    """A kubelet 1.38 with it chooses otherwise than the model would (KEP-6007)."""
    options = {"numa-allocation-strategy": strategy, "numa-score-weights": "cpu=3"}
    told = reason(_with_topology_options(options))
    assert told == (
        f"the kubelet has the option numa-allocation-strategy={strategy}, which the model, of "
        "Kubernetes 1.37, does not know"
    )


def test_a_new_option_without_effect_is_no_hindrance() -> None:
    """Weights mean nothing without a strategy; without a policy no option means anything."""
    weights = {"numa-score-weights": "cpu=3"}
    for options in ({"numa-allocation-strategy": "none", **weights}, weights):
        found = exact(_with_topology_options(options))
        assert found.settings.topology_options == {}
        assert found.kubernetes == "1.37"
    strange = {"colour": "red"}
    assert isinstance(exact_report(_with_topology_options(strange, policy="none")), ExactReport)
    assert "colour=red" in reason(_with_topology_options(strange))


def _with_topology_options(options: dict[str, str], policy: str = "single-numa-node") -> NodeInputs:
    """Return what is read of an idle node with a kubelet 1.38 that has such options."""
    inputs = inputs_of(*busy_node())
    assert inputs.kubelet.config is not None
    config = msgspec.structs.replace(inputs.kubelet.config, topology_manager_policy_options=options)
    kubelet = replace(inputs.kubelet, config=config, version="v1.38.0", topology_policy=policy)
    return replace(inputs, kubelet=kubelet)


def test_devices_of_containers_that_are_not_listed_count_without_a_cpu_manager_state() -> None:
    """The file may be missing, or of a moment at which it could not be read."""
    gpus = {GPU: (Device("g0", (0,)), Device("g1", (1,)))}
    node = start(from_shape("2 sockets, 4 cores, 8Gi"), static_settings(), devices=gpus)
    one = pod(guaranteed("main", gpu="1"), init=(guaranteed("first", gpu="2"),))
    admit(node, one)
    read = inputs_of(node, {"uid": one})
    for checkpoints in (read.checkpoints, replace(read.checkpoints, cpu=None)):
        unread = replace(read, checkpoints=checkpoints)
        zones = figures(zones_of(unread, unread.pods, ReportOptions()).zones)
        assert [zone[GPU][2] for zone in zones.values()] == [0, 0]


def test_without_the_static_policy_no_memory_is_held() -> None:
    """Whatever a kubelet lists that has been configured otherwise since."""
    read = inputs_of(*busy_node())
    assert exact(read).pods[uid_hash("uid")].memory
    assert read.kubelet.config is not None
    config = msgspec.structs.replace(
        read.kubelet.config, memory_manager_policy="None", reserved_memory=()
    )
    report = exact(replace(read, kubelet=replace(read.kubelet, config=config)))
    assert report.memory == {}
    assert report.pods[uid_hash("uid")].memory == ()
    assert report.pods[uid_hash("uid")].cpus


@pytest.mark.parametrize(("policy", "known"), [("static", False), ("none", True)])
def test_an_option_of_the_cpu_manager_that_the_model_does_not_know_counts_too(
    policy: str, *, known: bool
) -> None:
    """Unless the manager gives out nothing."""
    inputs = inputs_of(start(machine(), static_settings(cpu_policy=policy)), {})
    assert inputs.kubelet.config is not None
    options = {"prefer-quiet-cores": "true", "zigzag": "1"}
    config = msgspec.structs.replace(inputs.kubelet.config, cpu_manager_policy_options=options)
    kubelet = replace(inputs.kubelet, config=config, version="v1.38.0", topology_policy="none")
    told = exact_report(replace(inputs, kubelet=kubelet))
    if known:
        assert isinstance(told, ExactReport)
    else:
        assert isinstance(told, Inexact)
        assert "the option prefer-quiet-cores=true" in told.reason


@pytest.mark.parametrize("changed", [0, 1])
def test_every_container_of_a_pod_must_have_the_memory_that_the_state_file_says(
    changed: int,
) -> None:
    """One that agrees does not speak for the others."""
    settled = static_settings(
        "restricted", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    node = start(machine(), settled)
    one = pod(guaranteed("a", "1", "1Gi"), guaranteed("b", "1", "2Gi"))
    admit(node, one)
    read = inputs_of(node, {"uid": one})
    (listed,) = read.pods
    containers = list(listed.containers)
    (block,) = containers[changed].memory
    containers[changed] = replace(
        containers[changed], memory=(replace(block, size_bytes=block.size_bytes + GIB),)
    )
    other = replace(read, pods=(replace(listed, containers=tuple(containers)),))
    assert isinstance(exact_report(read), ExactReport)
    assert "memory_manager_state that agrees with the listed pods" in reason(other)


def test_how_a_plugin_chooses_is_told_with_the_state_files() -> None:
    """Nothing of it if no plugin told."""
    node, _ = busy_node()
    choice = PluginChoice(resource=GPU, policy="packed", groups=(("g0", "g1"),))
    assert read_checkpoints(save(node), {GPU: choice}).choices == {GPU: choice}
    assert read_checkpoints(save(node)).choices == {}


def test_devices_that_others_hold_are_kept_when_a_pod_has_lost_its_own() -> None:
    """The file has an entry for each container."""
    gpus = {GPU: (Device("g0", (0,)), Device("g1", (1,)))}
    node = start(machine(), static_settings(), devices=gpus)
    pods = {uid: pod(guaranteed("main", gpu="1"), uid=uid) for uid in ("lost", "keeps")}
    for one in pods.values():
        admit(node, one)
    read = inputs_of(node, pods)
    listed = dict(zip(pods, read.pods, strict=True))
    bare = replace(
        listed["lost"],
        containers=tuple(replace(one, devices=()) for one in listed["lost"].containers),
    )
    left = without_dropped_devices(read.checkpoints, {**listed, "lost": bare}).devices
    assert left is not None
    assert [entry.pod_uid for entry in left.pod_device_entries or ()] == ["keeps"]
    assert without_dropped_devices(Checkpoints(), listed) == Checkpoints()


def test_pods_that_the_kubelet_has_noted_are_read() -> None:
    """A file that is damaged notes none, and is a problem."""
    one = pod(guaranteed("c", "2"), uid="u-1")
    noted = write_allocated_pods({"u-1": entry_of(one)})
    assert read_checkpoints(StateFiles(allocated=noted)).allocated == {"u-1"}
    damaged = read_checkpoints(StateFiles(allocated=b"{"))
    assert damaged.allocated == frozenset()
    assert len(damaged.problems) == 1
    assert read_checkpoints(StateFiles()).problems == ()


def test_the_policy_in_force_is_that_of_the_state_file() -> None:
    """The configuration may be of the next start; without a file it is all that is known."""
    config = KubeletConfiguration(cpu_manager_policy="static", memory_manager_policy="Static")
    told = KubeletFacts(config=config)
    assert (told.running_cpu_policy, told.running_memory_policy) == ("static", "Static")
    running = replace(told, cpu_policy="none", memory_policy="None")
    assert (running.running_cpu_policy, running.running_memory_policy) == ("none", "None")
    nothing = KubeletFacts()
    assert (nothing.running_cpu_policy, nothing.running_memory_policy) == (None, None)

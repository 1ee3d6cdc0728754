"""What is wrong with kubelets, and a configuration with which they align pods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import Taint
from numakube.api.kubelet_config import (
    KubeletConfiguration,
    MemoryReservation,
    merged,
    read_kubelet_config,
    read_source,
)
from numakube.api.meta import ObjectMeta, ServerVersion
from numakube.api.nodes import CONTROL_PLANE, Node, NodeSpec
from numakube.api.yaml_text import load_yaml
from numakube.apps.deployer.kubelet_validation import (
    Form,
    KubeletAdvice,
    KubeletFinding,
    kubelet_configuration,
    state_trouble,
    validate,
    validate_host,
    written,
)
from numakube.errors import ConfigError
from numakube.insight.facts import ClusterFacts
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings, settings_of
from numakube.kubelet.state_files import StateFiles, save
from numakube.node.kubelet_files import read_host
from numakube.node.sysfs_machine import write_tree
from numakube.topology.model_report import nrt_of

GOOD = KubeletConfiguration(
    cpu_manager_policy="static",
    memory_manager_policy="Static",
    topology_manager_policy="single-numa-node",
    reserved_system_cpus="0",
    reserved_memory=(MemoryReservation(numa_node=0, limits={"memory": "600Mi"}),),
    kube_reserved={"memory": "500Mi"},
    eviction_hard={"memory.available": "100Mi"},
)
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
WIDE = "2 sockets, 4 cores, smt 2, 16Gi, 32 cxl 8Gi"


def facts(config: KubeletConfiguration | None, shape: str = SHAPE, **labels: str) -> ClusterFacts:
    """Return a cluster of one node, whose report says what machine it is."""
    machine = from_shape(shape)
    node = KubeletNode(machine, settings_of(GOOD, machine))
    return ClusterFacts(
        nodes={"n": Node(metadata=ObjectMeta(name="n", labels=labels))},
        topologies={"n": nrt_of("n", node)},
        kubelet_configs={} if config is None else {"n": config},
        version=ServerVersion(git_version="v1.35.0"),
    )


def found(config: KubeletConfiguration) -> list[tuple[str, str, str, str]]:
    """Return what is wrong with a configuration."""
    return [
        (finding.component, finding.setting, finding.expected, finding.detected)
        for finding in validate(facts(config))
    ]


def test_a_good_configuration_passes() -> None:
    """Nothing is wrong."""
    assert validate(facts(GOOD)) == []


def test_the_defaults_of_a_kubelet_align_nothing() -> None:
    """Each setting is named, with what it should be."""
    assert found(KubeletConfiguration()) == [
        ("CPU manager", "policy", "static", "none"),
        ("configuration", "CPU", "reserved some CPU cores", "no reserved CPU cores"),
        ("memory manager", "policy", "Static", "None"),
        ("configuration", "memory", "reserved memory blocks", "no reserved memory blocks"),
        ("topology manager", "policy", "single-numa-node or restricted or best-effort", "none"),
    ]


def test_reserved_memory_that_does_not_add_up_is_told() -> None:
    """The kubelet would not start again."""
    wrong = (MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),)
    (finding,) = validate(facts(msgspec.structs.replace(GOOD, reserved_memory=wrong)))
    assert finding.expected == "one that the kubelet starts with"
    assert finding.detected.startswith('the total amount "1073741824" of type "memory"')


def test_a_machine_that_crashes_the_kubelet_is_told() -> None:
    """Its NUMA nodes do not list the same page sizes."""
    (finding,) = validate(facts(GOOD, f"{SHAPE}, hugepages-1Gi 2/-"))
    assert (finding.component, finding.expected) == ("machine", "one that the kubelet can handle")
    assert finding.detected.startswith("a Guaranteed pod with hugepages-1Gi crashes the kubelet")


def test_a_machine_on_which_the_kubelet_does_not_answer_is_told() -> None:
    """Before 1.36 devices make it try every set of NUMA nodes."""
    wide = msgspec.structs.replace(
        GOOD, topology_manager_policy_options={"max-allowable-numa-nodes": "34"}
    )
    machine = from_shape("gb200-nvl4")
    node = KubeletNode(machine, settings_of(wide, machine), kubernetes="1.35")
    found_ = validate(replace(facts(wide), topologies={"n": nrt_of("n", node)}))
    assert [finding.detected.partition(":")[0] for finding in found_] == [
        "Guaranteed pods under the Static Memory Manager",
        "pods with nvidia.com/gpu",
    ]


def test_a_slow_cpu_manager_is_told() -> None:
    """It would correct CPUs too late."""
    slow = msgspec.structs.replace(GOOD, cpu_manager_reconcile_period="30s")
    assert found(slow) == [("CPU manager", "reconcile period", "in range [1s, 10s]", "30s")]


def test_a_kubelet_that_tells_nothing_is_told() -> None:
    """And nothing else is said of it."""
    assert [finding.text() for finding in validate(facts(None))] == [
        'Incorrect configuration of node "n" area "kubelet" component "configuration" setting "":'
        ' expected "any value" detected "no configuration"'
    ]


def test_devices_without_a_numa_node_are_told() -> None:
    """They would never be aligned, and nobody else says so."""
    machine = from_shape(SHAPE)
    devices = {"example.com/gpu": (Device("a"), Device("b", numa_nodes=(0,)))}
    machine = replace(machine, devices=devices)
    node = KubeletNode(machine, settings_of(GOOD, machine))
    (finding,) = validate(replace(facts(GOOD), topologies={"n": nrt_of("n", node)}))
    assert (finding.component, finding.setting) == ("device plugin", "example.com/gpu")
    assert finding.detected == "1 of 2 without"


def test_old_servers_and_clusters_without_workers_are_told() -> None:
    """The control plane does not count."""
    old = ClusterFacts(
        nodes={
            "m": Node(
                metadata=ObjectMeta(name="m", labels={CONTROL_PLANE: ""}),
                spec=NodeSpec(taints=(Taint(key=CONTROL_PLANE, effect="NoSchedule"),)),
            )
        },
        version=ServerVersion(git_version="v1.19.3"),
    )
    assert validate(old) == [
        KubeletFinding(
            area="cluster", component="API Version", expected="1.21", detected="v1.19.3"
        ),
        KubeletFinding(area="cluster", component="", expected="worker nodes", detected="none"),
    ]


def test_a_control_plane_that_takes_any_pod_is_a_worker_if_there_is_no_other() -> None:
    """On clusters of one node."""
    alone = facts(GOOD, **{CONTROL_PLANE: ""})
    assert validate(alone) == []

    tainted = msgspec.structs.replace(
        alone.nodes["n"], spec=NodeSpec(taints=(Taint(key=CONTROL_PLANE, effect="NoSchedule"),))
    )
    (finding,) = validate(replace(alone, nodes={"n": tainted}))
    assert finding.expected == "worker nodes"


@given(
    shape=st.sampled_from(
        [
            "1 socket, 4 cores, 8Gi",
            SHAPE,
            "2 sockets, 2 numa, 8 cores, smt 2, 256Gi",
            "2 sockets, 8 numa each, 2 cores, 2Gi",
            WIDE,
        ]
    ),
    policy=st.sampled_from(["single-numa-node", "restricted", "best-effort"]),
    scope=st.sampled_from(["container", "pod"]),
    cores=st.integers(1, 2),
)
def test_the_advice_is_one_that_the_kubelet_starts_with(
    shape: str, policy: str, scope: str, cores: int
) -> None:
    """And that passes the validation."""
    machine = from_shape(shape)
    advice = KubeletAdvice(policy=policy, scope=scope, reserved_cores=cores)
    config = read_kubelet_config(written(kubelet_configuration(machine, advice), Form.KUBEADM))
    node = KubeletNode(machine, settings_of(config, machine))
    assert (node.settings.topology_policy, node.settings.topology_scope) == (policy, scope)
    cluster = ClusterFacts(
        nodes={"n": Node(metadata=ObjectMeta(name="n"))},
        topologies={"n": nrt_of("n", node)},
        kubelet_configs={"n": config},
        version=ServerVersion(git_version="v1.35.0"),
    )
    assert validate(cluster) == []


def test_the_advice_keeps_whole_cores_for_the_system() -> None:
    """With all their threads."""
    document = kubelet_configuration(from_shape(SHAPE), KubeletAdvice(reserved_cores=2))
    assert document["reservedSystemCPUs"] == "0-1,8-9"


def test_the_advice_for_many_numa_nodes_leaves_memory_alone() -> None:
    """The Static Memory Manager of any kubelet would try every set of them."""
    document = kubelet_configuration(from_shape(WIDE), KubeletAdvice())
    assert document["memoryManagerPolicy"] == "None"
    assert document["topologyManagerPolicyOptions"] == {"max-allowable-numa-nodes": "34"}


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("shape", [SHAPE, WIDE])
def test_every_form_of_the_advice_says_the_same(form: Form, shape: str) -> None:
    """What is written for kubeadm, as drop-in, as flags or for OpenShift reads alike."""
    document = kubelet_configuration(from_shape(shape), KubeletAdvice(reserved_cores=2))

    text = written(document, form, pool="worker-numa")

    assert merged([read_source(text, "file")]) == merged([read_source(json.dumps(document), "d")])


def test_the_advice_for_openshift_selects_its_pool() -> None:
    """By the label that every pool of the Machine Config Operator has."""
    document = kubelet_configuration(from_shape(SHAPE), KubeletAdvice())
    found: Any = load_yaml(written(document, Form.OPENSHIFT, pool="worker-numa"), "object")

    selector = found["spec"]["machineConfigPoolSelector"]["matchLabels"]
    assert selector == {"pools.operator.machineconfiguration.openshift.io/worker-numa": ""}
    assert (found["kind"], "kind" in found["spec"]["kubeletConfig"]) == ("KubeletConfig", False)


def test_state_files_that_the_advice_does_not_go_with_are_told() -> None:
    """In the kubelet's words; a kubelet that has these settings already starts."""
    machine = from_shape(SHAPE)
    document = kubelet_configuration(machine, KubeletAdvice())
    config = merged([read_source(json.dumps(document), "document")])

    assert 'policy "static" differs from state checkpoint policy "none"' in state_trouble(
        KubeletNode(machine, KubeletSettings()), document
    )
    assert state_trouble(KubeletNode(machine, settings_of(config, machine)), document) == ""


def host(
    folder: Path, *, config: str = "", flags: str = "", state: StateFiles | None = None
) -> Path:
    """Write the files of a host with a kubelet."""
    write_tree(from_shape(SHAPE), folder / "sys")
    kubelet = folder / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    (folder / "etc/default").mkdir(parents=True)
    (kubelet / "config.yaml").write_text(config)
    (folder / "etc/default/kubelet").write_text(flags)
    if state is not None and state.cpu is not None and state.memory is not None:
        (kubelet / "cpu_manager_state").write_bytes(state.cpu)
        (kubelet / "memory_manager_state").write_bytes(state.memory)
    return folder


def test_a_host_is_validated_by_its_files(tmp_path: Path) -> None:
    """Flags of the kubelet count, and state files of another policy are told in its words."""
    machine = from_shape(SHAPE)
    advice = written(kubelet_configuration(machine, KubeletAdvice()), Form.FLAGS)
    old = save(KubeletNode(machine, KubeletSettings()))
    folder = host(tmp_path, config="cpuManagerPolicy: none\n", flags=advice, state=old)

    (finding,) = validate_host(read_host(folder), name="n")

    assert finding.component == "state files"
    assert 'configured policy "static" differs from state checkpoint policy "none"' in (
        finding.detected
    )

    for name in ("cpu_manager_state", "memory_manager_state"):
        (folder / "var/lib/kubelet" / name).unlink()
    assert validate_host(read_host(folder), name="n") == []


def test_drop_ins_that_a_unit_names_count(tmp_path: Path) -> None:
    """The folder of --config-dir, below the root that was given."""
    folder = host(tmp_path, config=written({"cpuManagerPolicy": "none"}, Form.DROP_IN))
    unit = folder / "etc/systemd/system/kubelet.service.d"
    unit.mkdir(parents=True)
    (unit / "10-kubeadm.conf").write_text(
        'Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml'
        ' --config-dir=/etc/kubelet.d"\n'
    )
    drop_ins = folder / "etc/kubelet.d"
    drop_ins.mkdir()
    document = kubelet_configuration(from_shape(SHAPE), KubeletAdvice())
    (drop_ins / "90-numa.conf").write_text(written(document, Form.DROP_IN))

    assert validate_host(read_host(folder), name="n") == []


GUIDE = (
    "KUBELET_EXTRA_ARGS=---reserved-cpus=0 --no-such-flag=3 --oom-score-adj -999"
    " --feature-gates=TopologyManager=true,NoSuchGate=true,CPUManager=false -v=2\n"
)
"""Lines that go around in guides for old kubelets."""


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (
            "1.35.2",
            {
                "TopologyManager in Kubernetes 1.35: it is known up to 1.28 only",
                "gate CPUManager in Kubernetes",
            },
        ),
        ("1.28", {"gate CPUManager is locked to true"}),
        ("", {"TopologyManager is known up to 1.28 only, and the kubelet's version is not"}),
    ],
)
def test_what_keeps_a_kubelet_from_starting_is_found_in_its_flags(
    tmp_path: Path, version: str, words: set[str]
) -> None:
    """Bad syntax, and flags and feature gates that its version does not know or has locked."""
    document = kubelet_configuration(from_shape(SHAPE), KubeletAdvice())
    folder = host(tmp_path, config=written(document, Form.DROP_IN), flags=GUIDE)
    found = validate_host(read_host(folder), name="n", kubernetes=version)
    why = [
        finding.detected
        for finding in found
        if finding.expected == "one that the kubelet starts with"
    ]
    always = {"---reserved-cpus=0: bad flag syntax", "unknown flag --no-such-flag", "NoSuchGate"}
    for word in always | words:
        assert sum(word in text for text in why) == 1, (word, why)
    assert not any("oom" in text or "999" in text or "-v" in text for text in why)


def test_the_installed_package_says_which_version_it_is(tmp_path: Path) -> None:
    """Debian's, whose list of packages is below the root that was given."""
    folder = host(tmp_path, flags="KUBELET_EXTRA_ARGS=--pod-infra-container-image=pause\n")
    status = folder / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: kubeadm\nVersion: 1.34.1-1.1\n\n"
        "Package: kubelet\nStatus: install ok installed\nVersion: 1.35.2-1.1\n\n"
        "Package: zlib\nVersion: 1.3\n"
    )
    found = validate_host(read_host(folder), name="n")
    assert found[0].detected == (
        "unknown flag --pod-infra-container-image in Kubernetes 1.35: it is known up to 1.34 only"
    )


def test_a_host_without_a_kubelet_is_told(tmp_path: Path) -> None:
    """By the folder that was given."""
    with pytest.raises(ConfigError, match="no configuration of a kubelet"):
        read_host(tmp_path)

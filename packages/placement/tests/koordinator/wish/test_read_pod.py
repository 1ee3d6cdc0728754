"""A pod's wish: what its annotations, labels and requests amount to, and what is wrong in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.placement.tests.koordinator.wishing import (
    CPU_SPEC,
    CPUS_OF_CONTAINER,
    HINT,
    JOINT,
    OF_CONTAINER,
    PRIORITY,
    QOS,
    SPEC,
    VOLCANO,
    container,
    pod,
    problems,
    wished,
)

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import CpuExclusive
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Exclusive, Strategy
from numakube_placement.koordinator.read_pod import wish_of


def test_a_pod_without_words_wishes_nothing() -> None:
    """Only a node could make it special."""
    wish = wished()
    assert wish.plain
    assert (wish.policy, wish.scope, wish.exclusive, wish.strategy) == (
        TopologyPolicy.NONE,
        None,
        None,
        None,
    )
    assert wish.requests == {"cpu": 2000, "memory": 4 << 30}


def test_the_spec_annotation_is_read_field_by_field() -> None:
    """Unknown fields are passed over."""
    wish = wished(
        annotations={
            SPEC: {
                "numaTopologyPolicy": "SingleNUMANode",
                "singleNUMANodeExclusive": "Preferred",
                "numaTopologyScope": "container",
                "numaAllocateStrategy": "DistributeEvenly",
                "knownToOthers": [1],
            }
        }
    )
    assert wish.policy is TopologyPolicy.SINGLE_NUMA_NODE
    assert wish.exclusive is Exclusive.PREFERRED
    assert wish.scope is TopologyScope.CONTAINER
    assert wish.strategy is Strategy.DISTRIBUTE_EVENLY
    assert not wish.plain


@pytest.mark.parametrize("word", ["None", "none", ""])
def test_the_policy_none_of_a_pod_is_no_policy(word: str) -> None:
    """The word None is in Koordinator's documents only."""
    assert wished(annotations={SPEC: {"numaTopologyPolicy": word}}).plain


@pytest.mark.parametrize(
    ("key", "value", "place", "said"),
    [
        (SPEC, "{", "", "not JSON"),
        (SPEC, "", "", "not JSON"),
        (SPEC, "[]", "", "expected an object, got a list"),
        (SPEC, {"numaTopologyPolicy": 1}, ".numaTopologyPolicy", "expected a string"),
        (
            SPEC,
            {"numaTopologyPolicy": "single-numa-node"},
            ".numaTopologyPolicy",
            "use one of BestEffort, Restricted, SingleNUMANode, None",
        ),
        (SPEC, {"numatopologypolicy": "Restricted"}, ".numatopologypolicy", "numaTopologyPolicy"),
        (
            SPEC,
            {"singleNUMANodeExclusive": "Yes"},
            ".singleNUMANodeExclusive",
            "unknown word 'Yes'",
        ),
        (SPEC, {"numaTopologyScope": "Pod"}, ".numaTopologyScope", "use one of container, pod"),
        (SPEC, {"numaAllocateStrategy": "x"}, ".numaAllocateStrategy", "MostAllocated"),
        (SPEC, {"ignored": True}, ".ignored", "is for single containers"),
        (SPEC, {"ignoredResources": "memory"}, ".ignoredResources", "expected a list"),
        (SPEC, {"ignoredResources": ["-"]}, ".ignoredResources", "'-': "),
        (
            SPEC,
            {"ignoredResources": ["koordinator.sh/gpu"]},
            ".ignoredResources",
            "koordinator.sh/gpu: devices that the scheduler gives out are always aligned",
        ),
        (
            OF_CONTAINER + "main",
            {"ignoredResources": ["memory"]},
            ".ignoredResources",
            "is for pods",
        ),
        (CPU_SPEC, {"requiredCPUBindPolicy": "Full"}, ".requiredCPUBindPolicy", "FullPCPUs"),
        (CPU_SPEC, {"preferredCPUBindPolicy": "Full"}, ".preferredCPUBindPolicy", "SpreadByPCPUs"),
        (
            CPU_SPEC,
            {"preferredCPUExclusivePolicy": "Core"},
            ".preferredCPUExclusivePolicy",
            "PCPULevel",
        ),
        (VOLCANO, "single", "", "use one of none, best-effort, restricted, single-numa-node"),
        (OF_CONTAINER + "main", "{", "", "not JSON"),
        (OF_CONTAINER + "main", {"numaTopologyScope": "pod"}, ".numaTopologyScope", "is for pods"),
        (OF_CONTAINER + "main", {"ignored": "yes"}, ".ignored", "expected a boolean"),
        (
            OF_CONTAINER + "main",
            {"ignored": True, "numaTopologyPolicy": "Restricted"},
            ".ignored",
            "a container with a policy is not ignored",
        ),
        (OF_CONTAINER + "mian", {"ignored": True}, "", "no container 'mian': the pod has main"),
        (CPUS_OF_CONTAINER + "mian", {}, "", "no container 'mian'"),
        (JOINT, {"deviceTypes": ["gpu", "nic"]}, ".deviceTypes[1]", "unknown word 'nic'"),
        (JOINT, {"requiredScope": "SameNUMA"}, ".requiredScope", "use SamePCIe"),
        (HINT, {"rdma": {"allocateStrategy": "All"}}, "[rdma].allocateStrategy", "ApplyForAll"),
        (HINT, {"rdma": {"vfSelector": 1}}, "[rdma].vfSelector", "expected an object"),
        (HINT, {"nic": {}}, "[nic]", "use gpu, rdma, fpga"),
        (
            HINT,
            {"gpu": {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}},
            "[gpu].selector",
            "Like",
        ),
    ],
)
def test_a_mistake_is_told_with_key_and_field(key: str, value: Any, place: str, said: str) -> None:
    """One line each, as Kubernetes names fields."""
    (problem,) = problems(annotations={key: value})
    assert problem.startswith(f"metadata.annotations[{key}]{place}: ")
    assert said in problem


def test_mistakes_do_not_hide_each_other() -> None:
    """All of them are told at once."""
    found = problems(
        annotations={
            SPEC: {"numaTopologyPolicy": "a", "numaTopologyScope": "b"},
            CPU_SPEC: "{",
            OF_CONTAINER + "main": {"numaTopologyPolicy": "c"},
        }
    )
    assert len(found) == 4


def test_a_quantity_that_is_none_is_told_with_its_container() -> None:
    """The check reads files that no API server has seen."""
    (problem,) = problems(container(cpu="1"), container("second", cpu="two"))
    assert problem.startswith("spec.containers[1].resources: ")


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("none", TopologyPolicy.NONE),
        ("best-effort", TopologyPolicy.BEST_EFFORT),
        ("restricted", TopologyPolicy.RESTRICTED),
        ("single-numa-node", TopologyPolicy.SINGLE_NUMA_NODE),
    ],
)
def test_volcanos_annotation_says_the_same_without_exclusivity(
    word: str, policy: TopologyPolicy
) -> None:
    """Volcano lets pods share NUMA nodes."""
    wish = wished(annotations={VOLCANO: word})
    assert (wish.policy, wish.exclusive) == (policy, Exclusive.NO)


def test_volcanos_annotation_gives_way_to_koordinators() -> None:
    """It counts only if the other names no policy."""
    both = {VOLCANO: "restricted", SPEC: {"numaTopologyPolicy": "BestEffort"}}
    wish = wished(annotations=both)
    assert wish.policy == TopologyPolicy.BEST_EFFORT
    only_scope = {VOLCANO: "restricted", SPEC: {"numaTopologyScope": "container"}}
    wish = wished(annotations=only_scope)
    assert (wish.policy, wish.scope) == (TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER)


@pytest.mark.parametrize(
    ("labels", "priority", "bound"),
    [
        ({}, None, False),
        ({QOS: "LSR"}, None, True),
        ({QOS: "LSE"}, None, True),
        ({QOS: "LS"}, None, False),
        ({QOS: "BE"}, None, False),
        ({QOS: "SYSTEM"}, None, False),
        ({QOS: "lsr"}, None, False),
        ({QOS: "LSR"}, 0, True),
        ({QOS: "LSR"}, 9000, True),
        ({QOS: "LSR"}, 9999, True),
        ({QOS: "LSR"}, 10000, True),
        ({QOS: "LSR"}, 7500, False),
        ({QOS: "LSR"}, 5999, False),
        ({QOS: "LSR"}, 3000, False),
        ({QOS: "LSR", PRIORITY: "koord-prod"}, 5000, True),
        ({QOS: "LSR", PRIORITY: "koord-batch"}, 9000, False),
        ({QOS: "LSR", PRIORITY: "whatever"}, 5000, False),
        ({PRIORITY: "koord-prod"}, None, False),
    ],
)
def test_cpus_are_bound_by_qos_label_and_priority_class(
    labels: dict[str, str], priority: int | None, bound: bool
) -> None:
    """The priority class is the label's, the band's, the QoS's."""
    assert wished(labels=labels, priority=priority).cpus.bound is bound


@pytest.mark.parametrize(
    ("spec", "default", "expected"),
    [
        ({}, "FullPCPUs", (True, "", "FullPCPUs")),
        ({}, "SpreadByPCPUs", (True, "", "SpreadByPCPUs")),
        ({}, "", (False, "", "")),
        ({"preferredCPUBindPolicy": "Default"}, "SpreadByPCPUs", (True, "", "SpreadByPCPUs")),
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, "", (True, "", "SpreadByPCPUs")),
        ({"requiredCPUBindPolicy": "Default"}, "FullPCPUs", (True, "FullPCPUs", "FullPCPUs")),
        ({"requiredCPUBindPolicy": "SpreadByPCPUs"}, "", (True, "SpreadByPCPUs", "")),
        ({"preferredCPUBindPolicy": "ConstrainedBurst"}, "FullPCPUs", (False, "", "")),
        ({"requiredCPUBindPolicy": "ConstrainedBurst"}, "FullPCPUs", (False, "", "")),
    ],
)
def test_how_cpus_are_picked_follows_the_words_and_the_default(
    spec: dict[str, str], default: str, expected: tuple[bool, str, str]
) -> None:
    """ConstrainedBurst binds nothing."""
    wish = wish_of(
        pod(annotations={CPU_SPEC: spec}, labels={QOS: "LSR"}), default_bind=BindPolicy(default)
    )
    assert wish.problems == ()
    assert (wish.cpus.bound, wish.cpus.required, wish.cpus.preferred) == expected


@pytest.mark.parametrize(
    ("word", "exclusive"),
    [
        ("", CpuExclusive.NONE),
        ("None", CpuExclusive.NONE),
        ("PCPULevel", CpuExclusive.PCPU_LEVEL),
        ("NUMANodeLevel", CpuExclusive.NUMA_NODE_LEVEL),
    ],
)
def test_whom_cpus_are_not_shared_with(word: str, exclusive: CpuExclusive) -> None:
    """The word None is the default."""
    spec = {"preferredCPUExclusivePolicy": word}
    assert wished(annotations={CPU_SPEC: spec}).cpus.exclusive is exclusive


def test_a_pod_of_lsr_without_cpus_is_not_bound() -> None:
    """There is nothing to bind."""
    assert not wished(container(memory="1Gi"), labels={QOS: "LSR"}).cpus.bound


def test_parts_of_cpus_of_a_bound_pod_are_a_mistake() -> None:
    """Only of those that are bound."""
    (problem,) = problems(container(cpu="2500m"), labels={QOS: "LSR"})
    assert problem.startswith("metadata.labels[koordinator.sh/qosClass]: LSR: ")
    assert "the requested CPUs must be integer, not 2500m" in problem
    assert problems(container(cpu="2500m"), labels={QOS: "LS"}) == ()


def test_with_scope_pod_only_the_sum_of_cpus_must_be_whole() -> None:
    """With scope container each must be."""
    halves = (container("one", cpu="1500m"), container("two", cpu="500m"))
    assert problems(*halves, labels={QOS: "LSR"}) == ()
    scoped = {SPEC: {"numaTopologyScope": "pod"}}
    assert problems(*halves, labels={QOS: "LSR"}, annotations=scoped) == ()
    scoped = {SPEC: {"numaTopologyScope": "container"}}
    (problem,) = problems(*halves, labels={QOS: "LSR"}, annotations=scoped)
    assert problem.endswith("not 1500m of container one")


def test_e7_resources_are_left_out_of_alignment_by_the_pod_or_for_all_pods() -> None:
    """What the pod asks for stays as it is; CPUs of its own cannot be left out."""
    spec = {"numaTopologyPolicy": "SingleNUMANode", "ignoredResources": ["memory", "cpu"]}
    wish = wished(annotations={SPEC: spec})
    assert wish.problems == ()
    assert wish.ignored_resources == {"memory", "cpu"}
    assert wish.requests == {"cpu": 2000, "memory": 4 << 30}
    everywhere = wish_of(pod(annotations={SPEC: spec}), ignored_resources=("hugepages-1Gi",))
    assert everywhere.ignored_resources == {"memory", "cpu", "hugepages-1Gi"}
    (problem,) = problems(labels={QOS: "LSR"}, annotations={SPEC: spec})
    assert problem.endswith("cpu: the pod gets CPUs of its own, which are always aligned")


def test_with_scope_container_ignored_ones_and_init_containers_may_ask_for_parts() -> None:
    """They run in a shared pool."""
    wish = wished(
        container(cpu="2"),
        container("mesh", {"cpu": "1"}, cpu="100m"),
        init=(container("setup", cpu="50m"),),
        labels={QOS: "LSR"},
        annotations={SPEC: {"numaTopologyScope": "container"}},
    )
    setup, main, mesh = wish.containers
    assert not setup.cpus.bound
    assert main.cpus.bound
    assert mesh.ignored


def test_containers_come_in_order_of_start_with_their_roles() -> None:
    """Init containers first."""
    wish = wished(
        container(cpu="2"),
        init=(
            container("setup", cpu="3"),
            {**container("log", cpu="1"), "restartPolicy": "Always"},
        ),
    )
    assert [(one.name, one.role) for one in wish.containers] == [
        ("setup", ContainerRole.INIT),
        ("log", ContainerRole.SIDECAR),
        ("main", ContainerRole.APP),
    ]
    assert wish.requests["cpu"] == 3000


def test_limits_stand_in_for_requests_and_overhead_counts_for_the_pod() -> None:
    """As in the API server."""
    wish = wished(
        {"name": "main", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
        overhead={"cpu": "250m"},
    )
    assert wish.containers[0].requests == {"cpu": 2000, "nvidia.com/gpu": 1}
    assert wish.requests == {"cpu": 2250, "nvidia.com/gpu": 1}


def test_a_container_with_other_limits_is_ignored_with_scope_container_only() -> None:
    """Such as an injected proxy."""
    wish = wished(container(cpu="2"), container("mesh", {"cpu": "2"}, cpu="100m", memory="1Gi"))
    mesh = wish.containers[1]
    assert mesh.ignored
    assert mesh.why_ignored == "its cpu limit differs from its request"
    assert mesh.ignored_under(TopologyScope.CONTAINER)
    assert not mesh.ignored_under(TopologyScope.POD)
    assert wish.requests["cpu"] == 2100


def test_a_container_without_limits_or_with_equal_ones_is_not_ignored() -> None:
    """1 and 1000m are equal."""
    wish = wished(container(cpu="2"), container("even", {"cpu": "1", "memory": "1Gi"}, cpu="1000m"))
    assert not any(one.ignored for one in wish.containers)


def test_a_policy_of_its_own_keeps_a_container_from_being_ignored() -> None:
    """And brings the default of exclusivity."""
    wish = wished(
        container("mesh", {"cpu": "2"}, cpu="1"),
        annotations={OF_CONTAINER + "mesh": {"numaTopologyPolicy": "BestEffort"}},
    )
    (mesh,) = wish.containers
    assert not mesh.ignored
    assert (mesh.policy, mesh.exclusive) == (TopologyPolicy.BEST_EFFORT, Exclusive.REQUIRED)
    assert wish.container_keys == (OF_CONTAINER + "mesh",)
    assert not wish.plain


def test_a_container_ignored_by_annotation_counts_in_neither_scope() -> None:
    """The pod's sum is without it."""
    wish = wished(
        container(cpu="2"),
        container("mesh", cpu="100m"),
        annotations={OF_CONTAINER + "mesh": {"ignored": True}},
        labels={QOS: "LSR"},
    )
    mesh = wish.containers[1]
    assert mesh.ignored_under(TopologyScope.POD)
    assert mesh.ignored_under(TopologyScope.CONTAINER)
    assert mesh.why_ignored == f"annotation {OF_CONTAINER}mesh"
    assert wish.requests == {"cpu": 2000}
    assert wish.container_keys == ()


def test_a_policy_for_a_container_does_not_go_with_scope_pod() -> None:
    """The line names the annotation."""
    key = OF_CONTAINER + "main"
    (problem,) = problems(
        annotations={
            SPEC: {"numaTopologyScope": "pod"},
            key: {"numaTopologyPolicy": "Restricted"},
        }
    )
    assert problem.startswith(f"metadata.annotations[{key}]: needs numaTopologyScope container")


def test_none_for_a_container_is_a_policy_of_its_own() -> None:
    """It exempts one container from the pod's."""
    key = OF_CONTAINER + "main"
    wish = wished(annotations={key: {"numaTopologyPolicy": "None"}})
    assert wish.containers[0].policy is TopologyPolicy.NONE


def test_none_for_a_container_with_other_limits_leaves_it_ignored() -> None:
    """Only a policy that aligns keeps a container from being ignored."""
    spec = {OF_CONTAINER + "mesh": {"numaTopologyPolicy": "None"}}
    wish = wished(container("mesh", {"cpu": "2"}, cpu="1"), annotations=spec)
    assert wish.containers[0].ignored


def test_a_container_binds_its_cpus_by_its_own_rule() -> None:
    """It replaces the pod's as a whole."""
    key = CPUS_OF_CONTAINER + "main"
    wish = wished(
        labels={QOS: "LSR"},
        annotations={
            CPU_SPEC: {"requiredCPUBindPolicy": "FullPCPUs"},
            key: {"preferredCPUBindPolicy": "SpreadByPCPUs"},
        },
    )
    assert wish.cpus.required is BindPolicy.FULL_PCPUS
    own = wish.containers[0].cpus
    assert (own.required, own.preferred) == (BindPolicy.NONE, BindPolicy.SPREAD_BY_PCPUS)
    assert wish.container_keys == (key,)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_KEYS = (SPEC, CPU_SPEC, JOINT, HINT, VOLCANO, OF_CONTAINER + "main", CPUS_OF_CONTAINER + "x")
_FIELDS = ("numaTopologyPolicy", "ignored", "requiredCPUBindPolicy", "deviceTypes", "gpu")


@given(
    st.dictionaries(
        st.sampled_from(_KEYS),
        st.text(max_size=12)
        | _JSON.map(json.dumps)
        | st.dictionaries(st.sampled_from(_FIELDS), _JSON).map(json.dumps),
    )
)
def test_no_annotation_whatsoever_raises(annotations: dict[str, str]) -> None:
    """Every mistake becomes a line that names its place."""
    wish = wish_of(pod(annotations=annotations))
    assert all(
        problem.startswith("metadata.annotations[") and "]" in problem and ": " in problem
        for problem in wish.problems
    )

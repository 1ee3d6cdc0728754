"""The whole report: attributes, annotations, fingerprints, placement, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apps.exporter.build import container, inputs, inputs_of, pod, two_zones
from tests.kubelet.build import admit, guaranteed, start, static_settings
from tests.kubelet.build import pod as spec

from numakube.api.kubelet_config import KubeletConfiguration, with_defaults
from numakube.api.meta import OwnerReference
from numakube.api.nrt import NodeResourceTopology, attribute_value
from numakube.apps.exporter.kubelet_checkpoints import read_checkpoints
from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
from numakube.apps.exporter.report import (
    ExclusiveContainer,
    exclusive_use,
    glob_matches,
    is_excluded,
    listed_pods,
    shared_pool,
    topology_of,
)
from numakube.apps.exporter.report_options import (
    ALL_PODS,
    PodPattern,
    ReferenceContainer,
    ReportOptions,
    Trouble,
)
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.errors import InvalidValue
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.state_files import StateFiles
from numakube.node.podresources_client import ContainerResources, Devices, Memory
from numakube.topology import nrt_names
from numakube.topology.topology_view import NodeTopology, Producer, view_of

SINGLE = KubeletFacts(topology_policy="single-numa-node", topology_scope="pod")


def published(read: NodeInputs, **options: object) -> NodeResourceTopology:
    """Return the object of a report."""
    report = topology_of(read, ReportOptions(**options), cause=ScanCause.PERIODIC)  # type: ignore[arg-type]
    return report.topology("worker")


def test_attributes_are_in_the_order_of_rte_and_then_ours() -> None:
    """Readers that know RTE's see nothing new; ours say what else decides on placement."""
    config = KubeletConfiguration(
        topology_manager_policy="single-numa-node",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
        cpu_manager_policy="static",
        cpu_manager_policy_options={"full-pcpus-only": "true"},
    )
    read = replace(inputs(two_zones()), kubelet=KubeletFacts(config=with_defaults(config)))
    assert [(attribute.name, attribute.value) for attribute in published(read).attributes] == [
        ("nodeTopologyPodsFingerprint", "pfp0v001ef46db3751d8e999"),
        ("nodeTopologyPodsFingerprintMethod", "with-exclusive-resources"),
        ("topology.node.k8s.io/numaplacement-metadata", "npv0v001::ve=leb89::cc=0::nn=2::bn=0"),
        ("topologyManagerScope", "container"),
        ("topologyManagerPolicy", "single-numa-node"),
        ("topologyManagerMaxNUMANodes", "8"),
        ("topologyManagerOptionPreferClosestNumaNodes", "true"),
        ("cpuManagerPolicy", "static"),
        ("cpuManagerOptionFullPcpusOnly", "true"),
        ("memoryManagerPolicy", "None"),
    ]


def test_what_is_not_known_of_the_kubelet_is_not_published() -> None:
    """An empty text that somebody gave is; RTE publishes it too."""
    assert published(inputs(two_zones()), fingerprint=False).attributes == ()
    told = replace(inputs(two_zones()), kubelet=KubeletFacts(topology_policy=""))
    found = published(told, fingerprint=False).attributes
    assert [(attribute.name, attribute.value) for attribute in found] == [
        (nrt_names.TOPOLOGY_POLICY, "")
    ]


def test_a_given_policy_wins_over_the_configuration() -> None:
    """As with RTE's options."""
    config = with_defaults(KubeletConfiguration())
    facts = KubeletFacts(topology_policy="restricted", config=config)
    read = replace(inputs(two_zones()), kubelet=facts)
    found = published(read).attributes
    assert attribute_value(found, nrt_names.TOPOLOGY_POLICY) == "restricted"
    assert attribute_value(found, nrt_names.TOPOLOGY_SCOPE) == "container"


def test_the_fingerprint_is_of_the_pods_of_its_method() -> None:
    """In an attribute, and in the annotation of old."""
    read = inputs(two_zones(), pod(container(cpus=(0,)), name="a"), pod(name="b"), cpus=range(24))
    every = topology_of(read, ReportOptions(fingerprint_method=ALL_PODS), cause=ScanCause.REACTIVE)
    some = topology_of(read, ReportOptions(), cause=ScanCause.REACTIVE)
    assert [one.name for one in every.fingerprinted] == ["a", "b"]
    assert [one.name for one in some.fingerprinted] == ["a"]
    assert every.annotations[nrt_names.FINGERPRINT_ANNOTATION] == every.fingerprints[ALL_PODS]
    value = attribute_value(some.attributes, nrt_names.FINGERPRINT)
    # The fingerprint of default/a in the reference.
    assert value == "pfp0v00173ac1f6debaedf3d"


def test_places_of_pci_functions_are_an_annotation() -> None:
    """If they were read; readers that do not know it lose nothing."""
    read = inputs(two_zones())
    assert nrt_names.PCI_ANNOTATION not in published(read).metadata.annotations
    there = replace(read, hardware=replace(read.hardware, pci="0000:00=0 0000:80=1"))
    view = view_of(published(there))
    assert isinstance(view, NodeTopology)
    assert view.pci is not None
    assert (view.pci.numa_node("0000:17:00.0"), view.pci.numa_node("0000:a1:00.0")) == (0, 1)


def test_the_cause_of_an_update_is_an_annotation() -> None:
    """And the only thing in which two reports of the same state differ."""
    read = inputs(two_zones(), cpus=range(24))
    timed = topology_of(read, ReportOptions(), cause=ScanCause.PERIODIC)
    woken = topology_of(read, ReportOptions(), cause=ScanCause.REACTIVE)
    assert timed.annotations[nrt_names.RTE_UPDATE_ANNOTATION] == "periodic"
    assert (timed.zones, timed.attributes) == (woken.zones, woken.attributes)
    changed = dict(timed.annotations.items() ^ woken.annotations.items())
    assert changed.keys() == {nrt_names.RTE_UPDATE_ANNOTATION}


def test_the_object_belongs_to_its_owner() -> None:
    """So that it goes when the node goes."""
    owner = OwnerReference(api_version="v1", kind="Node", name="worker", uid="1")
    report = topology_of(inputs(two_zones()), ReportOptions(), cause=ScanCause.PERIODIC)
    assert report.topology("worker", owner=owner).metadata.owner_references == (owner,)
    assert report.topology("worker").metadata.owner_references == ()


def test_numa_placement_tells_where_containers_are() -> None:
    """By CPU, else device, else memory; those that hold nothing are left out."""
    read = inputs(
        two_zones(),
        pod(container("a", cpus=(1, 3)), container("none"), name="p1"),
        pod(container("b", devices=[Devices("x/y", (), (0,)), Devices("x/y", ("d",), (1,))])),
        pod(container("c", memory=[Memory("memory", 1), Memory("memory", 1, (0,))]), name="p3"),
    )
    nrt = published(replace(read, kubelet=SINGLE))
    metadata = attribute_value(nrt.attributes, nrt_names.PLACEMENT_METADATA)
    assert metadata == "npv0v001::ve=leb89::cc=3::nn=2::bn=1"
    vectors = [attribute_value(zone.attributes, nrt_names.PLACEMENT_VECTOR) for zone in nrt.zones]
    assert vectors[1] is None
    assert vectors[0] is not None


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (container(cpus=(99,)), "CPU 99 is unknown"),
        (container(devices=[Devices("x/y", ("d",), (0, 1))]), "it is on NUMA nodes 0, 1"),
        (container(memory=[Memory("memory", 1, (5,))]), "NUMA node 5 is out of range"),
    ],
)
def test_numa_placement_is_whole_or_not_published(held: object, why: str) -> None:
    """A container without an entry would be taken to be on the busiest NUMA node."""
    read = replace(inputs(two_zones(), pod(held)), kubelet=SINGLE)  # type: ignore[arg-type]
    report = topology_of(read, ReportOptions(exact=False), cause=ScanCause.PERIODIC)
    assert attribute_value(report.attributes, nrt_names.PLACEMENT_METADATA) is None
    (problem,) = [
        problem for problem in report.problems if problem.kind is Trouble.UNPLACED_CONTAINER
    ]
    assert why in problem.detail


@pytest.mark.parametrize("options", [{"fingerprint": False}, {"numa_placement": False}])
def test_numa_placement_can_be_switched_off(options: dict[str, bool]) -> None:
    """It makes no sense without the fingerprint that says which containers are meant."""
    nrt = published(replace(inputs(two_zones()), kubelet=SINGLE), **options)
    assert attribute_value(nrt.attributes, nrt_names.PLACEMENT_METADATA) is None


def test_a_report_reads_back_whole() -> None:
    """Zones, configuration and exact data, as a scheduler sees them."""
    settings = static_settings(
        "restricted", memory_policy="Static", reserved_memory={0: {"memory": 1}}
    )
    machine = from_shape("2 sockets, 4 cores, smt 2, 8Gi, ids 0 8")
    node = start(machine, settings, devices={"x/y": (Device("d", (0,)),)})
    one = spec(guaranteed("c", "2", "1Gi", **{"x/y": "1"}), init=(guaranteed("i", "4"),))
    admit(node, one)
    view = view_of(published(inputs_of(node, {"uid": one}), node_name="worker"))
    assert isinstance(view, NodeTopology)
    assert (view.policy, view.scope, view.cpu_manager_policy) == (
        "restricted",
        "container",
        "static",
    )
    assert [zone.id for zone in view.zones] == [0, 8]
    # Four CPUs are gone: the init container's, of which the other one has two.
    assert sum(zone.available["cpu"] for zone in view.zones) == 1000 * (16 - 1 - 4)
    assert view.report is not None
    assert view.report.accounts_for("uid")
    assert view.problems == ()


def test_why_there_is_no_exact_data_is_told() -> None:
    """Unless nobody wants it."""
    read = inputs(two_zones())
    report = topology_of(read, ReportOptions(), cause=ScanCause.PERIODIC)
    assert [problem.kind for problem in report.problems] == [Trouble.NO_EXACT_DATA]
    why = report.annotations[nrt_names.INEXACT_ANNOTATION]
    assert str(report.problems[0]) == f"exact data is not published: {why}"
    view = view_of(report.topology("n1"))
    assert isinstance(view, NodeTopology)
    assert (view.producer, view.why_inexact) == (Producer.NUMAKUBE, why)
    assert topology_of(read, ReportOptions(exact=False), cause=ScanCause.PERIODIC).problems == ()


def test_a_damaged_state_file_is_a_problem_and_no_more() -> None:
    """Zones are then counted from the list alone."""
    files = read_checkpoints(StateFiles(cpu=b"{", memory=b"[]", devices=b"\xff"))
    read = replace(
        inputs(two_zones(), pod(container(cpus=(0,))), cpus=range(24)), checkpoints=files
    )
    report = topology_of(read, ReportOptions(exact=False), cause=ScanCause.PERIODIC)
    assert [problem.kind for problem in report.problems] == [Trouble.BAD_CHECKPOINT] * 3
    assert report.zones[0].resources[0].available == "11"


# What a report leaves out.


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("abc", "abc"),
        ("*", "abc"),
        ("*", ""),
        ("*c", "abc"),
        ("a*/b", "abc/b"),
        ("a*b*c*d*e*", "axbxcxdxe"),
        ("ab[c]", "abc"),
        ("ab[b-d]", "abc"),
        ("ab[^e-g]", "abc"),
        ("a\\*b", "a*b"),
        ("a[^a]b", "a\u263ab"),
        ("[a-\u03b6]*", "\u03b1"),
        ("a[^a]b", "a/b"),
        ("[\\-]", "-"),
        ("[x\\-]", "x"),
        ("[!a]", "!"),
        ("[.]", "."),
        ("]", "]"),
        ("a?c", "a\nc"),
    ],
)
def test_a_pattern_matches(pattern: str, text: str) -> None:
    """As Go's filepath.Match does."""
    assert glob_matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", "x"),
        ("a*", "ab/c"),
        ("*", "a/b"),
        ("a?b", "a/b"),
        ("a*b?c*x", "abxbbxdbxebxczzy"),
        ("ab[e-g]", "abc"),
        ("ab[^b-d]", "abc"),
        ("ab[d-b]", "abc"),
        ("abc", "ABC"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, text: str) -> None:
    """A slash is crossed by no wildcard, and an inverted span has no characters."""
    assert not glob_matches(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    ["[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^]", "[^bc", "a[", "\\", "a\\"],
)
def test_a_malformed_pattern_matches_nothing(pattern: str) -> None:
    """Not even itself."""
    assert not any(
        glob_matches(pattern, text) for text in ("", "a", "x", "-", "]", "^", "b", pattern)
    )


@given(st.text(alphabet="ab*?[]^-\\/", max_size=8), st.text(alphabet="ab*-]/\n", max_size=6))
def test_no_pattern_breaks_the_matching(pattern: str, text: str) -> None:
    """Whatever users write, it matches or it does not; a text escaped whole matches itself."""
    assert glob_matches(pattern, text) in (True, False)
    assert glob_matches("".join(f"\\{char}" for char in text), text)


def test_a_pod_is_excluded_if_namespace_and_name_match_one_item() -> None:
    """Not if one item matches the namespace and another the name."""
    one = pod(name="quux-bar", namespace="foo-bar")
    assert is_excluded(one, [PodPattern("foo-*", "quux-bar")])
    assert is_excluded(one, [PodPattern("*", "*")])
    assert not is_excluded(one, [PodPattern("foo-bar", "baz-*"), PodPattern("x", "quux-bar")])


def test_terminal_pods_are_not_listed() -> None:
    """Kubelets before 1.34 still list them."""
    read = inputs(two_zones(), pod(name="done"), pod(name="running"))
    done = replace(read, terminal=frozenset({("default", "done")}))
    assert [one.name for one in listed_pods(done, ReportOptions())] == ["running"]


def test_the_cpus_of_the_reference_container_are_taken_from_every_container() -> None:
    """From its own too, and from the pod's, even if its pod is excluded."""
    reference = pod(container("r", cpus=(1, 2)), name="ref", namespace="ns")
    other = replace(pod(container("c", cpus=(2, 3))), cpu_ids=(1, 2, 3))
    options = ReportOptions(
        reference_container=ReferenceContainer.parse(" ns / ref/r"),
        pod_exclude=(PodPattern("ns", "ref"),),
    )
    (left,) = listed_pods(inputs(two_zones(), other, reference), options)
    assert (left.containers[0].cpu_ids, left.cpu_ids) == ((3,), (3,))


def test_a_reference_container_that_is_not_there_has_no_cpus() -> None:
    """Nothing is taken away then."""
    pods = [pod(container("c", cpus=(2, 3)))]
    assert shared_pool(pods, ReferenceContainer("default", "pod", "other")) == frozenset()
    assert shared_pool(pods, None) == frozenset()


def test_a_reference_container_has_three_parts_or_is_empty() -> None:
    """With the words of RTE."""
    assert ReferenceContainer.parse("") is None
    with pytest.raises(InvalidValue, match='malformed ident: "a/b"'):
        ReferenceContainer.parse("a/b")


def test_a_pattern_of_many_stars_is_decided_at_once() -> None:
    """A search through all ways to spread them would not end before the time limit."""
    assert not glob_matches("*a" * 40 + "b", "a" * 253)


# Which pods have something for themselves.


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (container(cpus=(3,)), "cpu"),
        (container(memory=[Memory("memory", 0, (0,))]), "memory"),
        (container(devices=[Devices("a.b/c", ("d",), (-1, 1))]), "device"),
        (container(cpus=(3,), memory=[Memory("memory", 1, (0,))]), "cpu"),
    ],
)
def test_a_container_with_something_on_a_numa_node_makes_a_pod_exclusive(
    held: ContainerResources, reason: str
) -> None:
    """CPUs come first, then memory of whatever size, then devices."""
    found = exclusive_use(pod(container("other"), held))
    assert found is not None
    assert (found.container, found.reason) == ("c", reason)


@pytest.mark.parametrize(
    "held",
    [
        container(),
        container(memory=[Memory("memory", 1)]),
        container(memory=[Memory("memory", 1, (-1,))]),
        container(devices=[Devices("a.b/c", ("d",))]),
        container(devices=[Devices("a.b/c", ("d",), (-1,))]),
        container(devices=[Devices("a.b/c", (), (0,))]),
    ],
)
def test_what_is_nowhere_makes_no_pod_exclusive(held: ContainerResources) -> None:
    """No NUMA node, NUMA node -1, or no device at all."""
    assert exclusive_use(pod(held)) is None


def test_a_pod_with_resources_as_a_whole_is_exclusive() -> None:
    """Pod-level CPUs and memory may be listed with no container that has any."""
    shared = pod(container())
    assert exclusive_use(replace(shared, cpu_ids=(4,))) == ExclusiveContainer("", "cpu")
    memory = (Memory("memory", 1, (0,)),)
    assert exclusive_use(replace(shared, memory=memory)) == ExclusiveContainer("", "memory")

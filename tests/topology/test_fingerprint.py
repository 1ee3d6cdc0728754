"""Pod fingerprints and NUMA placements are upstream's to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelet.build import container, guaranteed, pod

from numakube.api.codec import ResourceList
from numakube.api.pod import Container, Pod
from numakube.topology.fingerprint import (
    BadPlacement,
    ContainerName,
    Placement,
    container_hash,
    decode_placement,
    encode_placement,
    fingerprint_of,
    has_exclusive_resources,
    read_numbers,
    read_placement,
    write_numbers,
    xxh64,
)

FIVE = [("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2")]
SCHEDULER = ("numaresources", "secondary-scheduler-66c9ddd46d-w2l9t")


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"ns1", 0, 0xD4F9BE77DAC1E966),
        (b"n1", 0xD4F9BE77DAC1E966, 0x6FE7D8DA4B8352C3),
        (b"ns2", 0, 0x02AB5FACA47537DE),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        # Long enough for a stripe of 32 bytes, and seven bytes more.
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_gives_the_published_values(data: bytes, seed: int, expected: int) -> None:
    """Whether or not there are whole stripes of 32 bytes."""
    assert xxh64(data, seed) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        (FIVE, "pfp0v001b92008c14168b3a6"),
        ([("default", "test-pod-0")], "pfp0v001fe53c4dbd2c5f4a0"),
        ([("namespace1", "pod1")], "pfp0v0019e0420efb37746c6"),
        ([SCHEDULER], "pfp0v001e5569d55891c3a90"),
        ([SCHEDULER, ("numaresources", "hello-completed-norestart")], "pfp0v0017f50d959ff36aeaf"),
        (
            [
                ("numaresources", "secondary-scheduler-66c9ddd46d-8tkvx"),
                ("numaresources", "hello-completed-alwaysrestart"),
            ],
            "pfp0v001dd93850006612179",
        ),
        ([], "pfp0v001ef46db3751d8e999"),
        ([("default", "a")], "pfp0v00173ac1f6debaedf3d"),
        ([("default", "a")] * 2, "pfp0v001654dcd2705309f5b"),
        ([("a", "default")], "pfp0v001388bf8a4b9bf0a18"),
        ([("", "x")], "pfp0v001eccb3ab08f12a28f"),
    ],
)
def test_fingerprints_are_those_of_upstream(pods: list[tuple[str, str]], expected: str) -> None:
    """Values from the tests of four projects and from a real cluster."""
    assert fingerprint_of(pods) == expected


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=6), st.randoms())
def test_the_order_of_pods_does_not_matter(pods: list[tuple[str, str]], rng: object) -> None:
    """And every fingerprint has 24 characters."""
    shuffled = list(pods)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fingerprint_of(shuffled) == fingerprint_of(pods)
    assert len(fingerprint_of(pods)) == 24


# Which pods hold something for themselves, by their spec.


GPU = "vendor.example/gpu"
WHOLE: ResourceList = {"cpu": "2", "memory": "1Gi"}


def burstable(**requests: str) -> Pod:
    """A pod that is not guaranteed because one container asks for nothing."""
    return pod(container("c", **requests), container("other"))


@pytest.mark.parametrize(
    ("made", "listed", "expected"),
    [
        (pod(guaranteed("c", "2")), (), True),
        # Memory makes a guaranteed pod exclusive even if its CPUs are shared.
        (pod(guaranteed("c", "500m")), (), True),
        (burstable(cpu="2", memory="1Gi"), (), False),
        (burstable(cpu="2", gpu="1"), (GPU,), True),
        (burstable(cpu="2", gpu="1"), ("vendor.example/nic",), False),
        # The plugin does not look at how many devices are asked for.
        (burstable(gpu="0"), (GPU,), True),
        (pod(container("c")), (GPU,), False),
        # Resources of the whole pod make it guaranteed; what counts is those of its containers.
        (pod(container("c", memory="0", huge="0"), level=WHOLE), (), False),
        (pod(container("c", cpu="0", memory="1"), level=WHOLE), (), True),
        (pod(container("c", cpu="0"), level=WHOLE), (), False),
        (pod(container("c", cpu="1500m"), level=WHOLE), (), False),
        (pod(container("c", cpu="1"), level=WHOLE), (), True),
    ],
)
def test_exclusive_is_what_the_plugin_calls_so(
    made: Pod, listed: tuple[str, ...], expected: bool
) -> None:
    """Devices count if the node's zones have them, the rest for guaranteed pods only."""
    assert has_exclusive_resources(made, listed) is expected


@pytest.mark.parametrize(("restart", "expected"), [(None, False), ("Always", True)])
def test_plain_init_containers_do_not_count_but_sidecars_do(
    restart: str | None, expected: bool
) -> None:
    """The kubelet does not list what an init container held."""
    init: Container = container("i", gpu="1", **({"restart": restart} if restart else {}))
    assert has_exclusive_resources(pod(container("c"), init=(init,)), (GPU,)) is expected


# NUMA placements are upstream's to the byte.


METADATA = "npv0v001::ve=leb89::cc=3::nn=2::bn=1"


def named(*places: tuple[str, int]) -> dict[ContainerName, int]:
    """Return affinities of containers ``cnt1`` of pods written ``namespace/pod``."""
    split = (pod.partition("/") for pod, _ in places)
    names = (ContainerName(namespace, pod, "cnt1") for namespace, _, pod in split)
    return dict(zip(names, (node for _, node in places), strict=True))


def test_containers_have_upstream_s_hashes() -> None:
    """XXH64 of the names with a NUL between them."""
    assert container_hash(ContainerName("", "", "")) == 11145182160106660097
    assert container_hash(ContainerName("ns", "pod", "cnt")) == 9468815510407277218


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "!"), (1, "#"), (63, "e"), (64, "f!"), (100, "fI"), (1663, "~e"), (1664, "gf!"),
        (2000, "gk3"), (40063, "~~e"), (40064, "gff!"), (1000063, "~~~e"),
    ],
)  # fmt: skip
def test_numbers_are_written_in_leb89(number: int, text: str) -> None:
    """At the ends of the ranges of each length, and between."""
    assert write_numbers([number]) == text
    assert read_numbers(text) == [number]


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_any_numbers_read_back(numbers: list[int]) -> None:
    """Without separators."""
    assert read_numbers(write_numbers(numbers)) == numbers


@pytest.mark.parametrize("text", ["&", "f", "!f", "\x00", "é"])
def test_text_that_is_not_leb89_is_told(text: str) -> None:
    """Symbols outside the alphabet, and numbers without an end."""
    assert read_numbers(text) is None


@pytest.mark.parametrize(
    ("affinities", "nodes", "tail", "vectors"),
    [
        (named(("ns1/pod1", 0), ("ns1/pod2", 0), ("ns1/pod3", 0), ("ns2/pod1", 1)), 2,
         "cc=4::nn=2::bn=0", {1: "#"}),
        (named(("ns1/pod1", 0), ("ns1/pod2", 0), ("ns2/pod1", 1), ("ns2/pod2", 1)), 2,
         "cc=4::nn=2::bn=0", {1: "!%"}),
        (named(("ns1/pod1", 0), ("ns2/pod1", 1), ("ns2/pod2", 1), ("ns2/pod3", 1)), 2,
         "cc=4::nn=2::bn=1", {0: "$"}),
        (named(("ns1/pod1", 0), ("ns1/pod2", 0), ("ns1/pod3", 0), ("ns2/pod4", 1),
               ("ns3/pod5", 2)), 4, "cc=5::nn=4::bn=0", {1: "!", 2: "'"}),
        ({}, 2, "cc=0::nn=2::bn=0", {}),
    ],
)  # fmt: skip
def test_placements_are_those_of_upstream(
    affinities: dict[ContainerName, int], nodes: int, tail: str, vectors: dict[int, str]
) -> None:
    """The busiest NUMA node, the lowest of equals, has no vector."""
    placement = encode_placement(affinities, numa_nodes=nodes)
    assert isinstance(placement, Placement)
    assert placement.metadata == f"npv0v001::ve=leb89::{tail}"
    assert placement.vectors == vectors
    assert decode_placement(placement, affinities) == affinities


def test_the_plugin_s_own_example_is_decoded() -> None:
    """Three containers on two NUMA nodes."""
    placement = read_placement(METADATA, {0: "!"})
    assert isinstance(placement, Placement)
    names = [
        ContainerName("ns-0", f"pod-{min(index, 1)}", f"container-{index}") for index in range(3)
    ]
    assert decode_placement(placement, names) == dict(zip(names, (1, 0, 1), strict=True))


NAMES = st.builds(ContainerName, st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))


@given(st.dictionaries(NAMES, st.integers(0, 7), max_size=200))
def test_any_placement_reads_back(affinities: dict[ContainerName, int]) -> None:
    """Through the texts of the attributes."""
    placement = encode_placement(affinities, numa_nodes=8)
    assert isinstance(placement, Placement)
    read = read_placement(placement.metadata, placement.vectors)
    assert read == placement
    assert decode_placement(placement, affinities) == affinities


@pytest.mark.parametrize(
    ("node", "nodes", "reason"),
    [
        (0, 0, "inconsistent NUMA node count"),
        (-1, 2, "unknown NUMA affinity not supported"),
        (-2, 2, "wrong NUMA affinity"),
        (2, 2, "wrong NUMA affinity"),
    ],
)
def test_an_affinity_that_cannot_be_is_refused(node: int, nodes: int, reason: str) -> None:
    """In upstream's words."""
    assert encode_placement(named(("a/b", node)), numa_nodes=nodes) == BadPlacement(reason)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ("", "malformed metadata"),
        ("npv0v002::ve=leb89", "malformed metadata"),
        ("npv0v001::ve", 'error while setting "ve": malformed metadata pair'),
        ("npv0v001::=1", 'error while setting "=1": missing metadata key'),
        ("npv0v001::cc=", 'error while setting "cc=": missing metadata value'),
        ("npv0v001::zz=1", 'error while setting "zz=1": unknown metadata field'),
        ("npv0v001::cc=x", 'error while setting "cc=x": error while parsing "cc=x": '),
        ("npv0v001::cc=1::nn=2::bn=0", "unsupported vector encoding"),
        ("npv0v001::ve=leb64::cc=1::nn=2::bn=0", "unsupported vector encoding"),
        ("npv0v001::ve=leb89::cc=1::nn=2", "unknown busiest node"),
        ("npv0v001::ve=leb89::cc=1::nn=2::bn=2", "inconsistent busiest node data"),
        ("npv0v001::ve=leb89::cc=1::nn=1::bn=0", "inconsistent NUMA vector data"),
        ("npv0v001::ve=leb89::cc=1::nn=3::bn=1", "corrupted NUMA vector"),
        ("npv0v001::ve=leb89::nn=3::bn=0", "inconsistent container set"),
        ("npv0v001::ve=leb89::cc=0::nn=3::bn=0", "inconsistent NUMA vector data"),
    ],
)
def test_metadata_that_make_no_sense_are_refused(metadata: str, reason: str) -> None:
    """With a vector for NUMA node 1."""
    found = read_placement(metadata, {1: "!"})
    assert isinstance(found, BadPlacement)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ({5: "!"}, "corrupted NUMA vector"),
        ({1: "é"}, "corrupted NUMA vector"),
        ({1: "("}, "corrupted NUMA vector"),
        ({1: "!", 2: "!"}, "duplicated data in multiple NUMA vectors"),
        ({1: "!!"}, "duplicated data in multiple NUMA vectors"),
    ],
)
def test_vectors_that_make_no_sense_are_refused(vectors: dict[int, str], reason: str) -> None:
    """Also symbols on which a Go reader crashes."""
    names = named(("a/a", 0), ("a/b", 0), ("a/c", 0))
    placement = Placement(containers=3, numa_nodes=4, busiest=0, vectors=vectors)
    assert decode_placement(placement, names) == BadPlacement(reason)


def test_other_containers_than_those_encoded_are_noticed_by_their_number() -> None:
    """A match of the fingerprint has to come first for the rest."""
    placement = encode_placement(named(("a/b", 0)), numa_nodes=2)
    assert isinstance(placement, Placement)
    assert decode_placement(placement, []) == BadPlacement("inconsistent container set")


@given(st.text(), st.dictionaries(st.integers(), st.text(max_size=4), max_size=3))
def test_no_text_makes_reading_fail(text: str, vectors: dict[int, str]) -> None:
    """Whatever stands in the attributes."""
    for metadata in (text, "npv0v001::" + text, "npv0v001::ve=leb89::cc=2::nn=4::bn=0"):
        placement = read_placement(metadata, vectors)
        if isinstance(placement, Placement):
            decode_placement(placement, named(("a/b", 0), ("a/c", 0)))

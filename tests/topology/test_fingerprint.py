"""Pod fingerprints are upstream's to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.xxh64 import xxh64

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

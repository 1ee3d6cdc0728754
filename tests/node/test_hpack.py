"""Headers of HTTP/2, with the examples of RFC 7541."""

from __future__ import annotations

import pytest

from numakube.node.hpack import HeaderReader, write_headers

# Appendix C.6: three responses on one connection, with Huffman's code, whose table has 256 bytes.
RESPONSES = (
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e"
    " 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7"
    " 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed"
    " 4ee5 b106 3d50 07",
)
DATE = b"Mon, 21 Oct 2013 20:13:21 GMT"
LOCATION = (b"location", b"https://www.example.com")
COOKIE = b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"


def test_the_examples_of_the_standard_are_read() -> None:
    """Static and dynamic entries, evictions, Huffman's code and plain texts."""
    reader = HeaderReader()
    assert list(reader.read(b"\x3f\xe1\x01")) == []  # the table's size becomes 256
    first, second, third = (list(reader.read(bytes.fromhex(one))) for one in RESPONSES)
    private, date = (b"cache-control", b"private"), (b"date", DATE)
    assert first == [(b":status", b"302"), private, date, LOCATION]
    assert second == [(b":status", b"307"), private, date, LOCATION]
    assert third == [
        (b":status", b"200"),
        private,
        (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT"),
        LOCATION,
        (b"content-encoding", b"gzip"),
        (b"set-cookie", COOKIE),
    ]


def test_what_is_written_is_read_back() -> None:
    """As literals, which no reader has to remember."""
    headers = [(b":path", b"/v1.PodResourcesLister/List"), (b"te", b"trailers"), (b"empty", b"")]
    assert list(HeaderReader().read(write_headers(headers))) == headers


def test_a_header_that_is_too_long_to_write_is_an_error() -> None:
    """No method has such a name."""
    with pytest.raises(ValueError, match="a header of 127 bytes"):
        write_headers([(b":path", b"/" * 127)])


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("40 0a 6b65 79", "ends early"),
        ("40", "ends early"),
        ("be", "entry 62, which does not exist"),
        ("80", "entry 0, which does not exist"),
        ("7f ff ff ff ff ff ff 01", "too large a number"),
        ("00 81 00 00", "in the middle of a character"),
        ("00 84 ff ff ff ff 00", "in the middle of a character"),
    ],
)
def test_a_block_that_makes_no_sense_is_an_error(block: str, complaint: str) -> None:
    """And never an exception of another sort."""
    with pytest.raises(ValueError, match=complaint):
        list(HeaderReader().read(bytes.fromhex(block)))

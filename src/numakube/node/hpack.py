"""HPACK, the compression of HTTP/2's headers (RFC 7541), as far as a client needs it.

Headers are written as plain literals. What a server sends may use everything: the static table, a
dynamic one, and Huffman's code, which is canonical, so the lengths of its words define it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Header = tuple[bytes, bytes]

_TABLE_BYTES: Final = 4096
_ENTRY_BYTES: Final = 32
_LONGEST_NUMBER: Final = 28
"""Bits; a header that needs larger numbers is not worth reading."""
_LONGEST_TEXT: Final = 126
"""Bytes; a longer text has a length of more than one byte, which no header of ours needs."""

# RFC 7541, appendix A: the names of the entries 1 to 61, and the values of those with a status.
_STATIC_NAMES: Final = tuple(
    b":authority :method :method :path :path :scheme :scheme :status :status :status :status"
    b" :status :status :status accept-charset accept-encoding accept-language accept-ranges accept"
    b" access-control-allow-origin age allow authorization cache-control content-disposition"
    b" content-encoding content-language content-length content-location content-range"
    b" content-type cookie date etag expect expires from host if-match if-modified-since"
    b" if-none-match if-range if-unmodified-since last-modified link location max-forwards"
    b" proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie"
    b" strict-transport-security transfer-encoding user-agent vary via www-authenticate".split()
)
_STATIC_VALUES: Final = dict(zip(range(8, 15), b"200 204 206 304 400 404 500".split(), strict=True))

# RFC 7541, appendix B: how many bits each byte takes, A for 5 to Z for 30.
_LENGTHS: Final = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHF"
    "IBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX"
    "PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRS"
    "VVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWV"
)


def _words() -> dict[tuple[int, int], int]:
    """Return the byte for each word of Huffman's code, which is its length and its bits."""
    words, code, before = {}, 0, 0
    order = sorted((ord(letter) - ord("A") + 5, byte) for byte, letter in enumerate(_LENGTHS))
    for length, group in groupby(order, key=lambda one: one[0]):
        code <<= length - before
        before = length
        for _, byte in group:
            words[length, code] = byte
            code += 1
    return words


_WORDS: Final = _words()


def write_headers(headers: Iterable[Header]) -> bytes:
    """Return a block that every reader understands: literals, none of which is remembered."""
    return b"".join(b"\0" + _short(name) + _short(value) for name, value in headers)


def _short(text: bytes) -> bytes:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"a header of {len(text)} bytes")
    return bytes((len(text),)) + text


class HeaderReader:
    """Reads the header blocks of one connection, in the order in which they arrive."""

    def __init__(self) -> None:
        self._dynamic: list[Header] = []  # the newest first
        self._limit = _TABLE_BYTES

    def read(self, block: bytes) -> Iterator[Header]:
        """Yield the headers of *block*.

        Raises:
            ValueError: it is no header block.
        """
        rest = _Rest(block)
        while rest:
            first = rest.peek()
            if first & 0x80:
                yield self._entry(rest.number(7))
            elif first & 0x40:
                header = self._literal(rest, 6)
                self._dynamic.insert(0, header)
                self._evict()
                yield header
            elif first & 0x20:
                self._limit = min(rest.number(5), _TABLE_BYTES)
                self._evict()
            else:
                yield self._literal(rest, 4)

    def _literal(self, rest: _Rest, bits: int) -> Header:
        index = rest.number(bits)
        name = self._entry(index)[0] if index else rest.text()
        return name, rest.text()

    def _entry(self, index: int) -> Header:
        if 0 < index <= len(_STATIC_NAMES):
            return _STATIC_NAMES[index - 1], _STATIC_VALUES.get(index, b"")
        place = index - len(_STATIC_NAMES) - 1
        if not 0 <= place < len(self._dynamic):
            raise ValueError(f"a header refers to entry {index}, which does not exist")
        return self._dynamic[place]

    def _evict(self) -> None:
        while sum(len(n) + len(v) + _ENTRY_BYTES for n, v in self._dynamic) > self._limit:
            self._dynamic.pop()


class _Rest:
    """What has not been read yet of a block."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._place = 0

    def __bool__(self) -> bool:
        return self._place < len(self._block)

    def peek(self) -> int:
        """Return the next byte."""
        if not self:
            raise ValueError("a header ends early")
        return self._block[self._place]

    def _byte(self) -> int:
        byte = self.peek()
        self._place += 1
        return byte

    def number(self, bits: int) -> int:
        """Read a number whose first *bits* are in the next byte."""
        most = (1 << bits) - 1
        value, shift = self._byte() & most, 0
        if value < most:
            return value
        while shift < _LONGEST_NUMBER:
            byte = self._byte()
            value += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise ValueError("a header has too large a number")

    def text(self) -> bytes:
        """Read a string."""
        coded = self.peek() & 0x80
        length = self.number(7)
        data = self._block[self._place : self._place + length]
        if len(data) < length:
            raise ValueError("a header ends early")
        self._place += length
        return _decoded(data) if coded else data


def _decoded(data: bytes) -> bytes:
    """Return what *data* says in Huffman's code; its last word is filled up with ones."""
    found, length, code = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            length, code = length + 1, code << 1 | (byte >> shift & 1)
            symbol = _WORDS.get((length, code))
            if symbol is not None:
                found.append(symbol)
                length = code = 0
    if length > 7 or code != (1 << length) - 1:
        raise ValueError("a header ends in the middle of a character")
    return bytes(found)

"""Reads the small text files of a kernel, thousands of them in one reading.

A file may vanish between two reads, be longer than any kernel writes, or be no file at all in a
tree that somebody else has made. Then its text is ``None``, and `Untold` keeps the first reason of
each kind of file, so that a program says once what it cannot know. The text of a kernel ends with a
line end: one that does not was cut off, and its last line counts for nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 1 << 18
"""Lists by NUMA node and counters of one group have a few KiB on the largest machines."""
_CHUNK_BYTES: Final = 1 << 16
_MOST_DIGITS: Final = 19
"""What a counter of 64 bits has."""
_MOST_ENTRIES: Final = 8192
_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ESRCH})


@dataclass(slots=True)
class Untold:
    """What the kernel does not tell, and why: the first reason of each kind.

    Attributes:
        reasons: by what is missing, such as ``memory of pods by NUMA node``.
    """

    reasons: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, why: str) -> None:
        """Take note that *what* is not known."""
        self.reasons.setdefault(what, why)

    def lines(self) -> tuple[str, ...]:
        """Return a sentence for each."""
        return tuple(f"{what}: {why}" for what, why in sorted(self.reasons.items()))


def read_text(
    path: str, *, most: int = MOST_BYTES, untold: Untold | None = None, what: str = ""
) -> str | None:
    """Return the whole lines of a file; ``None`` if it cannot be read or is too long.

    Args:
        path: plain text, since pathlib takes as long as the kernel does.
        most: the most bytes that make sense.
        untold: told why, unless the file is merely gone.
        what: what the file is about, for people.
    """
    try:
        # Opening a pipe that nobody writes to waits for a writer, unless told not to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        _note(error, untold, what)
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = _read(descriptor, most)
    except OSError as error:
        _note(error, untold, what)
        return None
    finally:
        os.close(descriptor)
    if content is None:
        if untold is not None:
            untold.note(what, f"{path} has more than {most} bytes")
        return None
    return content.decode("ascii", errors="replace")[: content.rfind(b"\n") + 1]


def _read(descriptor: int, most: int) -> bytes | None:
    part = os.read(descriptor, min(most + 1, _CHUNK_BYTES))
    parts, size = [part], len(part)
    while part and size <= most:
        part = os.read(descriptor, min(most + 1 - size, _CHUNK_BYTES))
        parts.append(part)
        size += len(part)
    return b"".join(parts) if size <= most else None


def _note(error: OSError, untold: Untold | None, what: str) -> None:
    if untold is not None and error.errno not in _GONE:
        untold.note(what, f"{error.filename}: {error.strerror}" if error.filename else str(error))


def names_in(path: str, *, most: int = _MOST_ENTRIES) -> list[str]:
    """Return the names in a folder, *most* of them at most; none if it is not there."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(most), strict=False))
    except OSError:
        return []


def number(text: str) -> int | None:
    """Return the number that *text* is; ``None`` if it is none that a kernel writes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def pairs(text: str) -> dict[str, int]:
    """Return the numbers of lines such as ``nr_throttled 12``; other lines are passed over."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        value = number(rest.strip())
        if value is not None:
            found[name] = value
    return found


def by_node(words: list[str]) -> dict[int, int] | None:
    """Return the numbers of words such as ``N0=12 N1=0`` by NUMA node; ``None`` if one is odd."""
    found: dict[int, int] = {}
    for word in words:
        name, _, amount = word.partition("=")
        node, value = number(name[1:]), number(amount)
        if name[:1] != "N" or node is None or value is None:
            return None
        found[node] = value
    return found


def lists_by_node(text: str) -> dict[str, dict[int, int]]:
    """Return lists by name: ``anon N0=12 N1=0``, and ``anon=12 N0=12 N1=0`` of version 1."""
    found: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        words = line.split()
        amounts = by_node(words[1:])
        if words and amounts is not None:
            found[words[0].partition("=")[0]] = amounts
    return found


def cpus_of(text: str, *, most: int = 1 << 16) -> Iterator[int]:
    """Yield the CPUs of a list such as ``0-3,8``, as far as it makes sense."""
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        low, high = number(first), number(last if dash else first)
        if low is not None and high is not None and low <= high < most:
            yield from range(low, high + 1)

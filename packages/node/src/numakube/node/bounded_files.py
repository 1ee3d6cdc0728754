"""Reads files of a host that anybody may have put there: regular ones, up to a size.

A pipe in place of a state file would keep the reader waiting for ever, and a sparse file of some
gigabytes would take all memory. Both are errors of the file here, like one that is not there.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES: Final = 16 << 20
"""The largest files that are read, lists of packages and checkpoints of devices, have a few MiB."""
_CHUNK_BYTES: Final = 1 << 20


def read_regular_file(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it is not there, is no regular file, or has more than *most* bytes.
    """
    # Opening a pipe that nobody writes to waits for a writer, unless told not to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return _read(descriptor, path, most)
    finally:
        os.close(descriptor)


def _read(descriptor: int, path: Path, most: int) -> bytes:
    """Read to the end; files of the kernel do not tell their size before."""
    parts: list[bytes] = []
    left = most + 1
    while left and (part := os.read(descriptor, min(left, _CHUNK_BYTES))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return b"".join(parts)

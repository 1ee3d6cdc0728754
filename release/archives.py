"""Archives that depend on their content alone: the same tree gives the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def tgz(files: Mapping[str, str], *, programs: Collection[str] = ()) -> bytes:
    """Return *files* by path as a gzipped tar archive; *programs* can be run."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, text in sorted(files.items()):
            data = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            entry.mode = 0o755 if path in programs else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)

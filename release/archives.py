"""Archives that depend on their content alone: the same tree gives the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def tgz(files: Mapping[str, str | bytes], *, programs: Collection[str] = ()) -> bytes:
    """Return *files* by path as a gzipped tar archive; *programs* can be run."""
    return gzip.compress(tar(files, programs=programs), mtime=0)


def tar(
    files: Mapping[str, str | bytes],
    *,
    programs: Collection[str] = (),
    links: Mapping[str, str] | None = None,
) -> bytes:
    """Return *files* and symbolic *links* by path as a tar archive, all of root and of 1970."""
    entries: dict[str, bytes | None] = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in files.items()
    }
    targets = links or {}
    packed = io.BytesIO()
    # Long names of wheels do not fit the older format; these headers have no times of their own.
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*entries, *targets}):
            entry = tarfile.TarInfo(path)
            data = entries.get(path) or b""
            if path in targets:
                entry.type, entry.linkname = tarfile.SYMTYPE, targets[path]
            entry.size = len(data)
            entry.mode = 0o755 if path in programs or path in targets else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()

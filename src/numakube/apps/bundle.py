"""A bundle: everything that was collected of a cluster in one file, to be looked at elsewhere.

It is a ``tar.gz`` of the files of `Collected` below one folder, so that anybody can look inside. A
bundle may come from strangers: nothing is written to disk, and names and sizes are checked.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from typing import Any, Final

import msgspec

from numakube.api.codec import BROKEN_JSON, decode_tree
from numakube.errors import MalformedObject
from numakube.insight.collected import META, Collected

FOLDER: Final = "numakube-bundle"
_SECRET: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
_LARGEST: Final = 2 << 30
"""Bytes after unpacking; a cluster of 5,000 nodes has a tenth of it."""


def without_secrets(collected: Collected) -> Collected:
    """Return *collected* without what may hold passwords: values of environment variables.

    The copy that ``kubectl apply`` keeps of an object goes too, since it has them once more.
    """
    files = {
        name: _scrubbed(content) if "/" not in name and name.endswith("s.json") else content
        for name, content in collected.files.items()
    }
    return Collected(collected.taken_at, files)


def _scrubbed(content: bytes) -> bytes:
    try:
        tree = decode_tree(content, "file")
    except MalformedObject as error:
        # What cannot be looked through may hold anything.
        tree = {"unreadable": error.detail}
    return msgspec.json.encode(_without_values(tree))


def _without_values(tree: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(tree, list):
        return [_without_values(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    done = {key: _without_values(value) for key, value in tree.items() if key not in _SECRET}
    if isinstance(tree.get("env"), list):
        done["env"] = [_named_only(one) for one in tree["env"]]
    return done


def _named_only(variable: Any) -> Any:  # noqa: ANN401 - JSON
    return {"name": variable.get("name", "")} if isinstance(variable, dict) else variable


def pack(collected: Collected) -> bytes:
    """Return *collected* as a compressed archive; equal content gives equal bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in sorted(_complete(collected).items()):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)


def unpack(content: bytes, *, name: str = "bundle") -> Collected:
    """Return what is in the archive; *name* names it in errors.

    Raises:
        MalformedObject: it is no bundle.
    """
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            total = 0
            for entry in archive:
                total += entry.size
                if total > _LARGEST:
                    raise MalformedObject(name, f"more than {_LARGEST >> 30}Gi when unpacked")
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    files[_inside(entry.name)] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error):
        raise MalformedObject(name, "not a bundle of `kubectl numa bundle`") from None
    return Collected(_taken_at(files, name), files)


def _complete(collected: Collected) -> dict[str, bytes]:
    """Return the files, with the time in the description even if another program made them."""
    about = msgspec.json.encode({"takenAt": collected.taken_at})
    return {META: about, **collected.files}


def _inside(name: str) -> str:
    return name.removeprefix("./").removeprefix(f"{FOLDER}/")


def _taken_at(files: dict[str, bytes], name: str) -> str:
    if META not in files:
        raise MalformedObject(name, f"not a bundle of `kubectl numa bundle`: no {META} in it")
    try:
        about = msgspec.json.decode(files[META], type=dict[str, object])
    except BROKEN_JSON as error:
        raise MalformedObject(name, f"{META}: {error}") from None
    return str(about.get("takenAt", ""))

"""Container images from files that are at hand, as archives that ``ctr images import`` takes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.vm.guest import PAUSE_IMAGE
from tests.vm.pods import IMAGE

_COMMANDS: Final = ("sh", "sleep", "cat", "ls", "true", "false", "grep", "env", "echo", "yes")


def basic_images(busybox: Path) -> dict[str, bytes]:
    """Return the images that every pod needs, by file name: one to pause in, one to run."""
    entries = {"bin/busybox": busybox.read_bytes()}
    links = {f"bin/{name}": "busybox" for name in _COMMANDS}
    layer = layer_of(entries, links)
    return {
        "pause.tar": archive(PAUSE_IMAGE, [layer], command=["/bin/sleep", "1000000"]),
        "busybox.tar": archive(IMAGE, [layer], command=["/bin/sleep", "1000000"]),
    }


def layer_of(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """Return a layer with executable *files* and symbolic *links*."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            layer.addfile(entry, io.BytesIO(content))
        for path, target in links.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
    return buffer.getvalue()


def archive(reference: str, layers: Sequence[bytes], *, command: Sequence[str]) -> bytes:
    """Return an image as ``docker save`` writes it."""
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Cmd": list(command),
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one}" for one in digests]},
        }
    )
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    parts = {f"{one}/layer.tar": layer for one, layer in zip(digests, layers, strict=True)}
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": list(parts)}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for path, content in {name: config, **parts, "manifest.json": _json(manifest)}.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

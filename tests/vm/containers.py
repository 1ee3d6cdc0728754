"""Container images from files that are at hand, as archives that ``ctr images import`` takes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.vm.guest import LIBRARIES, PAUSE_IMAGE
from tests.vm.pods import IMAGE

NUMAKUBE: Final = "numakube.test/numakube:dev"
_START: Final = f"""\
#!/bin/sh
export PYTHONPATH=/opt/code:{LIBRARIES} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec /usr/bin/python3 -c 'import sys; sys.argv[0] = "numakube"
from numakube.cli.main import main; main()' "$@"
"""
_COMMANDS: Final = ("sh", "sleep", "cat", "ls", "true", "false", "grep", "env", "echo", "yes")


def basic_images(busybox: Path) -> dict[str, bytes]:
    """Return the images that every pod needs, by file name: one to pause in, one to run."""
    entries = {"bin/busybox": busybox.read_bytes()}
    links = {f"bin/{name}": "busybox" for name in _COMMANDS}
    layer = layer_of(entries, links)
    return {
        "pause.tar": archive(PAUSE_IMAGE, [layer], entry=["/bin/sleep", "1000000"]),
        "busybox.tar": archive(IMAGE, [layer], entry=["/bin/sleep", "1000000"]),
    }


def numakube_image(python: Path, package: Path) -> bytes:
    """Return the image that manifests of components name, of *package* as it is."""
    files = {
        f"opt/code/numakube/{path.relative_to(package)}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files["usr/local/bin/numakube"] = _START.encode()
    layers = [python.read_bytes(), layer_of(files, {})]
    return archive(NUMAKUBE, layers, entry=["numakube"], user="65532:65532")


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


def archive(
    reference: str, layers: Sequence[bytes], *, entry: Sequence[str], user: str = ""
) -> bytes:
    """Return an image as ``docker save`` writes it."""
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": list(entry),
                "User": user,
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    )
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    parts = {f"{one}/layer.tar": layer for one, layer in zip(digests, layers, strict=True)}
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": list(parts)}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for path, content in {name: config, **parts, "manifest.json": _json(manifest)}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

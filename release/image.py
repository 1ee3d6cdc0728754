"""``python -m release image``: the image as an OCI layout, without an engine that builds images.

The same wheels, places and settings as by the Dockerfile, in one layer above a base image that is
given as a layout, for every architecture that the base has. What runs nothing of the image cannot
compile its modules, so programs start more slowly than with the Dockerfile's.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.release_image import VERSION
from release.archives import tar
from release.image_requirements import build_argument, tags_in_order
from release.oci import Layout, joined, layout_of, with_layer
from release.project import ROOT
from release.wheels import Target, contents, needed

if TYPE_CHECKING:
    from pathlib import Path

HOME: Final = "opt/numakube"
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""What Python calls the architectures that images are for, by the names of registries."""
NAMES: Final = {
    "kube-scheduler": "scheduler",
    "resource-topology-exporter": "exporter",
    "nfd-topology-updater": "exporter",
}
"""Programs of others whose place ours takes in manifests that were written for them."""


def target(machine: str) -> Target:
    """Return the image's Python on *machine*."""
    version = build_argument("PYTHON")
    environment = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    return Target(tags_in_order(machine), environment)


def layer(wheels: Path, machine: str, *, python: str) -> bytes:
    """Return numakube with all that it needs on *machine*, as a tar archive to lay over a base."""
    bin_ = f"{HOME}/bin"
    library = f"{HOME}/lib/python{build_argument('PYTHON')}/site-packages"
    files: dict[str, str | bytes] = {f"{HOME}/pyvenv.cfg": _environment(python)}
    requirement = f"numakube[{build_argument('EXTRAS')}]=={VERSION}"
    for wheel in needed(wheels, requirement, target(machine)):
        files |= contents(wheel, library=library, scripts=bin_, python=f"/{bin_}/python")
    files["usr/bin/gather"] = (ROOT / "release" / "gather").read_bytes()
    for name, program in NAMES.items():
        files[f"usr/bin/{name}"] = f'#!/bin/sh\nexec numakube {program} "$@"\n'
    programs = [path for path in files if path.startswith((f"{bin_}/", "usr/bin/"))]
    links = {f"{bin_}/python": python, f"{bin_}/python3": "python"}
    return tar(files, programs=programs, links=links)


def _environment(python: str) -> str:
    """Return what tells the Python that *python* is that its packages are in our folder."""
    home = python.rpartition("/")[0]
    return f"home = {home}\ninclude-system-site-packages = false\n"


def settings() -> dict[str, Any]:
    """Return how the image is run; the Dockerfile says the same."""
    return {
        "config": {
            "User": "65532:65532",
            "Entrypoint": ["numakube"],
            "Cmd": [],
            "Env": [
                f"PATH=/{HOME}/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
                "PYTHONUNBUFFERED=1",
                "PYTHONDONTWRITEBYTECODE=1",
            ],
            "Labels": {
                "org.opencontainers.image.title": "numakube",
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.version": VERSION,
            },
        }
    }


def image(wheels: Path, base: Layout, *, python: str) -> Layout:
    """Return an index of the image on *base*, for all architectures of ours that *base* has."""
    found = [manifest for manifest in _manifests(base) if _architecture(base, manifest) in MACHINES]
    if not found:
        raise LookupError(f"the base image has none of {', '.join(MACHINES)}")
    images = [
        with_layer(
            base, one, layer(wheels, MACHINES[_architecture(base, one)], python=python), settings()
        )
        for one in found
    ]
    return joined(images, VERSION)


def _manifests(base: Layout) -> list[dict[str, Any]]:
    """Return the images of *base*, of indices within its index, too; attestations are none."""
    waiting, found = list(base.listed), []
    while waiting:
        one = waiting.pop(0)
        if "index" in one["mediaType"] or "manifest.list" in one["mediaType"]:
            waiting += base.read(one)["manifests"]
        elif one.get("platform", {}).get("os") != "unknown":
            found.append(one)
    return found


def _architecture(base: Layout, manifest: dict[str, Any]) -> str:
    return str(base.read(base.read(manifest)["config"])["architecture"])


def read_layout(path: Path) -> Layout:
    """Return the layout in a folder or in an archive."""
    if path.is_dir():
        files = {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
        return layout_of(files)
    with tarfile.open(path) as packed:
        members = ((info.name.removeprefix("./"), packed.extractfile(info)) for info in packed)
        return layout_of({name: file.read() for name, file in members if file is not None})

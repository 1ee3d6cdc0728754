"""Builds the files of a release into a folder, without a network."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from numakube.api.yaml_text import dump_yaml, load_yaml
from numakube.manifests.components import DEFAULT, Choices, objects_of
from numakube.manifests.release_image import VERSION
from release import krew
from release.archives import tgz
from release.changes import CHANGELOG, changes, released
from release.chart import chart
from release.oci import chart_layout
from release.project import ROOT, projects
from release.provenance import commit, statement
from release.sbom import sbom

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMS: Final = "SHA256SUMS"


def build(folder: Path) -> list[Path]:
    """Write every file of a release into *folder*, and return them, the checksums last."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [*_python_packages(folder), *_texts_and_archives(folder)]
    told = json.dumps(statement(files, commit()), indent=2) + "\n"
    files.append(_written(folder / f"numakube-{VERSION}.intoto.json", told.encode()))
    sums = folder / SUMS
    lines = sorted(f"{_sha256(file)}  {file.name}\n" for file in files)
    sums.write_text("".join(lines), encoding="utf-8")
    return [*files, sums]


def obstacles() -> list[str]:
    """Return what stands against publishing what was built from this tree."""
    found = []
    if not released(CHANGELOG.read_text(encoding="utf-8"), VERSION):
        found.append(f"CHANGELOG.md has no section [{VERSION}]")
    words = ["git", "-C", str(ROOT), "status", "--porcelain"]
    status = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if status.returncode != 0 or status.stdout:
        found.append("the tree differs from its last commit")
    left = len(changes())
    if left:
        found.append(f"changes.d has {left} changes that are in no version")
    return found


def _python_packages(folder: Path) -> Iterator[Path]:
    for project in projects():
        for kind in (WheelBuilder, SdistBuilder):
            builder = kind(str(project.folder))
            yield from (
                Path(one) for one in builder.build(directory=str(folder), versions=["standard"])
            )


def _texts_and_archives(folder: Path) -> Iterator[Path]:
    yield from _chart(folder)
    license_ = (ROOT / "LICENSE").read_text(encoding="utf-8")
    launcher = {krew.PROGRAM: krew.LAUNCHER, "LICENSE": license_}
    archive = _written(folder / krew.ARCHIVE, tgz(launcher, programs=[krew.PROGRAM]))
    yield archive
    yield _written(folder / "numa.yaml", dump_yaml(krew.manifest(_sha256(archive))).encode())
    manifests = (dump_yaml(one) for one in objects_of(DEFAULT, Choices()))
    yield _written(folder / "install.yaml", "---\n".join(manifests).encode())
    for name in ("manifests", "olm"):
        packed = {f"{name}-{VERSION}/{path}": text for path, text in _deployed(name)}
        yield _written(folder / f"numakube-{name}-{VERSION}.tar.gz", tgz(packed))
    software = json.dumps(sbom("numakube", frozenset({"all"})), indent=2) + "\n"
    yield _written(folder / f"numakube-{VERSION}.cdx.json", software.encode())


def _chart(folder: Path) -> Iterator[Path]:
    """Write the chart as ``helm install`` takes it, and as registries store it."""
    packed = tgz({f"numakube/{file.path}": file.text for file in chart()})
    yield _written(folder / f"numakube-{VERSION}.tgz", packed)
    (text,) = (file.text for file in chart() if file.path == "Chart.yaml")
    metadata = load_yaml(text, "Chart.yaml")
    if not isinstance(metadata, dict):
        raise TypeError("Chart.yaml is no object")
    notes = {
        "org.opencontainers.image.title": metadata["name"],
        "org.opencontainers.image.version": metadata["version"],
        "org.opencontainers.image.description": metadata["description"],
    }
    layout = chart_layout(packed, metadata, notes)
    yield _written(folder / f"numakube-chart-{VERSION}.oci.tar", layout.archive())


def _deployed(name: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of the bundle for OLM, or of all other files that kubectl applies."""
    whole = ROOT / "deploy"
    folder = whole / "olm" if name == "olm" else whole
    for path in sorted(folder.rglob("*")):
        kind = path.relative_to(whole).parts[0]
        if path.is_file() and (name == "olm" or kind not in ("olm", "chart")):
            yield str(path.relative_to(folder)), path.read_text(encoding="utf-8")


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

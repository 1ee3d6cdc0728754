"""Builds the files of a release into a folder, without a network."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from numakube.api.yaml_text import dump_yaml
from numakube.manifests.components import DEFAULT, Choices, objects_of
from numakube.manifests.packages.chart import chart
from numakube.manifests.packages.sbom import sbom
from numakube.manifests.release_image import VERSION
from release import krew
from release.archives import tgz

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
SUMS: Final = "SHA256SUMS"


def build(folder: Path) -> list[Path]:
    """Write every file of a release into *folder*, and return them, the checksums last."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [*_python_packages(folder), *_texts_and_archives(folder)]
    sums = folder / SUMS
    lines = sorted(f"{_sha256(file)}  {file.name}\n" for file in files)
    sums.write_text("".join(lines), encoding="utf-8")
    return [*files, sums]


def obstacles() -> list[str]:
    """Return what stands against publishing what was built from this tree."""
    found = []
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(VERSION)}\]", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section [{VERSION}]")
    words = ["git", "-C", str(ROOT), "status", "--porcelain"]
    status = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if status.returncode != 0 or status.stdout:
        found.append("the tree differs from its last commit")
    return found


def _python_packages(folder: Path) -> Iterator[Path]:
    for project in (ROOT, ROOT / "packages" / "lab"):
        for builder in (WheelBuilder(str(project)), SdistBuilder(str(project))):
            yield from (
                Path(one) for one in builder.build(directory=str(folder), versions=["standard"])
            )


def _texts_and_archives(folder: Path) -> Iterator[Path]:
    packed = {f"numakube/{file.path}": file.text for file in chart()}
    yield _written(folder / f"numakube-{VERSION}.tgz", tgz(packed))
    license_ = (ROOT / "LICENSE").read_text(encoding="utf-8")
    launcher = {krew.PROGRAM: krew.LAUNCHER, "LICENSE": license_}
    archive = _written(folder / krew.ARCHIVE, tgz(launcher, programs=[krew.PROGRAM]))
    yield archive
    yield _written(folder / "numa.yaml", dump_yaml(krew.manifest(_sha256(archive))).encode())
    manifests = (dump_yaml(one) for one in objects_of(DEFAULT, Choices()))
    yield _written(folder / "install.yaml", "---\n".join(manifests).encode())
    software = json.dumps(sbom("numakube", frozenset({"all"})), indent=2) + "\n"
    yield _written(folder / f"numakube-{VERSION}.cdx.json", software.encode())


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""The version is in one place, and whatever names our image names it with that version."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

import numakube
from numakube.manifests.release_image import IMAGE, REPOSITORY, VERSION

ROOT = Path(__file__).parents[2]
WRITTEN = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "deploy/**/*.yaml", "examples/*.yaml")
    for path in ROOT.glob(pattern)
    if REPOSITORY in path.read_text(encoding="utf-8")
)


def test_the_package_takes_its_version_from_the_code() -> None:
    """So that a release changes one line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/numakube/__init__.py"
    assert numakube.__version__.partition("+")[0] == VERSION


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_images_are_named_with_the_version(path: Path) -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/manifests`` after a change of the version."""
    text = path.read_text(encoding="utf-8")
    real = re.sub(rf"{re.escape(REPOSITORY)}:[\w.-]+", IMAGE, text)
    if os.environ.get("UPDATE_MANIFESTS") and real != text:
        path.write_text(real, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == real

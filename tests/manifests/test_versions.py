"""The version is in one place, and whatever names our image names it with that version."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

import numakube.version
from numakube.manifests.release_image import IMAGE, REPOSITORY, VERSION

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]
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
    assert project["tool"]["hatch"]["version"]["path"] == "packages/api/src/numakube/version.py"
    assert numakube.version.VERSION.partition("+")[0] == VERSION


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_images_are_named_with_the_version(path: Path) -> None:
    """Run ``UPDATE_MANIFESTS=1 pytest tests/manifests`` after a change of the version."""
    text = path.read_text(encoding="utf-8")
    real = re.sub(rf"{re.escape(REPOSITORY)}:[\w.-]+", IMAGE, text)
    if os.environ.get("UPDATE_MANIFESTS") and real != text:
        path.write_text(real, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == real


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_distributions_ask_for_each_other_in_their_own_version(path: Path) -> None:
    """They are released together; ``UPDATE_MANIFESTS=1`` writes a new version into them as well."""
    text = path.read_text(encoding="utf-8")
    real = re.sub(r'"(numakube-\w+)(==[^"]*)?"', rf'"\1=={VERSION}"', text)
    own = tomllib.loads(text)["project"]["name"]
    real = real.replace(f'name = "{own}=={VERSION}"', f'name = "{own}"')
    if os.environ.get("UPDATE_MANIFESTS") and real != text:
        path.write_text(real, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == real

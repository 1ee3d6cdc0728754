"""The page about the Python API has every public name, and nothing else."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "contribute" / "python-api.md"
PACKAGES = (
    "numakube.kubelet",
    "numakube.scheduling.framework",
    "numakube.kube",
    "numakube.testing",
    "numakube_lab.testing",
)


def documented(package: str) -> list[str]:
    """Return the names in the table of *package*."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {package}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_line(package: str) -> None:
    """In a table of its package, once."""
    assert sorted(documented(package)) == sorted(import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package: str) -> None:
    """Names that are loaded when they are used, too."""
    module = import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_every_package_is_in_the_list() -> None:
    """With a link to its section."""
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| \[`([\w.]+)`\]\(#\w+\)", text, re.MULTILINE) == list(PACKAGES)

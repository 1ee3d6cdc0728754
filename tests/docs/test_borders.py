"""Only public names cross the border of a distribution.

Public is what the distribution's own page names: a module in a table of public modules, with all of
its names that have no underscore, or, if it has `__all__`, with those that are in it. Packages in
such a table always have `__all__`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

PAGES = (ROOT / "docs" / "contribute" / "python-api.md", *sorted(ROOT.glob("packages/*/README.md")))
OWN = {
    "numakube_lab": "packages/lab",
    "numakube_pages": "packages/pages",
    "numakube_conformance": "packages/conformance",
    "kube_lab_server": "packages/labserver",
    "numakube_sriov": "packages/sriov",
    "numakube_planning": "packages/planning",
    "numakube_placement": "packages/placement",
    "numakube_levels": "packages/levels",
    "numakube_measured": "packages/measured",
    "numakube_virtual_machines": "packages/virtual-machines",
    "numakube_dra_driver": "packages/dra-driver",
    "numakube_tracing": "packages/tracing",
    "numakube_zone_affinity": "packages/zone-affinity",
}
"""The distributions that import nothing private of others, by the package that is theirs."""
OURS = ("numakube", *OWN)
ROW = re.compile(r"^(?:\| \[?|Public is what )`((?:numakube|kube_lab_server)[\w.]*)`", re.MULTILINE)


@cache
def public_modules() -> frozenset[str]:
    """Return the modules that pages call public."""
    return frozenset(
        name for page in PAGES for name in ROW.findall(page.read_text(encoding="utf-8"))
    )


@cache
def file_of(module: str) -> Path:
    """Return the file of a module of this repository."""
    path = module.replace(".", "/")
    for source in (ROOT / "src", *ROOT.glob("packages/*/src")):
        for file in (source / path / "__init__.py", source / f"{path}.py"):
            if file.exists():
                return file
    raise LookupError(module)


@cache
def listed(module: str) -> frozenset[str] | None:
    """Return what `__all__` of a module lists; None if it has none."""
    for node in ast.parse(file_of(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return None


def imports(file: Path, own: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of every import from another distribution of ours."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            top = node.module.partition(".")[0]
            yield from ((node.module, x.name) for x in node.names if top in OURS and top != own)
        elif isinstance(node, ast.Import):
            named = [x.name for x in node.names]
            yield from ((x, "") for x in named if x.partition(".")[0] in set(OURS) - {own})


def is_public(module: str, name: str) -> bool:
    """Tell whether others may import *name* of *module*; a module itself if it is empty."""
    if f"{module}.{name}" in public_modules():
        return True
    if module not in public_modules() or name.startswith("_"):
        return False
    public = listed(module)
    return public is None or name in public


@pytest.mark.parametrize("own", OWN)
def test_only_public_names_are_imported_from_other_distributions(own: str) -> None:
    files = sorted((ROOT / OWN[own] / "src").rglob("*.py"))
    found = [(file.name, *which) for file in files for which in imports(file, own)]
    assert found
    assert [one for one in found if not is_public(*one[1:])] == []


def test_public_modules_exist_and_packages_list_their_names() -> None:
    packages = [name for name in public_modules() if file_of(name).name == "__init__.py"]
    assert [name for name in packages if listed(name) is None] == []


def test_what_a_page_does_not_name_is_private() -> None:
    assert is_public("numakube.kubelet", "KubeletNode")
    assert not is_public("numakube.kubelet", "lazy_names")
    assert not is_public("numakube.kubelet.kubelet_model", "KubeletNode")
    assert not is_public("numakube.errors", "_cause")

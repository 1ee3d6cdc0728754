"""The architecture page names every package, and only files that exist."""

from __future__ import annotations

import ast
import configparser
import os
import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "contribute" / "architecture.md"
PACKAGES = re.compile(r"(?<=<!-- packages -->\n).*(?=<!-- /packages -->)", re.DOTALL)
PROJECTS = (ROOT, *sorted(file.parent for file in ROOT.glob("packages/*/pyproject.toml")))
SOURCES = tuple(path for project in PROJECTS for path in project.glob("src/*/"))
CONTRACTS = {
    "numakube": "layers",
    "numakube_dra_driver": "dra-driver-layers",
    "numakube_conformance": "conformance",
    "numakube_lab": "lab-layers",
    "numakube_pages": "pages",
    "numakube_planning": "planning-layers",
    "numakube_tracing": "tracing-layers",
    "numakube_levels": "levels-layers",
    "numakube_measured": "measured-layers",
    "numakube_virtual_machines": "virtual-machines-layers",
    "numakube_zone_affinity": "zone-affinity-layers",
    "kube_lab_server": "lab-server-layers",
    "numakube_placement": "placement-layers",
}
LONGEST_GLOSSARY = 40


def layers_of(package: str) -> list[str]:
    """Return the packages and modules in *package*, highest first; none if it has no layers."""
    if package not in CONTRACTS:
        return []
    linter = configparser.ConfigParser()
    linter.read(ROOT / ".importlinter")
    return re.findall(r"\w+", linter[f"importlinter:contract:{CONTRACTS[package]}"]["layers"])


def first_line(package: Path) -> str:
    """Return what a package says of itself in one line, as Markdown."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    assert docstring, package
    return docstring.partition("\n")[0].replace("``", "`")


def packages_of(source: Path) -> list[str]:
    """Return a row for every package below *source*, in the order of the layers."""
    layers = layers_of(source.name)
    found = [path.parent.relative_to(source) for path in source.rglob("*/__init__.py")]
    found.sort(key=lambda one: (layers.index(one.parts[0]), one.parts))
    return [f"| `{'.'.join(path.parts)}` | {first_line(source / path)} |" for path in found]


def generated() -> str:
    """Return a table for each distribution."""
    parts = []
    for source in SOURCES:
        about = tomllib.loads((source.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
        rows = ["| package | what it has |", "|---|---|", *packages_of(source)]
        head = f"\n### {about['name']}\n\n{about['description']}.\n\n"
        parts.append(head + "\n".join(rows))
    return "\n".join(parts) + "\n\n"


def overview_of(package: Path) -> list[str]:
    """Return the names of modules that a package's docstring lists, each before two spaces."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    lines = re.findall(r"^ *((?:\w+/?, )*\w+/?)(?:  |$)", docstring or "", re.MULTILINE)
    return [name.rstrip("/") for line in lines for name in line.split(", ")]


def test_overviews_of_packages_name_modules_that_exist() -> None:
    """A module that is renamed is renamed there too."""
    found = {
        f"{package.parent.relative_to(source)}: {name}": (package.parent / name).exists()
        or (package.parent / f"{name}.py").exists()
        for source in SOURCES
        for package in source.rglob("__init__.py")
        for name in overview_of(package.parent)
    }
    assert len(found) > 50
    assert not [name for name, exists in found.items() if not exists]


def test_the_page_has_every_package_with_its_first_line() -> None:
    """Run ``UPDATE_DOCS=1 pytest tests/docs`` after a change of packages."""
    written = PAGE.read_text(encoding="utf-8")
    real = PACKAGES.sub(lambda _: generated(), written)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(real, encoding="utf-8")
    else:
        assert real == written


@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.parents[1].name)
def test_every_package_describes_itself_in_a_sentence(source: Path) -> None:
    """A first line that ends in the middle of a sentence would look broken in the table."""
    for path in source.rglob("__init__.py"):
        assert first_line(path.parent).endswith("."), path


def test_every_file_that_the_page_names_exists() -> None:
    """So that the walks through the code can be followed."""
    for path in re.findall(r"`([\w/]+\.py)`", PAGE.read_text(encoding="utf-8")):
        assert any((source / path).exists() for source in SOURCES), path


def test_the_glossary_stays_short() -> None:
    """A newcomer has to learn all of it."""
    glossary = PAGE.read_text(encoding="utf-8").partition("## Glossary")[2]
    words = re.findall(r"^\| (?!word \|)", glossary, re.MULTILINE)
    assert 0 < len(words) <= LONGEST_GLOSSARY

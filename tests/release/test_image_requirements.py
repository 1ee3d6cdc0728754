"""What the image is built from is pinned by checksum, and is what the project needs."""

from __future__ import annotations

import re
from importlib.metadata import requires
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from release.image_requirements import (
    ARCHITECTURES,
    FILE,
    build_argument,
    image_tags,
    text,
    wanted,
)
from release.project import ROOT

PYTHON = build_argument("PYTHON")
PIN = re.compile(r"((?:# \S+\.whl\n)+)([\w-]+)==(\S+) \\\n((?:    --hash=.*\n)+)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pins() -> dict[str, tuple[str, list[str], list[str]]]:
    """Return version, names of wheels and checksums by the name of the package."""
    content = FILE.read_text(encoding="utf-8")
    found = {
        name: (version, re.findall(r"# (\S+)", wheels), HASH.findall(hashes))
        for wheels, name, version, hashes in PIN.findall(content)
    }
    left = re.sub(r"^#.*\n", "", PIN.sub("", content), flags=re.MULTILINE)
    assert left == "", "not understood"
    return found


def applies(requirement: Requirement, machine: str) -> bool:
    """Tell whether a requirement holds in the image."""
    image = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0", "extra": ""}
    system = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine}
    return requirement.marker is None or requirement.marker.evaluate({**image, **system})


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_everything_that_the_image_needs_is_pinned(machine: str) -> None:
    """What the project and its build require, and what that requires in turn."""
    pinned, seen = pins(), set[str]()
    waiting = [Requirement(line) for line in wanted()]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in seen or not applies(one, machine):
            continue
        seen.add(name)
        assert name in pinned, one
        assert one.specifier.contains(pinned[name][0]), one
        waiting += [Requirement(line) for line in requires(name) or ()]
    assert {"aiohttp", "google-re2", "grpcio", "hatchling", "uvloop", "yarl"} <= seen


def test_versions_are_those_that_are_tested() -> None:
    """Those of the constraints, under which developers install."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested: dict[str, str] = {
        canonicalize_name(requirement.name): str(requirement.specifier)
        for requirement in map(Requirement, lines)
        if applies(requirement, ARCHITECTURES[0])
    }
    assert [n for n, (version, *_) in pins().items() if tested[n] != f"=={version}"] == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_package_has_a_wheel_for_every_architecture(architecture: str) -> None:
    """Of that very package and version, each with a checksum of its own."""
    tags = image_tags(architecture)
    for name, (version, wheels, hashes) in pins().items():
        parsed = [parse_wheel_filename(wheel) for wheel in wheels]
        assert {(str(one[0]), str(one[1])) for one in parsed} == {(name, version)}
        assert any(one[3] & tags for one in parsed), name
        assert len(set(hashes)) == len(wheels), name


def test_the_image_gets_nothing_else_from_an_index() -> None:
    """Downloads ask for checksums, and what is installed was downloaded."""
    content = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"\bpip (?:download|install|wheel)\b[^&\n]*", content)
    assert len(commands) == 3
    assert "--require-hashes --only-binary :all:" in commands[0]
    assert str(FILE.relative_to(ROOT)) in commands[0]
    assert all("--no-index --find-links /wheels" in command for command in commands[1:])


def test_only_wheels_that_fit_the_image_are_listed() -> None:
    """Neither source archives nor wheels for other systems, versions or C libraries."""

    def lock(architecture: str, *names: str) -> tuple[str, list[dict[str, Any]]]:
        wheels = [
            {"url": f"https://x/{name}", "hashes": {"sha256": name[-9:]}}
            for name in (*names, "a-1-py3-none-any.whl", "a-1-cp313-cp313-musllinux_1_2_x86_64.whl")
        ]
        sdist = {"url": "https://x/a-1.tar.gz", "hashes": {"sha256": "s"}}
        return architecture, [{"name": "a", "version": "1", "wheels": wheels, "sdist": sdist}]

    fits, arm = (
        f"a-1-cp313-cp313-manylinux_2_17_{architecture}.whl" for architecture in ARCHITECTURES
    )
    stable = "a-1-cp310-abi3-manylinux2014_x86_64.whl"
    unfit = ("a-1-cp312-cp312-manylinux_2_17_x86_64.whl", "a-1-cp313-cp313-win_amd64.whl")
    written = text([lock("x86_64", fits, stable, *unfit), lock("aarch64", arm)])
    names = re.findall(r"# (\S+\.whl)", written)
    assert names == sorted([arm, fits, stable, "a-1-py3-none-any.whl"])
    assert len(re.findall("--hash=", written)) == len(names)

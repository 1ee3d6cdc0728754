"""What ``pip install`` does with a folder of wheels, for another machine than this one.

pip installs for the Python that runs it. An image for arm64 built on amd64 needs the same decisions
for a Python that is not here: which wheels are needed, which of several files fits best, and where
what is in them goes (binary distribution format 1.0).
"""

from __future__ import annotations

import configparser
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from packaging.tags import Tag


@dataclass(frozen=True, slots=True)
class Target:
    """The Python that is installed for."""

    tags: Sequence[Tag]
    """What it takes, the best first."""
    environment: dict[str, str]
    """What markers of requirements are asked about."""


def needed(folder: Path, requirement: str, target: Target) -> list[Path]:
    """Return the wheels in *folder* that *requirement* needs on *target*, by name."""
    offered = _best_by_name(folder.glob("*.whl"), target)
    chosen: dict[str, Path] = {}
    waiting, seen = [Requirement(requirement)], set[tuple[str, frozenset[str]]]()
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), frozenset(one.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name not in offered:
            raise LookupError(f"{folder} has no wheel of {one} that fits")
        chosen[name] = wheel = offered[name]
        if not one.specifier.contains(parse_wheel_filename(wheel.name)[1], prereleases=True):
            raise LookupError(f"{wheel.name} is not {one}")
        waiting += _requirements(wheel, extras, target)
    return [chosen[name] for name in sorted(chosen)]


def _best_by_name(wheels: Iterable[Path], target: Target) -> dict[str, Path]:
    ranks = {tag: rank for rank, tag in enumerate(target.tags)}
    found: dict[str, tuple[int, str, Path]] = {}
    for wheel in wheels:
        name, _, _, tags = parse_wheel_filename(wheel.name)
        fitting = [ranks[tag] for tag in tags if tag in ranks]
        if fitting:
            offer = (min(fitting), wheel.name, wheel)
            found[name] = min(offer, found.get(name, offer))
    return {name: wheel for name, (_, _, wheel) in found.items()}


def _requirements(wheel: Path, extras: frozenset[str], target: Target) -> Iterator[Requirement]:
    with zipfile.ZipFile(wheel) as packed:
        text = packed.read(_info(packed, "METADATA")).decode()
    for line in Parser().parsestr(text).get_all("Requires-Dist") or ():
        one = Requirement(line)
        worlds = [{**target.environment, "extra": extra} for extra in (*extras, "")]
        if one.marker is None or any(one.marker.evaluate(world) for world in worlds):
            yield one


def _info(packed: zipfile.ZipFile, file: str) -> str:
    (name,) = (
        n for n in packed.namelist() if n.endswith(f".dist-info/{file}") and n.count("/") == 1
    )
    return name


def contents(wheel: Path, *, library: str, scripts: str, python: str) -> dict[str, bytes]:
    """Return the files that *wheel* installs by path, programs that it declares included."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if not name.endswith("/"):
                found[_place(name, library, scripts)] = packed.read(name)
        entries = [n for n in packed.namelist() if n.endswith(".dist-info/entry_points.txt")]
        for entry in entries:
            for program, target in _programs(packed.read(entry).decode()):
                found[f"{scripts}/{program}"] = _launcher(python, target).encode()
    return found


def _place(name: str, library: str, scripts: str) -> str:
    """Return where a file of a wheel goes: what is in NAME.data has a place by its kind."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"{library}/{name}"
    kind, _, path = rest.partition("/")
    if kind not in ("purelib", "platlib", "scripts"):
        return f"{scripts.rpartition('/')[0]}/{path}"
    return f"{scripts if kind == 'scripts' else library}/{path}"


def _programs(text: str) -> list[tuple[str, str]]:
    entries = configparser.RawConfigParser(delimiters=("=",))
    entries.optionxform = lambda optionstr: optionstr  # type: ignore[method-assign]
    entries.read_string(text)
    return entries.items("console_scripts") if entries.has_section("console_scripts") else []


def _launcher(python: str, target: str) -> str:
    module, _, name = target.partition(":")
    return f"#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"

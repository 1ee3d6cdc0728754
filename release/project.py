"""The distributions of the repository: the root and every folder of ``packages/`` with a project.

None is named anywhere in the release. A distribution joins by its pyproject.toml, and leaves with
it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT: Final = Path(__file__).parents[1]
REPOSITORY_PAGE: Final = "https://github.com/numakube/numakube"
SITE: Final = "https://numakube.github.io/numakube/"
ICON: Final = "docs/images/icon.svg"
CAPABILITIES: Final = "Seamless Upgrades"
"""How far the operator goes, in the words of OLM and of Artifact Hub."""
_IMAGE: Final = re.compile(r"/numakube[a-z-]*:(?P<version>\d+\.\d+\.\d+)\b")
_WITH_IMAGES: Final = ("docs/**/*.md", "packages/*/src/**/*.yaml", "src/**/*.yaml")
"""Pages and examples that name our images; tests of manifests write those in deploy/."""
_VERSION: Final = re.compile(r'^VERSION = "(?P<version>[^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Project:
    """One distribution and the folder that it is built from."""

    folder: Path
    description: dict[str, Any]

    @property
    def name(self) -> str:
        """The name as indexes compare it."""
        return canonicalize_name(self.description["project"]["name"])

    @property
    def stem(self) -> str:
        """How the names of its files begin."""
        return self.name.replace("-", "_")

    def requirements(self, extras: frozenset[str] = frozenset()) -> list[Requirement]:
        """Return what it requires with *extras*."""
        project = self.description["project"]
        optional = project.get("optional-dependencies", {})
        lines = [*project.get("dependencies", ())]
        lines += [line for extra in sorted(extras) for line in optional.get(extra, ())]
        return [Requirement(line) for line in lines]


def projects(root: Path = ROOT) -> list[Project]:
    """Return all distributions, the root's first."""
    files = [root / "pyproject.toml", *sorted(root.glob("packages/*/pyproject.toml"))]
    return [Project(file.parent, tomllib.loads(file.read_text("utf-8"))) for file in files]


def pins(project: Project, names: Collection[str]) -> dict[str, str]:
    """Return the versions in which *project* asks for our own distributions, by name."""
    text = (project.folder / "pyproject.toml").read_text(encoding="utf-8")
    return {match["name"]: match["version"] for match in _pin(names).finditer(text)}


def _pin(names: Collection[str]) -> re.Pattern[str]:
    """Return what finds the version with which one of *names* is asked for."""
    listed = "|".join(map(re.escape, sorted(names)))
    return re.compile(rf'"(?P<name>{listed})(\[[^]]*\])?==(?P<version>[^";\s]+)')


def version_file(root: Path = ROOT) -> Path:
    """Return the file with the version, which all distributions are told to take it from."""
    tool = projects(root)[0].description["tool"]
    return root / str(tool["hatch"]["version"]["path"])


def set_version(version: str, root: Path = ROOT) -> list[Path]:
    """Write *version* wherever the sources say it, and return the files that differ from before."""
    places = [(version_file(root), _VERSION)]
    pin = _pin([project.name for project in projects(root)])
    places += [(project.folder / "pyproject.toml", pin) for project in projects(root)]
    places += [(path, _IMAGE) for glob in _WITH_IMAGES for path in sorted(root.glob(glob))]
    return [path for path, pattern in places if _written(path, pattern, version)]


def _written(path: Path, pattern: re.Pattern[str], version: str) -> bool:
    """Write *version* where *pattern* finds one, and tell whether that changes the file."""
    before = path.read_text(encoding="utf-8")
    after = pattern.sub(lambda match: match[0].replace(match["version"], version), before)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before

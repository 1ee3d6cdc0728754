"""``python -m release.image_requirements``: write down what the image installs, with checksums.

The Dockerfile downloads just these files, so an index that is tampered with cannot put others into
the image. ``uv``, which has to be on the PATH, resolves for the Python of the image under
``constraints.txt``. What builds the project in the image is listed too, since it runs there.

Only wheels are listed, those that fit the image on the architectures that it is built for. A source
archive would run its own programs, with more dependencies that nobody has pinned.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from release.project import ROOT, projects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.tags import Tag

FILE: Final = ROOT / "release" / "image-requirements.txt"
ARCHITECTURES: Final = ("x86_64", "aarch64")
_GLIBC: Final = 28
"""The newest 2.x that a wheel may ask for; the image's own is newer."""
_HEADER: Final = """\
# Every file that the image may be built from, with its checksum: `pip download --require-hashes`.
# Written by `python -m release.image_requirements`; see docs/contribute/make-a-release.md.
"""


def build_argument(name: str) -> str:
    """Return the default of the Dockerfile's argument *name*."""
    found = re.search(rf"^ARG {name}=(.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise LookupError(f"the Dockerfile has no argument {name}")
    return found[1]


def wanted() -> list[str]:
    """Return the requirements of the image, and of building there what is ours."""
    ours = {project.name: project for project in projects()}
    waiting = [Requirement(f"numakube[{build_argument('EXTRAS')}]")]
    seen, found = set[str](), set[str]()
    while waiting:
        one = waiting.pop()
        project = ours.get(canonicalize_name(one.name))
        if project is None or str(one) in seen:
            found |= {str(one)} if project is None else set()
            continue
        seen.add(str(one))
        found |= set(project.description["build-system"]["requires"])
        waiting += project.requirements(frozenset(one.extras))
    return sorted(found)


def platforms(architecture: str) -> list[str]:
    """Return the platforms of wheels that the image takes on *architecture*, the newest first."""
    named = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
    found = []
    for minor in range(_GLIBC, 4, -1):
        found.append(f"manylinux_2_{minor}_{architecture}")
        found += [f"{named[minor]}_{architecture}"] if minor in named else []
    return found


def image_tags(architecture: str) -> set[Tag]:
    """Return the tags of wheels that the image takes on *architecture*."""
    return set(tags_in_order(architecture))


def tags_in_order(architecture: str) -> list[Tag]:
    """Return the same tags, the best first."""
    version = tuple(int(part) for part in build_argument("PYTHON").split("."))
    fitting = platforms(architecture)
    abi = f"cp{''.join(map(str, version))}"
    return [
        *cpython_tags(version, platforms=fitting),
        *compatible_tags(version, interpreter=abi, platforms=fitting),
    ]


def resolved(architecture: str) -> list[dict[str, Any]]:
    """Return the packages of the image on *architecture*, with their wheels, as uv locks them."""
    words = [
        *("uv", "pip", "compile", "--quiet", "--format", "pylock.toml", "-"),
        *("--constraints", str(ROOT / "constraints.txt"), "--only-binary", ":all:"),
        *("--python-version", build_argument("PYTHON")),
        *("--python-platform", f"{architecture}-manylinux_2_{_GLIBC}"),
    ]
    done = subprocess.run(  # noqa: S603 - uv, with words of our own
        words, input="\n".join(wanted()), stdout=subprocess.PIPE, text=True, check=True
    )
    packages: list[dict[str, Any]] = tomllib.loads(done.stdout)["packages"]
    return packages


def fitting(package: dict[str, Any], tags: set[Tag]) -> Iterator[tuple[str, str]]:
    """Yield name and checksum of those wheels of *package* that fit an image that takes *tags*."""
    for wheel in package["wheels"]:
        name = wheel["url"].rpartition("/")[2]
        if parse_wheel_filename(name)[3] & tags:
            yield name, wheel["hashes"]["sha256"]


def text(locks: Iterable[tuple[str, list[dict[str, Any]]]]) -> str:
    """Return the file for the packages of each architecture: names of wheels, then the pin."""
    pins: dict[str, dict[str, str]] = {}
    for architecture, packages in locks:
        tags = image_tags(architecture)
        for package in packages:
            pin = f"{package['name']}=={package['version']}"
            pins.setdefault(pin, {}).update(fitting(package, tags))
    return _HEADER + "".join(_entry(pin, wheels) for pin, wheels in sorted(pins.items()))


def _entry(pin: str, wheels: dict[str, str]) -> str:
    names = "".join(f"# {name}\n" for name in sorted(wheels))
    hashes = " \\\n".join(f"    --hash=sha256:{wheels[name]}" for name in sorted(wheels))
    return f"{names}{pin} \\\n{hashes}\n"


def main() -> None:
    """Write the file."""
    FILE.write_text(
        text((architecture, resolved(architecture)) for architecture in ARCHITECTURES),
        encoding="utf-8",
    )
    print(FILE.relative_to(ROOT))


if __name__ == "__main__":
    main()

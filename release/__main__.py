"""``python -m release dist|image|site|changes|prepare``: build a release, or prepare one."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import click

from numakube.version import VERSION
from release.build import build, obstacles
from release.changes import changes, move, section
from release.image import image, read_layout
from release.image_requirements import build_argument
from release.project import ROOT, set_version
from release.publishing import commands
from release.versioned_site import build_site

_NEXT = """\
Next: write the version into manifests and pages, read what has changed, and test:

    UPDATE_MANIFESTS=1 .venv/bin/pytest -q tests/manifests tests/release
    UPDATE_DOCS=1 .venv/bin/pytest -q tests/docs
    UPDATE_PROMISES=1 .venv/bin/pytest -q tests/promises
    make test
"""


@click.group()
def main() -> None:
    """Make a release; docs/contribute/make-a-release.md has the order of steps."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), default="dist")
@click.option("--publish", is_flag=True, help="Print how to publish, if nothing is against it.")
def dist(folder: Path, *, publish: bool) -> None:
    """Build into FOLDER; paths go to standard output, remarks to standard error."""
    for path in build(folder):
        print(path)
    against = obstacles()
    for obstacle in against:
        print(f"not to be published: {obstacle}", file=sys.stderr)
    if publish and against:
        sys.exit(1)
    if publish:
        print(f"\n{commands(folder, build_argument('PYTHON'))}", end="")


@main.command("image")
@click.option("--wheels", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--base", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--python", default="/usr/local/bin/python3", help="The Python of the base image.")
@click.argument("output", type=click.Path(path_type=Path))
def build_image(wheels: Path, base: Path, python: str, output: Path) -> None:
    """Write the image as an OCI archive, of a folder of wheels and a base as an OCI layout."""
    output.write_bytes(image(wheels, read_layout(base), python=python).archive())
    print(output)


@main.command("site")
@click.argument("folder", type=click.Path(path_type=Path))
def site(folder: Path) -> None:
    """Build the pages of this version into FOLDER, beside those of others; needs `make docs`."""
    folder.mkdir(parents=True, exist_ok=True)
    print(build_site(folder, VERSION))


@main.command("changes")
def show_changes() -> None:
    """Print what has changed since the last version, as CHANGELOG.md will have it."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(section("next", today.isoformat(), changes()), end="")


@main.command()
@click.argument("version")
@click.option("--date", help="The day of the release, as 2026-11-18; today if not given.")
def prepare(version: str, date: str | None) -> None:
    """Write VERSION into the sources, and move the fragments of changes.d into CHANGELOG.md."""
    day = date or datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    for path in set_version(version):
        print(path.relative_to(ROOT))
    print(f"CHANGELOG.md: {move(version, day)} changes")
    print(_NEXT)


if __name__ == "__main__":
    main()
